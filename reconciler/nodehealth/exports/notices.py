"""Messages to people about the health of a fleet: one when something begins, one when it gets worse, one at the end."""

from collections.abc import Iterator

from reconciler.kube.secrets import mask_text
from reconciler.messages import Notice, Told
from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision
from reconciler.nodehealth.fleet.state import HealthPhase, NodeState

_MAX_LENGTH = 1000


def notices(evaluation: FleetEvaluation, told: Told, cluster: str = "") -> tuple[Notice, ...]:
    """Return the messages that are new: beginnings, escalations and ends. The same state is never told twice."""
    open_ones = {one.key: one for one in _open(evaluation, cluster)}
    new = [one for key, one in open_ones.items() if told.get(key) != one.stage]
    ended = [_end(key, cluster) for key in told if key not in open_ones and key.partition("/")[0] == cluster]
    return tuple(sorted([*new, *ended], key=lambda one: one.key))


def _open(evaluation: FleetEvaluation, cluster: str) -> Iterator[Notice]:
    for decision in evaluation.decisions.values():
        days = evaluation.state.nodes.get(decision.node, NodeState()).renewals  # in which nobody has decided
        if decision.phase is HealthPhase.HEALTHY or (decision.phase is HealthPhase.SUSPECT and not days):
            continue
        yield _of_node(decision, days, cluster)
    breaker, alerts = evaluation.state.breaker, {alert.check: alert for alert in evaluation.alerts}
    stops = {"": breaker.tripped} if breaker.tripped else {}
    for check, reason in (stops | dict(breaker.frozen)).items():
        alert = alerts.get(check)
        nodes = f" Nodes: {', '.join(alert.nodes[:10])}." if alert and alert.nodes else ""
        common = f" All have {', '.join(alert.common[:5])}." if alert and alert.common else ""
        yield Notice(
            key=f"{cluster}/breaker/{check}",
            stage="stops",
            title=f"{_at(cluster)}the circuit breaker stops quarantines: {reason}",
            text=f"It goes on by itself when this is over; a commit resets it.{nodes}{common}",
        )


def _of_node(decision: HealthDecision, days: int, cluster: str) -> Notice:
    did = f"We put a {decision.taint.value} taint on it." if decision.taint is not None else "We changed nothing."
    if decision.refused:
        did = f"The breaker did not let us fence it: {decision.refused}."
    asked = []
    if decision.proposal is not None:
        asked.append("Merge or close its proposal.")
    if decision.action is not RepairAction.NONE:
        asked.append(f"Recommended: {decision.action.value.replace('_', ' ')}.")
    override = f"`reconciler health release {decision.node}` takes it back." if decision.taint is not None else ""
    text = " ".join([mask_text(decision.reason), did, *asked, override]).strip()
    stage = f"{decision.phase.value}{f' {days}' if days else ''}"
    return Notice(
        key=f"{cluster}/node/{decision.node}",
        stage=stage,
        title=f"{_at(cluster)}node {decision.node} is {decision.phase.value}: {decision.check or 'see its report'}",
        text=text[:_MAX_LENGTH],
    )


def _end(key: str, cluster: str) -> Notice:
    _, what, name = key.split("/", 2)
    title = f"node {name} is back in use" if what == "node" else "the circuit breaker goes on"
    return Notice(key=key, stage="", title=f"{_at(cluster)}{title}", is_over=True)


def _at(cluster: str) -> str:
    return f"{cluster}: " if cluster else ""
