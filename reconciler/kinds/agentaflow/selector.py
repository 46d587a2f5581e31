"""The node labels `agentaflow.gpu/…` in a node selector, as what the nodes of the cluster have instead."""

from reconciler.kinds.agentaflow.wishes import PREFIX
from reconciler.kinds.agentaflow.workload import POD
from reconciler.kinds.fields import Fields, Tree
from reconciler.kube.problems import Problem
from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory

_PRESENT = "nvidia.com/gpu.present"
"""Label of nodes with a GPU, of NVIDIA's feature discovery."""

_INSTEAD = {
    "enabled": "its GPUs choose nodes that have some",
    "schedulable": "schedulers know which nodes take new work",
    "count": "its GPUs choose nodes that have as many",
    "utilization-tier": "the placement of plans knows how busy nodes are",
}


def node_selector(fields: Fields, vendor: Vendor, inventory: Inventory | None, problems: list[Problem]) -> Tree:
    """Return the node selector: without labels that no node has, each of which is reported."""
    at = (*POD, "nodeSelector")
    selector = fields.entries(*at)
    for key in [key for key in selector if key.startswith(PREFIX)]:
        value = selector[key].value
        if inventory is not None and any(node.labels.get(key) == value for node in inventory.nodes):
            continue
        del selector[key]
        name = key.removeprefix(PREFIX)
        if name == "enabled" and value == "true" and vendor is Vendor.NVIDIA:
            reason = "nodes with GPUs have this label"
            selector[_PRESENT] = fields.made("true", "node-label", reason, (*at, key))
            message = f"is rendered as {_PRESENT}: no node is known to have {key}"
        else:
            message = f"is left out: no node is known to have it, and {_INSTEAD.get(name, 'a pod would wait for ever')}"
        problems.append(fields.warning("node-label", (*at, key), message, "remove it"))
    return selector
