"""The meaning of a plan in GPUs: headlines, counts and one row per queue, as plain sentences and numbers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from reconciler.console.printable import clip_middle, printable
from reconciler.kinds.quantities import Gpus, exact, total
from reconciler.kube.values import plural
from reconciler.plan import Approval, GpuLine, Harm, Operation, Plan
from reconciler.plan.gpus import guarantee_delta, sum_of_trees
from reconciler.plan.outputs.findings import Category, Level, findings, loss_headline
from reconciler.plan.outputs.summary.queues import QueueRow, arrow, gpus, joined_rows, number, queue_rows, signed
from reconciler.plan.replacements import ABOUT_CHANGES
from reconciler.sizing.devices import is_slice

_HEADLINE_ITEMS = 2
_HEADLINE_NAME_CELLS = 60  # Kubernetes allows names of 63 and 253 characters
_PAST_TENSE = {
    Operation.CREATE: "created",
    Operation.UPDATE: "updated",
    Operation.REPLACE: "replaced",
    Operation.MOVE: "moved",
    Operation.DELETE: "deleted",
}


def counts(plan: Plan) -> tuple[tuple[Operation | None, str], ...]:
    """Return `3 created`, `2 updated`, …, `41 unchanged` (operation None), without operations that do not occur."""
    refused = sum(change.is_refused for change in plan.changes)
    totals = Counter(change.operation for change in plan.changes if not change.is_refused)
    first = [(Operation.REPLACE, f"{refused:,} must be replaced")] if refused else []
    changed = [(operation, f"{totals[operation]:,} {word}") for operation, word in _PAST_TENSE.items()]
    return (*first, *(pair for pair in changed if totals[pair[0]]), (None, f"{plan.unchanged:,} unchanged"))


_TO_DO = {
    Operation.CREATE: "to create",
    Operation.UPDATE: "to update",
    Operation.REPLACE: "to replace",
    Operation.MOVE: "to move",
    Operation.DELETE: "to delete",
}


_RARE = (Operation.MOVE, Operation.REPLACE)


def closing_line(plan: Plan) -> str:
    """Return the last line of a page, such as `Plan: 3 to create, 2 to update, 0 to delete. +16 GPUs on main.`."""
    totals = Counter(change.operation for change in plan.changes)
    numbers = [f"{totals[key]:,} {word}" for key, word in _TO_DO.items() if totals[key] or key not in _RARE]
    return f"Plan: {', '.join(numbers)}. {_closing_gpus(plan)}."


def _closing_gpus(plan: Plan) -> str:
    deltas: dict[str, Gpus] = {}
    for line in plan.gpus:
        deltas[line.cluster] = exact(deltas.get(line.cluster, 0) + line.after - line.before)
    moving = [line for line in plan.gpus if line.before != line.after]
    units = {cluster: _unit(line for line in moving if line.cluster == cluster) for cluster in deltas}
    changed = [
        f"{_signed_gpus(delta, units[cluster])} on {short_name(cluster)}"
        for cluster, delta in sorted(deltas.items())
        if delta
    ]
    if plan.unknown_gpus:
        return ", ".join((*changed, f"GPUs of {plural(len(plan.unknown_gpus), 'object')} unknown"))
    is_moved = any(line.before != line.after for line in plan.gpus)
    return ", ".join(changed) or ("GPUs move between queues" if is_moved else "No change in GPUs")


def risk_counts(plan: Plan) -> str:
    """Return the number of risks by harm, as `29 risks: 1 data loss, 26 disruption, 2 other`; empty without risks."""
    harms = Counter(risk.harm for risk in plan.risks)
    listed = ", ".join(f"{harms[harm]:,} {harm.value}" for harm in Harm if harms[harm])
    if not harms:
        return ""
    return plural(len(plan.risks), "risk") + (f": {listed}" if set(harms) - {Harm.OTHER} else "")


def headlines(plan: Plan) -> tuple[str, ...]:
    """Return what the plan lacks and what is refused, then GPUs by cluster, then what is replaced and kept."""
    rows = queue_rows(plan)
    refused = sum(change.is_refused for change in plan.changes)
    them = "it" if refused == 1 else "them"
    first = [f"{plural(refused, 'object')} must be replaced: the API server does not change {them} in place"] * bool(
        refused
    )
    first += (*_incomplete_headline(plan), *loss_headline(plan), *_quarantine_headlines(plan))
    first += _unknown_headlines(plan)
    sentences = (
        *first,
        *_request_headlines(rows),
        *_growth_headlines(rows),
        *_quota_headlines(plan, rows),
        *_capacity_headlines(plan),
    )
    sentences = (*sentences, *_replacement_headlines(plan))
    others = (*([settings_headline(plan)] if plan.settings else []), *([edited_headline(plan)] if plan.edited else []))
    if not sentences and not (plan.is_empty and others):
        sentences = ("No changes" if plan.is_empty else "No change in requested GPUs or quotas",)
    return (*sentences, *others)


def _quarantine_headlines(plan: Plan) -> Iterable[str]:
    """Yield a sentence per cluster about the nodes that leave use, or come back."""
    for word, what in (("begins", "leaves use"), ("ends", "comes back")):
        clusters: dict[str, list[str]] = defaultdict(list)
        lost: dict[str, int] = defaultdict(int)
        for line in plan.quarantines:
            if line.word == word:
                clusters[line.cluster].append(short_name(line.node))
                lost[line.cluster] += abs(line.gpus)
        for cluster, nodes in sorted(clusters.items()):
            who = f"Node {nodes[0]}" if len(nodes) == 1 else f"{plural(len(nodes), 'node')} ({_first(nodes)})"
            verb = what if len(nodes) == 1 else what.replace("leaves", "leave").replace("comes", "come")
            yield f"{who} on {short_name(cluster)} {verb}: {gpus(lost[cluster])}"


def _unknown_headlines(plan: Plan) -> Iterable[str]:
    """Yield a sentence per cluster about the changed objects with GPUs that no figure includes."""
    clusters: dict[str, list[str]] = defaultdict(list)
    for one in plan.unknown_gpus:
        clusters[one.cluster].append(
            f"{one.key.kind} {short_name(one.key.name)}: {short_name((one.after or one.before)[0])}"
        )
    for cluster, objects in sorted(clusters.items()):
        yield f"GPUs unknown of {plural(len(objects), 'object')} on {short_name(cluster)} ({_first(objects)})"


def _capacity_headlines(plan: Plan) -> Iterable[str]:
    """Yield a sentence per cluster whose evidence changes: what it loses or gains, or that its GPUs stay the same."""
    for change in plan.evidence_changes:
        lines = [line for line in plan.capacity if line.cluster == change.cluster and line.before != line.capacity]
        named = [line for line in lines if line.product] or lines
        delta = sum(line.capacity - line.before for line in named)
        listed = _first([f"{short_name(line.product or 'any')}: {arrow(line.before, line.capacity)}" for line in named])
        what = f"{_signed_gpus(delta)} of capacity" if named else "New evidence with the same GPUs"
        yield f"{what} on {short_name(change.cluster)}" + (f" ({listed})" if listed else "")


def _incomplete_headline(plan: Plan) -> Iterable[str]:
    """Yield a sentence about files with errors and jobs that wait: their changes are not in the plan."""
    files = len({problem.place.path for problem in plan.errors if problem.rule not in ABOUT_CHANGES})
    if not files and not plan.held_back:
        return
    cause = f"{plural(files, 'file')} with errors" if files else "jobs wait for a sizing answer"
    kept = f", {plural(len(plan.held_back), 'rendered file')} left unchanged" if plan.held_back else ""
    yield f"Incomplete plan: {cause}{kept}"


def headline(plan: Plan) -> str:
    """Return the headlines on one line."""
    return "; ".join(headlines(plan))


def commit_message(plan: Plan) -> str:
    """Return the message of the commit that applies the plan: the counts as its subject, then the headlines."""
    changed = ", ".join(text for operation, text in counts(plan) if operation is not None)
    return "\n".join((f"Render: {changed}", "", *headlines(plan)))


def _replacement_headlines(plan: Plan) -> Iterable[str]:
    made = [change for change in plan.changes if change.operation is Operation.REPLACE and not change.is_refused]
    for is_recreated, noun, how in (
        (False, "job", "replaced by a new generation"),
        (True, "object", "deleted and created again"),
    ):
        if changes := [change for change in made if bool(change.recreated) is is_recreated]:
            stopped = sum(change.gpus_before for change in changes)
            pods = f"; pods on {gpus(stopped)} stop and start again" if stopped else ""
            yield f"{plural(len(changes), noun)} {how}{pods}"
    if kept := sum(not spec.has_spare for spec in plan.kept_specs):
        yield f"{plural(kept, 'object')} {'keeps its' if kept == 1 else 'keep their'} current spec until deleted"


def _by_cluster(rows: Iterable[QueueRow]) -> dict[str, list[QueueRow]]:
    clusters: dict[str, list[QueueRow]] = defaultdict(list)
    for row in rows:
        clusters[row.cluster].append(row)
    return clusters


def _unit(lines: Iterable[GpuLine | QueueRow]) -> str:
    """Return what a sum counts: slices and other accelerators are devices, but no GPUs."""
    return "device" if any(is_slice(line.product) for line in lines) else "GPU"


def _signed_gpus(delta: float, unit: str = "GPU") -> str:
    return f"{signed(delta)} {unit}{'' if abs(delta) == 1 else 's'}"


def _request_headlines(rows: Sequence[QueueRow]) -> Iterable[str]:
    clusters = _by_cluster(row for row in joined_rows(rows) if row.delta)
    for cluster, members in sorted(clusters.items(), key=lambda item: -abs(sum(row.delta for row in item[1]))):
        delta = total(row.delta for row in members)
        unit = _unit(members)
        what = (
            f"{_signed_gpus(delta, unit)} requested"
            if delta
            else f"{unit[:1].upper()}{unit[1:]} requests move between queues"
        )
        yield f"{what} on {short_name(cluster)} ({_list_queues(members, _request)})"


def _request(row: QueueRow) -> str:
    quota = f", quota {number(row.guaranteed_after)}" if row.has_quota and row.exists_after else ""
    product = f" {short_name(row.product)}" if is_slice(row.product) else ""
    most = f" (may grow to {number(row.most)})" if row.most is not None else ""
    return (
        f"{short_name(row.queue) or 'no queue'}{product}: {row.requested_before} → {row.requested_after}{most}{quota}"
    )


def _growth_headlines(rows: Sequence[QueueRow]) -> Iterable[str]:
    """Yield a sentence per cluster where queues request the same, and may grow to something else."""
    still = (row for row in rows if not row.delta and row.largest[0] != row.largest[1])
    for cluster, members in sorted(_by_cluster(still).items()):
        most = [total(row.largest[side] for row in members) for side in (0, 1)]
        change = _signed_gpus(most[1] - most[0], _unit(members))
        yield f"{change} if all workloads grow on {short_name(cluster)} ({_first([_growth(row) for row in members])})"


def _growth(row: QueueRow) -> str:
    return f"{short_name(row.queue) or 'no queue'}: {row.requested_after}, may grow to {arrow(*row.largest)}"


def _quota_headlines(plan: Plan, rows: Sequence[QueueRow]) -> Iterable[str]:
    for cluster, members in _by_cluster(row for row in rows if row.quota_is_changed and not row.is_total).items():
        is_unlimited = any(row.quota_change == float("inf") for row in members)
        delta = sum_of_trees((line for line in plan.queues if line.cluster == cluster), guarantee_delta)
        if is_unlimited:
            what = "GPU quotas change to or from unlimited"
        elif delta:
            what = f"{_signed_gpus(delta)} of quota"
        else:
            what = "GPU quotas move between queues"
        yield f"{what} on {short_name(cluster)} ({_list_queues(members, _guarantee)})"


def _guarantee(row: QueueRow) -> str:
    return f"{short_name(row.queue)}: {number(row.guaranteed_before)} → {number(row.guaranteed_after)}"


def short_name(name: str) -> str:
    """Return a name for a sentence: printable, and cut in the middle if it is long."""
    return clip_middle(printable(name), _HEADLINE_NAME_CELLS)


def _list_queues(members: list[QueueRow], describe: Callable[[QueueRow], str]) -> str:
    ranked = sorted(members, key=lambda row: -max(abs(row.delta), row.quota_change))
    return _first([describe(row) for row in ranked])


def _first(items: list[str]) -> str:
    separator = "; " if any(", " in item for item in items[:_HEADLINE_ITEMS]) else ", "
    more = len(items) - _HEADLINE_ITEMS
    return separator.join(items if more <= 0 else [*items[:_HEADLINE_ITEMS], f"{more} more"])


def blockers(plan: Plan) -> tuple[str, ...]:
    """Return counts of what prevents a commit of this plan; empty if nothing does."""
    blocking = []
    if plan.errors:
        blocking.append(plural(len(plan.errors), "error"))
    if plan.denials:
        blocking.append(plural(len(plan.denials), "policy denial"))
    if plan.edited:
        blocking.append(edited_headline(plan))
    if plan.unapproved:
        blocking.append(f"{plural(len(plan.unapproved), 'budget')} exceeded")
    return tuple(blocking)


def edited_headline(plan: Plan) -> str:
    """Return a phrase about rendered files that are not what the sources render."""
    verb = "differs" if len(plan.edited) == 1 else "differ"
    return f"{plural(len(plan.edited), 'rendered file')} {verb} from what the sources render"


def settings_headline(plan: Plan) -> str:
    """Return `2 settings change, 1 of them weaker`."""
    weaker = sum(change.weakens for change in plan.settings)
    verb = "changes" if len(plan.settings) == 1 else "change"
    if not weaker:
        return f"{plural(len(plan.settings), 'setting')} {verb}"
    if len(plan.settings) == weaker:
        return f"{plural(weaker, 'setting')} {'becomes' if weaker == 1 else 'become'} weaker"
    return f"{plural(len(plan.settings), 'setting')} {verb}, {weaker} of them weaker"


def held_back_headline(plan: Plan) -> str:
    """Return a sentence about rendered files that the plan does not touch; a list of them follows."""
    count = plural(len(plan.held_back), "rendered file")
    return f"The source of {count} has errors or is waiting for a sizing answer:"


def approved_headline(plan: Plan) -> str:
    """Return a phrase about exceeded budgets that approvals allow."""
    return f"{plural(len(plan.breaches), 'budget')} exceeded (approved)"


def approvals_in_force(plan: Plan) -> tuple[Approval, ...]:
    """Return the approvals that let the plan exceed budgets."""
    return tuple(approval for approval in plan.approvals if plan.breaches and not approval.ignored)


def listed_counts(plan: Plan) -> tuple[str, ...]:
    """Return `2 warnings`, `3 notes` and `12 objects`, with those that a summary leaves out."""
    categories = (Category.PROBLEM, Category.VERDICT)
    levels = Counter(finding.level for finding in findings(plan) if finding.category in categories)
    return (
        *(plural(levels[level], str(level)) for level in (Level.WARNING, Level.NOTE) if levels[level]),
        *((plural(len(plan.changes), "object"),) if plan.changes else ()),
    )
