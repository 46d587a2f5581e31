"""Forecast of the workloads of a plan in their queues: which start, which wait and for what, and whom they displace.

The queues of the head are forecast with what runs and waits by the evidence of use; those of the base as well, so that
only what the change does is told. A workload that is resized gives its quota back, and waits again as the newest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import QueueTerms
from reconciler.kube.objects import ObjectKey
from reconciler.kube.times import unix_time
from reconciler.placement.jobs import TAS
from reconciler.plan.admissions_kai import (
    NEVER,
    OVER,
    PREEMPTED,
    PREEMPTS,
    STARTS,
    UNKNOWN,
    WAITS,
    asks,
    displaced,
    frees,
    kai_lines,
    why_old,
)
from reconciler.plan.edits import Edit
from reconciler.plan.inputs import Inputs, UsageEvidence
from reconciler.plan.plan import AdmissionLine, Displaced, PlacementLine
from reconciler.queues.admission import KueueAdmission
from reconciler.queues.flavors import Version
from reconciler.queues.forecast.gather import Gatherer, fair_sharing, name_of, specs, used
from reconciler.queues.forecast.kueue import forecast
from reconciler.queues.forecast.values import ForecastOutcome, QueuedWorkload, written
from reconciler.queues.queues import QueueUsage
from reconciler.repo.evidence.usage import UsedWorkload
from reconciler.sizing.inventory import Inventory

_EMPTY = QueueUsage()
_MOST_REASONS = 2
_MOST_OTHERS = 50  # workloads that a plan does not change, of one cluster


class _ForecastCluster(Struct, frozen=True, kw_only=True):
    """One cluster: its queues before and after, and its workloads in both, by name; or why nothing can be told."""

    name: str
    evidence: UsageEvidence
    before: QueueUsage
    after: QueueUsage
    changed: Sequence[Edit]
    rows: Mapping[str, ObjectSummary]
    inventory: Inventory | None
    unknown: str


class _SideForecast(Struct, frozen=True, kw_only=True):
    """The workloads of a side with what happens to them."""

    workloads: Mapping[str, QueuedWorkload]
    outcome: ForecastOutcome


def admission_lines(
    inputs: Inputs, edits: Iterable[Edit], before: Mapping[str, QueueUsage], after: Mapping[str, QueueUsage]
) -> tuple[AdmissionLine, ...]:
    """Return a line for each workload that changes, or whose queue lets it start or takes its quota by the change."""
    by_cluster: dict[str, list[Edit]] = {}
    for edit in edits:
        by_cluster.setdefault(edit.change.cluster, []).append(edit)
    lines: list[AdmissionLine] = []
    for name, evidence in sorted(inputs.usage.items()):
        if name not in by_cluster:
            continue
        cluster = _ForecastCluster(
            name=name,
            evidence=evidence,
            before=before.get(name, _EMPTY),
            after=after.get(name, _EMPTY),
            changed=by_cluster[name],
            rows=_waiting_rows(inputs, name, evidence),
            inventory=inputs.inventories.get(name),
            unknown=why_old(inputs, evidence),
        )
        lines += _lines(cluster)
        lines += kai_lines(inputs, evidence, cluster.changed, cluster.after)
    return tuple(lines)


def _waiting_rows(inputs: Inputs, cluster: str, evidence: UsageEvidence) -> dict[str, ObjectSummary]:
    """Return the waiting workloads that the repository has, which say what flavors take their pods."""
    waiting = {one.key for one in evidence.found.workloads if not one.admitted_at}
    if not waiting:
        return {}
    rows = (row for row in inputs.common.rows() if row.cluster == cluster and row.is_workload and row.key in waiting)
    return {name_of(row.key): row for row in rows}


def _lines(cluster: _ForecastCluster) -> Iterator[AdmissionLine]:
    asking = {name_of(edit.change.key): edit for edit in cluster.changed if asks(edit)}
    if cluster.unknown:
        for edit in asking.values():
            if edit.row_after is not None and _queue_terms(cluster.after, edit.row_after) is not None:
                yield _line(cluster, edit.change.key, edit.row_after, UNKNOWN, cluster.unknown)
        return
    after = _forecast(cluster, cluster.after, asking)
    known = {name_of(one.key): one for one in cluster.evidence.found.workloads}
    admission = KueueAdmission(cluster.after, cluster.inventory, cluster.evidence.kueue)
    for name, edit in sorted(asking.items()):
        row = edit.row_after
        if row is not None and (name in after.workloads or row.pod_sets):
            line = _decided(cluster, after, known, admission, row)
            if line is not None:
                yield _by_usage(cluster, line, row)
    queues_change = any(edit.row_after or edit.row_before for edit in cluster.changed)
    if queues_change:
        yield from _others(cluster, _forecast(cluster, cluster.before, {}), after, known, asking)
    yield from _over(cluster, after)


def _forecast(cluster: _ForecastCluster, usage: QueueUsage, asking: Mapping[str, Edit]) -> _SideForecast:
    """Forecast the queues of a side; without what the plan deletes or resizes, if it is that of the head."""
    version: Version = cluster.evidence.kueue
    gatherer = Gatherer(usage, version)
    is_head = usage is cluster.after
    gone = {name_of(edit.row_before.key) for edit in cluster.changed if edit.row_before is not None and frees(edit)}
    found: dict[str, QueuedWorkload] = {}
    for one, asked in used(cluster.evidence.found, usage):
        name = name_of(one.key)
        if is_head and (name in gone or (name in asking and asked.running is None)):
            continue
        if asked.running is None and name in cluster.rows:
            copies = gatherer.asked(cluster.rows[name], name, asked.created)
            found |= {each.name: each for each in copies}
        else:
            found[asked.name] = asked
    now = unix_time(cluster.evidence.found.observed_at)
    for number, (name, edit) in enumerate(sorted(asking.items())):
        if edit.row_after is not None and name not in found:
            found |= {one.name: one for one in gatherer.asked(edit.row_after, name, now + 1 + number)}
    return _SideForecast(workloads=found, outcome=forecast(*specs(usage), found.values(), version, fair_sharing(usage)))


def _decided(
    cluster: _ForecastCluster,
    after: _SideForecast,
    known: Mapping[str, UsedWorkload],
    admission: KueueAdmission,
    row: ObjectSummary,
) -> AdmissionLine | None:
    """Return what happens to a workload that the plan changes; None if its queue is not one of Kueue's."""
    name = name_of(row.key)
    for answer in admission.answers(row):
        if answer.is_known:
            return _line(cluster, row.key, row, NEVER, answer.message)
    asked = after.workloads.get(name)
    if asked is None:
        return None
    if asked.running is not None and name not in after.outcome.preempted:
        return _line(cluster, row.key, row, STARTS, "it runs already")
    copies = [one for one in after.workloads if one == name or one.startswith(f"{name}#")]
    waiting = [one for one in copies if one not in after.outcome.admitted]
    if waiting:
        return _waiting(cluster, after, row, after.workloads[waiting[0]], (len(copies), len(waiting)))
    admitted = after.outcome.admitted[name]
    flavors = tuple(sorted({flavor for pods in admitted.flavors for flavor in pods.values()}))
    displaces = _displaced(cluster, after, known, set(copies))
    asked_pods = sum(pods.pods for pods in asked.sets)
    pods = sum(admitted.counts)
    reason = "borrows from its cohort" if admitted.borrows else ""
    terms = _queue_terms(cluster.after, row)
    if terms is not None and terms.checks:
        reason = f"{reason}; " * bool(reason) + "once the admission checks of its queue are ready"
    return _line(
        cluster,
        row.key,
        row,
        PREEMPTS if displaces else STARTS,
        reason,
        flavors=flavors,
        pods=pods if pods < asked_pods else None,
        displaces=displaces,
    )


