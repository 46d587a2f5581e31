"""The expressions of a policy with their declarations, checked in the order in which names are declared."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from reconciler.kube.cel import CelType, Checked, CompileError, Declarations, check, type_of
from reconciler.kube.objects import FieldPath
from reconciler.policy.admission.policies import Policy

_DYN = type_of("dyn")
_STRINGS = type_of("list<string>")


def _fields(**kinds: str) -> dict[str, CelType]:
    return {name: type_of(kind) for name, kind in kinds.items()}


_GVK, _GVR, _USER = "kubernetes.GroupVersionKind", "kubernetes.GroupVersionResource", "kubernetes.UserInfo"
_METADATA, _SPEC, _STATUS = "kubernetes.NamespaceMetadata", "kubernetes.NamespaceSpec", "kubernetes.NamespaceStatus"
_REQUEST, _NAMESPACE, _CONDITION = (
    "kubernetes.AdmissionRequest",
    "kubernetes.Namespace",
    "kubernetes.NamespaceCondition",
)
_VARIABLES = "kubernetes.variables"
_OBJECTS: dict[str, Mapping[str, CelType]] = {
    _GVK: _fields(group="string", version="string", kind="string"),
    _GVR: _fields(group="string", version="string", resource="string"),
    _USER: _fields(username="string", uid="string", groups="list<string>", extra="map<string,list<string>>"),
    _REQUEST: _fields(
        kind=_GVK, resource=_GVR, subResource="string", requestKind=_GVK, requestResource=_GVR,
        requestSubResource="string", name="string", namespace="string", operation="string", userInfo=_USER,
        dryRun="bool", options="dyn",
    ),
    _SPEC: _fields(finalizers="list<string>"),
    _CONDITION: _fields(
        status="string", type="string", lastTransitionTime="timestamp", message="string", reason="string"
    ),
    _STATUS: _fields(conditions=f"list<{_CONDITION}>", phase="string"),
    _METADATA: _fields(
        name="string", generateName="string", namespace="string", labels="map<string,string>",
        annotations="map<string,string>", UID="string", creationTimestamp="timestamp",
        deletionGracePeriodSeconds="int", deletionTimestamp="timestamp", generation="int", resourceVersion="string",
        finalizers="list<string>",
    ),
    _NAMESPACE: _fields(metadata=_METADATA, spec=_SPEC, status=_STATUS),
}  # fmt: skip
"""The fields that an API server's checker knows (k8s.io/apiserver/pkg/admission/plugin/cel/compile.go)."""
_KEPT = frozenset(
    ("bool", "bytes", "double", "duration", "int", "null_type", "string", "timestamp", "uint", "list", "map")
)  # fmt: skip
"""The types that a variable keeps; others are dyn for what uses it."""


Check = Callable[[str, Declarations], Checked | tuple[CompileError, ...]]


class PolicyExpression(NamedTuple):
    """An expression of a policy: its place below `spec`, its name, the types that it may have, and what came of it."""

    part: str
    path: FieldPath
    text: str
    allowed: tuple[str, ...]
    result: Checked | tuple[CompileError, ...]
    name: str = ""


def expressions(policy: Policy, check: Check = check) -> Iterator[PolicyExpression]:
    """Check all expressions of a policy and yield them. Match conditions and messages come with what they can use."""
    base = {"object": _DYN, "oldObject": _DYN, "request": type_of(_REQUEST), "namespaceObject": type_of(_NAMESPACE)}
    if policy.params:
        base["params"] = _DYN
    user = {"authorizer": type_of("authorizer"), "authorizer.requestResource": type_of("resource-check")}
    for index, item in enumerate(policy.conditions):
        result = check(item.text.strip(), Declarations(variables={**base, **user}, objects=_OBJECTS))
        yield PolicyExpression("condition", ("matchConditions", index, "expression"), item.text, ("bool",), result)
    if policy.mutates:
        return
    known: dict[str, CelType] = {}
    objects = {**_OBJECTS, _VARIABLES: known}
    if policy.variables:
        base["variables"] = type_of(_VARIABLES)
    everything = Declarations(variables={**base, **user}, objects=objects)
    for index, item in enumerate(policy.variables):
        result = check(item.text, everything)
        yield PolicyExpression("variable", ("variables", index, "expression"), item.text, (), result, item.name)
        known[item.name] = _kept(result.kind) if isinstance(result, Checked) else _DYN
    for index, validation in enumerate(policy.validations):
        path = ("validations", index, "expression")
        text = validation.expression
        yield PolicyExpression("validation", path, text, ("bool",), check(text, everything))
        if validation.message_expression.strip():
            path = ("validations", index, "messageExpression")
            text = validation.message_expression
            result = check(text, Declarations(variables=base, objects=objects))
            yield PolicyExpression("message", path, text, ("string",), result)
    for index, item in enumerate(policy.annotations):
        path = ("auditAnnotations", index, "valueExpression")
        result = check(item.text.strip(), everything)
        yield PolicyExpression("annotation", path, item.text, ("string", "null_type"), result)


def _kept(kind: CelType) -> CelType:
    if kind.name not in _KEPT:
        return _DYN
    return CelType(kind.name, tuple(_kept(one) for one in kind.parameters)) if kind.parameters else kind
