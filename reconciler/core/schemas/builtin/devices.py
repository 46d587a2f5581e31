"""Rules of claims on devices and their classes (DRA).

Source: pkg/apis/resource/validation/validation.go of Kubernetes 1.36.
"""

from collections.abc import Iterator
from typing import Any

from reconciler.core.cel import Checked, Declarations, check, type_of
from reconciler.core.objects import FieldPath
from reconciler.core.patterns import is_dns_label, is_dns_name, is_qualified_name
from reconciler.core.problems import Violation
from reconciler.core.schemas.messages import bad_value, missing
from reconciler.core.schemas.metadata import label_violations

Data = dict[str, Any]

_DEVICE = {
    "driver": "string",
    "attributes": "map<string,map<string,dyn>>",
    "capacity": "map<string,map<string,quantity>>",
    "allowMultipleAllocations": "bool",
}


def claim_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceClaim."""
    yield from _devices((data.get("spec") or {}).get("devices") or {}, ("spec", "devices"))


def claim_template_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceClaimTemplate."""
    metadata = (data.get("spec") or {}).get("metadata") or {}
    yield from label_violations(metadata, ("spec", "metadata"))
    for field, value in metadata.items():
        if value not in (None, "", 0) and field not in ("annotations", "labels"):
            hint = "keep labels and annotations only"
            yield bad_value(("spec", "metadata", field), "is not allowed in a template", hint)
    inner = (data.get("spec") or {}).get("spec") or {}
    yield from _devices(inner.get("devices") or {}, ("spec", "spec", "devices"))


def device_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a DeviceClass."""
    spec = data.get("spec") or {}
    yield from _selectors(spec.get("selectors") or (), ("spec", "selectors"))
    name = spec.get("extendedResourceName")
    if name is not None and ("/" not in name or "kubernetes.io/" in name or not is_qualified_name(name)):
        yield bad_value(
            ("spec", "extendedResourceName"), "is not the name of an extended resource", "write domain/name"
        )


def _devices(devices: Data, path: FieldPath) -> Iterator[Violation]:
    names: set[str] = set()
    for index, request in enumerate(devices.get("requests") or ()):
        place: FieldPath = (*path, "requests", index)
        yield from _request_name(request.get("name") or "", names, place)
        names.add(request.get("name") or "")
        exact, alternatives = request.get("exactly"), request.get("firstAvailable")
        if (exact is None) is not bool(alternatives) and "deviceClassName" not in request:
            yield bad_value(place, "must have either exactly or firstAvailable", "set one of the two")
        if exact is not None:
            yield from _exact(exact, (*place, "exactly"))
        inner: set[str] = set()
        for position, alternative in enumerate(alternatives or ()):
            below: FieldPath = (*place, "firstAvailable", position)
            yield from _request_name(alternative.get("name") or "", inner, below)
            inner.add(alternative.get("name") or "")
            yield from _exact(alternative, below)
        names |= {f"{request.get('name')}/{name}" for name in inner}
    yield from _about_requests(devices, path, names)


def _about_requests(devices: Data, path: FieldPath, names: set[str]) -> Iterator[Violation]:
    for field in ("constraints", "config"):
        for index, one in enumerate([one or {} for one in devices.get(field) or ()]):
            place: FieldPath = (*path, field, index)
            for position, name in enumerate(one.get("requests") or ()):
                if name not in names:
                    yield bad_value(
                        (*place, "requests", position), f"request {name} not found in the claim", "correct it"
                    )
            if field == "constraints" and not (one.get("matchAttribute") or one.get("distinctAttribute")):
                yield missing((*place, "matchAttribute"))
            if field == "config" and one.get("opaque") is None:
                yield missing((*place, "opaque"))


def _request_name(name: str, seen: set[str], path: FieldPath) -> Iterator[Violation]:
    if not is_dns_label(name):
        yield bad_value((*path, "name"), f"{name!r} is not a DNS label", "use a-z, 0-9 and -")
    elif name in seen:
        yield bad_value((*path, "name"), f"the name {name} is used by another request", "rename one of the two")


def _exact(request: Data, path: FieldPath) -> Iterator[Violation]:
    name, mode, number = request.get("deviceClassName"), request.get("allocationMode"), request.get("count")
    if name and not is_dns_name(name):
        yield bad_value((*path, "deviceClassName"), f"{name!r} is not the name of a device class", "correct it")
    if mode == "All" and number:
        yield bad_value((*path, "count"), "must not be set together with allocationMode: All", "remove one of the two")
    elif number is not None and number < 0:
        yield bad_value((*path, "count"), "must be greater than 0", "raise it")
    yield from _selectors(request.get("selectors") or (), (*path, "selectors"))


def _selectors(selectors: Any, path: FieldPath) -> Iterator[Violation]:
    for index, selector in enumerate(selectors):
        cel = (selector or {}).get("cel")
        if cel:
            yield from _selector(cel.get("expression") or "", (*path, index, "cel", "expression"))
        else:
            yield missing((*path, index, "cel"))


def _selector(expression: str, path: FieldPath) -> Iterator[Violation]:
    """Check the expression that selects devices (k8s.io/dynamic-resource-allocation/cel)."""
    fields = {name: type_of(kind) for name, kind in _DEVICE.items()}
    declared = Declarations(variables={"device": type_of("DRADevice")}, objects={"DRADevice": fields})
    found = check(expression, declared)
    if not isinstance(found, Checked):
        for error in found:
            yield bad_value(path, f"{error.message} (column {error.column})", "the only variable is `device`")
    elif found.kind.name not in ("bool", "dyn"):
        yield bad_value(path, f"must evaluate to bool, not {found.kind}", "compare it with something")
