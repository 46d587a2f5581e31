"""The first questions of a reviewer: does it fit, what does it cost, what is dangerous, what must be done."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.console.page import Style
from reconciler.console.printable import clip
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.plan import CapacityLine, Harm, Operation, PlacedWorkload, Plan, Risk
from reconciler.plan.outputs.summary import risk_counts, short_name
from reconciler.plan.outputs.summary.queues import QueueRow, arrow, number, queue_rows
from reconciler.plan.outputs.summary.storage import gib, money, sizes, total_storage

_HARMS = tuple(Harm)
_MESSAGE = 160  # cells
_MOST_CHANGES = 4
_MOST = 2  # queues or products that one answer names


class ReviewPoint(Struct, frozen=True, kw_only=True):
    """A question in a word or two, and its answer in a sentence."""

    question: str
    text: str
    style: Style = Style.PLAIN


def answers(plan: Plan, listed: Plan | None = None) -> tuple[ReviewPoint, ...]:
    """Return the answers that this plan has; none to a question that it does not raise.

    listed: the part of it that a page lists, of which changes are named; all other answers are about all of it.
    """
    return (
        *_changed(listed or plan),
        *_fit(plan),
        *_start(plan),
        *_cost(plan),
        *_storage(plan),
        *_danger(plan),
        *_next(plan),
    )


def _changed(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield the changed objects by name: jobs with their GPUs first, then what is deleted, then the others by kind."""
    resized = [job for job in plan.jobs if job.gpus_before != job.gpus_after]
    jobs = [
        f"{_JOB_VERBS.get(job.word, '')}{short_name(job.key.name)} {arrow(job.gpus_before, job.gpus_after)} GPUs"
        for job in sorted(resized, key=lambda job: -abs(float(job.gpus_after - job.gpus_before)))
    ]
    told = {job.key for job in resized}
    rest = [change for change in plan.changes if change.key not in told]
    gone = [f"deletes {_named(change.key)}" for change in rest if change.operation is Operation.DELETE]
    others = {change.key.kind: change.key for change in rest if change.operation is not Operation.DELETE}
    kinds = Counter(change.key.kind for change in rest if change.operation is not Operation.DELETE)
    kept = [_named(others[kind]) if count == 1 else plural(count, kind) for kind, count in kinds.most_common()]
    if parts := [*jobs, *gone, *kept]:
        yield ReviewPoint(question="Changes", text=_listed(parts, most=_MOST_CHANGES))


_JOB_VERBS = {"added": "adds ", "removed": "deletes ", "suspended": "suspends ", "resumed": "resumes "}


def _named(key: ObjectKey) -> str:
    return f"{key.kind} {short_name(key.name)}"


