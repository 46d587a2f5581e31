"""The first questions of a reviewer: does it fit, what does it cost, what is dangerous, what must be done."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.console.page import Style
from reconciler.console.printable import clip
from reconciler.kube.values import plural
from reconciler.plan import CapacityLine, Harm, PlacedWorkload, Plan, Risk
from reconciler.plan.outputs.followers import told
from reconciler.plan.outputs.groups import ChangeGroup
from reconciler.plan.outputs.summary import risk_counts, short_name
from reconciler.plan.outputs.summary.changed import changed_names
from reconciler.plan.outputs.summary.queues import QueueRow, number, queue_rows
from reconciler.plan.outputs.summary.storage import gib, money, sizes, total_storage

_HARMS = tuple(Harm)
_MESSAGE = 160  # cells
_MOST_CHANGES = 4
_PRICE = ".prices."  # of a setting
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
    """Yield the changed objects by name, and why the job that changes most is resized, if its size was computed."""
    if names := changed_names(plan):
        yield ReviewPoint(question="Changes", text=_listed(names, most=_MOST_CHANGES))
    sized = [change for change in plan.changes if change.sizing is not None and change.gpus_before != change.gpus_after]
    for change in sorted(sized, key=lambda one: -abs(float(one.gpus_after - one.gpus_before)))[:1]:
        for one in told(ChangeGroup(first=change), full=False).followers[:1]:
            why = one.because.partition("because ")[2]
            name = f"{short_name(change.key.name)}: " if len(plan.jobs) > 1 else ""
            yield ReviewPoint(question="Why", text=f"{name}{why}")


def _fit(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield whether the changed queues keep within their limits, and the cluster has the GPUs."""
    changed = [row for row in queue_rows(plan) if row.is_changed and row.exists_after and not row.is_parent]
    lost = {line.cluster for line in plan.capacity if line.capacity < line.before}
    if not lost and not any(row.delta > 0 or row.quota_is_changed for row in changed):
        return
    clusters = {row.cluster for row in changed} | lost
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
    names = {line.verdict: short_name(line.key.name) for line in plan.admissions}
    words = [
        f"{names[verdict] if counted[verdict] == 1 else counted[verdict]} {word}"
        for verdict, word in _VERDICTS.items()
        if counted[verdict]
    ]
    if not words:
        return
    stopped = sum(one.gpus for line in plan.admissions for one in line.displaces)
    displaced = f"; {number(stopped)} GPUs of others stop for it" if stopped else ""
    behind = next((line for line in plan.admissions if line.verdict in ("never", "waits", "unknown")), None)
    of = f"{short_name(behind.key.name)}: " if behind is not None and len(plan.admissions) > 1 else ""
    why = f"; {of}{clip(behind.reason, _MESSAGE)}" if behind is not None else ""
    is_bad = bool(counted.keys() & {"never", "preempted"}) or bool(stopped)
    style = Style.ERROR if counted["never"] else Style.WARNING if is_bad or counted["unknown"] else Style.PLAIN
    yield ReviewPoint(question="Starts", text=f"{', '.join(words)}{displaced}{why}", style=style)


_VERDICTS = {
    "starts": "now",
    "preempts": "once others were preempted",
    "waits": "later",
    "never": "never",
    "unknown": "unknown",
    "preempted": "preempted",
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
        if round(after - before, 2)
    ]
    parts += _runs(plan)
    if unknown:
        parts.append(f"no price of {_listed(sorted(unknown))}")
    if not parts and sums and (plan.changes or any(_PRICE in one.setting for one in plan.settings)):
        listed = ", ".join(f"{after:,.2f} {currency}" for currency, (_, after) in sorted(sums.items()))
        parts = [f"{listed} per hour, {'unchanged' if plan.changes else 'at the new prices'}"]
    if parts:
        yield ReviewPoint(question="Costs", text=_listed(parts), style=Style.WARNING if unknown else Style.PLAIN)


