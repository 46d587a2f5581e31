"""Alerts and dashboard: judged by the real promtool, and every series they name is one that the controller exports."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS
from reconciler.nodehealth.findings import FindingSeverity
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.web.metrics import AGENT_METRICS, FLEET_METRICS, METRICS, USE_METRICS, MetricType
from tools.chart.agentaflow import agentaflow_groups
from tools.chart.alerts import groups
from tools.chart.build import CHART
from tools.chart.dashboard import dashboard
from tools.chart.health import health_dashboard, health_groups
from tools.chart.queries import buckets, exported, metric

FUNCTIONS = {
    "sum",
    "min",
    "max",
    "count",
    "rate",
    "increase",
    "histogram_quantile",
    "time",
    "absent",
    "topk",
    "clamp_min",
}
WORDS = {"by", "and", "or", "unless", "on", "ignoring", "offset", "bool"}
_LABEL_LIST = re.compile(r"\b(?:by|on|ignoring)\s*\([^)]*\)")
_SELECTOR = re.compile(r"\{([^}]*)\}")
_RANGE = re.compile(r"\[[^\]]*\]")


ROWS = (*METRICS, *USE_METRICS, *FLEET_METRICS, *AGENT_METRICS)
FILES = {"alerts.yaml": groups(), "health-alerts.yaml": health_groups()}
DASHBOARDS = (dashboard(), health_dashboard())


def rules(file: str) -> Iterator[dict[str, Any]]:
    for group in FILES[file]["groups"]:
        yield from group["rules"]


def alerts() -> Iterator[tuple[str, str]]:
    for file in FILES:
        yield from ((rule["alert"], rule["expr"]) for rule in rules(file))


def queries() -> Iterator[tuple[str, str]]:
    for panel in (panel for board in DASHBOARDS for panel in board["panels"]):
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


def series(expr: str) -> set[str]:
    """Return the names of all series in a PromQL expression."""
    bare = _RANGE.sub("", _SELECTOR.sub("", _LABEL_LIST.sub("", expr)))
    return set(re.findall(r"[a-z_:][a-z0-9_:]*", bare)) - FUNCTIONS - WORDS


EVERY = [*alerts(), *queries()]


@pytest.mark.parametrize(("name", "expr"), EVERY, ids=[name for name, _ in EVERY])
def test_every_series_is_exported(name: str, expr: str) -> None:
    """F-132: a dashboard or an alert cannot wait for a metric that does not exist."""
    found = series(expr)
    assert found
    assert found <= exported()


def test_every_metric_is_shown_or_alerts() -> None:
    named = set().union(*(series(expr) for _, expr in EVERY))
    for row in ROWS:
        names = {f"{row.name}_bucket"} if row.type is MetricType.HISTOGRAM else {row.name}
        assert names & named, f"{row.name} is in no panel and no alert"


_TARGET = {"namespace", "pod", "service", "job", "instance"}
"""Labels that Prometheus adds to everything that it scrapes by a ServiceMonitor."""


@pytest.mark.parametrize(("name", "expr"), EVERY, ids=[name for name, _ in EVERY])
def test_every_label_is_exported(name: str, expr: str) -> None:
    known = {label for row in ROWS for label in row.labels} | _TARGET | {"le"}
    matchers = {label for body in _SELECTOR.findall(expr) for label in re.findall(r"(\w+)\s*(?:=|!)", body)}
    grouped = {label.strip() for body in re.findall(r"\bby\s*\(([^)]*)\)", expr) for label in body.split(",")}
    assert matchers | grouped <= known


def test_an_unknown_metric_cannot_be_named() -> None:
    with pytest.raises(KeyError):
        metric("reconcile_total")
    with pytest.raises(KeyError, match="histogram"):
        metric("reconcile_duration_seconds")
    with pytest.raises(KeyError, match="no histogram"):
        buckets("queue_depth")


class Firing(NamedTuple):
    """Series by their values in promtool's notation, and the minutes at which an alert is quiet and fires."""

    series: dict[str, str]
    quiet: int
    fires: int
    labels: dict[str, str]
    summary: str


_IN = {"namespace": "gitops"}
_HEALTH = 'gpuhealth_check_status{check="%s",node="%s",gpu_slot="0",model="H100",severity="%s"}'
_AUTOPILOT = 'autopilot_health_checks{health="%s",node="n",cpumodel="c",gpumodel="H100",deviceid="0"}'
_SLOT = {"node": "n", "check": "ecc.sram", "gpu_slot": "0", "model": "H100"}
_READY = 'reconciler_reconcile_condition{namespace="gitops",type="Ready",status="False"}'
_STALLED = 'reconciler_reconcile_condition{namespace="gitops",type="Stalled",status="True"}'
_APPLY = 'reconciler_apply_operations_total{namespace="gitops",action="unknown",result="failure"}'
_GIT = 'reconciler_git_request_total{namespace="gitops",type="fetch",result="%s"}'


