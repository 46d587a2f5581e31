"""Every metric of controller and agent, as data, and the values of a running process."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import prometheus_client as prometheus
from msgspec import Struct

from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.version import __version__

# Every metric of controller and agent, as data: dashboards, alerts and docs/reference/metrics.md follow it.


PREFIX = "reconciler_"

HEALTH_PREFIX = "gpuhealth_"


class MetricType(StrEnum):
    """The type of a metric, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(Struct, frozen=True, kw_only=True):
    """One metric. `labels` maps the name of a label to its values; only those of node health name objects."""

    name: str
    type: MetricType
    help: str
    labels: Mapping[str, str] = {}
    buckets: tuple[float, ...] = ()  # of a histogram, in seconds


_FAST = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

_SLOW = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 21600.0, 86400.0)

_RESULT = "`success` or `failure`"

_KIND = "`ConfigSource`"


_NODE = "the node"

_STATUS = {
    "check": "id of the check",
    "node": _NODE,
    "gpu_slot": "PCI bus id; empty: the node",
    "model": "the GPU product",
    "severity": "`app`, `info`, `degraded` or `fatal`",
}


_SOURCE = {"source": "the namespace and the name of the ConfigSource"}


def _metric(
    name: str, kind: MetricType, text: str, labels: Mapping[str, str] | None = None, buckets: tuple[float, ...] = ()
) -> Metric:
    return Metric(name=PREFIX + name, type=kind, help=text, labels=labels or {}, buckets=buckets)


METRICS = (
    _metric("build_info", MetricType.GAUGE, "Version of the controller; the value is 1.", {"version": "the version"}),
    _metric(
        "reconcile_duration_seconds",
        MetricType.HISTOGRAM,
        "Time that one pass over a source takes, from the fetch to the last write.",
        {"kind": _KIND, "result": "`success`, `failure` (retried) or `stalled` (waits for a change)"},
        _FAST,
    ),
    _metric(
        "reconcile_condition",
        MetricType.GAUGE,
        "Number of sources by condition and status. Suspended sources do not count.",
        {"type": "`Ready`, `Reconciling` or `Stalled`", "status": "`True`, `False` or `Unknown`"},
    ),
    _metric("suspend_status", MetricType.GAUGE, "Number of suspended sources.", {"kind": _KIND}),
    _metric(
        "plan_changes",
        MetricType.GAUGE,
        "Number of objects that the last plans change.",
        {"action": "`create`, `update`, `delete`, `move` or `replace`"},
    ),
    _metric(
        "policy_results",
        MetricType.GAUGE,
        "Number of verdicts in the last plans, by result; rules that passed do not count.",
        {"result": "`deny`, `warn`, `audit`, `error` or `excepted`"},
    ),
    _metric(
        "gpu_quota_delta",
        MetricType.GAUGE,
        "GPU quota that the last plans add to or remove from queues.",
        {"flavor": "the GPU product; empty: any", "direction": "`up` or `down`"},
    ),
    _metric(
        "deletion_budget_blocked_total",
        MetricType.COUNTER,
        "Number of passes that a deletion budget stopped.",
    ),
    _metric(
        "apply_operations_total",
        MetricType.COUNTER,
        "Number of objects applied.",
        {
            "action": "`created`, `configured`, `unchanged`, `deleted`, `skipped` or `unknown`",
            "result": _RESULT,
        },
    ),
    _metric("apply_duration_seconds", MetricType.HISTOGRAM, "Time that one apply takes.", {"result": _RESULT}, _FAST),
    _metric("drift_objects", MetricType.GAUGE, "Number of live objects that differ from what was applied."),
    _metric(
        "resource_fights_total",
        MetricType.COUNTER,
        "Number of fields that we stopped writing because somebody keeps changing them back.",
    ),
    _metric(
        "resource_conflicts_total",
        MetricType.COUNTER,
        "Number of writes that the API server refused because the object had changed.",
    ),
    _metric(
        "last_sync_timestamp_seconds",
        MetricType.GAUGE,
        "Unix time of the last successful pass over a source, or look that found nothing new; 0 before the first.",
        _SOURCE,
    ),
    _metric("interval_seconds", MetricType.GAUGE, "Interval of a source.", _SOURCE),
    _metric(
        "commit_to_applied_seconds",
        MetricType.HISTOGRAM,
        "Time from the commit of a change to the end of the pass that rendered or applied it.",
        {"mode": "`commit` or `apply`"},
        _SLOW,
    ),
    _metric(
        "git_request_total",
        MetricType.COUNTER,
        "Number of requests to Git servers.",
        {"type": "`ls-remote`, `fetch` or `push`", "result": _RESULT},
    ),
    _metric(
        "git_request_duration_seconds",
        MetricType.HISTOGRAM,
        "Time that requests to Git servers take.",
        {"type": "`ls-remote`, `fetch` or `push`"},
        _FAST,
    ),
    _metric(
        "commit_request_total",
        MetricType.COUNTER,
        "Number of commits to push, by result.",
        {"result": "`pushed`, `unchanged`, `stale` (the branch moved) or `rejected` (by the server)"},
    ),
    _metric(
        "webhook_request_total",
        MetricType.COUNTER,
        "Number of requests to the webhook endpoint.",
        {"provider": "`github`, `gitlab`, `gitea` or `unknown`", "result": "`accepted`, `ignored` or `refused`"},
    ),
    _metric("queue_depth", MetricType.GAUGE, "Number of sources that are due and wait for a worker."),
    _metric("leader", MetricType.GAUGE, "1 on the replica that works, 0 on a standby."),
    _metric(
        "status_write_total", MetricType.COUNTER, "Number of writes of the status of a source.", {"result": _RESULT}
    ),
    _metric(
        "spans_total",
        MetricType.COUNTER,
        "Number of trace spans.",
        {"result": "`exported` or `dropped` (the endpoint did not accept them in time)"},
    ),
)


