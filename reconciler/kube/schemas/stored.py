"""`as_stored`: an object as an API server hands it to admission, with defaults and canonical values.

What a server does to built-in kinds was learned from a running one (`tools/schemas/defaults.py`); the defaults of
custom kinds are in their schemas. Values that a server makes up for each object are not added.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import Any

from msgspec import Struct, field

from reconciler.kube.objects import FieldPath
from reconciler.kube.quantities import canonical
from reconciler.kube.schemas.schema import Schema, resolve
from reconciler.kube.values import mapping, sequence, value_at, without_value

_POD_FIELDS = ("containers", "initContainers", "ephemeralContainers")


class KindForm(Struct, frozen=True, kw_only=True, dict=True):
    """The changes that a server makes to a kind, by path: `spec.containers[]` is each item of that list."""

    adds: Mapping[str, Mapping[str, Any]] = {}
    drops: Mapping[str, Sequence[str]] = {}
    quantities: frozenset[str] = frozenset()

    @cached_property
    def tree(self) -> "_FieldForm":
        """The same, field by field."""
        root = _FieldForm()
        for path, added in self.adds.items():
            root.below(path).adds = added
        for path, dropped in self.drops.items():
            root.below(path).drops = dropped
        for path in self.quantities:
            root.below(path).is_quantity = True
        return root


class _FieldForm(Struct):
    """The changes that a server makes to a value and below; `fields` has the name `*` for all fields."""

    adds: Mapping[str, Any] = {}
    drops: Sequence[str] = ()
    is_quantity: bool = False
    fields: dict[str, "_FieldForm"] = field(default_factory=dict)

    def below(self, path: str) -> "_FieldForm":
        found = self
        for step in path.replace("[]", ".[]").split(".") if path else ():
            found = found.fields.setdefault(step, _FieldForm())
        return found


_NESTED = (dict, list)


def as_stored(body: Mapping[str, Any], form: KindForm, *, has_nulls: bool) -> dict[str, Any]:
    """Return an object of a built-in kind as it is stored. Values that are not changed are those of `body`."""
    found: dict[str, Any] = _formed(body, form.tree, has_nulls=has_nulls)
    version, kind, spec = found["apiVersion"], found["kind"], body.get("spec")
    if (version, kind) == ("v1", "Secret"):
        _encode(found)
    elif (version, kind) == ("v1", "Pod"):
        _request_limits(found)
    elif (version, kind) == ("v1", "Service"):
        _serve(mapping(found.get("spec")))
    elif version.startswith("resource.k8s.io/"):
        _count_devices(found)
    elif version == "apps/v1" and kind in _ROLLING:
        _roll(found, *_ROLLING[kind])
    elif (version, kind) == ("v1", "ReplicationController") and isinstance(spec, Mapping):
        _select_template(found)
    elif (version, kind) == ("batch/v1", "Job") and isinstance(spec, Mapping):
        if spec.get("completions") is None and spec.get("parallelism") is None:
            found["spec"]["completions"] = 1
        policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        found["spec"].setdefault("podReplacementPolicy", policy)
    return found


def _count_devices(claim: dict[str, Any]) -> None:
    """Let each request of a claim, or of a template of one, that names no number be for one device."""
    spec = mapping(claim.get("spec"))
    for request in map(mapping, sequence(mapping(mapping(spec.get("spec", spec)).get("devices")).get("requests"))):
        for wanted in (request.get("exactly"), *sequence(request.get("firstAvailable"))):
            if mapping(wanted).get("allocationMode") == "ExactCount":
                wanted.setdefault("count", 1)


_ROLLING: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Deployment": ("strategy", {"maxSurge": "25%", "maxUnavailable": "25%"}),
    "DaemonSet": ("updateStrategy", {"maxSurge": 0, "maxUnavailable": 1}),
    "StatefulSet": ("updateStrategy", {"maxUnavailable": 1, "partition": 0}),
}


def _roll(workload: dict[str, Any], field: str, parameters: Mapping[str, Any]) -> None:
    """Add the parameters of a rolling update, which is the default (pkg/apis/apps/v1/defaults.go)."""
    spec = mapping(workload.get("spec"))
    strategy = {"type": "RollingUpdate", **mapping(spec.get(field))}
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**parameters, **mapping(strategy.get("rollingUpdate"))}
    workload["spec"] = {**spec, field: strategy}


def _serve(service: dict[str, Any]) -> None:
    """Add the defaults of a Service that depend on its type (pkg/apis/core/v1/defaults.go)."""
    for port in (one for one in sequence(service.get("ports")) if isinstance(one, dict)):
        port.setdefault("targetPort", port.get("port"))
    if service.get("type") in ("ClusterIP", "NodePort", "LoadBalancer"):
        service.setdefault("internalTrafficPolicy", "Cluster")
    if service.get("type") in ("NodePort", "LoadBalancer"):
        service.setdefault("externalTrafficPolicy", "Cluster")
    if service.get("type") == "LoadBalancer":
        service.setdefault("allocateLoadBalancerNodePorts", True)
    if service.get("sessionAffinity") == "ClientIP":
        service.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})


_ZEROS = {"quantity": "0", "byte": "", "string": "", "integer": 0, "number": 0, "boolean": False}
"""Zero values, by format or type."""


def has_null(node: Any) -> bool:
    """Return whether anything in a value is null."""
    inner = node.values() if isinstance(node, dict) else node
    if None in inner:
        return True
    for value in inner:  # noqa: SIM110 - a third of the time of `any` with a generator
        if isinstance(value, _NESTED) and has_null(value):
            return True
    return False


def with_zeros(node: Any, root: Schema, schema: Schema) -> Any:
    """Return a value of a built-in type in which nulls in lists and in maps are the zero values that they decode to."""
    if not isinstance(node, _NESTED) or not has_null(node):
        return node
    schema = resolve(root, schema)
    fields: Mapping[str, Schema] = schema.get("properties", {})
    every = schema.get("items", schema.get("additionalProperties"))
    inner: Schema = every if isinstance(every, dict) else {}
    if isinstance(node, dict):
        return {
            key: with_zeros(value, root, fields.get(key, inner)) if value is not None or key in fields else _zero(inner)
            for key, value in node.items()
        }
    return [_zero(inner) if item is None else with_zeros(item, root, inner) for item in node]


def _zero(schema: Schema) -> Any:
    kinds = schema.get("type", ())
    names = (schema.get("format"), *((kinds,) if isinstance(kinds, str) else kinds))
    return next((_ZEROS[name] for name in names if name in _ZEROS), None)


def _formed(node: Any, form: _FieldForm, *, has_nulls: bool) -> Any:
    if isinstance(node, dict):
        found = {key: value for key, value in node.items() if value is not None}
        for key in form.drops:
            if not found.get(key, True):
                del found[key]
        every = form.fields.get("*")
        for key in found if every or has_nulls else form.fields.keys() & found.keys():
            below = every or form.fields.get(key)
            value = found[key]
            found[key] = without_nulls(value) if below is None else _formed(value, below, has_nulls=has_nulls)
        found |= {key: value for key, value in form.adds.items() if key not in found or found[key] == []}
        _add_dependent(found, form)
        return found
    if isinstance(node, list):
        items = form.fields.get("[]")
        if items is not None:
            return [_formed(item, items, has_nulls=has_nulls) for item in node]
        return without_nulls(node) if has_nulls else node
    if form.is_quantity and isinstance(node, str | int | float):
        return canonical(node.strip() if isinstance(node, str) else node)
    return node


def _add_dependent(found: dict[str, Any], form: _FieldForm) -> None:
    """Add the defaults of a container and of a pod that depend on their other fields."""
    if "image" in found and "name" in found and "terminationMessagePath" in form.adds:
        found.setdefault("imagePullPolicy", _pull_policy(str(found["image"])))
    if found.get("serviceAccountName") and "terminationGracePeriodSeconds" in form.adds:
        found.setdefault("serviceAccount", found["serviceAccountName"])  # its former name


def without_nulls(node: Any) -> Any:
    """Return a value without the fields in it that are null: the same value if there are none."""
    if isinstance(node, dict):
        below = {key: without_nulls(value) for key, value in node.items() if isinstance(value, _NESTED)}
        if None not in node.values() and all(map(is_, below.values(), map(node.get, below))):
            return node
        return {key: below.get(key, value) for key, value in node.items() if value is not None}
    if isinstance(node, list):
        items = [without_nulls(item) if isinstance(item, _NESTED) else item for item in node]
        return node if all(map(is_, items, node)) else items
    return node


def _pull_policy(image: str) -> str:
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    is_latest = "@" not in image and (not tag or tag == "latest")
    return "Always" if name and is_latest else "IfNotPresent"


def _encode(secret: dict[str, Any]) -> None:
    """Turn the plain values of a Secret into its data."""
    plain = secret.pop("stringData", None)
    if isinstance(plain, dict):
        encoded = {key: b64encode(str(value).encode()).decode() for key, value in plain.items()}
        secret["data"] = {**mapping(secret.get("data")), **encoded}


def _request_limits(pod: dict[str, Any]) -> None:
    """Let containers request what they are limited to."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    for name in _POD_FIELDS:
        for container in map(mapping, sequence(spec.get(name))):
            resources = mapping(container.get("resources"))
            if resources.get("limits"):
                resources["requests"] = {**mapping(resources["limits"]), **mapping(resources.get("requests"))}