def _autopilot(health: str, minutes: int) -> Firing:
    series = {_AUTOPILOT % health: "0x10 1x30"}
    return Firing(series, 10, 11 + minutes, {"node": "n", "deviceid": "0"}, f"n: {health} fails")


_USE = 'reconciler_%s{namespace="gitops",cluster="main",queue="h100"}'
_OF_QUEUE = _IN | {"cluster": "main", "queue": "h100"}

FIRING = {
    "ReconcilerGPUsIdle": Firing(  # defect 19 of AgentaFlow: an alert about efficiency that always fired
        {_USE % "gpus_idle": "2x60 6x90", _USE % "gpus_held": "8x150"},
        110,
        130,
        _OF_QUEUE,
        "h100 in main: 75% of its GPUs do nothing",
    ),
    "ReconcilerWorkloadsWait": Firing(
        {_USE % "longest_wait_seconds": "14000x10 18000x20"},
        15,
        25,
        _OF_QUEUE,
        "h100 in main: a workload waits since 5h 0m 0s",
    ),
    "ReconcilerQuotaExhausted": Firing(
        {_USE % "gpus_held": "8x90", _USE % "gpu_quota": "8x90", _USE % "gpus_wanted": "0x10 4x80"},
        60,
        80,
        _OF_QUEUE,
        "h100 in main: its quota of 8 GPUs is used up, and workloads wait",
    ),
    "ReconcilerIdleCost": Firing(
        {_USE % "gpu_idle_cost_per_hour": "4x150", _USE % "gpu_cost_per_hour": "8x150"},
        110,
        130,
        _IN | {"cluster": "main"},
        "main: 50% of the cost of GPUs is for idle ones",
    ),
    "ReconcilerAbsent": Firing({}, 5, 12, {}, "No replica of the controller exports metrics"),
    "ReconcilerNoLeader": Firing(
        {'reconciler_leader{namespace="gitops",pod="a"}': "1x10 0x20"},
        10,
        20,
        _IN,
        "No replica in gitops leads",
    ),
    "ReconcilerSourceNotReady": Firing({_READY: "2x40"}, 10, 20, _IN, "Sources not ready: 2"),
    "ReconcilerSourceStalled": Firing({_STALLED: "1x40"}, 3, 10, _IN, "Sources stalled: 1"),
    "ReconcilerSyncStale": Firing(
        {
            'reconciler_last_sync_timestamp_seconds{namespace="gitops",source="team-a/fleet"}': "60x90",
            'reconciler_interval_seconds{namespace="gitops",source="team-a/fleet"}': "60x90",
            # This one is due every two hours.
            'reconciler_last_sync_timestamp_seconds{namespace="gitops",source="team-a/slow"}': "60x90",
            'reconciler_interval_seconds{namespace="gitops",source="team-a/slow"}': "7200x90",
        },
        60,
        70,
        {**_IN, "source": "team-a/fleet"},
        "team-a/fleet has not been synced for 1h 9m 0s",
    ),
    "ReconcilerDeletionBlocked": Firing(
        {'reconciler_deletion_budget_blocked_total{namespace="gitops"}': "0x10 1x20"},
        10,
        15,
        _IN,
        "A deletion budget stopped a source",
    ),
    "ReconcilerFight": Firing(
        {'reconciler_resource_fights_total{namespace="gitops"}': "0x10 1x20"},
        10,
        15,
        _IN,
        "Another controller changes objects back",
    ),
    "ReconcilerApplyFailing": Firing({_APPLY: "0+1x60"}, 10, 40, _IN, "Objects not applied within 15 minutes: 15"),
    "ReconcilerDrift": Firing(
        {'reconciler_drift_objects{namespace="gitops"}': "3x90"}, 50, 70, _IN, "Live objects that differ from Git: 3"
    ),
    "GPUHealthFatal": Firing({_HEALTH % ("ecc.sram", "n", "fatal"): "0x5 2x20"}, 5, 10, _SLOT, "n: ecc.sram fails"),
    "GPUHealthDegraded": Firing(
        {_HEALTH % ("ecc.sram", "n", "degraded"): "0x5 2x40"}, 10, 20, _SLOT, "n: ecc.sram fails"
    ),
    "GPUHealthUnknown": Firing(
        {_HEALTH % ("ecc.sram", "n", "info"): "3x40", _HEALTH % ("inforom", "n", "info"): "3x40"},
        10,
        20,
        {"node": "n"},
        "n: 2 checks cannot measure",
    ),
    "GPUHealthSameCheckSpike": Firing(
        {_HEALTH % ("throttle", node, "info"): f"{first}x10 2x20" for node, first in (("a", 2), ("b", 2), ("c", 0))},
        10,
        20,
        {"check": "throttle"},
        "throttle fails on 3 nodes",
    ),
    "GPUHealthReportStale": Firing(
        {'gpuhealth_report_age_seconds{node="n"}': "120x10 0+60x20"},
        10,
        20,
        {"node": "n"},
        "n: no health report for 9m 0s",
    ),
    "GPUHealthAgentAbsent": Firing({}, 10, 20, {}, "No agent exports health metrics"),
    "GPUHealthSweepOverdue": Firing(
        {'gpuhealth_agent_sweep_overdue{instance="i"}': "0x5 1x20"},
        6,
        15,
        {"instance": "i"},
        "Agent i: a sweep does not end",
    ),
    "GPUHealthReportNotWritten": Firing(
        {'gpuhealth_agent_report_writes_total{instance="i",result="failure"}': "0+1x60"},
        10,
        30,
        {"instance": "i"},
        "Agent i cannot write its report",
    ),
    "GPUHealthQuarantine": Firing(
        {'gpuhealth_nodes{state="quarantined",pool="h200"}': "0x5 2x5"},
        5,
        7,
        {"pool": "h200"},
        "Pool h200: 2 nodes in quarantine",
    ),
    "GPUHealthBreakerTripped": Firing(
        {'gpuhealth_breaker_state{limit="per_pool"}': "0x5 1x5"},
        5,
        7,
        {"limit": "per_pool"},
        "The circuit breaker stops quarantines: per_pool",
    ),
    "GPUHealthJobHangSuspected": Firing(
        {'gpuhealth_job_hang_suspected{job_namespace="team-a",job_name="vit"}': "0x5 1x5"},
        5,
        7,
        {"job_namespace": "team-a", "job_name": "vit"},
        "team-a/vit seems to hang",
    ),
    "LowPCIeBandwidth": Firing(
        {_AUTOPILOT % "pciebw": "26x10 3.9x10"},
        10,
        15,
        {"node": "n", "deviceid": "0"},
        "n: PCIe bandwidth of GPU 0 is 3.9 GB/s",
    ),
    "RemappedRowsActive": _autopilot("remapped", 1),
    "GPUPowerSlowdownEnabled": _autopilot("power-slowdown", 1),
    "DCGMErrors": _autopilot("dcgm", 1),
    "GPUMemoryTestFailures": _autopilot("gpumem", 1),
    "PingFailures": _autopilot("ping", 10),
    "PVCAlert": _autopilot("pvc", 5),
    "ReconcilerGitFailing": Firing(
        {_GIT % "failure": "0+3x60", _GIT % "success": "0+1x60"},
        10,
        40,
        _IN | {"type": "fetch"},
        "More than half of all fetch requests to Git servers fail",
    ),
}


