"""`QueueUsage`: the queues of one cluster as a forest, and the GPUs that its workloads request of each.

KAI queues and Kueue cohorts are trees; a LocalQueue is only a name for its ClusterQueue. Rules and the figures of a
plan both use these sums, so that they never disagree.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from reconciler.kinds.facts import KindId, QueueRole, Quota, Scale
from reconciler.kinds.quantities import Gpus, exact, total
from reconciler.kinds.summary.object_summary import Demand, ObjectSummary
from reconciler.kinds.summary.providers import ProviderKey, with_defaults, with_provided, with_scale
from reconciler.sizing.devices import WHOLE_GPUS, is_slice


class QueueKey(NamedTuple):
    """A queue of a cluster; for an alias that no object resolves, `name` is its namespace and name."""

    group: str
    kind: str
    name: str


NO_QUEUE = QueueKey("", "", "")
_Key = TypeVar("_Key")
_Amount = TypeVar("_Amount", Gpus, float)
_Found = TypeVar("_Found")


def parents_first(starts: Iterable[_Key], children: Mapping[_Key, Iterable[_Key]]) -> list[_Key]:
    """Return the starts and everything below them, parents before children; a cycle begins at its first start."""
    order: list[_Key] = []
    seen: set[_Key] = set()
    for start in starts:
        if start in seen:
            continue
        tree = [start]
        seen.add(start)
        for place in tree:
            below = [child for child in children.get(place, ()) if child not in seen]
            seen.update(below)
            tree += below
        order += tree
    return order


_GRANTING = frozenset((QueueRole.TREE, QueueRole.FLAVORED, QueueRole.COHORT))


class QueueUsage(Struct, kw_only=True):
    """Queues and flavors of one cluster, and the GPUs that running workloads request by queue and product."""

    queues: dict[QueueKey, ObjectSummary] = field(default_factory=dict)
    aliases: dict[tuple[KindId, str, str], QueueKey] = field(default_factory=dict)  # by kind, namespace and name
    flavors: dict[str, str] = field(default_factory=dict)  # flavor -> product; empty: any
    dispatchers: dict[str, str] = field(default_factory=dict)  # check -> the clusters that it sends workloads to
    deciding: dict[ProviderKey, ObjectSummary] = field(default_factory=dict)  # what has `terms`
    requested: dict[tuple[QueueKey, str], Gpus] = field(default_factory=dict)  # GPUs by queue and product
    growth: dict[tuple[QueueKey, str], Gpus] = field(default_factory=dict)  # GPUs that autoscalers may add to them
    namespaces: dict[str, Gpus] = field(default_factory=dict)  # the same GPUs by namespace
    priorities: dict[str, int] = field(default_factory=dict)  # priority class -> value
    providers: dict[ProviderKey, ObjectSummary] = field(default_factory=dict)  # what says the GPUs of others
    limit_ranges: dict[str, tuple[str, ...]] = field(default_factory=dict)  # namespace -> what containers request
    defaults: dict[str, tuple[tuple[str, int, str], ...]] = field(default_factory=dict)  # the same: devices, by whom
    scales: dict[ProviderKey, Scale] = field(default_factory=dict)  # what autoscalers set

    def queue_of(self, workload: ObjectSummary) -> QueueKey:
        """Return the queue that a workload's GPUs are counted in."""
        if not workload.queue:
            return NO_QUEUE
        if workload.queue_role is not QueueRole.ALIAS:
            return QueueKey(*workload.queue_kind, workload.queue)
        target = self.aliases.get((workload.queue_kind, workload.namespace, workload.queue))
        return target or QueueKey(*workload.queue_kind, f"{workload.namespace}/{workload.queue}")

    def product_of(self, queue: QueueKey, demand: Demand) -> str:
        """Return the product of a demand: what its pods select, or the only product of their queue's flavors."""
        if demand.product or not self.is_flavored(queue):
            return demand.product
        products = {
            self.product_of_quota(quota) for quota in self.queues[queue].quotas if quota.resource == demand.resource
        }
        return products.pop() if len(products) == 1 else ""

    def parent_of(self, queue: QueueKey) -> QueueKey | None:
        """Return the queue above, whether or not this repository has it."""
        row = self.queues.get(queue)
        return QueueKey(*row.parent_kind, row.parent) if row is not None and row.parent else None

    def children(self) -> dict[QueueKey, list[QueueKey]]:
        """Return the queues directly below every queue that has any."""
        below: dict[QueueKey, list[QueueKey]] = {}
        for queue in self.queues:
            parent = self.parent_of(queue)
            if parent is not None:
                below.setdefault(parent, []).append(queue)
        return below

    def is_tree(self, queue: QueueKey) -> bool:
        """Return whether a queue bounds its children, as KAI's queues do; false if this repository lacks it."""
        row = self.queues.get(queue)
        return row is not None and row.queue_role is QueueRole.TREE

    def is_cohort(self, queue: QueueKey) -> bool:
        """Return whether a queue adds its quota to that of its members; false if this repository lacks it."""
        row = self.queues.get(queue)
        return row is not None and row.queue_role is QueueRole.COHORT

    def is_flavored(self, queue: QueueKey) -> bool:
        """Return whether a queue grants GPUs by flavor, as a ClusterQueue does; false if this repository lacks it."""
        row = self.queues.get(queue)
        return row is not None and row.queue_role is QueueRole.FLAVORED

    def dispatched_to(self, queue: QueueKey) -> str:
        """Return the name of the clusters that workloads of a queue are sent to; empty if they run in this one."""
        row = self.queues.get(queue)
        names = (reference.name for reference in (row.references if row is not None else ()))
        return next((self.dispatchers[name] for name in names if name in self.dispatchers), "")

    def quota(self, queue: QueueKey) -> Gpus | None:
        """Return the quota of a queue in GPUs of any product; None if it is unlimited."""
        amounts = [one.guaranteed for one in self.quotas(queue)]
        return None if None in amounts else total(filter(None, amounts))

    def requested_by_queue(self) -> dict[QueueKey, Gpus]:
        """Return the GPUs of any product that workloads request of each queue."""
        found: dict[QueueKey, Gpus] = {}
        for (queue, _), gpus in self.requested.items():
            found[queue] = total((found.get(queue, 0), gpus))
        return found

    def quotas(self, queue: QueueKey) -> tuple[Quota, ...]:
        """Return the quotas of a queue by product; those of several flavors of one product are added up.

        Only those of a tree have limits: those of queues by flavor depend on their cohorts (`Borrowing`).
        """
        row = self.queues.get(queue)
        if row is None:
            return ()
        if row.queue_role is QueueRole.TREE:
            return row.quotas
        by_product: Amounts = {}
        for quota in row.quotas:
            product = self.product_of_quota(quota)
            by_product[product] = add_amounts(by_product.get(product, 0.0), quota.guaranteed)
        return tuple(Quota(product, guaranteed, None) for product, guaranteed in by_product.items())

    def product_of_quota(self, quota: Quota) -> str:
        """Return the product of a quota by flavor: that of the flavor's nodes, or the resource of slices."""
        is_whole = not quota.resource or quota.resource in WHOLE_GPUS
        return self.flavors.get(quota.product, quota.product) if is_whole else quota.resource

    def from_roots(self) -> list[QueueKey]:
        """Return all queues and what they name as parents, which this repository may lack, parents before children."""
        children = self.children()
        roots = [queue for queue in (*children, *self.queues) if self.parent_of(queue) is None]
        return parents_first((*roots, *self.queues), children)  # beside the roots: cycles of parents

    def from_above(self, step: Callable[[QueueKey, _Found | None], _Found]) -> dict[QueueKey, _Found]:
        """Compute something of every queue from that of its parent; None above a root, and where a cycle begins."""
        found: dict[QueueKey, _Found] = {}
        for queue in self.from_roots():
            parent = self.parent_of(queue)
            found[queue] = step(queue, None if parent is None else found.get(parent))
        return found

    def with_children(self, own: Mapping[QueueKey, Mapping[str, _Amount]]) -> dict[QueueKey, dict[str, _Amount]]:
        """Return amounts by product of every queue, with those of the queues below it."""
        totals = {queue: {**amounts} for queue, amounts in own.items()}
        done = set()
        for queue in reversed(self.from_roots()):
            done.add(queue)
            parent = self.parent_of(queue)
            if parent is not None and parent not in done and queue in totals:
                above = totals.setdefault(parent, {})
                for product, amount in totals[queue].items():
                    above[product] = exact(above[product] + amount) if product in above else amount
        return totals

    def requested_with_children(self, cohorts: Iterable[QueueKey] = ()) -> dict[QueueKey, dict[str, Gpus]]:
        """Return the GPUs requested of every queue by product, with those of the queues below it.

        Of `cohorts`: those that are requested beyond the quotas of all their members together.
        """
        own: dict[QueueKey, dict[str, Gpus]] = {}
        for (queue, product), gpus in self.requested.items():
            own.setdefault(queue, {})[product] = gpus
        requested = self.with_children(own)
        children = self.children()
        granted = self.with_children(
            {queue: {quota.product: quota.guaranteed or 0.0 for quota in self.quotas(queue)} for queue in self.queues}
        )
        for cohort in cohorts:
            if cohort in requested:
                members = [granted[member] for member in children.get(cohort, ())]
                requested[cohort] = _beyond(requested[cohort], members)
        return requested

    def copy(self, *, with_requests: bool = True) -> "QueueUsage":
        """Return a copy that can be changed."""
        return QueueUsage(
            queues={**self.queues},
            aliases={**self.aliases},
            flavors={**self.flavors},
            priorities={**self.priorities},
            providers={**self.providers},
            dispatchers={**self.dispatchers},
            limit_ranges={**self.limit_ranges},
            deciding={**self.deciding},
            defaults={**self.defaults},
            scales={**self.scales},
            requested={**self.requested} if with_requests else {},
            growth={**self.growth} if with_requests else {},
            namespaces={**self.namespaces} if with_requests else {},
        )

    def add_queue(self, row: ObjectSummary) -> None:
        """Add a queue, an alias, a flavor, a priority class, or an object that says what workloads request.

        A LimitRange says it of all containers of its namespace, and an autoscaler says how many pods there are.
        """
        role = row.queue_role
        if row.terms is not None:
            self.deciding[(row.group, row.kind), row.namespace, row.name] = row
        if role in _GRANTING:
            self.queues[QueueKey(row.group, row.kind, row.name)] = row
        elif role is QueueRole.ALIAS and row.parent:
            self.aliases[(row.group, row.kind), row.namespace, row.name] = QueueKey(*row.parent_kind, row.parent)
        elif role is QueueRole.FLAVOR:
            self.flavors[row.name] = row.product
        elif role is QueueRole.CHECK and row.parent:
            self.dispatchers[row.name] = row.parent
        elif row.priority is not None:
            self.priorities[row.name] = row.priority
        elif row.resources:
            self._add_limit_range(row)
        elif row.provides:
            self.providers[(row.group, row.kind), row.namespace, row.provided_as or row.name] = row
        elif row.scale is not None:
            self.scales[row.scale.target, row.namespace, row.scale.name] = row.scale

    def _add_limit_range(self, row: ObjectSummary) -> None:
        others = self.limit_ranges.get(row.namespace, ())
        self.limit_ranges[row.namespace] = tuple(sorted({*others, *row.resources}))
        defaults = self.defaults.get(row.namespace, ())
        known = {name for name, *_ in defaults}
        new = tuple((name, amount, row.name) for name, amount in row.defaults if name not in known)
        if new:
            self.defaults[row.namespace] = (*defaults, *new)

    def resolve(self, row: ObjectSummary) -> ObjectSummary:
        """Return a workload with the GPUs that other objects say it requests."""
        if row.needs:
            row = with_provided(row, self.providers)
        if self.defaults and row.bare and row.namespace in self.defaults:
            row = with_defaults(row, self.defaults[row.namespace])
        if self.scales and (scale := self.scales.get(((row.group, row.kind), row.namespace, row.name))) is not None:
            row = with_scale(row, scale)
        return row

    def add_workload(self, row: ObjectSummary) -> None:
        """Add the GPUs that a workload requests."""
        row = self.resolve(row)
        if row.gpus:
            self.namespaces[row.namespace] = exact(self.namespaces.get(row.namespace, 0) + row.gpus)
        queue = self.queue_of(row) if row.demands else NO_QUEUE
        for demand in row.demands:
            _, most = demand.bounds
            if most:
                entry = (queue, demand.product or self.product_of(queue, demand))
                self.requested[entry] = exact(self.requested.get(entry, 0) + demand.gpus)
                if most > demand.gpus:
                    self.growth[entry] = exact(self.growth.get(entry, 0) + most - demand.gpus)


