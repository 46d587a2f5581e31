"""What passes and statuses mean for the metrics."""

from collections import Counter
from collections.abc import Sequence

from reconciler.controller.metrics import Metrics
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.sources.status import READY, RECONCILING, STALLED, SourceStatus, unix_time

_KIND = "ConfigSource"


def count_pass(metrics: Metrics, source: ConfigSource, outcome: PassOutcome, seconds: float, now: float) -> None:
    """Count one pass."""
    failed = outcome.failure
    result = "success" if failed is None else "stalled" if failed.stalled else "failure"
    metrics.observe("reconcile_duration_seconds", seconds, kind=_KIND, result=result)
    for span in outcome.spans:
        if span.name in ("fetch", "push"):
            metrics.count("git_request_total", type=span.name, result="failure" if span.error else "success")
            metrics.observe("git_request_duration_seconds", span.seconds, type=span.name)
        if span.name == "apply":
            metrics.observe("apply_duration_seconds", span.seconds, result="failure" if failed else "success")
    if outcome.push_result:
        metrics.count("commit_request_total", result=outcome.push_result)
    if outcome.plan and any(name.startswith("deletes.") for name in outcome.plan.breaches):
        metrics.count("deletion_budget_blocked_total")
    for name, count in outcome.operations.items():
        action, _, ending = name.partition(" ")
        metrics.count("apply_operations_total", count, action=action, result=ending)
    metrics.count("resource_conflicts_total", outcome.conflicts)
    if (outcome.pushed or _changed(outcome)) and outcome.committed_at:
        metrics.observe("commit_to_applied_seconds", now - unix_time(outcome.committed_at), mode=source.mode.value)


def _changed(outcome: PassOutcome) -> bool:
    """Whether a pass changed objects of a cluster, and all that it had to."""
    words = {name.partition(" ")[0] for name in outcome.operations}
    is_done = outcome.failure is None or outcome.failure.is_waiting
    return is_done and bool(words & {"created", "configured", "deleted"})


def set_gauges(metrics: Metrics, statuses: Sequence[SourceStatus], suspended: int) -> None:
    """Set the gauges about sources, from the statuses of those that are not suspended."""
    metrics.set("suspend_status", suspended, kind=_KIND)
    metrics.replace("reconcile_condition", count_conditions(statuses))
    changes: Counter[tuple[str, ...]] = Counter()
    results: Counter[tuple[str, ...]] = Counter()
    gpus: dict[tuple[str, ...], float] = {}
    for plan in (status.plan for status in statuses if status.plan):
        changes.update({(name,): count for name, count in plan.changes.items()})
        results.update({(name,): count for name, count in plan.results.items()})
        for product, delta in plan.gpus.items():
            label = (product, "up" if delta > 0 else "down")
            gpus[label] = gpus.get(label, 0.0) + abs(delta)
    metrics.replace("plan_changes", changes)
    metrics.replace("policy_results", results)
    metrics.replace("gpu_quota_delta", gpus)
    metrics.set("drift_objects", sum(status.plan.drift for status in statuses if status.plan))
    if statuses:
        metrics.set("last_sync_timestamp_seconds", min(unix_time(status.last_sync_time) for status in statuses))


def count_conditions(statuses: Sequence[SourceStatus]) -> dict[tuple[str, ...], float]:
    """Count sources by type and status of condition; all combinations are there, so that alerts see zeros."""
    kinds = (READY, RECONCILING, STALLED)
    counts: dict[tuple[str, ...], float] = {
        (kind, value): 0.0 for kind in kinds for value in ("True", "False", "Unknown")
    }
    for status in statuses:
        for kind in kinds:
            found = status.condition(kind)
            absent = "Unknown" if kind == READY else "False"
            counts[kind, found.status if found else absent] += 1
    return counts
