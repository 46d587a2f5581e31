"""The Grafana dashboard of the controller, from a table of panels. It queries metrics of the catalogue only."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tools.chart.queries import buckets, metric, process

_SELECT = 'namespace=~"$namespace"'
_WIDTH, _COLUMNS, _HEIGHT = 8, 3, 8
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """One panel: its queries with their legends, and a unit of Grafana."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    type: str = "timeseries"
    description: str = ""


Sections = tuple[tuple[str, tuple[Panel, ...]], ...]
"""Panels by the title of their row."""


def dashboard() -> dict[str, Any]:
    """Return the JSON model of the controller."""
    return model("gpu-reconciler", "gpu-reconciler", _sections(), [datasource(), _namespaces()])


def model(uid: str, title: str, sections: Sections, variables: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON model of a dashboard."""
    return {
        "uid": uid,
        "title": title,
        "tags": ["gitops", "gpu"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables},
        "panels": list(_placed(sections)),
    }


def _sections() -> Sections:
    return (
        ("Sources", _sources()),
        ("Changes", _changes()),
        ("GPUs", _use()),
        ("Git", _git()),
        ("Controller", _controller()),
    )


def _sources() -> tuple[Panel, ...]:
    condition = metric("reconcile_condition")
    sync = metric("last_sync_timestamp_seconds")
    return (
        Panel("Ready", ((f'sum by (status) ({condition}{{{_SELECT},type="Ready"}})', "{{status}}"),)),
        Panel(
            "Stalled and suspended",
            (
                (f'sum({condition}{{{_SELECT},type="Stalled",status="True"}})', "stalled"),
                (f"sum({metric('suspend_status')}{{{_SELECT}}})", "suspended"),
            ),
        ),
        Panel(
            "Age of the oldest sync",
            ((f"time() - min({sync}{{{_SELECT}}} > 0)", "age"),),
            unit="s",
            description="Time since the last successful pass of the source that waits longest for one.",
        ),
        Panel("Duration of a pass", _quantiles("reconcile_duration_seconds"), unit="s"),
        Panel(
            "Passes",
            ((_per_second("reconcile_duration_seconds", "result", count=True), "{{result}}"),),
            "ops",
        ),
        Panel("Commit to applied", _quantiles("commit_to_applied_seconds"), unit="s"),
    )


def _changes() -> tuple[Panel, ...]:
    return (
        Panel("Planned changes", ((f"sum by (action) ({metric('plan_changes')}{{{_SELECT}}})", "{{action}}"),)),
        Panel(
            "Planned quota",
            ((f"sum by (flavor, direction) ({metric('gpu_quota_delta')}{{{_SELECT}}})", "{{flavor}} {{direction}}"),),
            description="GPU quota that the last plans add to or remove from queues.",
        ),
        Panel(
            "Policy results",
            ((f"sum by (result) ({metric('policy_results')}{{{_SELECT}}})", "{{result}}"),),
        ),
        Panel("Applied objects", ((_per_second("apply_operations_total", "action"), "{{action}}"),), "ops"),
        Panel("Duration of an apply", _quantiles("apply_duration_seconds"), unit="s"),
        Panel(
            "Drift, fights, conflicts",
            (
                (f"sum({metric('drift_objects')}{{{_SELECT}}})", "drift"),
                (f"sum(increase({metric('resource_fights_total')}{{{_SELECT}}}[15m]))", "fights"),
                (f"sum(increase({metric('resource_conflicts_total')}{{{_SELECT}}}[15m]))", "conflicts"),
                (f"sum(increase({metric('deletion_budget_blocked_total')}{{{_SELECT}}}[15m]))", "blocked deletions"),
            ),
        ),
    )


def _git() -> tuple[Panel, ...]:
    return (
        Panel("Requests", ((_per_second("git_request_total", "type, result"), "{{type}} {{result}}"),), "reqps"),
        Panel("Duration of a request", _quantiles("git_request_duration_seconds"), unit="s"),
        Panel("Pushed commits", ((_per_second("commit_request_total", "result"), "{{result}}"),), "ops"),
        Panel(
            "Webhooks",
            ((_per_second("webhook_request_total", "provider, result"), "{{provider}} {{result}}"),),
            "reqps",
        ),
    )


def _use() -> tuple[Panel, ...]:
    """Return panels of the evidence of use; what is stale is absent."""

    def by_queue(name: str) -> str:
        return f"sum by (cluster, queue) ({metric(name)}{{{_SELECT}}})"

    def by_cluster(name: str) -> str:
        return f"max by (cluster) ({metric(name)}{{{_SELECT}}})"

    legend = "{{cluster}} {{queue}}"
    waits = (*_quantiles("agentaflow_scheduling_duration_seconds"), *_quantiles("agentaflow_scheduling_duration")[:1])
    return (
        Panel(
            "GPUs",
            (
                (by_cluster("agentaflow_gpu_total"), "{{cluster}} total"),
                (by_cluster("agentaflow_gpu_available"), "{{cluster}} available"),
            ),
        ),
        Panel("Utilisation", ((by_cluster("agentaflow_gpu_utilization"), "{{cluster}}"),), "percent"),
        Panel(
            "Workloads",
            (
                (by_cluster("agentaflow_workloads_running"), "{{cluster}} running"),
                (by_cluster("agentaflow_workloads_pending"), "{{cluster}} waiting"),
            ),
        ),
        Panel(
            "GPUs of queues",
            (
                (by_queue("gpus_held"), f"{legend} held"),
                (by_queue("gpus_wanted"), f"{legend} wanted"),
                (by_queue("gpus_idle"), f"{legend} idle"),
                (by_queue("gpu_quota"), f"{legend} quota"),
            ),
        ),
        Panel("Waiting", ((by_queue("longest_wait_seconds"), f"{legend} longest"), *waits), "s"),
        Panel(
            "Cost per hour",
            ((by_queue("gpu_cost_per_hour"), legend), (by_queue("gpu_idle_cost_per_hour"), f"{legend} idle")),
        ),
    )


def _controller() -> tuple[Panel, ...]:
    return (
        Panel("Leader", ((f"{metric('leader')}{{{_SELECT}}}", "{{pod}}"),)),
        Panel("Sources that wait for a worker", ((f"sum({metric('queue_depth')}{{{_SELECT}}})", "waiting"),)),
        Panel("Version", ((f"count by (version) ({metric('build_info')}{{{_SELECT}}})", "{{version}}"),)),
        Panel("Memory", ((f"{process('process_resident_memory_bytes')}{{{_JOB}}}", "{{pod}}"),), "bytes"),
        Panel("CPU", ((f"rate({process('process_cpu_seconds_total')}{{{_JOB}}}[$__rate_interval])", "{{pod}}"),)),
        Panel(
            "Writes of status, spans",
            (
                (_per_second("status_write_total", "result"), "status {{result}}"),
                (_per_second("spans_total", "result"), "spans {{result}}"),
            ),
            "ops",
        ),
    )


_JOB = f'{_SELECT},service=~".*-metrics"'


def _per_second(name: str, labels: str, *, count: bool = False) -> str:
    series = buckets(name).removesuffix("_bucket") + "_count" if count else metric(name)
    return f"sum by ({labels}) (rate({series}{{{_SELECT}}}[$__rate_interval]))"


def _quantiles(name: str) -> tuple[tuple[str, str], ...]:
    rate = f"sum by (le) (rate({buckets(name)}{{{_SELECT}}}[$__rate_interval]))"
    return tuple((f"histogram_quantile({quantile}, {rate})", f"p{quantile * 100:.0f}") for quantile in (0.5, 0.95))


def _placed(sections: Sections) -> Iterator[dict[str, Any]]:
    """Yield rows and panels, three to a line."""
    top, number = 0, 0
    for section, panels in sections:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": section,
            "collapsed": False,
            "panels": [],
            "gridPos": {"h": 1, "w": _WIDTH * _COLUMNS, "x": 0, "y": top},
        }
        top += 1
        for index, panel in enumerate(panels):
            number += 1
            line, column = divmod(index, _COLUMNS)
            place = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": top + line * _HEIGHT}
            yield _drawn(panel, number, place)
        top += -(-len(panels) // _COLUMNS) * _HEIGHT


def _drawn(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.type,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _DATASOURCE, "expr": expr, "legendFormat": legend}
            for index, (expr, legend) in enumerate(panel.queries)
        ],
    }


def datasource() -> dict[str, Any]:
    """Return the variable that chooses the Prometheus."""
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _namespaces() -> dict[str, Any]:
    return variable("namespace", "Namespace", f"label_values({metric('build_info')}, namespace)")


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """Return a variable with several values of a query."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": query,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
