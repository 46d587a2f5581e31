"""Alerts and dashboard: judged by the real promtool, and every series they name is one that the controller exports."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reconciler.controller.catalogue import METRICS, MetricType
from tools.chart.alerts import groups
from tools.chart.build import CHART
from tools.chart.dashboard import dashboard
from tools.chart.queries import buckets, exported, metric

FUNCTIONS = {"sum", "min", "max", "count", "rate", "increase", "histogram_quantile", "time", "absent"}
WORDS = {"by", "and", "or", "unless", "on", "ignoring", "offset", "bool"}
_LABEL_LIST = re.compile(r"\b(?:by|on|ignoring)\s*\([^)]*\)")
_SELECTOR = re.compile(r"\{([^}]*)\}")
_RANGE = re.compile(r"\[[^\]]*\]")


def alerts() -> Iterator[tuple[str, str]]:
    for rule in groups()["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


def queries() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
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
    for row in METRICS:
        names = {f"{row.name}_bucket"} if row.type is MetricType.HISTOGRAM else {row.name}
        assert names & named, f"{row.name} is in no panel and no alert"


_TARGET = {"namespace", "pod", "service", "job", "instance"}
"""Labels that Prometheus adds to everything that it scrapes by a ServiceMonitor."""


@pytest.mark.parametrize(("name", "expr"), EVERY, ids=[name for name, _ in EVERY])
def test_every_label_is_exported(name: str, expr: str) -> None:
    known = {label for row in METRICS for label in row.labels} | _TARGET | {"le"}
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
_READY = 'reconciler_reconcile_condition{namespace="gitops",type="Ready",status="False"}'
_STALLED = 'reconciler_reconcile_condition{namespace="gitops",type="Stalled",status="True"}'
_APPLY = 'reconciler_apply_operations_total{namespace="gitops",action="unknown",result="failure"}'
_GIT = 'reconciler_git_request_total{namespace="gitops",type="fetch",result="%s"}'
FIRING = {
    "ReconcilerAbsent": Firing({}, 5, 12, {}, "No replica of the controller exports metrics"),
    "ReconcilerNoLeader": Firing(
        {'reconciler_shards_held{namespace="gitops",pod="a"}': "1x10 0x20"},
        10,
        20,
        _IN,
        "No replica in gitops holds a shard",
    ),
    "ReconcilerSourceNotReady": Firing({_READY: "2x40"}, 10, 20, _IN, "Sources not ready: 2"),
    "ReconcilerSourceStalled": Firing({_STALLED: "1x40"}, 3, 10, _IN, "Sources stalled: 1"),
    "ReconcilerSyncStale": Firing(
        {'reconciler_last_sync_timestamp_seconds{namespace="gitops"}': "60x90"},
        60,
        70,
        _IN,
        "A source has not been synced for 1h 9m 0s",
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


def test_the_documentation_says_what_to_do_about_every_alert() -> None:
    page = (CHART.parents[1] / "docs" / "installation.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Reconciler\w+)` \|", page, re.MULTILINE)) == FIRING.keys()


def test_promtool_accepts_the_alerts_and_they_fire(promtool: Path, tmp_path: Path) -> None:
    """F-132: every alert is quiet at first, and fires with its text once its case holds."""
    rules = CHART / "files" / "alerts.yaml"
    _promtool(promtool, "check", "rules", "--lint=all", "--lint-fatal", rules)
    by_name = {rule["alert"]: rule for rule in groups()["groups"][0]["rules"]}
    tests = [_case(by_name[name], case) for name, case in FIRING.items()]
    path = tmp_path / "tests.yaml"
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    _promtool(promtool, "test", "rules", path)


def _case(rule: dict[str, Any], case: Firing) -> dict[str, Any]:
    fired = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {"summary": case.summary, "description": rule["annotations"]["description"]},
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


def test_promtool_parses_every_query_of_the_dashboard(promtool: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expr.replace("$__rate_interval", "5m")}
        for number, (_, expr) in enumerate(queries())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    _promtool(promtool, "check", "rules", path)


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place: dict[str, Any] = panel["gridPos"]
        cells = {(x, y) for x in _span(place, "x", "w") for y in _span(place, "y", "h")}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def _span(place: dict[str, int], start: str, length: str) -> range:
    return range(place[start], place[start] + place[length])


def _promtool(promtool: Path, *arguments: str | Path) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
