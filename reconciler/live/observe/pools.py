"""Node pools: nodes with the same GPUs, and what queues may give away of them."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.sizing.devices import PRODUCT_LABEL, PRODUCT_LABELS, Vendor, vendor_in
from reconciler.sizing.inventory import Inventory, Node, Taint

POOL_LABEL = "gpureconciler.io/node-pool"
"""Label of nodes that no label of their own tells from other pools."""

HOSTNAME = "kubernetes.io/hostname"

_CONTROL_PLANE = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})
_COUNT = "nvidia.com/gpu.count"
_MAX_NAME = 50


class Pool(Struct, frozen=True, kw_only=True):
    """Nodes with the same product and number of GPUs. `resource` is empty for nodes without GPUs.

    selector: the labels that these nodes have and no others. unlabelled: nodes that lack the label of the pool.
    """

    name: str
    resource: str
    nodes: tuple[Node, ...]
    selector: Mapping[str, str]
    unlabelled: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()

    @property
    def gpus(self) -> int:
        """Healthy GPUs of all nodes."""
        return sum(node.allocatable_gpus for node in self.nodes)

    def cpus(self, share: float) -> int:
        """CPUs of all nodes that queues may give away."""
        return int(share * sum(_cpus(node) for node in self.nodes))

    def memory_gib(self, share: float) -> int:
        """GiB of memory of all nodes that queues may give away."""
        return int(share * sum(node.allocatable_memory_gib for node in self.nodes))


def node_pools(inventory: Inventory) -> tuple[Pool, ...]:
    """Return the pools of the schedulable nodes: those without GPUs first, then by GPUs, CPUs and name."""
    groups: dict[tuple[str, str, int], list[Node]] = {}
    for node in inventory.nodes:
        if node.is_open and not any(taint.key in _CONTROL_PLANE for taint in node.taints):
            groups.setdefault((_resource(node), node.product, node.gpus), []).append(node)
    pools = [_pool(key, nodes, inventory.nodes) for key, nodes in groups.items()]
    return tuple(sorted(pools, key=lambda pool: (pool.nodes[0].gpus, _cpus(pool.nodes[0]), pool.name)))


def topology_levels(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the topology labels that all nodes have, the coarsest first, down to the host; empty if there are none."""
    common = set.intersection(*(set(node.labels) for node in nodes)) if nodes else set()
    labels = [label for label in common if "topology" in label]
    values = {label: len({node.labels[label] for node in nodes}) for label in labels}
    levels = sorted(labels, key=lambda label: (values[label], label))
    return (*levels, HOSTNAME) if levels else ()


def _pool(key: tuple[str, str, int], nodes: Sequence[Node], everything: Iterable[Node]) -> Pool:
    resource, product, gpus = key
    name = pool_name(resource, product, gpus)
    names = {node.name for node in nodes}
    others = [node for node in everything if node.name not in names]
    selector = _own_labels(nodes, others)
    chosen = selector or {POOL_LABEL: name}
    lacking = [node.name for node in nodes if node.labels.get(POOL_LABEL) != name] if not selector else []
    taints = set.intersection(*(set(node.taints) for node in nodes))
    return Pool(
        name=name,
        resource=resource,
        nodes=tuple(nodes),
        selector=chosen,
        unlabelled=tuple(sorted(lacking)),
        taints=tuple(sorted(taint for taint in taints if taint.effect != "PreferNoSchedule")),
    )


def _own_labels(nodes: Sequence[Node], others: Sequence[Node]) -> dict[str, str]:
    """Return labels of the product and the number of GPUs that these nodes have and no others; empty if none do."""
    common = set.intersection(*(set(node.labels.items()) for node in nodes))
    product = {key: value for key, value in common if key in PRODUCT_LABELS}
    first = {key: product[key] for key in PRODUCT_LABELS if key in product}
    shortest = dict([next(iter(first.items()))]) if first else {}
    count = {key: value for key, value in common if key == _COUNT}
    for labels in (shortest, shortest | count):
        if labels and not any(labels.items() <= node.labels.items() for node in others if node.is_open):
            return labels
    return {}


def pool_name(resource: str, product: str, gpus: int) -> str:
    """Return a name that only the GPUs decide: `nvidia-h100-80gb-hbm3-8gpu`. CPUs and memory differ by kubelet."""
    if not resource:
        return "cpu-only"
    vendor = resource.partition(".")[0]
    words = re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-") or "gpu"
    own = words if words.startswith(vendor) else f"{vendor}-{words}"
    return f"{own[:_MAX_NAME].rstrip('-')}-{gpus}gpu"


def _resource(node: Node) -> str:
    if not node.gpus:
        return ""
    for vendor in Vendor:
        if PRODUCT_LABEL[vendor] in node.labels:
            return vendor.resource
    vendor = vendor_in([node.product]) or Vendor.NVIDIA
    return vendor.resource


def _cpus(node: Node) -> int:
    return node.allocatable_cpus or node.cpus
