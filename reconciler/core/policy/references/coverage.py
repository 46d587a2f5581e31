"""Workloads that request a resource that their ClusterQueue does not cover: Kueue never admits them."""

from collections.abc import Sequence

from reconciler.core.devices import is_gpu
from reconciler.core.kinds.own import CONFIG
from reconciler.core.objects import ObjectKey
from reconciler.core.policy.references.rules import Evaluation
from reconciler.core.policy.verdict import Result
from reconciler.core.queues import QueueUsage
from reconciler.core.summary import ObjectSummary
from reconciler.core.values import enumerated

_RULE = "quota.not-covered"
_PREFIXES = "excludeResourcePrefixes"
"""Parameter of the rule with the name of the field in Kueue's configuration, which no repository has."""


def check_coverage(evaluation: Evaluation, rows: Sequence[ObjectSummary], usage: QueueUsage) -> None:
    """Check workloads in queues by flavor. GPUs that pods request themselves are for `quota.queue-limit`."""
    prefixes = _excluded(evaluation)
    if prefixes is None:
        return
    for row in rows:
        if row.finished or (not row.requests and row.namespace not in usage.limit_ranges):
            continue
        queue = usage.queue_of(row)
        if not row.is_workload or not usage.is_flavored(queue):
            continue
        covered = usage.queues[queue].resources
        requested = {name for name in row.requests if not is_gpu(name)}
        given = _given(row, usage) - {*row.requests}
        missing = sorted(name for name in requested | given if name not in covered and not name.startswith(prefixes))
        if missing:
            _report(evaluation, row, queue.name, missing, given)


def _given(row: ObjectSummary, usage: QueueUsage) -> set[str]:
    """Return what containers of a workload request because a LimitRange says so."""
    return set() if row.stated is None else {*usage.limit_ranges.get(row.namespace, ())} - {*row.stated}


def _report(evaluation: Evaluation, row: ObjectSummary, queue: str, missing: Sequence[str], given: set[str]) -> None:
    by_default = [name for name in missing if name in given]
    message = f"requests {enumerated(missing)}, but ClusterQueue {queue} does not cover {_them(missing)}"
    if by_default:
        message += f" (a LimitRange of namespace {row.namespace} sets {enumerated(by_default)})"
    hint = f"add {_them(missing)} to coveredResources of a resource group, with a quota in each flavor, or use another"
    hint += f" queue; if Kueue's configuration excludes {_them(missing)} or replaces {_them(missing)} by other"
    hint += f" resources, add {_them(missing)} to spec.rules.{_RULE}.parameters.{_PREFIXES}"
    evaluation.report(_RULE, row, message, hint=hint, field=row.references[0].field)


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _excluded(evaluation: Evaluation) -> tuple[str, ...] | None:
    """Return the prefixes of resources that Kueue does not count; None if the rule is disabled, or they are wrong."""
    if not evaluation.is_enabled(_RULE):
        return None
    setting = evaluation.settings.get(_RULE)
    if setting is None:
        return ()
    prefixes = setting.parameters.get(_PREFIXES, ())
    if isinstance(prefixes, list | tuple) and all(isinstance(prefix, str) and prefix for prefix in prefixes):
        return tuple(prefixes)
    evaluation.report_object(
        _RULE,
        ObjectKey(group=CONFIG[0], kind=CONFIG[1], namespace="", name=evaluation.cluster.name),
        setting.place,
        f"cannot be evaluated: its parameter {_PREFIXES} is not a list of prefixes",
        hint=f"write {_PREFIXES}: [cpu, memory], as in the configuration of Kueue",
        field=f"spec.rules.{_RULE}.parameters",
        result=Result.ERROR,
    )
    return None
