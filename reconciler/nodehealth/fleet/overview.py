"""The health of a fleet for people: nodes and pools by phase, what the breaker has left, how old reports are."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.times import unix_time
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.breaker import allowed
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth, ObservedNode
from reconciler.nodehealth.fleet.state import BreakerState, FleetNode, HealthPhase, NodeState
from reconciler.nodehealth.inflight.notes import JobNote
from reconciler.nodehealth.policy import BreakerLimits
from reconciler.nodehealth.report import NodeReport

UNKNOWN = "unknown"
"""Shown instead of a phase where no current report says anything about a node."""


class NodeHealthRow(Struct, frozen=True, kw_only=True):
    """One node. age: seconds since its report was measured; None without one. until: when our taint ends."""

    node: str
    pool: str
    phase: str
    gpus: int = 0
    reason: str = ""
    check: str = ""
    slots: tuple[str, ...] = ()
    since: float = 0.0
    until: float = 0.0
    taint: str = ""
    proposal: str = ""
    refused: str = ""
    owner: str = ""
    cordoned: bool = False
    age: float | None = None

    @property
    def is_fine(self) -> bool:
        """True if there is nothing to say about the node."""
        return self.phase == HealthPhase.HEALTHY and not self.reason


class PoolHealthRow(Struct, frozen=True, kw_only=True):
    """One pool. used, limit: new quarantines of the fast lane within the window, and how many there may be."""

    pool: str
    nodes: int
    gpus: int
    lost: int
    phases: Mapping[str, int]
    used: int
    limit: int


class HealthOverview(Struct, frozen=True, kw_only=True):
    """One cluster. oldest: age of the oldest report in seconds; None without any. jobs: what is said about jobs."""

    cluster: str
    nodes: tuple[NodeHealthRow, ...]
    pools: tuple[PoolHealthRow, ...]
    breaker: BreakerState
    oldest: float | None = None
    notes: tuple[str, ...] = ()
    jobs: tuple[JobNote, ...] = ()

    @property
    def out(self) -> int:
        """Nodes that we keep out of use."""
        return sum(row.phase in _OUT for row in self.nodes)


_OUT = frozenset(phase.value for phase in HealthPhase if phase.is_out)


def overview(
    cluster: str,
    evaluation: FleetEvaluation,
    facts: Mapping[str, FleetNode],
    *,
    reports: Mapping[str, NodeReport],
    limits: BreakerLimits,
    now: float,
    evidence: FleetHealth | None = None,
    jobs: tuple[JobNote, ...] = (),
) -> HealthOverview:
    """Return the fleet as a person wants to see it. `evidence` tells of nodes that no report tells anything of."""
    rows = tuple(
        _row(decision, facts[name], evaluation.state.nodes.get(name, NodeState()), reports.get(name), now)
        for name, decision in sorted(evaluation.decisions.items())
        if name in facts
    )
    if evidence is not None:
        rows = tuple(_recorded(row, evidence, now) for row in rows)
    ages = [row.age for row in rows if row.age is not None]
    return HealthOverview(
        cluster=cluster,
        nodes=rows,
        pools=_pools(rows, evaluation.state.breaker, limits, now),
        breaker=evaluation.state.breaker,
        oldest=max(ages, default=None),
        notes=evaluation.notes,
        jobs=jobs,
    )


def _row(
    decision: HealthDecision, node: FleetNode, state: NodeState, report: NodeReport | None, now: float
) -> NodeHealthRow:
    is_unknown = decision.condition is ProblemStatus.UNKNOWN
    reason = decision.reason
    if is_unknown and not reason:
        reason = "no report" if report is None else "its report is too old"
    return NodeHealthRow(
        node=node.name,
        pool=node.pool,
        phase=UNKNOWN if is_unknown and decision.phase is HealthPhase.HEALTHY else decision.phase.value,
        gpus=node.gpus,
        reason=reason,
        check=decision.check,
        slots=decision.slots,
        since=state.since,
        until=decision.until,
        taint=str(decision.taint or ""),
        proposal=str(decision.proposal or ""),
        refused=decision.refused,
        owner=node.owner,
        cordoned=node.cordoned,
        age=None if report is None else max(now - report.measured_at, 0.0),
    )


def _recorded(row: NodeHealthRow, evidence: FleetHealth, now: float) -> NodeHealthRow:
    """Return the row with what the evidence recorded; a pass is healthy, and a failure no more than suspect."""
    known = evidence.nodes.get(row.node)
    if known is None:
        return row
    taken = unix_time(evidence.taken_at)
    age = max(now - taken, 0.0) if taken else None
    if row.phase != UNKNOWN:
        return replace(row, age=age)
    bad = [issue for issue in known.issues if issue.status == known.status]
    return replace(
        row,
        phase=_RECORDED.get(known.status, UNKNOWN),
        reason=_recorded_reason(known),
        check=bad[0].check if bad else "",
        slots=tuple(sorted({issue.slot for issue in bad if issue.slot})),
        age=age,
    )


def _recorded_reason(known: ObservedNode) -> str:
    issues = [
        f"{issue.check}{f' on {issue.slot}' if issue.slot else ''}: {issue.status}"
        for issue in known.issues
        if issue.status == known.status
    ]
    parts = [*issues[:_MAX_ISSUES], *([known.why] if known.why else [])]
    return "; ".join(parts) or ("recorded as unknown" if known.status is CheckStatus.UNKNOWN else "")


_MAX_ISSUES = 3
_RECORDED = {
    CheckStatus.PASS: HealthPhase.HEALTHY.value,
    CheckStatus.WARN: HealthPhase.HEALTHY.value,
    CheckStatus.FAIL: HealthPhase.SUSPECT.value,
}


def _pools(
    rows: tuple[NodeHealthRow, ...], breaker: BreakerState, limits: BreakerLimits, now: float
) -> tuple[PoolHealthRow, ...]:
    used = Counter(one.pool for one in breaker.admitted if now - one.at < limits.window)
    found = []
    for pool in sorted({row.pool for row in rows}):
        members = [row for row in rows if row.pool == pool]
        found.append(
            PoolHealthRow(
                pool=pool,
                nodes=len(members),
                gpus=sum(row.gpus for row in members),
                lost=sum(row.gpus for row in members if row.phase in _OUT),
                phases=dict(Counter(row.phase for row in members)),
                used=used[pool],
                limit=allowed(limits.per_pool, len(members), limits.minimum),
            )
        )
    return tuple(found)
