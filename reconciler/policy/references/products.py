"""GPU requests against the evidence: the product exists, the cluster has enough of it, and each pod fits on a node."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import Kinds
from reconciler.kinds.summary import Demand, NodeMatch, ObjectSummary
from reconciler.kube.values import plural
from reconciler.policy.references.rules import Evaluation, suggest
from reconciler.sizing.devices import PRODUCT_LABELS, Vendor, is_slice, vendor_in
from reconciler.sizing.inventory import Inventory, Node, Taint

_MAX_NAMES = 5  # products that a hint names
_MAX_SUGGESTED = 50  # products that a wrong one is compared with; every workload may select a wrong one


class Stock(Struct, kw_only=True):
    """Nodes that have a product, by their number of GPUs: all of them, and those that are schedulable."""

    nodes: Counter[int] = field(default_factory=Counter)
    schedulable: Counter[int] = field(default_factory=Counter)
    pods: dict[int, tuple[int, int]] = field(default_factory=dict)  # remembers `fits`

    def add(self, gpus: int, count: int, *, unschedulable: bool) -> None:
        """Add nodes with so many GPUs each."""
        self.nodes[gpus] += count
        if not unschedulable:
            self.schedulable[gpus] += count

    def fits(self, gpus: int) -> tuple[int, int]:
        """Return the number of pods of so many GPUs that fit at once: on all nodes, and on schedulable nodes."""
        pods = self.pods.get(gpus)
        if pods is None:
            pods = self.pods[gpus] = (_pods(self.nodes, gpus), _pods(self.schedulable, gpus))
        return pods

    @property
    def largest(self) -> int:
        """GPUs of the largest node."""
        return max(self.nodes, default=0)


def _pods(nodes: Mapping[int, int], gpus: int) -> int:
    return sum(size // gpus * count for size, count in nodes.items())


def _total(nodes: Mapping[int, int]) -> int:
    return sum(size * count for size, count in nodes.items())


def check_products(
    evaluation: Evaluation,
    rows: Sequence[ObjectSummary],
    inventory: Inventory | None,
    stock: Mapping[str, Stock] | None = None,
) -> None:
    """Check every workload with GPUs, including suspended ones, and every flavor. `stock` is that of the inventory."""
    workloads = [row for row in rows if row.demands and not row.provides]
    flavors = [row for row in rows if row.queue_role is QueueRole.FLAVOR and row.product]
    for row in workloads:
        if evaluation.kinds.find(row.group, row.kind).pods.on_each_node:
            hint = "leave them out of the quotas, or run it without GPUs"
            evaluation.report("quota.daemon-set", row, _on_each_node(row, inventory), hint=hint)
    if inventory is not None:
        _check_stock(evaluation, workloads, flavors, count_stock(inventory.nodes) if stock is None else stock)
    elif workloads or flavors:
        _report_unknown(evaluation, workloads or flavors)


def _on_each_node(row: ObjectSummary, inventory: Inventory | None) -> str:
    """Return what a DaemonSet takes, on the nodes of the evidence that its selector and tolerations match."""
    each = plural(row.gpus_per_pod, "GPU")
    if inventory is None or row.on_nodes is None or not _is_measured(row.on_nodes, inventory):
        return f"takes {each} on every node that it matches, and no queue counts them"
    matched = [node for node in inventory.nodes if _may_run(row.on_nodes, node)]
    fitting = [node for node in matched if node.gpus >= row.gpus_per_pod]
    total = plural(row.gpus_per_pod * len(fitting), "GPU")
    nodes = "1 node" if len(fitting) == 1 else f"each of {plural(len(fitting), 'node')}"
    message = f"takes {each} on {nodes}, {total} that no queue counts"
    lacking = len(matched) - len(fitting)
    return message + (f"; its pods wait on {plural(lacking, 'node')} with fewer GPUs" if lacking else "")


def used_on_each_node(kinds: Kinds, rows: Iterable[ObjectSummary], inventory: Inventory) -> Counter[str]:
    """Return the GPUs by product that DaemonSets take of the schedulable nodes."""
    taken: Counter[str] = Counter()
    for row in rows:
        where = row.on_nodes if kinds.find(row.group, row.kind).pods.on_each_node else None
        if where is None or any(is_slice(demand.product) for demand in row.demands):
            continue
        for node in inventory.nodes if _is_measured(where, inventory) else ():
            if node.is_open and node.gpus >= row.gpus_per_pod and _may_run(where, node):
                taken[node.product] += row.gpus_per_pod
    return +taken


def _is_measured(where: NodeMatch, inventory: Inventory) -> bool:
    """Return whether the evidence has the labels that decide: it keeps those that something in the repository names."""
    return all(any(key in node.labels for node in inventory.nodes) for key, _ in where.labels)


def _may_run(where: NodeMatch, node: Node) -> bool:
    """Return whether a DaemonSet runs a pod on a node: cordons do not keep it away, taints and quarantines do."""
    if node.quarantined or not all(node.labels.get(key) in values for key, values in where.labels):
        return False
    return all(taint.effect == "PreferNoSchedule" or _tolerates(where, taint) for taint in node.taints)


_TOLERATED = frozenset(
    (f"node.kubernetes.io/{name}", effect)
    for effect, names in (
        ("NoExecute", ("not-ready", "unreachable")),
        ("NoSchedule", ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")),
    )
    for name in names
)
"""Taints that the DaemonSet controller lets all its pods tolerate (pkg/controller/daemon/util/daemonset_util.go)."""


def _tolerates(where: NodeMatch, taint: Taint) -> bool:
    return (taint.key, taint.effect) in _TOLERATED or any(
        effect in ("", taint.effect)
        and (key == taint.key or (not key and operator == "Exists"))
        and (operator == "Exists" or value == taint.value)
        for key, operator, value, effect in where.tolerations
    )


def _check_stock(
    evaluation: Evaluation,
    workloads: Sequence[ObjectSummary],
    flavors: Sequence[ObjectSummary],
    stock: Mapping[str, Stock],
) -> None:
    for row in flavors:
        if row.product not in stock:
            _report_missing_product(evaluation, row, row.product, stock)
    slices: dict[str, list[ObjectSummary]] = {}
    for row in workloads:
        for demand in row.demands:
            nodes = stock.get(_stock_key(demand))
            if nodes is not None and 0 < demand.pods <= nodes.fits(demand.gpus_per_pod)[1]:
                continue
            if is_slice(demand.product):
                slices.setdefault(demand.product, []).append(row)
            else:
                _check_demand(evaluation, row, demand, stock)
    for resource, users in sorted(slices.items()):
        _report_unknown(evaluation, users, resource)


def _report_unknown(evaluation: Evaluation, rows: Sequence[ObjectSummary], resource: str = "") -> None:
    first = min(rows, key=lambda row: row.place)
    cluster = evaluation.cluster.name
    others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    if resource:
        message, hint = f"the evidence for cluster {cluster} does not count {resource}", "check that it exists"
    else:
        message = f"its GPUs are not checked: there is no evidence for cluster {cluster}"
        hint = f"commit evidence/{cluster}/nodes.yaml (NodeInventory)"
    evaluation.report("quota.no-evidence", first, f"{message} (this object{others})", hint=hint)


def count_stock(nodes: Iterable[Node]) -> dict[str, Stock]:
    """Return the nodes by every name that a pod may select their product by; the empty name has all nodes.

    The resource key of a vendor has the vendor's nodes, and those whose vendor is unknown.
    """
    stock: dict[str, Stock] = {"": Stock(), **{vendor.resource: Stock() for vendor in Vendor}}
    alike = Counter(
        (node.product, tuple(map(node.labels.get, PRODUCT_LABELS)), node.gpus, node.is_open)
        for node in nodes
        if node.gpus
    )
    for (product, values, gpus, is_open), count in alike.items():
        labels = [(label, value) for label, value in zip(PRODUCT_LABELS, values, strict=True) if value is not None]
        texts = [text for label in labels for text in label]
        vendor = vendor_in((product, *texts))
        keys = [each.resource for each in Vendor if vendor in (each, None)]
        names = {product, *(value for _, value in labels)} - {""}
        for name in ("", *keys, *sorted(names)):
            stock.setdefault(name, Stock()).add(gpus, count, unschedulable=not is_open)
    return stock


def _stock_key(demand: Demand) -> str:
    """Return the key of a demand in the stock: its product, else its vendor's resource key, else nothing."""
    return demand.product or (demand.resource if demand.resource in _RESOURCES else "")


