"""The metric catalogue: what is exported is what is documented, and what is documented is written somewhere."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.nodehealth.exports.fleet_gauges import samples_at
from reconciler.web.metrics import (
    AGENT_METRICS,
    FLEET_METRICS,
    METRICS,
    PREFIX,
    USE_METRICS,
    Metric,
    Metrics,
    MetricType,
)

_PACKAGE = Path(__file__).parents[3] / "reconciler"
_WRITERS = {
    "count": MetricType.COUNTER,
    "observe": MetricType.HISTOGRAM,
    "set": MetricType.GAUGE,
    "replace": MetricType.GAUGE,
}
_INFO = {"build_info", "gpuhealth_agent_info"}
"""Gauges that `Metrics` sets itself."""


def _families(metrics: Metrics) -> dict[str, str]:
    _, text = metrics.exposition("text/plain")
    return {family.name: family.type for family in text_string_to_metric_families(text.decode())}


@pytest.mark.parametrize(
    "catalogue", [(*METRICS, *USE_METRICS, *FLEET_METRICS), AGENT_METRICS], ids=["controller", "agent"]
)
def test_every_documented_metric_is_exported_with_its_type(catalogue: tuple[Metric, ...]) -> None:
    """F-125: the endpoint and the catalogue agree, name by name."""
    metrics = Metrics(catalogue)
    for metric in catalogue:
        name = metric.name.removeprefix(PREFIX)
        labels = dict.fromkeys(metric.labels, "x")
        match metric.type:
            case MetricType.COUNTER:
                metrics.count(name, 1, **labels)
            case MetricType.GAUGE:
                metrics.set(name, 1, **labels)
            case MetricType.HISTOGRAM:
                metrics.observe(name, 1, **labels)
    exported = _families(metrics)
    for metric in catalogue:
        name = metric.name.removesuffix("_total") if metric.type is MetricType.COUNTER else metric.name
        assert exported.pop(name) == metric.type
    assert all(name.startswith("process_") for name in exported)


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in (*METRICS, *USE_METRICS, *FLEET_METRICS, *AGENT_METRICS):
        is_total = metric.type is MetricType.COUNTER or metric.name == "agentaflow_gpu_total"  # the name that it had
        assert metric.name.endswith("_total") == is_total, metric.name
        assert metric.help.endswith("."), metric.name
        assert not {"name", "namespace", "object"} & metric.labels.keys(), metric.name
        # There are few sources, and an alert about one must name it.
        assert "source" not in metric.labels or metric.type is MetricType.GAUGE, metric.name
        assert metric.buckets == tuple(sorted(metric.buckets))


def test_a_gauge_is_replaced_as_a_whole() -> None:
    metrics = Metrics()
    metrics.replace("plan_changes", {("create",): 3, ("delete",): 1})
    metrics.replace("plan_changes", {("update",): 2})
    text = metrics.exposition("")[1].decode()
    assert 'reconciler_plan_changes{action="update"} 2.0' in text
    assert "create" not in text.split("reconciler_plan_changes{")[1]


def test_unknown_names_and_labels_are_errors() -> None:
    metrics = Metrics()
    with pytest.raises(KeyError):
        metrics.count("objects_total")
    with pytest.raises(ValueError, match="label"):
        metrics.count("git_request_total", type="fetch")


def _writes() -> Iterator[tuple[str, str, frozenset[str] | None]]:
    """Yield method, name and labels of every metric that the code writes by its name; None: given by position."""
    for path in sorted(path for room in ("controller", "health", "web") for path in (_PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=receiver, attr=method), args=[ast.Constant(value=str(name)), *_]
                ) if method in _WRITERS and ast.unparse(receiver) in {"metrics", "self._metrics"}:
                    labels = frozenset(keyword.arg or "" for keyword in node.keywords)
                    yield method, name, None if method == "replace" else labels


def test_every_metric_has_a_writer() -> None:
    """F-128: an alert on a metric that nobody writes never fires."""
    rows = {row.name.removeprefix(PREFIX): row for row in (*METRICS, *FLEET_METRICS, *AGENT_METRICS)}
    written = list(_writes())
    names = {name for _, name, _ in written} | _INFO | samples_at((), 0.0).keys()
    assert names == rows.keys()
    for method, name, labels in written:
        assert _WRITERS[method] is rows[name].type, name
        assert labels in (None, rows[name].labels.keys()), name
