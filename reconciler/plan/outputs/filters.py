"""Filters of a page: they select what is listed. The plan, its digest and its totals stay those of all changes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.values import plural
from reconciler.plan import AdmissionLine, Change, Plan, Risk
from reconciler.plan.outputs.findings import Category, Finding, Level, finding_of, findings
from reconciler.policy.verdict import Verdict

FILTERS = {
    "cluster": "name of a cluster",
    "queue": "name of a queue: the queue, its jobs, and what is rendered for them",
    "team": "value of the label team, or a namespace",
    "severity": "error, warning or note; risks are warnings",
}
"""Every key of `--filter`, with the meaning of its value."""

Origin = TypeVar("Origin", Problem, Verdict, Risk)
Filters = Mapping[str, Collection[str]]
"""Wanted values by key. Equal keys are alternatives; all keys must match."""


class Filtered(Struct, frozen=True, kw_only=True):
    """The listed part of a plan. `queues` holds (cluster, queue) of the rows to list; None: all of them."""

    plan: Plan
    queues: frozenset[tuple[str, str]] | None = None
    note: str = ""  # what is hidden, for people


def parse_filters(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Parse `KEY=VALUE` words. Raises ValueError with the reason for any other word."""
    filters: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not value or key not in FILTERS:
            raise ValueError(f"{word!r} is not KEY=VALUE with one of the keys {', '.join(FILTERS)}")
        if key == "severity" and value not in list(Level):
            raise ValueError(f"{value!r} is not a severity; use {', '.join(Level)}")
        filters[key] = (*filters.get(key, ()), value)
    return filters


def apply_filters(plan: Plan, filters: Filters) -> Filtered:
    """Return the rows to list: changes, jobs, queues and findings that match.

    Findings about files, budgets and exceptions name no queue or team, so only a severity hides them.
    """
    if not filters:
        return Filtered(plan=plan)
    sources = _sources(plan, filters.get("queue", ()))
    changes = tuple(change for change in plan.changes if _matches(change, filters, sources))
    keys = {(change.cluster, change.key) for change in changes}
    others = {(change.cluster, change.key) for change in plan.changes} - keys

    def is_listed(cluster: str, key: ObjectKey, place: SourceRef | None) -> bool:
        if (cluster, key) in keys or (cluster, key) in others:
            return (cluster, key) in keys
        return _matches_object(cluster, key, place, filters, sources)

    shown = replace(
        plan,
        changes=changes,
        jobs=tuple(job for job in plan.jobs if (job.cluster, job.key) in keys),
        unknown_gpus=tuple(one for one in plan.unknown_gpus if (one.cluster, one.key) in keys),
        capacity=tuple(line for line in plan.capacity if _wanted(filters, "cluster", line.cluster)),
        claims=tuple(one for one in plan.claims if (one.cluster, one.key) in keys),
        admissions=tuple(one for one in plan.admissions if _is_asked(one, filters, keys)),
        costs=tuple(line for line in plan.costs if _wanted(filters, "cluster", line.cluster)),
        owners=tuple(line for line in plan.owners if _wanted(filters, "cluster", line.cluster)),
        commitments=tuple(line for line in plan.commitments if _wanted(filters, "cluster", line.cluster)),
        idle=tuple(line for line in plan.idle if _wanted(filters, "cluster", line.cluster)),
        evidence_changes=tuple(one for one in plan.evidence_changes if _wanted(filters, "cluster", one.cluster)),
        quarantines=tuple(one for one in plan.quarantines if _wanted(filters, "cluster", one.cluster)),
        health_policies=tuple(one for one in plan.health_policies if _wanted(filters, "cluster", one.cluster)),
        risks=tuple(risk for risk in plan.risks if is_listed(risk.cluster, risk.key, risk.place)),
        verdicts=tuple(one for one in plan.verdicts if is_listed(one.cluster, one.key, one.place)),
    )
    if "severity" in filters:
        shown = _with_severity(shown, set(filters["severity"]))
    names = {(change.cluster, change.queue) for change in changes}
    queues = frozenset(names if set(filters) & {"queue", "team"} else _queues_of(plan, filters))
    return Filtered(plan=shown, queues=queues, note=_note(plan, shown, filters))


def _is_asked(line: AdmissionLine, filters: Filters, keys: Collection[tuple[str, ObjectKey]]) -> bool:
    """Return whether a workload is listed: one that changes with its change, another one with its queue."""
    return (line.cluster, line.key) in keys or (
        _wanted(filters, "cluster", line.cluster)
        and _wanted(filters, "queue", line.queue)
        and _wanted(filters, "team", line.key.namespace)
    )


def _wanted(filters: Filters, key: str, *values: str) -> bool:
    return key not in filters or not set(filters[key]).isdisjoint(values)


def _sources(plan: Plan, queues: Collection[str]) -> frozenset[str]:
    """Return the source files of the jobs in these queues: their claims and services belong to them."""
    return frozenset(change.source.path for change in plan.changes if change.queue in queues and change.source)


def _matches(change: Change, filters: Filters, sources: Collection[str]) -> bool:
    is_in_queue = change.source is not None and change.source.path in sources
    left = [cluster for cluster in filters.get("cluster", ()) if f"/{cluster}/" in change.moved_from]
    return (
        (is_in_queue or _wanted(filters, "queue", change.queue))
        and _wanted(filters, "cluster", change.cluster, *left)
        and _wanted(filters, "team", change.team, change.key.namespace)
    )


def _matches_object(
    cluster: str, key: ObjectKey, place: SourceRef | None, filters: Filters, sources: Collection[str]
) -> bool:
    """Return whether an object that does not change matches."""
    in_queue = _wanted(filters, "queue", key.name) or (place is not None and place.path in sources)
    return in_queue and _wanted(filters, "cluster", cluster) and _wanted(filters, "team", key.namespace)


def _queues_of(plan: Plan, filters: Filters) -> set[tuple[str, str]]:
    lines: tuple[Any, ...] = (*plan.gpus, *plan.queues)
    return {(line.cluster, line.queue) for line in lines if _wanted(filters, "cluster", line.cluster)}


def _with_severity(plan: Plan, levels: Collection[str]) -> Plan:
    """Leave out problems, verdicts and risks of other levels."""

    def keep(members: tuple[Origin, ...]) -> tuple[Origin, ...]:
        return tuple(one for one in members if finding_of(one).level.value in levels)

    return replace(plan, problems=keep(plan.problems), verdicts=keep(plan.verdicts), risks=keep(plan.risks))


def _note(plan: Plan, shown: Plan, filters: Filters) -> str:
    changes = len(plan.changes) - len(shown.changes)
    hidden = len(_listed(plan)) - len(_listed(shown))
    parts = [plural(changes, "other change")] if changes else []
    parts += [plural(hidden, "finding")] if hidden else []
    words = ", ".join(f"{key}={value}" for key in FILTERS for value in filters.get(key, ()))
    verb = "is" if changes + hidden == 1 else "are"
    return f"Filter {words}: {' and '.join(parts)} {verb} hidden" if parts else f"Filter {words}: nothing is hidden"


def _listed(plan: Plan) -> list[Finding]:
    categories = (Category.PROBLEM, Category.VERDICT, Category.EXCEPTED, Category.RISK)
    return [finding for finding in findings(plan) if finding.category in categories]