def _fit(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield whether the changed queues keep within their limits, and the cluster has the GPUs."""
    changed = [row for row in queue_rows(plan) if row.is_changed and row.exists_after and not row.is_parent]
    if not any(row.delta > 0 or row.quota_is_changed for row in changed):
        return
    clusters = {row.cluster for row in changed}
    over = [f"{_queue(row)} requests {number(row.over_limit)} over its limit" for row in changed if row.over_limit]
    lines = [line for line in plan.capacity if line.cluster in clusters]
    short = [line for line in lines if line.requested > line.capacity]
    over += [f"{short_name(line.cluster)} has {_of(line)} for {line.requested} requested" for line in short]
    over += [f"{_workload(one)} finds no room: {clip(one.why, _MESSAGE)}" for one in _without_room(plan)]
    if over:
        yield ReviewPoint(question="Fits", text=f"no: {_listed(over)}", style=Style.ERROR)
        return
    borrowed = [f"{number(row.borrowed)} beyond the quota of {_queue(row)}" for row in changed if row.borrowed > 0]
    reclaimed = f"; {_listed(borrowed)}, which other queues can take back" if borrowed else ""
    known = {line.cluster for line in lines}
    if unknown := sorted(map(short_name, clusters - known)):
        text = f"unknown: no evidence of the nodes of {_listed(unknown)}{reclaimed}"
        yield ReviewPoint(question="Fits", text=text, style=Style.WARNING)
        return
    used = [f"{line.requested} of {_of(line)} requested on {short_name(line.cluster)}" for line in lines]
    style = Style.WARNING if borrowed else Style.PLAIN
    yield ReviewPoint(question="Fits", text=f"yes: {_listed(used)}{reclaimed}{_age(lines)}", style=style)


def _without_room(plan: Plan) -> list[PlacedWorkload]:
    """Return the workloads of the plan that no nodes have room for, or that lose their place in the forecast."""
    every = (one for line in plan.placement for one in line.workloads)
    return [one for one in every if one.word == "waits" and one.before != "waits"]


def _workload(one: PlacedWorkload) -> str:
    return f"{one.key.kind} {short_name(one.key.name)}"


def _queue(row: QueueRow) -> str:
    return short_name(row.queue) or "no queue"


def _of(line: CapacityLine) -> str:
    return f"{line.capacity} {short_name(line.product) or 'GPUs'}"


def _age(lines: list[CapacityLine]) -> str:
    days = max((line.evidence_days or 0 for line in lines), default=0)
    return f" (evidence {plural(days, 'day')} old)" if days else ""


def _start(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield what the queues do with the workloads of the plan, as far as the evidence of use says it."""
    counted = Counter(line.verdict for line in plan.admissions)
    words = [f"{counted[verdict]} {word}" for verdict, word in _VERDICTS.items() if counted[verdict]]
    if not words:
        return
    stopped = sum(one.gpus for line in plan.admissions for one in line.displaces)
    displaced = f"; {number(stopped)} GPUs of others stop for it" if stopped else ""
    behind = next((line for line in plan.admissions if line.verdict in ("never", "waits", "unknown")), None)
    why = f"; {short_name(behind.key.name)}: {clip(behind.reason, _MESSAGE)}" if behind is not None else ""
    is_bad = bool(counted.keys() & {"never", "preempted"}) or bool(stopped)
    style = Style.ERROR if counted["never"] else Style.WARNING if is_bad or counted["unknown"] else Style.PLAIN
    yield ReviewPoint(question="Starts", text=f"{', '.join(words)}{displaced}{why}", style=style)


_VERDICTS = {
    "starts": "now",
    "preempts": "once others were preempted",
    "waits": "later",
    "never": "never",
    "unknown": "unknown",
    "preempted": "of others preempted",
    "over": "over quota",
}


def _cost(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield the cost per hour of all running jobs of the changed queues, before and after."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    unknown = {short_name(line.product) or "any GPU" for line in plan.costs if line.price is None}
    for line in plan.costs:
        if line.price is not None:
            sums[line.currency][0] += line.per_hour_before or 0
            sums[line.currency][1] += line.per_hour_after or 0
    parts = [
        f"{before:,.2f} → {after:,.2f} {currency} per hour ({after - before:+,.2f})"
        for currency, (before, after) in sorted(sums.items())
        if before != after
    ]
    if unknown and any(line.price is None for line in plan.costs):
        parts.append(f"no price of {_listed(sorted(unknown))}")
    if not parts and sums and plan.changes:
        parts = ["unchanged"]
    if parts:
        yield ReviewPoint(question="Costs", text=_listed(parts), style=Style.WARNING if unknown else Style.PLAIN)


def _storage(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield the GiB that claims request, before and after, and what they cost for a month."""
    if not plan.claims:
        return
    total = total_storage(plan.claims)
    text = f"{sizes(*total)} GiB in {plural(len(plan.claims), 'claim')} ({gib(total.after - total.before, sign=True)})"
    known = money(plan.claims)
    is_priced = any(one.currency for one in plan.claims)
    text += f", {known} per month" if known and is_priced else ", price unknown" if is_priced else ""
    yield ReviewPoint(question="Storage", text=text)


def _danger(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield how many risks there are, and the worst of them with its objects; and jobs that may run out of memory."""
    if plan.risks:
        worst = _worst(plan.risks)
        alike = [short_name(risk.key.name) for risk in plan.risks if risk.rule == worst.rule]
        text = f"{risk_counts(plan)}; {_listed(list(dict.fromkeys(alike)))}: {clip(worst.message, _MESSAGE)}"
        yield ReviewPoint(question="Danger", text=text, style=Style.WARNING)
    for change in plan.changes:
        chosen = next((one for one in change.sizing.candidates if one.chosen), None) if change.sizing else None
        if chosen is None or change.gpus_before == change.gpus_after or (chosen.high_gib or 0.0) <= chosen.memory_gib:
            continue
        span = f"{chosen.low_gib:.1f} to {chosen.high_gib:.1f} GiB on each GPU, which has {chosen.memory_gib:.1f}"
        text = f"{short_name(change.key.name)} may run out of memory: it needs {span}"
        yield ReviewPoint(question="Memory", text=text, style=Style.WARNING)
        return


def _worst(risks: Iterable[Risk]) -> Risk:
    return min(risks, key=lambda risk: _HARMS.index(risk.harm))


def _next(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield the next step of whoever proposes the change."""
    steps = []
    wrong = [
        plural(len(found), word) for found, word in ((plan.errors, "error"), (plan.denials, "policy denial")) if found
    ]
    if wrong:
        steps.append(f"fix {' and '.join(wrong)}")
    if plan.edited:
        steps.append("run `reconciler commit`, since rendered files differ from their sources")
    if plan.unapproved:
        steps.append("`reconciler approve --reason 'TEXT'` on this branch, or stay within the budgets")
    if steps:
        yield ReviewPoint(question="To do", text="; ".join(steps), style=Style.ERROR)
    elif plan.risks and (hint := _worst(plan.risks).hint):
        text = f"before merging: {clip(hint, _MESSAGE)}; no check blocks it"
        yield ReviewPoint(question="To do", text=text, style=Style.WARNING)
    elif plan.changes:
        yield ReviewPoint(question="To do", text="nothing: no errors, no denials, within all budgets" + _approved(plan))


def _approved(plan: Plan) -> str:
    return " or approved" if plan.breaches else ""


def _listed(parts: list[str], *, most: int = _MOST) -> str:
    more = len(parts) - most
    return ", ".join(parts if more <= 0 else [*parts[:most], f"{more} more"])