_CLUSTER = {"cluster": "the cluster"}
_QUEUE = {**_CLUSTER, "queue": "the queue; empty: none"}


def _seed(name: str, kind: MetricType, text: str, buckets: tuple[float, ...] = ()) -> Metric:
    return Metric(name=f"agentaflow_{name}", type=kind, help=text, labels=_CLUSTER, buckets=buckets)


_WAITED = "Time from the creation of a workload with GPUs to its first running pod; each counts once."

SEED_METRICS = (
    _seed("gpu_total", MetricType.GAUGE, "Number of GPUs, from the evidence of nodes."),
    _seed("gpu_available", MetricType.GAUGE, "Number of healthy GPUs of open nodes that no workload holds."),
    _seed("gpu_utilization", MetricType.GAUGE, "Mean percent of the GPUs that were measured; others do not count."),
    _seed("workloads_pending", MetricType.GAUGE, "Number of workloads with GPUs that wait."),
    _seed("workloads_running", MetricType.GAUGE, "Number of workloads with GPUs whose pods run."),
    _seed("scheduling_duration", MetricType.HISTOGRAM, _WAITED, _SLOW),
    _seed("scheduling_duration_seconds", MetricType.HISTOGRAM, _WAITED, _SLOW),
)
"""Metrics by the names of AgentaFlow. Without fresh evidence a metric has no value."""

USE_METRICS = (
    *SEED_METRICS,
    _metric("gpus_held", MetricType.GAUGE, "Number of GPUs that workloads of a queue hold.", _QUEUE),
    _metric("gpus_wanted", MetricType.GAUGE, "Number of GPUs that workloads of a queue wait for.", _QUEUE),
    _metric(
        "longest_wait_seconds", MetricType.GAUGE, "Time that the oldest workload of a queue has been waiting.", _QUEUE
    ),
    _metric("gpus_idle", MetricType.GAUGE, "Number of held GPUs times the share of time below 5 %.", _QUEUE),
    _metric("gpu_quota", MetricType.GAUGE, "GPU quota of a queue; an unlimited one has no value.", _QUEUE),
    _metric(
        "gpu_cost_per_hour",
        MetricType.GAUGE,
        "Cost of the GPUs that a queue's workloads request, as plans say.",
        _QUEUE,
    ),
    _metric("gpu_idle_cost_per_hour", MetricType.GAUGE, "Cost of the GPUs of a queue while they did nothing.", _QUEUE),
)
"""Metrics of the use of GPUs, from evidence. Without fresh evidence a metric has no value."""


def _health(name: str, kind: MetricType, text: str, labels: Mapping[str, str] | None = None) -> Metric:
    return Metric(name=HEALTH_PREFIX + name, type=kind, help=text, labels=labels or {})


