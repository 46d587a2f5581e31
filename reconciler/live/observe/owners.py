"""The systems that repair nodes besides us, by the marks that they leave on nodes: NVSentinel, medik8s, clouds."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.client.port import Body, ClusterError, LiveCluster, UnknownKind
from reconciler.kube.objects import ObjectKey, matches_selector


class RepairOwner(Struct, frozen=True, kw_only=True):
    """Somebody else who repairs a node, and the mark by which it was recognized."""

    name: str
    sign: str


_LABELS = (
    ("dgxc.nvidia.com/nvsentinel-state", "NVSentinel"),
    ("karpenter.sh/nodepool", "Karpenter"),
    ("cloud.google.com/gke-nodepool", "GKE node auto-repair"),
)
_ANNOTATIONS = (("quarantineHealthEvent", "NVSentinel"), ("remediation.medik8s.io/", "medik8s"))
_TAINTS = (("medik8s.io/remediation", "medik8s"), ("karpenter.sh/disrupted", "Karpenter"))
_CONDITIONS = (("AcceleratedHardwareReady", "EKS node auto repair"),)
_EKS_AUTO = ("eks.amazonaws.com/compute-type", "auto")
_SENTINEL_OPT_OUT = ("k8saas.nvidia.com/ManagedByNVSentinel", "false")
NODE_HEALTH_CHECK = ("remediation.medik8s.io", "NodeHealthCheck")


def repair_owner(body: Mapping[str, Any], checks: Iterable[Mapping[str, Any]] = ()) -> RepairOwner | None:
    """Return who else repairs a node; None if nobody is known to. `checks` are NodeHealthChecks of the cluster."""
    return next(_owners(body, checks), None)


def _owners(body: Mapping[str, Any], checks: Iterable[Mapping[str, Any]]) -> Iterator[RepairOwner]:
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    has_opted_out = _is_set(labels, _SENTINEL_OPT_OUT)
    yield from _signs("label", labels, [row for row in _LABELS if not (has_opted_out and row[1] == "NVSentinel")])
    if _is_set(labels, _EKS_AUTO):
        yield RepairOwner(name="EKS node auto repair", sign=f"label {_EKS_AUTO[0]}")
    yield from _signs("annotation", metadata.get("annotations") or (), _ANNOTATIONS)
    taints = (body.get("spec") or {}).get("taints") or ()
    yield from _signs("taint", [taint.get("key", "") for taint in taints], _TAINTS)
    conditions = (body.get("status") or {}).get("conditions") or ()
    yield from _signs("condition", [row.get("type", "") for row in conditions], _CONDITIONS)
    for check in checks:
        if matches_selector((check.get("spec") or {}).get("selector") or {}, labels):
            yield RepairOwner(name="medik8s", sign=f"NodeHealthCheck {check['metadata']['name']}")


def _signs(what: str, keys: Iterable[str], table: Iterable[tuple[str, str]]) -> Iterator[RepairOwner]:
    """Yield the owners whose sign is among the keys; a sign that ends with a slash is a prefix."""
    known = tuple(keys)
    for sign, name in table:
        for key in known:
            if key == sign or (sign.endswith("/") and key.startswith(sign)):
                yield RepairOwner(name=name, sign=f"{what} {key}")


def _is_set(labels: Mapping[str, str], pair: tuple[str, str]) -> bool:
    return labels.get(pair[0]) == pair[1]


def node_health_checks(cluster: LiveCluster, notes: list[str]) -> list[Body]:
    """Return the NodeHealthChecks of medik8s. Where they cannot be listed we act as if there were none, and say so."""
    if cluster.discover().find(*NODE_HEALTH_CHECK) is None:
        return []
    try:
        return list(cluster.list(cluster.resource(*NODE_HEALTH_CHECK)).objects)
    except UnknownKind:
        return []
    except ClusterError as error:
        notes.append(f"NodeHealthChecks cannot be listed, so every node counts as repaired by medik8s: {error.message}")
        key = ObjectKey(group=NODE_HEALTH_CHECK[0], kind=NODE_HEALTH_CHECK[1], namespace="", name="unknown")
        return [{"metadata": {"name": key.name}, "spec": {}}]
