"""Nodes of a live cluster as the evaluator of health sees them: who can take work, and who repairs them."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kinds.progress import conditions
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import mapping, sequence, text
from reconciler.live.observe.owners import RepairOwner
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.nodes import is_overridden
from reconciler.sizing.devices import WHOLE_GPUS, product_label

Body = Mapping[str, Any]

POOL_LABELS = (
    "gpureconciler.io/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
)
"""Labels that name the pool of a node, the first that is there; else its GPU product is its pool."""

_TROUBLE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "medik8s.io/", "karpenter.sh/disrupted")
# Taints of the autoscaler on nodes that it removes.
_LEAVING = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})
_CORDON = "node.kubernetes.io/unschedulable"
_HARD = frozenset({"NoSchedule", "NoExecute"})  # effects that keep pods away


def fleet_node(body: Body, owner: RepairOwner | None = None) -> FleetNode:
    """Return what counts of a node. Whether it is drained is not part of it: that takes its pods."""
    metadata, status = mapping(body.get("metadata")), mapping(body.get("status"))
    labels = {key: value for key, value in mapping(metadata.get("labels")).items() if isinstance(value, str)}
    product, name = product_label(labels), text(metadata.get("name"))
    return FleetNode(
        name=name,
        uid=text(metadata.get("uid")),
        pool=next((labels[key] for key in POOL_LABELS if labels.get(key)), product),
        product=product,
        gpus=_gpus(mapping(status.get("capacity"))),
        labels=labels,
        ready=mapping(conditions(body).get("Ready")).get("status") == "True",
        cordoned=mapping(body.get("spec")).get("unschedulable") is True,
        tainted=any(map(_is_trouble, sequence(mapping(body.get("spec")).get("taints")))),
        owner=owner.name if owner is not None else "",
        unfenced=is_overridden(body),
        boot_id=text(mapping(status.get("nodeInfo")).get("bootID")),
    )


def busy_nodes(pods: Iterable[Body]) -> frozenset[str]:
    """Return the nodes on which pods with GPUs run."""
    found = set()
    for pod in pods:
        spec = mapping(pod.get("spec"))
        if mapping(pod.get("status")).get("phase") in ("Succeeded", "Failed") or not spec.get("nodeName"):
            continue
        for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
            resources = mapping(mapping(container).get("resources"))
            if any(name in mapping(resources.get("limits")) for name in WHOLE_GPUS):
                found.add(text(spec.get("nodeName")))
    return frozenset(found)


def has_gpus(node: FleetNode) -> bool:
    """Return whether a node has GPUs, or should: a label stays when the last GPU is gone."""
    return bool(node.gpus or node.product)


def _is_trouble(taint: Any) -> bool:
    """Tell whether a taint of others says that the node is out of use; taints of dedicated pools do not."""
    row = mapping(taint)
    key = text(row.get("key"))
    return row.get("effect") in _HARD and key != _CORDON and (key.startswith(_TROUBLE) or key in _LEAVING)


def _gpus(capacity: Mapping[str, Any]) -> int:
    amounts = (parse_quantity(value) for name in WHOLE_GPUS if isinstance(value := capacity.get(name), str | int))
    return sum(int(amount) for amount in amounts if amount is not None)
