"""Slow GPUs of a fleet: each against its peers and against its own past, from the series in the reports of nodes."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.core.health.fleet.state import FleetNode
from reconciler.core.health.peaks import product_key
from reconciler.core.health.report import NodeReport
from reconciler.core.health.statistics.checks import DRIFT, PEERS
from reconciler.core.health.statistics.drift import ALARM, RELATIVE_GATE
from reconciler.core.health.statistics.peers import Cohort, CohortKey, Gpu, changed_cohort, make_cohort, outliers
from reconciler.core.health.statistics.series import NEWEST, GpuSeries

_FEW = 0.1  # of the nodes: when more have changed, everything is counted again


class Suspicion(Struct, frozen=True, kw_only=True, order=True):
    """A GPU that is slow by statistics. is_proven: there are enough runs for a proposal."""

    node: str
    slot: str
    check: str  # of the fleet
    message: str
    is_proven: bool = True


class FleetStatistics(Struct, frozen=True, kw_only=True, eq=False):
    """What the series of a fleet say. The next look counts only nodes again whose series changed."""

    reports: Mapping[str, NodeReport]
    facts: Mapping[str, FleetNode]
    cohorts: Mapping[CohortKey, Cohort]
    drifting: Mapping[str, tuple[Suspicion, ...]]
    suspicions: Mapping[str, tuple[Suspicion, ...]]  # by node


_Values = dict[CohortKey, dict[Gpu, float]]


def compare(
    reports: Mapping[str, NodeReport], facts: Mapping[str, FleetNode], previous: FleetStatistics | None = None
) -> FleetStatistics:
    """Return what the series say. `previous` only saves time."""
    changed = [*facts] if previous is None else _changed(reports, facts, previous)
    if previous is not None and not changed:
        return FleetStatistics(
            reports=reports,
            facts=facts,
            cohorts=previous.cohorts,
            drifting=previous.drifting,
            suspicions=previous.suspicions,
        )
    if previous is None or len(changed) > _FEW * len(facts):
        cohorts = {key: make_cohort(values) for key, values in _values(facts, reports, facts).items()}
        drifting = _drifting(facts, reports)
    else:
        cohorts = _again(reports, facts, previous, changed)
        drifting = {node: one for node, one in previous.drifting.items() if node not in set(changed)}
        drifting |= _drifting([node for node in changed if node in facts], reports)
    return FleetStatistics(
        reports=reports,
        facts=facts,
        cohorts=cohorts,
        drifting=drifting,
        suspicions=_by_node([*_slow(cohorts), *(one for found in drifting.values() for one in found)]),
    )


def _changed(reports: Mapping[str, NodeReport], facts: Mapping[str, FleetNode], previous: FleetStatistics) -> list[str]:
    """Return the nodes whose values, or whose cohorts, may have changed."""
    changed = []
    for name in facts.keys() | previous.facts.keys():
        new, old = reports.get(name), previous.reports.get(name)
        if (new is not old or facts.get(name) is not previous.facts.get(name)) and _place(new, facts.get(name)) != (
            _place(old, previous.facts.get(name))
        ):
            changed.append(name)
    return changed


def _place(report: NodeReport | None, node: FleetNode | None) -> object:
    """Return everything of a node that the statistics look at."""
    if report is None or node is None or not report.measured:
        return None
    return report.measured, report.driver, node.pool, report.gpus[:1]


def _values(nodes: Iterable[str], reports: Mapping[str, NodeReport], facts: Mapping[str, FleetNode]) -> _Values:
    """Return the best of three runs of each GPU that has them, by cohort: contention only ever slows a test down."""
    cohorts: dict[tuple[object, ...], dict[Gpu, float]] = {}
    for name in nodes:
        report, node = reports.get(name), facts.get(name)
        if report is None or node is None or not report.measured:
            continue
        product = product_key(report.gpus[0].product) if report.gpus else ""
        driver, pool = report.driver.partition(".")[0], node.pool
        for check, slots in report.measured.items():
            link, cohort = (0.0, 0), dict[Gpu, float]()
            for slot, series in slots.items():
                if len(series.newest) < NEWEST:
                    continue
                if (series.scale, series.rule) != link:
                    link = series.scale, series.rule
                    cohort = cohorts.setdefault((check, product, driver, pool, *link), {})
                cohort[name, slot] = max(series.newest)
    return {CohortKey(*key): values for key, values in cohorts.items()}  # type: ignore[arg-type]


def _again(
    reports: Mapping[str, NodeReport],
    facts: Mapping[str, FleetNode],
    previous: FleetStatistics,
    changed: Iterable[str],
) -> dict[CohortKey, Cohort]:
    nodes = [*changed]
    gone, new = _values(nodes, previous.reports, previous.facts), _values(nodes, reports, facts)
    cohorts = dict(previous.cohorts)
    for key in gone.keys() | new.keys():
        before, after = gone.get(key, {}), new.get(key, {})
        if before == after:
            continue
        known = cohorts.pop(key, None)
        if known is None:
            cohorts[key] = make_cohort(after)
        elif after or len(known.values) > len(before):
            cohorts[key] = changed_cohort(known, before, after)
    return cohorts


def _slow(cohorts: Mapping[CohortKey, Cohort]) -> Iterable[Suspicion]:
    return (Suspicion(node=one.node, slot=one.slot, check=PEERS, message=one.message) for one in outliers(cohorts))


def _drifting(nodes: Iterable[str], reports: Mapping[str, NodeReport]) -> dict[str, tuple[Suspicion, ...]]:
    found: dict[str, tuple[Suspicion, ...]] = {}
    for name in nodes:
        report = reports.get(name)
        if report is None or not report.measured:
            continue
        drifts = [
            _drift(name, slot, check, series)
            for check, slots in report.measured.items()
            for slot, series in slots.items()
            if series.drift.cusum > ALARM and _is_slower(series)
        ]
        if drifts:
            found[name] = tuple(sorted(drifts))
    return found


def _is_slower(series: GpuSeries) -> bool:
    """Say whether a GPU drifted, and its last run does not say that this is over."""
    baseline = series.baseline
    if baseline is None or not series.drift.is_alarm(baseline):
        return False
    return series.newest[-1] <= (1 - RELATIVE_GATE) * baseline.median


def _drift(node: str, slot: str, check: str, series: GpuSeries) -> Suspicion:
    baseline = series.baseline
    assert baseline is not None  # noqa: S101 - `_is_slower` checked
    lost = 100 * series.drift.lost(baseline)
    text = f"{check} lost {lost:.1f} % of its {baseline.median:,.4g} within the last {series.drift.excursion} runs"
    return Suspicion(node=node, slot=slot, check=DRIFT, message=text, is_proven=series.drift.may_propose(baseline))


def _by_node(found: Iterable[Suspicion]) -> dict[str, tuple[Suspicion, ...]]:
    """Return the suspicions by node; several of one check on one GPU are one, with the first as its message."""
    by_node: dict[str, dict[tuple[str, str], Suspicion]] = {}
    for one in sorted(found):
        by_node.setdefault(one.node, {}).setdefault((one.check, one.slot), one)
    return {node: tuple(known.values()) for node, known in by_node.items()}