_RESOURCES = frozenset(vendor.resource for vendor in Vendor)


def _report_missing_product(
    evaluation: Evaluation, row: ObjectSummary, product: str, stock: Mapping[str, Stock]
) -> None:
    names = sorted(name for name in stock if name and name not in _RESOURCES)
    listed = f"products in the evidence: {', '.join(names[:_MAX_NAMES])}" if names else "the evidence has no GPUs"
    message = f"selects GPU product {product}, but no node in the evidence for {evaluation.cluster.name} has it"
    evaluation.report("quota.product", row, message, hint=suggest(product, names[:_MAX_SUGGESTED]) or listed)


def _check_demand(evaluation: Evaluation, row: ObjectSummary, demand: Demand, stock: Mapping[str, Stock]) -> None:
    nodes, cluster = stock.get(_stock_key(demand)), evaluation.cluster.name
    if nodes is None:
        _report_missing_product(evaluation, row, demand.product, stock)
        return
    if not nodes.nodes and stock[""].nodes:
        message = f"requests {demand.resource}, but no node in the evidence for {cluster} has it"
        hint = "set the cluster's `vendor` or the queue's gpuType, or update the evidence"
        evaluation.report("quota.product", row, message, hint=hint)
        return
    each, name = demand.gpus_per_pod, f"{demand.product} " if demand.product else ""
    if each > nodes.largest:
        message = f"a pod requests {plural(each, f'{name}GPU')}, but the largest node of {cluster} has {nodes.largest}"
        hint = f"request at most {plural(nodes.largest, 'GPU')} per pod, and more pods" if nodes.largest else ""
        evaluation.report("quota.node-shape", row, message, hint=hint)
        return
    fits, fits_now = nodes.fits(each)
    if demand.pods > fits:
        total = plural(demand.gpus, f"{name}GPU")
        message = f"requests {demand.pods} x {each} = {total}, but {cluster} has {_total(nodes.nodes)},"
        message += f" which fit {plural(fits, 'such pod')}"
        hint = f"request at most {plural(fits * each, 'GPU')}, or use other pods or products"
        evaluation.report("quota.capacity", row, message, hint=hint)
    elif demand.pods > fits_now:
        pods = f"{plural(demand.pods, 'pod')} of {plural(each, f'{name}GPU')}"
        message = f"requests {pods}, but only {fits_now} fit on schedulable nodes"
        evaluation.report("quota.cordoned", row, message, hint="uncordon nodes, or request fewer GPUs")
