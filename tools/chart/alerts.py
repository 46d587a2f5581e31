"""Alerts about the controller: the groups of a `PrometheusRule`. They name metrics of the catalogue only."""

from typing import Any

from tools.chart.queries import metric

_RUNBOOK = "See the section on alerts in docs/installation.md."


def groups() -> dict[str, Any]:
    """Return the body of a rule file."""
    return {"groups": [{"name": "reconciler", "rules": _rules()}, {"name": "gpu-use", "rules": _about_use()}]}


def _rules() -> list[dict[str, Any]]:
    return [*_about_replicas(), *_about_sources(), *_about_objects(), *_about_git()]


def _about_replicas() -> list[dict[str, Any]]:
    return [
        rule(
            "ReconcilerAbsent",
            f"absent({metric('build_info')})",
            wait="10m",
            severity="critical",
            summary="No replica of the controller exports metrics",
            description="Sources are neither observed nor applied while no replica runs.",
        ),
        rule(
            "ReconcilerNoLeader",
            f"sum by (namespace) ({metric('leader')}) == 0",
            wait="5m",
            severity="critical",
            summary="No replica in {{ $labels.namespace }} leads",
            description="Replicas run, but none holds the Lease. Check their access to leases and the API server.",
        ),
    ]


def _about_sources() -> list[dict[str, Any]]:
    condition, sync = metric("reconcile_condition"), metric("last_sync_timestamp_seconds")
    return [
        rule(
            "ReconcilerSourceNotReady",
            f'sum by (namespace) ({condition}{{type="Ready",status="False"}}) > 0',
            wait="15m",
            severity="warning",
            summary="Sources not ready: {{ $value }}",
            description="`kubectl get configsources -A` shows them with the reason.",
        ),
        rule(
            "ReconcilerSourceStalled",
            f'sum by (namespace) ({condition}{{type="Stalled",status="True"}}) > 0',
            wait="5m",
            severity="warning",
            summary="Sources stalled: {{ $value }}",
            description="Retries at the interval fail until their spec, their credentials or their repository changes.",
        ),
        rule(
            "ReconcilerSyncStale",
            f"time() - max by (namespace, source) ({sync} > 0)"
            f" > clamp_min(3 * max by (namespace, source) ({metric('interval_seconds')}), 3600)",
            wait="5m",
            severity="warning",
            summary="{{ $labels.source }} has not been synced for {{ $value | humanizeDuration }}",
            description="No pass over this source has succeeded for an hour, or for three of its intervals if they are"
            " longer.",
        ),
        rule(
            "ReconcilerDeletionBlocked",
            f"sum by (namespace) (increase({metric('deletion_budget_blocked_total')}[1h])) > 0",
            wait="0m",
            severity="warning",
            summary="A deletion budget stopped a source",
            description="The plan deletes more than its budget allows. Approve it with `reconciler approve`, or restore"
            " what is missing in Git.",
        ),
    ]


def _about_objects() -> list[dict[str, Any]]:
    return [
        rule(
            "ReconcilerFight",
            f"sum by (namespace) (increase({metric('resource_fights_total')}[30m])) > 0",
            wait="0m",
            severity="warning",
            summary="Another controller changes objects back",
            description="The Ready condition of the source names the objects and the other field manager.",
        ),
        rule(
            "ReconcilerApplyFailing",
            f'sum by (namespace) (increase({metric("apply_operations_total")}{{result="failure"}}[15m])) > 0',
            wait="15m",
            severity="warning",
            summary="Objects not applied within 15 minutes: {{ $value | humanize }}",
            description="Events of the source list the objects with the answer of the API server.",
        ),
        rule(
            "ReconcilerDrift",
            f"sum by (namespace) ({metric('drift_objects')}) > 0",
            wait="1h",
            severity="info",
            summary="Live objects that differ from Git: {{ $value }}",
            description="`reconciler plan --live` shows them with the field manager that changed them.",
        ),
    ]


def _about_git() -> list[dict[str, Any]]:
    return [
        rule(
            "ReconcilerGitFailing",
            f'sum by (namespace, type) (rate({metric("git_request_total")}{{result="failure"}}[15m]))'
            f" / sum by (namespace, type) (rate({metric('git_request_total')}[15m])) > 0.5",
            wait="15m",
            severity="warning",
            summary="More than half of all {{ $labels.type }} requests to Git servers fail",
            description="Check the server, the credentials and the network policy.",
        ),
    ]


_QUEUE = "namespace, cluster, queue"


def _about_use() -> list[dict[str, Any]]:
    """Return alerts about what the evidence of use says. They are quiet where it is stale: the metrics are absent."""
    held, wanted, idle = (_by_queue(name) for name in ("gpus_held", "gpus_wanted", "gpus_idle"))
    idle_cost, cost = (f"sum by (namespace, cluster) ({metric(name)})" for name in _COSTS)
    return [
        rule(
            "ReconcilerGPUsIdle",
            f"{idle} / {held} > 0.5",
            wait="1h",
            severity="info",
            summary=_WHERE + ": {{ $value | humanizePercentage }} of its GPUs do nothing",
            description="`reconciler report efficiency --by job` names the jobs and the edits that free their GPUs.",
        ),
        rule(
            "ReconcilerWorkloadsWait",
            f"max by ({_QUEUE}) ({metric('longest_wait_seconds')}) > 14400",
            wait="10m",
            severity="warning",
            summary=_WHERE + ": a workload waits since {{ $value | humanizeDuration }}",
            description="`reconciler report queues` and `reconciler status` say what it waits for.",
        ),
        rule(
            "ReconcilerQuotaExhausted",
            f"{held} >= {_by_queue('gpu_quota')} and {wanted} > 0",
            wait="1h",
            severity="info",
            summary=_WHERE + ": its quota of {{ $value }} GPUs is used up, and workloads wait",
            description="Raise the quota in Git, or free GPUs that do nothing.",
        ),
        rule(
            "ReconcilerIdleCost",
            f"{idle_cost} / {cost} > 0.3",
            wait="2h",
            severity="info",
            summary="{{ $labels.cluster }}: {{ $value | humanizePercentage }} of the cost of GPUs is for idle ones",
            description="`reconciler report cost` shows whose.",
        ),
    ]


_WHERE = "{{ $labels.queue }} in {{ $labels.cluster }}"
_COSTS = ("gpu_idle_cost_per_hour", "gpu_cost_per_hour")


def _by_queue(name: str) -> str:
    return f"sum by ({_QUEUE}) ({metric(name)})"


def rule(
    name: str, expr: str, *, wait: str, severity: str, summary: str, description: str, runbook: str = _RUNBOOK
) -> dict[str, Any]:
    """Return one alert."""
    return {
        "alert": name,
        "expr": expr,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": f"{description} {runbook}"},
    }
