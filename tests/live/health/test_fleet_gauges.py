"""The gauges of fleets as `/metrics` shows them: of this moment, over all sources and clusters."""

from prometheus_client.parser import text_string_to_metric_families

from reconciler.controller.outcome import PassFailure, PassOutcome
from reconciler.controller.process import FleetGauges
from reconciler.nodehealth.exports.fleet_gauges import FleetSamples
from reconciler.web.metrics import Metrics
from tests.live.health.conftest import START, SetClock

FAILED = PassFailure(reason="OutsideFailed", message="the API server is away")


def fleet(node: str, count: int = 1) -> FleetSamples:
    nodes = tuple((f"{node}-{number}", "healthy", "h100") for number in range(count))
    return FleetSamples(nodes=nodes, stops=(("fleet", 0.0),), measured_at=((node, START),))


def shown(gauges: FleetGauges, metrics: Metrics, name: str) -> dict[str, float]:
    gauges.update()
    families = text_string_to_metric_families(metrics.exposition("text/plain")[1].decode())
    family = next(one for one in families if one.name == f"gpuhealth_{name}")
    return {next(iter(sample.labels.values())): sample.value for sample in family.samples}


def test_reports_grow_older_while_rounds_fail(clock: SetClock) -> None:
    """The age is that at the moment of the request, also of the cluster that a round could not reach."""
    metrics = Metrics()
    gauges = FleetGauges(metrics, clock)
    gauges.take("a", PassOutcome(gauges={"one": fleet("x"), "two": fleet("y")}))
    clock.pause(30.0)
    gauges.take("a", PassOutcome(gauges={"two": fleet("y", 2)}, failure=FAILED))
    gauges.take("a", PassOutcome(failure=FAILED))
    assert shown(gauges, metrics, "report_age_seconds") == {"x": 30.0, "y": 30.0}
    clock.pause(30.0)
    assert shown(gauges, metrics, "report_age_seconds") == {"x": 60.0, "y": 60.0}
    assert shown(gauges, metrics, "nodes") == {"h100": 3.0}


def test_sources_add_up_and_those_that_went_are_forgotten(clock: SetClock) -> None:
    """The last source does not win."""
    metrics = Metrics()
    gauges = FleetGauges(metrics, clock)
    for source, node in (("a", "x"), ("b", "y")):
        gauges.take(source, PassOutcome(gauges={"one": fleet(node, 4)}))
    assert shown(gauges, metrics, "nodes") == {"h100": 8.0}
    assert shown(gauges, metrics, "report_age_seconds") == {"x": 0.0, "y": 0.0}
    gauges.keep({"b"})
    assert shown(gauges, metrics, "report_age_seconds") == {"y": 0.0}
    gauges.take("b", PassOutcome(gauges={"other": fleet("z")}))
    assert shown(gauges, metrics, "nodes") == {"h100": 1.0}


def test_a_node_that_two_sources_watch_is_one_node(clock: SetClock) -> None:
    """Two repositories, or two paths of one, watch the same cluster; the gravest phase counts, whoever comes last."""
    for order in (("a", "b"), ("b", "a")):
        metrics = Metrics()
        gauges = FleetGauges(metrics, clock)
        seen = {"a": fleet("x", 3), "b": FleetSamples(nodes=(("x-0", "quarantined", "h100"),))}
        for source in order:
            gauges.take(source, PassOutcome(gauges={"one": seen[source]}))
        gauges.update()
        text = metrics.exposition("text/plain")[1].decode()
        assert 'gpuhealth_nodes{pool="h100",state="healthy"} 2.0' in text
        assert 'gpuhealth_nodes{pool="h100",state="quarantined"} 1.0' in text