def _by_usage(cluster: _ForecastCluster, line: AdmissionLine, row: ObjectSummary) -> AdmissionLine:
    """Return that it is unknown, where the past usage of LocalQueues decides who of several that wait comes first."""
    terms = _queue_terms(cluster.after, row)
    is_alone = not any(
        one.cluster_queue == line.queue and not one.admitted_at and one.key != line.key
        for one in cluster.evidence.found.workloads
    )
    if terms is None or not terms.policies.by_usage or is_alone or line.verdict == NEVER:
        return line
    reason = f"others wait in {line.queue}, and their order follows from past usage, which no evidence has"
    return _line(cluster, line.key, row, UNKNOWN, reason)


def with_topology(lines: Iterable[AdmissionLine], placement: Iterable[PlacementLine]) -> tuple[AdmissionLine, ...]:
    """Return the lines with what Kueue's topologies add: without room in a domain, a workload with quota waits."""
    placed = {
        (line.cluster, one.key): one
        for line in placement
        for one in line.workloads
        if one.guaranteed_by == TAS and one.word != STARTS
    }
    found = []
    for line in lines:
        one = placed.get((line.cluster, line.key)) if line.verdict == STARTS else None
        if one is not None:
            reason = f"for room in a domain of its topology: {one.why}" if one.word == WAITS else one.why
            line = replace(line, verdict=one.word, reason=reason, flavors=(), pods=None)  # noqa: PLW2901
        found.append(line)
    return tuple(found)


