"""Every series that an alert or a panel of node health selects is written: by the gauges of agent and controller."""

import re
from collections.abc import Iterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.controller.outcome import PassOutcome
from reconciler.controller.process import FleetGauges
from reconciler.health.agent import AgentState
from reconciler.health.agent.process import AgentGauges
from reconciler.nodehealth.exports.fleet_gauges import fleet_samples
from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS
from reconciler.nodehealth.findings import FindingSeverity, HealthFinding
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import BreakerState, FleetNode, FleetState, HealthPhase
from reconciler.nodehealth.inflight.notes import notes
from reconciler.nodehealth.merging import merged
from reconciler.web.metrics import AGENT_METRICS, FLEET_METRICS, Metrics
from tests.chart.test_monitoring import FILES, queries, rules
from tests.live.health.conftest import SetClock
from tests.nodehealth.inflight.jobs import SPINS, Watched
from tests.nodehealth.reports import FAIL, NOW, PASS, UNKNOWN, WARN, finding, result, slot

Sample = tuple[str, Mapping[str, str]]
_SELECTION = re.compile(r"\b((?:gpuhealth|autopilot)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def selections() -> Iterator[tuple[str, str, str]]:
    """Yield what alerts and panels of node health select: who, the metric, and its matchers."""
    alerts = [(rule["alert"], rule["expr"]) for rule in rules("health-alerts.yaml")]
    for name, expr in (*alerts, *queries()):
        for found in _SELECTION.finditer(expr):
            yield name, found[1], found[2] or ""


SELECTIONS = sorted(set(selections()))


@pytest.fixture(scope="module")
def written() -> list[Sample]:
    """Return the series of an agent whose checks say everything, and of a controller whose fleet has every problem."""
    return [*_of_agent(), *_of_controller()]


@pytest.mark.parametrize(("name", "metric", "matchers"), SELECTIONS, ids=[f"{one[0]}-{one[1]}" for one in SELECTIONS])
def test_what_is_selected_is_written(written: list[Sample], name: str, metric: str, matchers: str) -> None:
    """F-093: an alert on a value that nobody writes never fires."""
    assert any(one == metric and _matches(labels, matchers) for one, labels in written), name


def test_every_metric_of_node_health_is_written(written: list[Sample]) -> None:
    """F-093: a row of the catalogue without a writer is a promise that nobody keeps."""
    names = {one for one, _ in written}
    assert names >= {row.name for row in (*FLEET_METRICS, *AGENT_METRICS)}
    assert "GPUHealthJobHangSuspected" in {rule["alert"] for file in FILES for rule in rules(file)}


def _matches(labels: Mapping[str, str], matchers: str) -> bool:
    for label, operator, value in _MATCHER.findall(matchers):
        if "$" in value:
            continue  # a variable of the dashboard
        is_equal = bool(re.fullmatch(value, labels.get(label, ""))) if "~" in operator else labels.get(label) == value
        if is_equal is operator.startswith("!"):
            return False
    return True


def _of_agent() -> list[Sample]:
    checks = [check for names in AUTOPILOT_CHECKS.values() for check in names]
    found = [finding(check, FAIL, slot=slot(0), observed=3.0) for check in checks]
    states = zip((FAIL, WARN, UNKNOWN, PASS), FindingSeverity, strict=True)
    found += [finding(f"one.{severity}", status, slot=slot(1), severity=severity) for status, severity in states]
    found.append(HealthFinding(check="lost", status=FAIL, message="", severity=FindingSeverity.FATAL))
    swept = result(*found)
    metrics = Metrics(AGENT_METRICS)
    state = AgentState(report=merged(None, swept), result=swept, writes=1, failures=1)
    AgentGauges(metrics, with_autopilot=True).update(state)
    return _samples(metrics)


def _of_controller() -> list[Sample]:
    decisions = {
        phase.value: HealthDecision(node=phase.value, phase=phase, before=phase, condition=ProblemStatus.FALSE)
        for phase in HealthPhase
    }
    evaluation = FleetEvaluation(state=FleetState(breaker=BreakerState(tripped="5 %")), decisions=decisions)
    watched = Watched()
    watched.minutes(30)
    said = notes((), watched.minutes(15, **SPINS), {}, watched.at)
    facts = {name: FleetNode(name=name, pool="h200") for name in decisions}
    reports = {name: merged(None, result(node=name)) for name in decisions}
    metrics, clock = Metrics(), SetClock()
    clock.at = NOW
    gauges = FleetGauges(metrics, clock)
    gauges.take("a", PassOutcome(gauges={"main": fleet_samples(evaluation, facts, reports, said)}))
    gauges.update()
    return _samples(metrics)


def _samples(metrics: Metrics) -> list[Sample]:
    families = text_string_to_metric_families(metrics.exposition("text/plain")[1].decode())
    return [(sample.name, sample.labels) for family in families for sample in family.samples]