def usage_by_cluster(
    rows: Iterable[ObjectSummary], *, base: Mapping[str, QueueUsage] | None = None
) -> dict[str, QueueUsage]:
    """Return the usage of every cluster that has a queue or a workload with GPUs.

    `base` is the usage of other objects, which these are added to. Then none of them may be one that `defines_queues`:
    with it, the GPUs that were counted before could belong to another queue.
    """
    usage: dict[str, QueueUsage] = {cluster: before.copy() for cluster, before in (base or {}).items()}
    workloads: list[ObjectSummary] = []
    for row in rows:
        if row.is_workload:
            if not row.suspended:
                workloads.append(row)
        elif defines_queues(row):
            usage.setdefault(row.cluster, QueueUsage()).add_queue(row)
    for row in workloads:
        if row.demands or row.needs:
            if row.cluster not in usage:
                usage[row.cluster] = QueueUsage()
            usage[row.cluster].add_workload(row)
        elif row.bare and row.cluster in usage and row.namespace in usage[row.cluster].defaults:
            usage[row.cluster].add_workload(row)
    return usage


def defines_queues(row: ObjectSummary) -> bool:
    """Return whether an object decides where the GPUs of workloads are counted, or how many they are.

    The first are queues, aliases and flavors, the others what workloads name: runtimes, templates of claims. Priority
    classes decide what a queue grants, LimitRanges what else containers request, autoscalers how many pods there are,
    and terms what is admitted.
    """
    if row.provides or row.priority is not None or row.resources or row.scale is not None or row.terms is not None:
        return True
    return bool(row.queue_role) and not row.is_workload