def _runs(plan: Plan) -> Iterator[str]:
    """Yield what the whole runs of the changed jobs cost, where both sides are known."""
    runs: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for job in plan.jobs:
        if job.money_before is not None and job.money_after is not None and job.money_before != job.money_after:
            runs[job.currency][0] += job.money_before
            runs[job.currency][1] += job.money_after
    for currency, (before, after) in sorted(runs.items()):
        yield f"whole runs {before:,.2f} → {after:,.2f} {currency}"


def _storage(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield the GiB that claims request, before and after, and what they cost for a month."""
    if not plan.claims:
        return
    total = total_storage(plan.claims)
    text = f"{sizes(*total)} GiB in {plural(len(plan.claims), 'claim')} ({gib(total.after - total.before, sign=True)})"
    priced = [one for one in plan.claims if None not in (one.per_month_before, one.per_month_after)]
    if any(one.currency for one in priced):
        text += f", {money(priced)} per month"
    unknown = {one.storage_class for one in plan.claims if one.currency and one not in priced}
    if unknown:
        text += f"; no price of {_listed([name or 'the default class' for name in sorted(map(short_name, unknown))])}"
    yield ReviewPoint(question="Storage", text=text)


def _danger(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield how many risks there are, and the worst of them with its objects; and jobs that may run out of memory."""
    if plan.risks:
        worst: dict[str, list[Risk]] = defaultdict(list)
        for risk in plan.risks:
            if risk.harm is _worst(plan.risks).harm:
                worst[risk.message].append(risk)
        told_of = (f"{_objects(alike)}: {clip(message, _MESSAGE)}" for message, alike in [*worst.items()][:_MOST])
        yield ReviewPoint(question="Danger", text="; ".join((risk_counts(plan), *told_of)), style=Style.WARNING)
    for change in plan.changes:
        chosen = next((one for one in change.sizing.candidates if one.chosen), None) if change.sizing else None
        if chosen is None or change.gpus_before == change.gpus_after or (chosen.high_gib or 0.0) <= chosen.memory_gib:
            continue
        span = f"{chosen.low_gib:.1f} to {chosen.high_gib:.1f} GiB on each GPU, which has {chosen.memory_gib:.1f}"
        text = f"{short_name(change.key.name)} may run out of memory: it needs {span}"
        yield ReviewPoint(question="Memory", text=text, style=Style.WARNING)
        return


def _objects(risks: Iterable[Risk]) -> str:
    return _listed(list(dict.fromkeys(short_name(risk.key.name) for risk in risks)))


def _worst(risks: Iterable[Risk]) -> Risk:
    return min(risks, key=lambda risk: _HARMS.index(risk.harm))


def _next(plan: Plan) -> Iterator[ReviewPoint]:
    """Yield the next step of whoever proposes the change."""
    steps = []
    wrong = [
        f"{plural(len(found), word)} ({_listed([*dict.fromkeys(short_name(one.rule) for one in found)])})"
        for found, word in ((plan.errors, "error"), (plan.denials, "policy denial"))
        if found
    ]
    if wrong:
        steps.append(f"fix {' and '.join(wrong)}")
    if plan.edited:
        steps.append("run `reconciler commit`, since rendered files differ from their sources")
    if plan.unapproved:
        broken = _listed([clip(one.message.partition(";")[0], _MESSAGE) for one in plan.unapproved])
        steps.append(f"`reconciler approve --reason 'TEXT'` on this branch, or stay within the budgets: {broken}")
    if steps:
        yield ReviewPoint(question="To do", text="; ".join(steps), style=Style.ERROR)
    elif plan.risks and (hint := _worst(plan.risks).hint):
        text = f"before merging: {clip(hint, _MESSAGE)} (nothing blocks the merge)"
        yield ReviewPoint(question="To do", text=text, style=Style.WARNING)
    elif plan.changes:
        yield ReviewPoint(question="To do", text="nothing: no errors, no denials, within all budgets" + _approved(plan))


def _approved(plan: Plan) -> str:
    return " or approved" if plan.breaches else ""


def _listed(parts: list[str], *, most: int = _MOST) -> str:
    more = len(parts) - most
    return ", ".join(parts if more <= 0 else [*parts[:most], f"{more} more"])
