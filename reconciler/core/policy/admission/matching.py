"""Whether a policy or a binding matches a request, as in k8s.io/apiserver/pkg/admission/plugin/policy/matching.

The answer is true, false, or a text that says why it is unknown offline.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.policy.admission.policies import GROUP, Match, Requirement, ResourceRule

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label of every namespace with its name (k8s.io/api/core/v1, LabelMetadataName)."""
_IRREGULAR = {"Endpoints": "endpoints"}
_EXEMPT = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
           "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")  # fmt: skip


class Resource(Struct, frozen=True, kw_only=True):
    """The part of a request that all objects of a kind share."""

    group: str
    version: str
    kind: str
    operation: str
    namespaced: bool

    @property
    def plural(self) -> str:
        """The resource's name in URLs, by the rules of Kubernetes' generators (gengo's namer)."""
        lower = self.kind.lower()
        if self.kind in _IRREGULAR:
            return _IRREGULAR[self.kind]
        if lower.endswith(("s", "x", "z", "ch", "sh")):
            return f"{lower}es"
        if lower.endswith("y") and lower[-2:-1] not in tuple("aeiou"):
            return f"{lower[:-1]}ies"
        return f"{lower}s"

    @property
    def exempt(self) -> bool:
        """Whether no admission policy applies: they do not apply to admission policies."""
        return self.group == GROUP and self.kind in _EXEMPT


class AdmissionRequest(Struct, frozen=True, kw_only=True):
    """A request to create or update one object."""

    resource: Resource
    name: str
    namespace: str
    body: Mapping[str, Any]
    old: Mapping[str, Any] | None
    namespace_object: Mapping[str, Any] | None


def matches(match: Match, request: AdmissionRequest) -> bool | str:
    """Whether `match` matches the request; a text says why that is unknown."""
    ruled = _ruled(match, request)
    if ruled is False or not _selects_object(match.objects, request):
        return False
    selected = _selects_namespace(match.namespaces, request)
    return ruled if selected is True else selected


def depends_on_object(match: Match) -> bool:
    """Whether the answer may differ between two objects of the same kind."""
    named = any(rule.names for rule in (*match.rules, *match.excluded))
    return named or bool(match.namespaces or match.objects)


def may_match(match: Match, resource: Resource) -> bool:
    """Whether `match` could match any object of a kind."""
    return not match.rules or any(_covers(rule, resource, match.equivalent) for rule in match.rules)


def _ruled(match: Match, request: AdmissionRequest) -> bool | str:
    if any(_named(rule, request) and _covers(rule, request.resource, match.equivalent) for rule in match.excluded):
        return False
    if not match.rules:
        return True
    covering = [rule for rule in match.rules if _named(rule, request)]
    if any(_covers(rule, request.resource, equivalent=False) for rule in covering):
        return True
    if any(_covers(rule, request.resource, match.equivalent) for rule in covering):
        return (
            f"the policy matches another version than {request.resource.version}, and only an API server converts; "
            f"add {request.resource.version!r} to apiVersions"
        )
    return False


def _named(rule: ResourceRule, request: AdmissionRequest) -> bool:
    return not rule.names or request.name in rule.names


def _covers(rule: ResourceRule, resource: Resource, equivalent: bool) -> bool:  # noqa: FBT001 - a match policy
    return (
        _contains(rule.operations, resource.operation)
        and _contains(rule.groups, resource.group)
        and (equivalent or _contains(rule.versions, resource.version))
        and any(name in ("*", "*/*", resource.plural, f"{resource.plural}/*") for name in rule.resources)
        and _in_scope(rule.scope, resource)
    )


def _contains(items: tuple[str, ...], value: str) -> bool:
    return "*" in items or value in items


def _in_scope(scope: str, resource: Resource) -> bool:
    return scope == "*" or (scope == "Namespaced") == resource.namespaced


def _selects_object(requirements: tuple[Requirement, ...], request: AdmissionRequest) -> bool:
    """Whether the labels of the new or of the old object match."""
    if not requirements:
        return True
    return selects(requirements, labels(request.body)) or (
        request.old is not None and selects(requirements, labels(request.old))
    )


def _selects_namespace(requirements: tuple[Requirement, ...], request: AdmissionRequest) -> bool | str:
    if (request.resource.group, request.resource.kind) == ("", "Namespace"):
        return selects(requirements, {**labels(request.body), NAME_LABEL: request.name})
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
    """Whether labels satisfy all requirements of a selector."""
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