def subtract_workloads(usage: Mapping[str, QueueUsage], rows: Iterable[ObjectSummary]) -> dict[str, QueueUsage]:
    """Return the usage without the GPUs of these objects, none of which may be one that `defines_queues`."""
    empty = {cluster: before.copy(with_requests=False) for cluster, before in usage.items()}
    rest = {cluster: before.copy() for cluster, before in usage.items()}
    for cluster, gone in usage_by_cluster(rows, base=empty).items():
        _subtract(rest[cluster].requested, gone.requested)
        _subtract(rest[cluster].growth, gone.growth)
        _subtract(rest[cluster].namespaces, gone.namespaces)
    return rest


def _subtract(totals: dict[_Key, Gpus], gone: Mapping[_Key, Gpus]) -> None:
    for key, gpus in gone.items():
        totals[key] = exact(totals[key] - gpus)
        if not totals[key]:
            del totals[key]


def add_amounts(left: float | None, right: float | None) -> float | None:
    """Add two amounts; None is unlimited."""
    return None if left is None or right is None else left + right


def requests_of_quota(requested: Mapping[str, Gpus], product: str, quota_products: Iterable[str]) -> Gpus:
    """Return the GPUs requested of a quota: of its product; of a quota for any, the whole GPUs no other quota names."""
    if product:
        return requested.get(product, 0)
    others = set(quota_products) - {""}
    return total(gpus for name, gpus in requested.items() if name not in others and not is_slice(name))


