"""GPU requests against the evidence: the product exists, there is enough of it, and a node can hold a pod."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from reconciler.core.config import Vendor
from reconciler.core.inventory import Inventory, Node
from reconciler.core.kinds.torchrun.render.vendor import vendor_in
from reconciler.core.policy.references.rules import Bench
from reconciler.core.queues import is_slice
from reconciler.core.summary import Demand, ObjectSummary
from reconciler.core.summary.pods import PRODUCT_LABELS

_SHARED = "nvidia.com/gpu.shared"


class _Stock(Struct, kw_only=True):
    """Nodes that have a product, by how many GPUs they have: all, and those that take new pods."""

    nodes: Counter[int] = field(default_factory=Counter)
    open: Counter[int] = field(default_factory=Counter)
    room: dict[int, tuple[int, int]] = field(default_factory=dict)  # pods by GPUs a pod: on all, and on open nodes

    def add(self, node: Node) -> None:
        self.nodes[node.gpus] += 1
        if not node.unschedulable:
            self.open[node.gpus] += 1

    def fits(self, gpus: int) -> tuple[int, int]:
        """Pods of so many GPUs each that fit at the same time: on all nodes, and on those that take new pods."""
        found = self.room.get(gpus)
        if found is None:
            found = self.room[gpus] = (_pods(self.nodes, gpus), _pods(self.open, gpus))
        return found

    @property
    def largest(self) -> int:
        """GPUs of the largest node."""
        return max(self.nodes, default=0)


def _pods(nodes: Mapping[int, int], gpus: int) -> int:
    return sum(size // gpus * count for size, count in nodes.items())


def _total(nodes: Mapping[int, int]) -> int:
    return sum(size * count for size, count in nodes.items())


def judge_products(bench: Bench, rows: Sequence[ObjectSummary], inventory: Inventory | None) -> None:
    """Judge every workload with GPUs, suspended ones as well, and every flavor."""
    asking = [row for row in rows if row.demands]
    flavors = [row for row in rows if row.kind == "ResourceFlavor" and row.product]
    for row in asking:
        if row.kind == "DaemonSet":
            _daemon_set(bench, row)
    if inventory is not None:
        _against(bench, asking, flavors, _stock(inventory.nodes))
    elif asking or flavors:
        _unknown(bench, asking or flavors)


def _against(
    bench: Bench, asking: Sequence[ObjectSummary], flavors: Sequence[ObjectSummary], stock: Mapping[str, _Stock]
) -> None:
    for row in flavors:
        if row.product not in stock:
            _no_such_product(bench, row, row.product, stock)
    slices: dict[str, list[ObjectSummary]] = {}
    for row in asking:
        for demand in row.demands:
            held = stock.get(_wanted(demand))
            if held is not None and 0 < demand.pods <= held.fits(demand.gpus_per_pod)[1]:
                continue
            if is_slice(demand.product):
                slices.setdefault(demand.product, []).append(row)
            else:
                _judge(bench, row, demand, stock)
    for resource, asked in sorted(slices.items()):
        _unknown(bench, asked, resource)


def _unknown(bench: Bench, rows: Sequence[ObjectSummary], resource: str = "") -> None:
    first = min(rows, key=lambda row: row.place)
    cluster = bench.cluster.name
    others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    what = f"{resource} of " if resource else "its GPUs are not checked: there is no evidence for "
    message = f"{what}cluster {cluster} is not counted by the evidence" if resource else f"{what}cluster {cluster}"
    hint = f"commit evidence/{cluster}/nodes.yaml (NodeInventory)" if not resource else "check by hand that it exists"
    bench.rule("quota.no-evidence", first, f"{message} (this object{others})", hint=hint)


def _stock(nodes: Iterable[Node]) -> dict[str, _Stock]:
    """Return the nodes by every name that a pod may select their product by; the empty one stands for all.

    Under the resource key of a vendor stand its nodes, and those of which nobody can tell whose they are.
    """
    stock: dict[str, _Stock] = {"": _Stock(), **{vendor.resource: _Stock() for vendor in Vendor}}
    for node in nodes:
        if node.gpus:
            labels = {label: node.labels[label] for label in PRODUCT_LABELS if label in node.labels}
            vendor = vendor_in((node.product, *labels, *labels.values()))
            keys = [each.resource for each in Vendor if vendor in (each, None)]
            names = {node.product, *labels.values()} - {""}
            for name in ("", *keys, *sorted(names)):
                stock.setdefault(name, _Stock()).add(node)
    return stock


def _wanted(demand: Demand) -> str:
    """Return what a demand is looked up by: its product, else its vendor's resource key, else nothing."""
    return demand.product or (demand.resource if demand.resource in _RESOURCES else "")


_RESOURCES = frozenset(vendor.resource for vendor in Vendor)


def _no_such_product(bench: Bench, row: ObjectSummary, product: str, stock: Mapping[str, _Stock]) -> None:
    names = sorted(name for name in stock if name and name not in _RESOURCES)
    meant = bench.meant(product, names)
    hint = meant or (f"the evidence knows {', '.join(names[:5])}" if names else "the evidence knows no GPU at all")
    message = f"selects GPU product {product}, which no node of {bench.cluster.name} has by the evidence"
    bench.rule("quota.product", row, message, hint=hint)


def _daemon_set(bench: Bench, row: ObjectSummary) -> None:
    message = f"takes {row.gpus_per_pod} GPUs on every node that it matches: no sum holds them"
    bench.rule("quota.daemon-set", row, message, hint="leave them out of the quotas, or run it without GPUs")


def _judge(bench: Bench, row: ObjectSummary, demand: Demand, stock: Mapping[str, _Stock]) -> None:
    held = stock.get(_wanted(demand))
    if held is None:
        _no_such_product(bench, row, demand.product, stock)
        return
    if not held.nodes and stock[""].nodes:
        message = f"asks for {demand.resource}, which no node of {bench.cluster.name} has by the evidence"
        hint = "set the cluster's `vendor` or the queue's gpuType, or measure the nodes anew"
        bench.rule("quota.product", row, message, hint=hint)
        return
    each, name = demand.gpus_per_pod, f"{demand.product} " if demand.product else ""
    if each > held.largest:
        message = f"a pod asks for {each} {name}GPUs, the largest node of {bench.cluster.name} has {held.largest}"
        hint = f"ask for at most {held.largest} a pod, and for more pods" if held.largest else ""
        bench.rule("quota.node-shape", row, message, hint=hint)
        return
    fits, now = held.fits(each)
    if demand.pods > fits:
        message = (
            f"asks for {demand.pods} x {each} = {demand.gpus} {name}GPUs, "
            f"{bench.cluster.name} has {_total(held.nodes)}: {fits} such pods fit"
        )
        bench.rule("quota.capacity", row, message, hint=f"ask for at most {fits * each}, or use other pods or products")
    elif demand.pods > now:
        message = f"asks for {demand.pods} pods of {each} {name}GPUs, only {now} fit while nodes are cordoned"
        bench.rule("quota.cordoned", row, message, hint="wait for the nodes, or ask for less")
