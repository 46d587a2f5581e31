"""Immutable fields of claims of devices: the whole spec."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.kinds.immutable import Body, all_but, value_of


def claim_of_devices(before: Body, after: Body) -> list[str]:
    """Check a ResourceClaim or a template of one: the spec is immutable; a request is for one device by default."""
    left, right = (_with_requests(value_of(body, "spec")) for body in (before, after))
    return list(all_but("spec")({"spec": left}, {"spec": right}))


def _with_requests(spec: Any) -> Any:
    """Return the spec of a claim, which a template has below another `spec`, with defaults."""
    if not isinstance(spec, Mapping):
        return spec
    devices = spec.get("devices")
    requests = value_of(devices, "requests")
    filled = {**spec, "spec": _with_requests(spec["spec"])} if "spec" in spec else dict(spec)
    if isinstance(devices, Mapping) and isinstance(requests, list):
        filled["devices"] = {**devices, "requests": [_request(each) for each in requests]}
    return filled


def _request(request: Any) -> Any:
    exactly = value_of(request, "exactly")
    if not isinstance(exactly, Mapping):
        return request
    mode = exactly.get("allocationMode") or "ExactCount"
    defaults = {"allocationMode": mode, **({"count": 1} if mode == "ExactCount" else {})}
    return {**request, "exactly": {**defaults, **exactly}}
