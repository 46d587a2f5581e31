"""Whether a policy or a binding matches a request, as in k8s.io/apiserver/pkg/admission/plugin/policy/matching.

The answer is true, false, or a text that says why it is unknown offline.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Any

from msgspec import Struct

from reconciler.policy.admission.policies import GROUP, Match, Requirement, ResourceRule

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label of every namespace with its name (k8s.io/api/core/v1, LabelMetadataName)."""
_EXEMPT = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
           "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")  # fmt: skip


class RequestOperation(StrEnum):
    """The operation of a request."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Resource(Struct, frozen=True, kw_only=True):
    """The part of a request that all objects of a kind share.

    plural: the resource's name in URLs; empty: unknown. versions: those that are served; None: unknown.
    """

    group: str
    version: str
    kind: str
    operation: RequestOperation
    namespaced: bool
    plural: str
    versions: tuple[str, ...] | None

    @property
    def exempt(self) -> bool:
        """True if no admission policy applies: they do not apply to admission policies."""
        return self.group == GROUP and self.kind in _EXEMPT


class AdmissionRequest(Struct, frozen=True, kw_only=True):
    """A request to create, update or delete one object; the `body` of a deletion is None."""

    resource: Resource
    name: str
    namespace: str
    body: Mapping[str, Any] | None
    old: Mapping[str, Any] | None
    namespace_object: Mapping[str, Any] | None


def matches(match: Match, request: AdmissionRequest) -> bool | str:
    """Return whether `match` matches the request; a text says why that is unknown."""
    ruled = _ruled(match, request)
    if ruled is False or not _selects_object(match.objects, request):
        return False
    selected = _selects_namespace(match.namespaces, request)
    return ruled if selected is True else selected


def takes(match: Match, operation: RequestOperation) -> bool:
    """Return whether `match` is about an operation."""
    return any(_contains(rule.operations, operation) for rule in match.rules)


def depends_on_object(match: Match) -> bool:
    """Return whether the answer may differ between two objects of the same kind."""
    named = any(rule.names for rule in (*match.rules, *match.excluded))
    return named or bool(match.namespaces or match.objects)


def may_match(match: Match, resource: Resource) -> bool:
    """Return whether `match` could match any object of a kind."""
    return not match.rules or _found(match.rules, resource, equivalent=match.equivalent) is not _RuleMatch.NOT


class _RuleMatch(IntEnum):
    """The match of rules with a resource: as it is, another served version, none, or unknown for want of its plural."""

    EXACT = 1
    OTHER_VERSION = 2
    NO_PLURAL = 3
    NOT = 4


def _ruled(match: Match, request: AdmissionRequest) -> bool | str:
    resource = request.resource
    rules, excluded = ([one for one in some if _named(one, request)] for some in (match.rules, match.excluded))
    found = _found(rules, resource, equivalent=match.equivalent) if match.rules else _RuleMatch.EXACT
    left_out = _found(excluded, resource, equivalent=match.equivalent)
    if found is _RuleMatch.NOT or left_out in (_RuleMatch.EXACT, _RuleMatch.OTHER_VERSION):
        return False
    if _RuleMatch.NO_PLURAL in (found, left_out):
        return (
            f"the resource name of {resource.kind} is unknown, so the policy may match it; "
            "add its CustomResourceDefinition to the repository"
        )
    if found is _RuleMatch.EXACT or resource.versions is not None:
        return True
    return (
        f"the policy matches another version than {resource.version}, and only an API server knows which there are; "
        f"add {resource.version!r} to apiVersions"
    )


def seen_version(match: Match, request: AdmissionRequest) -> str:
    """Return the version in which a policy that matches sees the object: its own, or that of the first rule."""
    resource = request.resource
    rules = [one for one in match.rules if _named(one, request) and _concerns(one, resource)]
    if any(_contains(one.versions, resource.version) for one in rules):
        return resource.version
    others = (other for one in rules for other in resource.versions or () if other in one.versions)
    return next(others, resource.version)


def _found(rules: Iterable[ResourceRule], resource: Resource, *, equivalent: bool) -> _RuleMatch:
    """Return how the first rule matches: one about the version of the request comes before others."""
    others = frozenset(resource.versions or ())
    best = _RuleMatch.NOT
    for rule in rules:
        if not _concerns(rule, resource):
            continue
        if _contains(rule.versions, resource.version):
            found = _RuleMatch.EXACT
        elif equivalent and (resource.versions is None or not others.isdisjoint(rule.versions)):
            found = _RuleMatch.OTHER_VERSION
        else:
            continue
        if not resource.plural and not {"*", "*/*"} & {*rule.resources}:
            found = _RuleMatch.NO_PLURAL
        best = min(best, found)
    return best


def _named(rule: ResourceRule, request: AdmissionRequest) -> bool:
    return not rule.names or request.name in rule.names


def _concerns(rule: ResourceRule, resource: Resource) -> bool:
    """Return whether a rule could match a resource in some version. An unknown plural could be any."""
    return (
        _contains(rule.operations, resource.operation)
        and _contains(rule.groups, resource.group)
        and any(_is_whole(name) if not resource.plural else _is(name, resource.plural) for name in rule.resources)
        and _in_scope(rule.scope, resource)
    )


def _is(name: str, plural: str) -> bool:
    return name in ("*", "*/*", plural, f"{plural}/*")


def _is_whole(name: str) -> bool:
    """Return whether the name of a resource in a rule means objects, not only a subresource of them."""
    return "/" not in name or name.endswith("/*")


def _contains(items: tuple[str, ...], value: str) -> bool:
    return "*" in items or value in items


def _in_scope(scope: str, resource: Resource) -> bool:
    return scope == "*" or (scope == "Namespaced") == resource.namespaced


def _selects_object(requirements: tuple[Requirement, ...], request: AdmissionRequest) -> bool:
    """Return whether the labels of the new or of the old object match."""
    if not requirements:
        return True
    bodies = (body for body in (request.body, request.old) if body is not None)
    return any(selects(requirements, labels(body)) for body in bodies)


def _selects_namespace(requirements: tuple[Requirement, ...], request: AdmissionRequest) -> bool | str:
    if (request.resource.group, request.resource.kind) == ("", "Namespace"):
        body = request.old if request.body is None else request.body
        return selects(requirements, {**labels(body or {}), NAME_LABEL: request.name})
    if not requirements or not request.namespace:
        return True
    known = {NAME_LABEL: request.namespace}
    if request.namespace_object is not None:
        return selects(requirements, {**labels(request.namespace_object), **known})
    by_name = tuple(requirement for requirement in requirements if requirement.key == NAME_LABEL)
    if by_name == requirements or not selects(by_name, known):
        return selects(by_name, known)
    return f"the labels of namespace {request.namespace!r} are unknown; add its Namespace object to the repository"


def selects(requirements: tuple[Requirement, ...], present: Mapping[str, str]) -> bool:
    """Return whether labels satisfy all requirements of a selector."""
    return all(_satisfies(requirement, present) for requirement in requirements)


def _satisfies(requirement: Requirement, present: Mapping[str, str]) -> bool:
    if requirement.operator == "In":
        return present.get(requirement.key) in requirement.values
    if requirement.operator == "NotIn":
        return requirement.key not in present or present[requirement.key] not in requirement.values
    return (requirement.key in present) == (requirement.operator == "Exists")


def labels(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of an object; malformed ones count as absent."""
    metadata = body.get("metadata")
    values = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return {key: str(value) for key, value in values.items()} if isinstance(values, Mapping) else {}
