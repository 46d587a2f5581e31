"""Rules of volumes, claims of volumes, and their classes.

Source: pkg/apis/{core,storage}/validation/validation.go of Kubernetes 1.37.
"""

from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_dns_name
from reconciler.kube.problems import Violation
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.schemas.builtin.containers import dots, has_dots
from reconciler.kube.schemas.messages import bad_value, format_choices, missing

Data = dict[str, Any]

_RECLAIM_POLICIES = ["Delete", "Retain"]


def storage_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a StorageClass: what happens to its volumes."""
    policy = data.get("reclaimPolicy")
    if policy and policy not in _RECLAIM_POLICIES:  # a server takes an empty one
        hint = f"use {format_choices(_RECLAIM_POLICIES)}"
        yield bad_value(("reclaimPolicy",), f"{policy[:80]!r} is not allowed", hint)
    if "" in (data.get("parameters") or {}):
        yield bad_value(("parameters",), "has a parameter without a name", "remove it")


def volume_violations(data: Data) -> Iterator[Violation]:
    """Validate a PersistentVolume: where it is, its size, and the class of attributes, which is for CSI drivers."""
    path: FieldPath = ("spec", "volumeAttributesClassName")
    spec = data.get("spec") or {}
    name = spec.get("volumeAttributesClassName")
    if spec.get("nodeAffinity") is not None and spec["nodeAffinity"].get("required") is None:
        yield missing(("spec", "nodeAffinity", "required"))
    if spec.get("local") is not None and spec.get("nodeAffinity") is None:
        yield missing(("spec", "nodeAffinity"))
    host = (spec.get("hostPath") or {}).get("path") or ""
    if has_dots(host):
        yield dots(("spec", "hostPath", "path"))
    if host.rstrip("/") == "" and spec.get("hostPath") and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        message = "must not be Recycle for the root of a host"
        yield bad_value(("spec", "persistentVolumeReclaimPolicy"), message, "use Retain")
    yield from _storage(spec.get("capacity") or {}, ("spec", "capacity"))
    yield from _access_modes(spec, ("spec",))
    if name is not None and spec.get("csi") is None:
        yield bad_value(path, "is for volumes of CSI drivers", "remove it")
    elif name is not None and not is_dns_name(name):
        yield _bad_class(name, path)


def volume_claim_violations(claim: Data, path: FieldPath = ()) -> Iterator[Violation]:
    """Validate a PersistentVolumeClaim or a template of it: its size, its modes, and the class of attributes."""
    spec = claim.get("spec") or {}
    name = spec.get("volumeAttributesClassName")
    if name and not is_dns_name(name):
        yield _bad_class(name, (*path, "spec", "volumeAttributesClassName"))
    yield from _storage((spec.get("resources") or {}).get("requests") or {}, (*path, "spec", "resources", "requests"))
    yield from _access_modes(spec, (*path, "spec"))


def _storage(amounts: Data, path: FieldPath) -> Iterator[Violation]:
    amount = parse_quantity(amounts.get("storage") or 0)
    if "storage" in amounts and amount is not None and amount <= 0:
        yield bad_value((*path, "storage"), "must be greater than 0", "raise it")


def _access_modes(spec: Data, path: FieldPath) -> Iterator[Violation]:
    modes = spec.get("accessModes") or ()
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield bad_value((*path, "accessModes"), "must list nothing besides ReadWriteOncePod", "remove the others")


def _bad_class(name: str, path: FieldPath) -> Violation:
    return bad_value(path, f"{name[:80]!r} is not the name of a class", "use a-z, 0-9, - and .")
