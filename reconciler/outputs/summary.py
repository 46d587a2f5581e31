"""A plan in, what it means for the GPUs out: the headline, the counts, one row per queue. No formatting but numbers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.plan import CapacityLine, Operation, Plan
from reconciler.outputs.findings import Level, findings
from reconciler.outputs.printable import clip_middle, printable

_SHOWN_QUEUES = 2  # in the headline; the table has them all
_NAME_CELLS = 60  # Kubernetes allows 63 and 253; a sentence does not
_WORDS = {
    Operation.CREATE: "created",
    Operation.UPDATE: "updated",
    Operation.MOVE: "moved",
    Operation.DELETE: "deleted",
}


class QueueRow(Struct, frozen=True, kw_only=True):
    """What the jobs of one queue ask for and what the queue grants, on one product. None: unlimited.

    `asked_below` counts the queues below it as well: that is what quotas are compared with. A queue without jobs of
    its own (`is_parent`) has no requests of its own to compare either.
    """

    cluster: str
    queue: str
    product: str
    requested_before: int = 0
    requested_after: int = 0
    asked_below: int = 0
    is_parent: bool = False
    has_quota: bool = False
    guaranteed_before: float | None = 0.0
    guaranteed_after: float | None = 0.0
    limit: float | None = None
    exists_before: bool = True
    exists_after: bool = True

    @property
    def delta(self) -> int:
        """GPUs asked for: after minus before."""
        return self.requested_after - self.requested_before

    @property
    def is_changed(self) -> bool:
        """Requests or guarantees differ, or the queue came or went."""
        return self.delta != 0 or self.quota_is_changed

    @property
    def quota_is_changed(self) -> bool:
        """The guarantee differs, or the queue came or went."""
        differs = self.guaranteed_before != self.guaranteed_after or self.exists_before != self.exists_after
        return self.has_quota and differs

    @property
    def over_limit(self) -> float:
        """GPUs asked for beyond the limit: they cannot run at once."""
        if not self.has_quota or self.limit is None or not self.exists_after:
            return 0
        return max(0, self.asked_below - self.limit)

    @property
    def borrowed(self) -> float:
        """GPUs asked for beyond the guarantee, but within the limit: others may take them back."""
        if not self.has_quota or self.guaranteed_after is None or not self.exists_after:
            return 0
        return max(0, self.asked_below - self.guaranteed_after) - self.over_limit

    @property
    def remark(self) -> str:
        """What a reviewer should not have to work out; empty where nothing is special."""
        remarks = []
        if self.has_quota and not self.exists_before:
            remarks.append("new queue")
        if self.has_quota and not self.exists_after:
            asked = f", {gpus(self.asked_below)} still asked for" if self.asked_below else ""
            remarks.append(f"queue deleted{asked}")
        if self.over_limit:
            remarks.append(f"{number(self.over_limit)} over the limit")
        if self.borrowed > 0:
            remarks.append(f"{number(self.borrowed)} borrowed")
        return ", ".join(remarks)


def number(value: float | None) -> str:
    """Write a number of GPUs: whole ones without a fraction, None as `unlimited`."""
    if value is None:
        return "unlimited"
    return str(int(value)) if value == int(value) else f"{value:g}"


def arrow(before: float | None, after: float | None) -> str:
    """`8 → 32`, or `8` where nothing changes."""
    return number(after) if before == after else f"{number(before)} → {number(after)}"


def signed(value: float) -> str:
    """Write a difference with its sign; no difference is `0`."""
    return f"{'+' if value > 0 else ''}{number(value)}"


def gpus(count: float) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{number(count)} GPU{'' if count == 1 else 's'}"


def plural(count: int, noun: str) -> str:
    """`1 object`, `3 objects`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(part: float, whole: float) -> str:
    """Share in whole percent."""
    return f"{round(100 * part / whole)} %" if whole else "n/a"


def queue_rows(plan: Plan) -> tuple[QueueRow, ...]:
    """Join requests and quotas by cluster, queue and product.

    A quota for any product and the requests of its queue for a single product are one row: that is how KAI grants.
    """
    rows: dict[tuple[str, str, str], QueueRow] = {}
    for line in plan.gpus:
        rows[line.cluster, line.queue, line.product] = QueueRow(
            cluster=line.cluster,
            queue=line.queue,
            product=line.product,
            requested_before=line.before,
            requested_after=line.after,
            asked_below=line.after,
        )
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster, queue, product in rows:
        asked[cluster, queue].append(product)
    lines = Counter((quota.cluster, quota.queue) for quota in plan.queues)
    for quota in plan.queues:
        products = asked[quota.cluster, quota.queue]
        joins = quota.product == "" and len(products) == 1 and lines[quota.cluster, quota.queue] == 1
        place = (quota.cluster, quota.queue, products[0] if joins else quota.product)
        known = rows.get(place) or QueueRow(
            cluster=quota.cluster,
            queue=quota.queue,
            product=quota.product,
            is_parent=True,
        )
        rows[place] = replace(
            known,
            asked_below=quota.requested,
            has_quota=True,
            guaranteed_before=quota.before if quota.exists_before else 0.0,
            guaranteed_after=quota.after if quota.exists_after else 0.0,
            limit=quota.limit,
            exists_before=quota.exists_before,
            exists_after=quota.exists_after,
        )
    return tuple(rows[key] for key in sorted(rows))


class Total(Struct, frozen=True, kw_only=True):
    """GPUs asked for by several queues together."""

    before: int
    after: int