def _waiting(
    cluster: _ForecastCluster, after: _SideForecast, row: ObjectSummary, one: QueuedWorkload, copies: tuple[int, int]
) -> AdmissionLine:
    """Describe why a workload waits: what it lacks, and behind whom."""
    reasons = after.outcome.reasons.get(one.name, ())
    texts = list(dict.fromkeys(reason.text for reason in reasons))
    if reasons and all(reason.is_final for reason in reasons):
        return _line(cluster, row.key, row, NEVER, "; ".join(texts[:_MOST_REASONS]))
    others = (after.workloads[other] for other in after.outcome.reasons if other in after.workloads)
    ahead = sorted((other for other in others if other.queue == one.queue), key=lambda other: other.order)
    ahead = [other for other in ahead if other.order < one.order]
    words = f"for {' or '.join(texts[:_MOST_REASONS])}" if texts else "for its turn"
    if ahead:
        namespace, _, name = ahead[0].name.split("/")
        words += f", behind {namespace}/{name}" + (f" and {len(ahead) - 1} more" if len(ahead) > 1 else "")
    total, waiting = copies
    if total > 1:
        words = f"{waiting} of {total}: {words}"
    waits = next((each for each in cluster.evidence.found.waits if each.queue in (row.queue, one.queue)), None)
    line = _line(cluster, row.key, row, WAITS, words)
    if waits is None or not waits.samples:
        return line
    band = round(waits.p50_seconds), round(waits.p90_seconds)
    return replace(line, wait_seconds=band, wait_samples=waits.samples, wait_window=waits.window)


def _displaced(
    cluster: _ForecastCluster, after: _SideForecast, known: Mapping[str, UsedWorkload], names: set[str]
) -> tuple[Displaced, ...]:
    """Return the running workloads that others preempt."""
    return tuple(
        displaced(cluster.evidence, known[name], after.workloads[name].queue, preempted.reason)
        for name, preempted in sorted(after.outcome.preempted.items())
        if preempted.by in names and name in known
    )


def _others(
    cluster: _ForecastCluster,
    before: _SideForecast,
    after: _SideForecast,
    known: Mapping[str, UsedWorkload],
    asking: Mapping[str, Edit],
) -> Iterator[AdmissionLine]:
    """Yield the workloads that the plan does not change, and that start or stop or wait because of it."""
    lines = []
    for name, one in sorted(known.items()):
        if name in asking or name not in after.workloads or name not in before.workloads:
            continue
        queue = after.workloads[name].queue
        old, new = before.outcome, after.outcome
        if name in new.preempted and name not in old.preempted and new.preempted[name].by not in asking:
            by = new.preempted[name].by.rpartition("/")[2]
            lines.append(_other(cluster, one, queue, PREEMPTED, f"by {by} ({new.preempted[name].reason})"))
        elif before.workloads[name].running is None and (name in old.admitted) is not (name in new.admitted):
            if name in new.admitted:
                lines.append(_other(cluster, one, queue, STARTS, "it waits now"))
            else:
                texts = [reason.text for reason in new.reasons.get(name, ())][:_MOST_REASONS]
                words = f"for {' or '.join(texts)}" if texts else "for its turn"
                lines.append(_other(cluster, one, queue, WAITS, f"{words}; it would start without this change"))
    yield from lines[:_MOST_OTHERS]


def _over(cluster: _ForecastCluster, after: _SideForecast) -> Iterator[AdmissionLine]:
    """Yield the queues of which the plan takes quota that is in use: what runs in them keeps running."""
    changed = {edit.change.key for edit in cluster.changed}
    for key, row in sorted(cluster.after.queues.items()):
        over = after.outcome.over.get(key.name)
        if not over or row.key not in changed or not cluster.after.is_flavored(key):
            continue
        words = ", ".join(f"{written(name, amount)} {name} of {flavor}" for (flavor, name), amount in over.items())
        reason = f"uses {words} beyond what it may: what runs keeps running, and nothing new starts until it is free"
        yield _line(cluster, row.key, row, OVER, reason, queue=key.name)


def _other(cluster: _ForecastCluster, one: UsedWorkload, queue: str, verdict: str, reason: str) -> AdmissionLine:
    return _line(cluster, one.key, None, verdict, reason, queue=queue)


def _line(
    cluster: _ForecastCluster,
    key: ObjectKey,
    row: ObjectSummary | None,
    verdict: str,
    reason: str,
    *,
    queue: str = "",
    flavors: tuple[str, ...] = (),
    pods: int | None = None,
    displaces: tuple[Displaced, ...] = (),
) -> AdmissionLine:
    name = queue or (cluster.after.queue_of(row).name if row is not None else "")
    found = next((one for at, one in cluster.after.queues.items() if at.name == name), None)
    return AdmissionLine(
        cluster=cluster.name,
        key=key,
        queue=name,
        verdict=verdict,
        reason=reason,
        cohort=found.parent if found is not None else "",
        flavors=flavors,
        pods=pods,
        displaces=displaces,
        observed_at=cluster.evidence.found.observed_at,
        evidence_days=cluster.evidence.days,
        source=row.place if row is not None else None,
    )


def _queue_terms(usage: QueueUsage, row: ObjectSummary) -> QueueTerms | None:
    found = usage.queues.get(usage.queue_of(row))
    return found.terms if found is not None and isinstance(found.terms, QueueTerms) else None