def _select_template(controller: dict[str, Any]) -> None:
    """Give a ReplicationController without labels or without a selector the labels of its pods."""
    labels = mapping(mapping(controller["spec"].get("template")).get("metadata")).get("labels")
    if labels:
        controller["metadata"] = {**controller["metadata"], "labels": controller["metadata"].get("labels") or labels}
        controller["spec"]["selector"] = controller["spec"].get("selector") or labels


class Defaults:
    """The defaults of a schema of a custom kind, read where a value is: schemas are large, and objects are not."""

    def __init__(self, root: Schema, schema: Schema) -> None:
        self._root, self._schema = root, resolve(root, schema)
        self._properties: Mapping[str, Any] = self._schema.get("properties", {})
        self._below: dict[str, Defaults | None] = {}
        self.values = {
            name: below["default"]
            for name, below in self._properties.items()
            if isinstance(below, dict) and "default" in below
        }

    def below(self, name: str) -> "Defaults | None":
        """Return the defaults of what a field holds; None if it holds plain values."""
        if name not in self._below:
            self._below[name] = self._of(self._properties.get(name, self._schema.get("additionalProperties")))
        return self._below[name]

    @cached_property
    def items(self) -> "Defaults | None":
        """The defaults of each item of a list."""
        return self._of(self._schema.get("items"))

    def _of(self, schema: object) -> "Defaults | None":
        if isinstance(schema, dict) and not _STRUCTURE.isdisjoint(schema):
            return Defaults(self._root, schema)
        return None


