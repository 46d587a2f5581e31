"""Gauges of fleets: nodes by phase, the breaker, and how old the reports are at the moment of the question."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.nodehealth.fleet.decisions import FleetEvaluation
from reconciler.nodehealth.fleet.state import FleetNode, HealthPhase
from reconciler.nodehealth.inflight.notes import JobNote, JobNoteKind
from reconciler.nodehealth.report import NodeReport

Samples = Mapping[str, Mapping[tuple[str, ...], float]]
"""Values by label values, by name of the metric."""


class FleetSamples(Struct, frozen=True, kw_only=True):
    """The counts of one round over one cluster.

    nodes: UID, phase and pool of each node. stops: 1 where the breaker stops quarantines. measured_at: the time of the
    report of each node; one without a report is missing, because its agent has never been there. hanging: namespace and
    name of the jobs that seem to hang.
    """

    nodes: tuple[tuple[str, str, str], ...] = ()
    stops: tuple[tuple[str, float], ...] = ()
    measured_at: tuple[tuple[str, float], ...] = ()
    hanging: tuple[tuple[str, str], ...] = ()


def fleet_samples(
    evaluation: FleetEvaluation,
    facts: Mapping[str, FleetNode],
    reports: Mapping[str, NodeReport],
    jobs: Iterable[JobNote] = (),
) -> FleetSamples:
    """Return what a round saw."""
    nodes = [
        (facts[one.node].uid or one.node, one.phase.value, facts[one.node].pool)
        for one in evaluation.decisions.values()
        if one.node in facts
    ]
    breaker = evaluation.state.breaker
    stops = {"fleet": float(bool(breaker.tripped)), **dict.fromkeys(breaker.frozen, 1.0)}
    measured = {name: report.measured_at for name, report in reports.items() if name in facts}
    return FleetSamples(
        nodes=tuple(sorted(nodes)),
        stops=tuple(sorted(stops.items())),
        measured_at=tuple(sorted(measured.items())),
        hanging=tuple(sorted({(one.namespace, one.name) for one in jobs if one.kind is JobNoteKind.HUNG})),
    )


def samples_at(fleets: Iterable[FleetSamples], now: float) -> Samples:
    """Return the gauges of all rounds: a breaker that stops and the oldest report count.

    A node that two sources watch is one node, in the gravest of its phases.
    """
    known: dict[str, tuple[str, str]] = {}
    stops: dict[tuple[str, ...], float] = {}
    ages: dict[tuple[str, ...], float] = {}
    hanging: dict[tuple[str, ...], float] = {}
    for fleet in fleets:
        for uid, phase, pool in fleet.nodes:
            known[uid] = max((phase, pool), known.get(uid, (phase, pool)), key=_gravity)
        for limit, value in fleet.stops:
            stops[limit,] = max(value, stops.get((limit,), 0.0))
        for node, at in fleet.measured_at:
            ages[node,] = max(now - at, ages.get((node,), 0.0))
        hanging.update(dict.fromkeys(fleet.hanging, 1.0))
    return {
        "gpuhealth_nodes": Counter(known.values()),
        "gpuhealth_breaker_state": stops,
        "gpuhealth_report_age_seconds": ages,
        "gpuhealth_job_hang_suspected": hanging,
    }


def _gravity(row: tuple[str, str]) -> tuple[bool, int, str]:
    phase = HealthPhase(row[0])
    return phase.is_out, _PHASES.index(phase), row[1]


_PHASES = tuple(HealthPhase)