Amounts = dict[str, float | None]
"""GPUs by product (empty: any); None is unlimited."""


def guaranteed_by_product(usage: QueueUsage, products: Mapping[QueueKey, str] | None = None) -> Amounts:
    """Return the guarantees of all queues by product, each GPU counted once.

    Queues in a tree share the quota of their parent, so the roots count. Their quotas are for any product: they belong
    to that of the queue in `products`, by default the one that all workloads of the queue select. A cohort's own quota
    is added to the quotas of its members, so there every quota counts.
    """
    totals: Amounts = {}
    children = usage.children()
    products = _selected_products(usage) if products is None else products
    for queue in usage.queues:
        if not usage.is_tree(queue):
            _add_all(totals, {quota.product: quota.guaranteed for quota in usage.quotas(queue)})
        elif usage.parent_of(queue) not in usage.queues:
            _add_all(totals, _guaranteed_in_tree(usage, queue, children, products))
    return totals


def _selected_products(usage: QueueUsage) -> dict[QueueKey, str]:
    """Return the product of each queue whose workloads all select the same."""
    products: dict[QueueKey, set[str]] = {}
    for queue, product in usage.requested:
        if not is_slice(product):
            products.setdefault(queue, set()).add(product)
    return {queue: next(iter(names)) for queue, names in products.items() if len(names) == 1}