_STRUCTURE = frozenset(("$ref", "properties", "additionalProperties", "items"))


def with_defaults(node: Any, defaults: Defaults) -> Any:
    """Return a value of a custom kind with its defaults, and without nulls in their place.

    Values that are not changed are those of `node`.
    """
    if isinstance(node, dict):
        found = node
        if defaults.values:
            found = {name: value for name, value in node.items() if value is not None or name not in defaults.values}
            for name, value in defaults.values.items():
                found.setdefault(name, value)
        changed: dict[str, Any] = {}
        for name, value in found.items():
            if isinstance(value, _NESTED) and (below := defaults.below(name)) is not None:
                new = with_defaults(value, below)
                if new is not value:
                    changed[name] = new
        return {**found, **changed} if changed else found
    if isinstance(node, list) and defaults.items is not None:
        items = [with_defaults(item, defaults.items) for item in node]
        return node if all(map(is_, items, node)) else items
    return node


def without_added(body: dict[str, Any], stored: Callable[[dict[str, Any]], Mapping[str, Any]]) -> dict[str, Any]:
    """Return an object without every field that `stored` adds to it again with the same value.

    What a server adds can depend on other fields, so each field is tried by itself, as a whole before its parts.
    """
    wanted = stored(body)

    def without(body: dict[str, Any], place: FieldPath) -> dict[str, Any]:
        shorter: dict[str, Any] = without_value(body, place)
        return shorter if stored(shorter) == wanted else body

    def reduce(body: dict[str, Any], path: FieldPath) -> dict[str, Any]:
        node = value_at(body, path)
        for step in list(node) if isinstance(node, dict) else range(len(node)):
            place = (*path, step)
            left = without(body, place) if isinstance(node, dict) else body
            if left is body and isinstance(value_at(body, place), _NESTED):
                body = reduce(body, place)
                left = without(body, place) if value_at(body, place) == {} else body
            body = left
        return body

    return reduce(body, ())
