"""GPUs of a plan by queue: requests joined with quotas, sums, and how amounts are written."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.quantities import Gpus, exact, total
from reconciler.plan import Plan
from reconciler.sizing.devices import is_slice


class QueueRow(Struct, frozen=True, kw_only=True):
    """GPUs that the jobs of one queue request and that its quota grants, for one product. None: unlimited.

    `requested_with_children` includes the queues below it, because that is what quotas are compared with. A queue
    without jobs of its own (`is_parent`) has no requests of its own. `most` is what its jobs may request if they grow.
    """

    cluster: str
    queue: str
    product: str
    requested_before: Gpus = 0
    requested_after: Gpus = 0
    requested_with_children: Gpus = 0
    most: Gpus | None = None
    most_before: Gpus | None = None
    is_parent: bool = False
    has_quota: bool = False
    guaranteed_before: float | None = 0.0
    guaranteed_after: float | None = 0.0
    limit: float | None = None
    exists_before: bool = True
    exists_after: bool = True
    is_total: bool = False
    is_cohort: bool = False

    @property
    def delta(self) -> Gpus:
        """Requested GPUs after the plan minus those before."""
        return exact(self.requested_after - self.requested_before)

    @property
    def largest(self) -> tuple[Gpus, Gpus]:
        """Requested GPUs before and after the plan, if all jobs that may grow do so."""
        before = self.requested_before if self.most_before is None else self.most_before
        return before, self.requested_after if self.most is None else self.most

    @property
    def growth(self) -> str:
        """The GPUs that jobs may grow to: `64`, or `32 → 64` where they already might; empty if they do not grow."""
        if self.most is None:
            return ""
        return number(self.most) if self.most_before is None else arrow(self.most_before, self.most)

    @property
    def is_changed(self) -> bool:
        """True if requests, what they may grow to, or the quota change, or the queue is created or deleted."""
        return self.delta != 0 or self.largest[0] != self.largest[1] or self.quota_is_changed

    @property
    def quota_is_changed(self) -> bool:
        """True if the quota changes, or the queue is created or deleted."""
        differs = self.guaranteed_before != self.guaranteed_after or self.exists_before != self.exists_after
        return self.has_quota and differs

    @property
    def is_whole(self) -> bool:
        """True if the row has the quota of its queue for GPUs of any product, so that other rows count in it, too."""
        return self.has_quota and not self.product and not self.is_cohort

    @property
    def quota_change(self) -> float:
        """Size of the change of the quota, without its sign."""
        before, after = self.guaranteed_before, self.guaranteed_after
        if before == after:
            return 0
        return float("inf") if before is None or after is None else abs(after - before)

    @property
    def over_limit(self) -> float:
        """Requested GPUs beyond the limit, which cannot run at the same time as the others."""
        if not self.has_quota or self.limit is None or not self.exists_after:
            return 0
        return max(0, self.requested_with_children - self.limit)

    @property
    def borrowed(self) -> float:
        """Requested GPUs beyond the quota but within the limit, which other queues can reclaim."""
        if not self.has_quota or self.guaranteed_after is None or not self.exists_after:
            return 0
        return max(0, self.requested_with_children - self.guaranteed_after) - self.over_limit

    @property
    def remark(self) -> str:
        """The peculiarity of the queue, for reviewers; empty if there is none."""
        left = f", {gpus(self.requested_with_children)} still requested" if self.requested_with_children else ""
        remarks = (
            "new queue" if self.has_quota and not self.exists_before else "",
            f"queue deleted{left}" if self.has_quota and not self.exists_after else "",
            f"{number(self.over_limit)} over the limit" if self.over_limit else "",
            f"{number(self.borrowed)} borrowed" if self.borrowed > 0 else "",
            f"may grow to {self.growth}" if self.growth else "",
        )
        return ", ".join(filter(None, remarks))


def number(value: float | None) -> str:
    """Format a number of GPUs: whole numbers without a fraction, None as `unlimited`."""
    if value is None:
        return "unlimited"
    return str(int(value)) if value == int(value) else f"{value:g}"


def arrow(before: float | None, after: float | None) -> str:
    """Format a change as `8 → 32`, or as `8` if nothing changes."""
    return number(after) if before == after else f"{number(before)} → {number(after)}"


def signed(value: float) -> str:
    """Format a difference with its sign; no difference is `0`."""
    return f"{'+' if value > 0 else ''}{number(value)}"


def gpus(count: float) -> str:
    """Return `1 GPU` or `8 GPUs`."""
    return f"{number(count)} GPU{'' if count == 1 else 's'}"


def percent(part: float, whole: float) -> str:
    """Format a share in whole percent."""
    return f"{round(100 * part / whole)} %" if whole else "n/a"


def queue_rows(plan: Plan) -> tuple[QueueRow, ...]:
    """Join requests and quotas by cluster, queue and product.

    A quota for any product is joined with the requests of its queue if they are all for one product, as in KAI.
    """
    rows: dict[tuple[str, str, str, bool], QueueRow] = {}
    for line in plan.gpus:
        rows[line.cluster, line.queue, line.product, False] = QueueRow(
            cluster=line.cluster,
            queue=line.queue,
            product=line.product,
            requested_before=line.before,
            requested_after=line.after,
            requested_with_children=line.after,
            most=line.most,
            most_before=line.most_before,
        )
    requested: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster, queue, product, _ in rows:
        requested[cluster, queue].append(product)
    quotas = Counter((quota.cluster, quota.queue) for quota in plan.queues if not quota.is_cohort)
    for quota in plan.queues:
        products = requested[quota.cluster, quota.queue]
        joins = quota.product == "" and len(products) == 1 and quotas[quota.cluster, quota.queue] == 1
        joins = joins and not quota.is_cohort  # it may have the name of one of its members
        key = (quota.cluster, quota.queue, products[0] if joins else quota.product, quota.is_cohort)
        row = rows.get(key) or QueueRow(cluster=quota.cluster, queue=quota.queue, product=quota.product, is_parent=True)
        rows[key] = replace(
            row,
            requested_with_children=quota.requested,
            has_quota=True,
            guaranteed_before=quota.before if quota.exists_before else 0.0,
            guaranteed_after=quota.after if quota.exists_after else 0.0,
            limit=quota.limit,
            exists_before=quota.exists_before,
            exists_after=quota.exists_after,
            is_total=quota.is_total,
            is_cohort=quota.is_cohort,
        )
    return tuple(rows[key] for key in sorted(rows))


def joined_rows(rows: Iterable[QueueRow]) -> Iterator[QueueRow]:
    """Yield one row for each queue whose quota is for any product, with the requests for all of them."""
    queues: dict[tuple[str, str, bool], list[QueueRow]] = defaultdict(list)
    for row in rows:
        queues[row.cluster, row.queue, row.is_cohort or is_slice(row.product)].append(row)
    for members in queues.values():
        granted = [row for row in members if row.is_whole]
        if len(members) == 1 or len(granted) != 1:
            yield from members
            continue
        before, after = (total(getattr(row, f"requested_{side}") for row in members) for side in ("before", "after"))
        grown = [row.largest for row in members]
        is_elastic = any(row.most is not None for row in members)
        yield replace(
            granted[0],
            requested_before=before,
            requested_after=after,
            most=total(most for _, most in grown) if is_elastic else None,
            most_before=total(most for most, _ in grown) if is_elastic else None,
        )


class RequestTotal(Struct, frozen=True, kw_only=True):
    """Requested GPUs of several queues, before and after."""

    before: Gpus
    after: Gpus
    most: Gpus  # after, if all jobs that may grow do so


def total_requests(plan: Plan) -> RequestTotal:
    """Sum the requests of all jobs."""
    return RequestTotal(
        before=total(line.before for line in plan.gpus),
        after=total(line.after for line in plan.gpus),
        most=total(line.after if line.most is None else line.most for line in plan.gpus),
    )


def hidden_requests(plan: Plan, shown: Iterable[QueueRow]) -> RequestTotal:
    """Sum the requests of the queues that are not among the rows shown."""
    whole, rows = total_requests(plan), tuple(shown)
    return RequestTotal(
        before=exact(whole.before - total(row.requested_before for row in rows)),
        after=exact(whole.after - total(row.requested_after for row in rows)),
        most=exact(whole.most - total(row.largest[1] for row in rows)),
    )