def _add_all(totals: Amounts, amounts: Mapping[str, float | None]) -> None:
    for product, amount in amounts.items():
        totals[product] = add_amounts(totals.get(product, 0.0), amount)


def _guaranteed_in_tree(
    usage: QueueUsage,
    root: QueueKey,
    children: Mapping[QueueKey, list[QueueKey]],
    products: Mapping[QueueKey, str],
) -> Amounts:
    """Return the quota of a queue and those below it, by product. Trees may be thousands of queues deep."""
    queues = [root]
    for queue in queues:
        queues += children.get(queue, ())
    amounts: dict[QueueKey, Amounts] = {}
    for queue in reversed(queues):
        own = usage.queues[queue].quotas[0].guaranteed
        below = [amounts.pop(child) for child in children.get(queue, ())]
        amounts[queue] = _with_children(own, below) if below else {products.get(queue, ""): own}
    return amounts[root]


def _with_children(own: float | None, below: Iterable[Amounts]) -> Amounts:
    """Return the quota of a queue by product: that of its children, and the rest for any product.

    An unlimited queue counts as the sum of its children.
    """
    totals: Amounts = {}
    for child in below:
        _add_all(totals, child)
    if own is None:
        return totals
    limited = [amount for amount in totals.values() if amount is not None]
    rest = own - sum(limited)
    if len(totals) == 1:
        return dict.fromkeys(totals, own)
    if rest < 0 or len(limited) < len(totals):  # the children are guaranteed more than the queue has
        return {"": own}
    if rest:
        _add_all(totals, {"": rest})
    return totals


def _beyond(requested: Mapping[str, Gpus], granted: Iterable[Mapping[str, float]]) -> dict[str, Gpus]:
    """Return what is requested of members of a cohort, by product, beyond what they are granted together."""
    spare: dict[str, float] = {}
    for member in granted:
        for product, amount in member.items():
            spare[product] = spare.get(product, 0.0) + amount
    rest = dict(requested)
    whole = sorted(product for product in {*rest, *spare} if product and not is_slice(product))
    # First each product of itself, then quotas for any, then what chooses no product.
    pairs = [*((product, product) for product in rest), *((product, "") for product in whole)]
    for wanted, source in (*pairs, *(("", product) for product in whole)):
        served = min(rest.get(wanted, 0), int(spare.get(source, 0.0)))
        if served:
            rest[wanted] -= served
            spare[source] -= served
    return {product: gpus for product, gpus in rest.items() if gpus}