def total(plan: Plan) -> Total:
    """Sum what all jobs ask for."""
    return Total(before=sum(line.before for line in plan.gpus), after=sum(line.after for line in plan.gpus))


def rest(plan: Plan, shown: Iterable[QueueRow]) -> Total:
    """Sum what is asked of queues that are not among the rows shown."""
    whole, rows = total(plan), tuple(shown)
    return Total(
        before=whole.before - sum(row.requested_before for row in rows),
        after=whole.after - sum(row.requested_after for row in rows),
    )


def counts(plan: Plan) -> tuple[tuple[Operation | None, str], ...]:
    """`3 created`, `2 updated`, …, `41 unchanged` (operation None); what does not occur is left out."""
    found: list[tuple[Operation | None, str]] = []
    for operation, word in _WORDS.items():
        count = sum(1 for change in plan.changes if change.operation is operation)
        if count:
            found.append((operation, f"{count:,} {word}"))
    return (*found, (None, f"{plan.unchanged:,} unchanged"))


def headlines(plan: Plan) -> tuple[str, ...]:
    """Say what the plan does to requests and guarantees: a sentence each, by cluster, the most important first."""
    rows = queue_rows(plan)
    clauses = (*_request_clauses(rows), *_quota_clauses(rows))
    return clauses or ("No changes" if plan.is_empty else "No change in GPUs requested or guaranteed",)


def headline(plan: Plan) -> str:
    """Return the headlines as one line."""
    return "; ".join(headlines(plan))


def description(plan: Plan) -> str:
    """Return the message of the commit that carries the plan out: counts as its subject, headlines below."""
    done = ", ".join(text for operation, text in counts(plan) if operation is not None)
    return "\n".join((f"Render: {done}", "", *headlines(plan)))


def _by_cluster(rows: Iterable[QueueRow]) -> dict[str, list[QueueRow]]:
    grouped: dict[str, list[QueueRow]] = defaultdict(list)
    for row in rows:
        grouped[row.cluster].append(row)
    return grouped


def _request_clauses(rows: Sequence[QueueRow]) -> Iterable[str]:
    for cluster, members in _by_cluster(row for row in rows if row.delta).items():
        delta = sum(row.delta for row in members)
        what = f"{signed(delta)} {'GPU' if abs(delta) == 1 else 'GPUs'} requested" if delta else "GPU requests shift"
        yield f"{what} on {_short(cluster)} ({_queues(members, _request)})"


def _request(row: QueueRow) -> str:
    of = f" of {number(row.guaranteed_after)} guaranteed" if row.has_quota and row.exists_after else ""
    return f"{_short(row.queue) or 'no queue'}: {row.requested_before} → {row.requested_after}{of}"


def _quota_clauses(rows: Sequence[QueueRow]) -> Iterable[str]:
    for cluster, members in _by_cluster(row for row in rows if row.quota_is_changed).items():
        ends = [(row.guaranteed_before, row.guaranteed_after) for row in members]
        known = [after - before for before, after in ends if before is not None and after is not None]
        delta = sum(known)
        if len(known) < len(members):
            what = "guarantees change to or from unlimited"
        elif delta:
            what = f"{signed(delta)} {'GPU' if abs(delta) == 1 else 'GPUs'} guaranteed"
        else:
            what = "guarantees shift"
        yield f"{what} on {_short(cluster)} ({_queues(members, _guarantee)})"


def _guarantee(row: QueueRow) -> str:
    return f"{_short(row.queue)}: {number(row.guaranteed_before)} → {number(row.guaranteed_after)}"


def _short(name: str) -> str:
    return clip_middle(printable(name), _NAME_CELLS)


def _queues(members: list[QueueRow], describe: Callable[[QueueRow], str]) -> str:
    ranked = sorted(members, key=lambda row: -max(abs(row.delta), _quota_weight(row)))
    shown = [describe(row) for row in ranked[:_SHOWN_QUEUES]]
    rest = len(ranked) - len(shown)
    return ", ".join([*shown, *([f"{rest} more"] if rest else [])])


def _quota_weight(row: QueueRow) -> float:
    if row.guaranteed_before is None or row.guaranteed_after is None:
        return float("inf")
    return abs(row.guaranteed_after - row.guaranteed_before)


def obstacles(plan: Plan) -> tuple[str, ...]:
    """Count what stops a commit of this plan; empty means that nothing does."""
    found = []
    if plan.errors:
        found.append(plural(len(plan.errors), "error"))
    if plan.denials:
        found.append(plural(len(plan.denials), "policy denial"))
    if plan.breaches and not plan.acknowledged:
        found.append(f"{plural(len(plan.breaches), 'budget')} exceeded")
    return tuple(found)


def lint_headline(plan: Plan) -> str:
    """One sentence for a plan that was made only to check: `2 errors and 1 warning in 2 files`."""
    found = findings(plan)
    by_level = {level: sum(1 for finding in found if finding.level is level) for level in Level}
    parts = [plural(count, str(level)) for level, count in by_level.items() if count]
    files = {finding.place.path for finding in found if finding.place}
    if not parts:
        return "No problems"
    return " and ".join(parts) + (f" in {plural(len(files), 'file')}" if files else "")


def commitment(line: CapacityLine) -> str:
    """Compare all guarantees with the GPUs that are there: `8 over-committed`, `16 uncommitted`."""
    if line.guaranteed is None:
        return "a queue is unlimited"
    spare = line.capacity - line.guaranteed
    if spare < 0:
        return f"{number(-spare)} over-committed"
    return f"{number(spare)} uncommitted" if spare else "fully committed"