FLEET_METRICS = (
    _health(
        "nodes",
        MetricType.GAUGE,
        "Number of nodes by phase of their lifecycle and pool.",
        {"state": ", ".join(f"`{phase}`" for phase in HealthPhase), "pool": "the pool"},
    ),
    _health(
        "breaker_state",
        MetricType.GAUGE,
        "1 where the circuit breaker stops further quarantines, else 0.",
        {"limit": "`fleet`, or the check that began to fail on too many nodes"},
    ),
    _health(
        "report_age_seconds",
        MetricType.GAUGE,
        "Seconds since the measurement in the report of a node; the oldest, if nodes of several clusters share a name.",
        {"node": _NODE},
    ),
    _health(
        "job_hang_suspected",
        MetricType.GAUGE,
        "1 for a job that seems to hang.",
        {"job_namespace": "namespace of the job", "job_name": "the job"},
    ),
)
"""Metrics of the health of a fleet, which the controller exports."""

AGENT_METRICS = (
    _health("agent_info", MetricType.GAUGE, "Version of the agent; the value is 1.", {"version": "the version"}),
    _health(
        "check_status",
        MetricType.GAUGE,
        "Result of a check: 0 pass, 1 warn, 2 fail, 3 unknown. A check that does not apply has no value.",
        _STATUS,
    ),
    _health("agent_sweep_seconds", MetricType.GAUGE, "Time that the last sweep took."),
    _health("agent_sweep_overdue", MetricType.GAUGE, "1 while a sweep is stuck, else 0."),
    _health("agent_last_sweep_timestamp_seconds", MetricType.GAUGE, "Unix time of the last sweep."),
    _health(
        "agent_report_writes_total",
        MetricType.COUNTER,
        "Number of writes of the report of this node.",
        {"result": _RESULT},
    ),
    Metric(
        name="autopilot_health_checks",
        type=MetricType.GAUGE,
        help="Checks by the names of Autopilot: 1 failed or warned, 0 passed; GB/s for `pciebw`. Can be disabled.",
        labels={
            "health": ", ".join(f"`{name}`" for name in AUTOPILOT_CHECKS),
            "node": _NODE,
            "cpumodel": "model of the processor",
            "gpumodel": "the GPU product",
            "deviceid": "index of the GPU; empty: the node",
        },
    ),
)
"""Metrics of the agent of a node."""


def by_name() -> dict[str, Metric]:
    """Return all metrics by name; those of the controller itself without their prefix."""
    return {
        metric.name.removeprefix(PREFIX): metric for metric in (*METRICS, *USE_METRICS, *FLEET_METRICS, *AGENT_METRICS)
    }


class Metrics:
    """Counts, values and durations by metric, safe to use from any thread. An unknown name or label is a `KeyError`."""

    def __init__(self, catalogue: Sequence[Metric] = (*METRICS, *USE_METRICS, *FLEET_METRICS)) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        makers = {
            MetricType.COUNTER: prometheus.Counter,
            MetricType.GAUGE: prometheus.Gauge,
        }
        self._metrics: dict[str, Any] = {}
        for metric in catalogue:
            names = tuple(metric.labels)
            if metric.type is MetricType.HISTOGRAM:
                made: Any = prometheus.Histogram(
                    metric.name, metric.help, names, registry=self._registry, buckets=metric.buckets
                )
            else:
                made = makers[metric.type](metric.name, metric.help, names, registry=self._registry)
            self._metrics[metric.name.removeprefix(PREFIX)] = made
        for name in ("build_info", "gpuhealth_agent_info"):
            if name in self._metrics:
                self.set(name, 1, version=__version__)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._labelled(name, labels).inc(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        self._labelled(name, labels).observe(max(seconds, 0.0))

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._labelled(name, labels).set(value)

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """Set all values of a gauge by its label values, in the order of the catalogue; others are removed."""
        metric = self._metrics[name]
        metric.clear()
        for labels, value in values.items():
            metric.labels(*labels).set(value)

    def _labelled(self, name: str, labels: Mapping[str, str]) -> Any:
        metric = self._metrics[name]
        return metric.labels(**labels) if labels else metric

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and all metrics in the format that the header `Accept` asks for."""
        encode, content_type = prometheus.exposition.choose_encoder(accept)
        return content_type, encode(self._registry)
