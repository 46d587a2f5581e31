"""Does a policy or a binding speak of this request? As k8s.io/apiserver/pkg/admission/plugin/policy/matching.

Answers are three: yes, no, and why it cannot be told offline.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.policy.admission.policy import GROUP, Match, Requirement, ResourceRule

NAME_LABEL = "kubernetes.io/metadata.name"
"""Every namespace carries its own name under this label (k8s.io/api/core/v1, LabelMetadataName)."""
_IRREGULAR = {"Endpoints": "endpoints"}
_EXEMPT = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
           "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")  # fmt: skip


class Resource(Struct, frozen=True, kw_only=True):
    """What the answer depends on first, and what all objects of a kind share."""

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
        """Admission policies do not judge admission policies."""
        return self.group == GROUP and self.kind in _EXEMPT


class Request(Struct, frozen=True, kw_only=True):
    """One object that is to be created or updated."""

    resource: Resource
    name: str
    namespace: str
    body: Mapping[str, Any]
    old: Mapping[str, Any] | None
    namespace_object: Mapping[str, Any] | None


def matches(match: Match, request: Request) -> bool | str:
    """Whether `match` covers the request; a text says why that cannot be told."""
    ruled = _ruled(match, request)
    if ruled is False or not _selects_object(match.objects, request):
        return False
    selected = _selects_namespace(match.namespaces, request)
    return ruled if selected is True else selected


def depends_on_object(match: Match) -> bool:
    """Whether two objects of the same kind may get different answers."""
    named = any(rule.names for rule in (*match.rules, *match.excluded))
    return named or bool(match.namespaces or match.objects)


def may_match(match: Match, resource: Resource) -> bool:
    """Whether `match` could cover any object of a kind: what an index over kinds may rely on."""
    return not match.rules or any(_covers(rule, resource, match.equivalent) for rule in match.rules)


def _ruled(match: Match, request: Request) -> bool | str:
    if any(_named(rule, request) and _covers(rule, request.resource, match.equivalent) for rule in match.excluded):
        return False
    if not match.rules:
        return True
    covering = [rule for rule in match.rules if _named(rule, request)]
    if any(_covers(rule, request.resource, equivalent=False) for rule in covering):
        return True
    if any(_covers(rule, request.resource, match.equivalent) for rule in covering):
        return (
            f"the policy asks for another version than {request.resource.version}, and only an API server can convert; "
            f"add {request.resource.version!r} to apiVersions"
        )
    return False


def _named(rule: ResourceRule, request: Request) -> bool:
    return not rule.names or request.name in rule.names


def _covers(rule: ResourceRule, resource: Resource, equivalent: bool) -> bool:  # noqa: FBT001 - a match policy
    return (
        _listed(rule.operations, resource.operation)
        and _listed(rule.groups, resource.group)
        and (equivalent or _listed(rule.versions, resource.version))
        and any(name in ("*", "*/*", resource.plural, f"{resource.plural}/*") for name in rule.resources)
        and _in_scope(rule.scope, resource)
    )


def _listed(items: tuple[str, ...], wanted: str) -> bool:
    return "*" in items or wanted in items


def _in_scope(scope: str, resource: Resource) -> bool:
    return scope == "*" or (scope == "Namespaced") == resource.namespaced


def _selects_object(requirements: tuple[Requirement, ...], request: Request) -> bool:
    """Select by the labels of the new or of the old object: either suffices."""
    if not requirements:
        return True
    return selects(requirements, labels(request.body)) or (
        request.old is not None and selects(requirements, labels(request.old))
    )


def _selects_namespace(requirements: tuple[Requirement, ...], request: Request) -> bool | str:
    if (request.resource.group, request.resource.kind) == ("", "Namespace"):
        return selects(requirements, {**labels(request.body), NAME_LABEL: request.name})
    if not requirements or not request.namespace:
        return True
    known = {NAME_LABEL: request.namespace}
    if request.namespace_object is not None:
        return selects(requirements, {**labels(request.namespace_object), **known})
    by_name = tuple(one for one in requirements if one.key == NAME_LABEL)
    if by_name == requirements or not selects(by_name, known):
        return selects(by_name, known)
    return f"the labels of namespace {request.namespace!r} are not in the repository; add its Namespace object"


def selects(requirements: tuple[Requirement, ...], present: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements of a selector."""
    return all(_met(one, present) for one in requirements)


def _met(one: Requirement, present: Mapping[str, str]) -> bool:
    if one.operator == "In":
        return present.get(one.key) in one.values
    if one.operator == "NotIn":
        return one.key not in present or present[one.key] not in one.values
    return (one.key in present) == (one.operator == "Exists")


def labels(body: Mapping[str, Any]) -> dict[str, str]:
    """Labels of an object; whatever is malformed counts as absent."""
    metadata = body.get("metadata")
    found = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return {key: str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