def test_every_alert_has_a_case() -> None:
    assert FIRING.keys() == {name for name, _ in alerts()}


@pytest.mark.parametrize(
    ("file", "page"), [("alerts.yaml", "installation.md"), ("health-alerts.yaml", "health-agent.md")]
)
def test_the_documentation_says_what_to_do_about_every_alert(file: str, page: str) -> None:
    text = (CHART.parents[1] / "docs" / page).read_text(encoding="utf-8")
    names = {rule["alert"] for rule in rules(file)}
    assert set(re.findall(r"^\| `([A-Z]\w+)` \|", text, re.MULTILINE)) & FIRING.keys() == names


@pytest.mark.parametrize("file", FILES)
def test_promtool_accepts_the_alerts_and_they_fire(promtool: Path, tmp_path: Path, file: str) -> None:
    """F-093, F-128, F-132: every alert is quiet at first, and fires with its text once its case holds."""
    path = CHART / "files" / file
    _promtool(promtool, "check", "rules", "--lint=all", "--lint-fatal", path)
    tests = [_case(rule, FIRING[rule["alert"]]) for rule in rules(file)]
    cases = tmp_path / "tests.yaml"
    cases.write_text(json.dumps({"rule_files": [str(path)], "evaluation_interval": "1m", "tests": tests}))
    _promtool(promtool, "test", "rules", cases)


def _case(rule: dict[str, Any], case: Firing) -> dict[str, Any]:
    fired = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {
            "summary": case.summary,
            "description": _filled(rule["annotations"]["description"], case.labels),
        },
    }
    name = rule["alert"]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [
            {"alertname": name, "eval_time": f"{case.quiet}m", "exp_alerts": []},
            {"alertname": name, "eval_time": f"{case.fires}m", "exp_alerts": [fired]},
        ],
    }


def _filled(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)


def test_promtool_parses_every_query_of_the_dashboard(promtool: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expr.replace("$__rate_interval", "5m")}
        for number, (_, expr) in enumerate(queries())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    _promtool(promtool, "check", "rules", path)


DCGM = {
    "SM_CLOCK", "MEM_CLOCK", "GPU_TEMP", "POWER_USAGE", "GPU_UTIL", "FB_USED", "FB_FREE",
}  # fmt: skip
"""Fields of dcgm-exporter's default counters, after `DCGM_FI_DEV_`, that rules may read."""


def test_old_names_come_from_exported_ones() -> None:
    """F-128, defect 19 of agentaflow: each rule reads metrics of dcgm-exporter's defaults or ours, and none is an alert."""
    rows = agentaflow_groups()["groups"][0]["rules"]
    for row in rows:
        read = set(re.findall(r"DCGM_FI_DEV_(\w+)", row["expr"])), set(re.findall(r"\bagentaflow_\w+", row["expr"]))
        assert any(read)
        assert read[0] <= DCGM
        assert read[1] <= exported()
    names = {row["record"] for row in rows}
    assert {"agentaflow_gpu_utilization_percent", "agentaflow_gpu_idle_time_percent", "agentaflow_gpus_total"} <= names
    assert not names & exported()
    assert not [expr for _, expr in alerts() if "efficiency_score" in expr]


def test_promtool_records_the_old_names(promtool: Path, tmp_path: Path) -> None:
    """F-128: dashboards find the values under the names and labels that they had."""
    path = CHART / "files" / "agentaflow-rules.yaml"
    _promtool(promtool, "check", "rules", "--lint=all", "--lint-fatal", path)
    labels = 'gpu="0",modelName="NVIDIA A100",Hostname="n1"'
    given = {"GPU_UTIL": "80x30 0x40", "POWER_USAGE": "400x70", "FB_USED": "30x70", "FB_FREE": "10x70"}
    expected = {"utilization_percent": 0, "memory_utilization_percent": 75, "memory_used_bytes": 30 << 20}
    cases = [
        {
            "expr": f"agentaflow_gpu_{name}",
            "eval_time": "60m",
            "exp_samples": [
                {
                    "labels": f'agentaflow_gpu_{name}{{{labels},gpu_id="0",gpu_name="NVIDIA A100"}}',
                    "value": value,
                }
            ],
        }
        for name, value in expected.items()
    ]
    series = [{"series": f"DCGM_FI_DEV_{name}{{{labels}}}", "values": values} for name, values in given.items()]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": cases}]
    found = tmp_path / "tests.yaml"
    found.write_text(json.dumps({"rule_files": [str(path)], "evaluation_interval": "1m", "tests": tests}))
    _promtool(promtool, "test", "rules", found)


def test_panels_have_places_of_their_own() -> None:
    for board in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place: dict[str, Any] = panel["gridPos"]
            cells = {(x, y) for x in _span(place, "x", "w") for y in _span(place, "y", "h")}
            assert not cells & taken
            assert max(x for x, _ in cells) < 24
            taken |= cells


def test_alerts_name_values_that_somebody_writes() -> None:
    """F-093: a value of a label that no enum has, such as a status that is never written, is an error."""
    written = {
        "severity": {severity.value for severity in FindingSeverity},
        "state": {phase.value for phase in HealthPhase},
        "health": set(AUTOPILOT_CHECKS),
        "result": {"success", "failure"},
    }
    matcher = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"$]*)"')
    named = [(label, value) for _, expr in EVERY if "health" in expr for label, value in matcher.findall(expr)]
    assert len(named) > 10
    for label, value in named:
        if label in written:
            assert set(value.split("|")) <= written[label], (label, value)


def _span(place: dict[str, int], start: str, length: str) -> range:
    return range(place[start], place[start] + place[length])


def _promtool(promtool: Path, *arguments: str | Path) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
