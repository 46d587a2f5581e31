"""Fleets for the tests of the evaluator: nodes, reports, and rounds that follow each other."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding, ProbeProfile
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision
from reconciler.nodehealth.fleet.evaluate import FleetInput, evaluate
from reconciler.nodehealth.fleet.state import FleetNode, FleetState, NodeState
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.readings import GpuIdentity
from reconciler.nodehealth.report import NodeReport, ProfileRun

if TYPE_CHECKING:
    from reconciler.nodehealth.fleet.failures import Rules
    from reconciler.nodehealth.quarantine import NodeQuarantine

FAST = {"mode": "enforce", "lane": "fast", "severity": "fatal"}
SPEC: Mapping[str, Any] = {
    "checks": {
        "gpu.lost": FAST,
        "ecc": {"mode": "enforce", "lane": "fast", "severity": "degraded"},
        "hbm": {"mode": "propose"},
        "deep.gemm": {"mode": "enforce", "lane": "fast", "severity": "degraded"},
    },
    "xid": {"79": FAST},
}
CHECKS = ("gpu.lost", "ecc", "hbm", "deep.gemm", "gpu.xid")
SLOTS = ("0000:1b:00.0", "0000:9b:00.0")


def fail(check: str, slot: str = SLOTS[0], profile: ProbeProfile = ProbeProfile.LIGHT) -> HealthFinding:
    return HealthFinding(
        check=check,
        status=CheckStatus.FAIL,
        message="Xid 79, 48 x2 (GPU has fallen off the bus)" if check == "gpu.xid" else "it failed",
        slot=slot,
        severity=FindingSeverity.DEGRADED,
        profile=profile,
    )


def report(
    node: str,
    at: float,
    *findings: HealthFinding,
    deep: bool = False,
    boot: str = "boot-1",
    uid: str = "",
    uuids: Iterable[str] = ("GPU-1", "GPU-2"),
) -> NodeReport:
    """Return a report in which every check that does not fail passes."""
    failed = {finding.check for finding in findings}
    passed = tuple(check for check in CHECKS if check not in failed)
    gpus = tuple(GpuIdentity(slot=slot, uuid=uuid) for slot, uuid in zip(SLOTS, uuids, strict=True))
    return NodeReport(
        node=node,
        measured_at=at,
        node_uid=uid or f"uid-{node}",
        boot_id=boot,
        gpus=gpus,
        findings=findings,
        passed=passed,
        passed_by=dict.fromkeys(passed, ProbeProfile.DEEP) if deep else {},
    )


def _with_run(one: NodeReport) -> NodeReport:
    """Return a report whose deep passes come from a run that has just ended."""
    run = ProfileRun(profile=ProbeProfile.DEEP, finished_at=one.measured_at, status=CheckStatus.PASS)
    return replace(one, runs=(run,)) if one.passed_by and not one.runs else one


class Rounds:
    """A fleet that is evaluated again and again, one minute after the other."""

    def __init__(self, count: int = 100, spec: Mapping[str, Any] = SPEC, now: float = 1_000_000.0) -> None:
        self.now = now
        self.facts = {
            name: FleetNode(name=name, uid=f"uid-{name}", pool="a", product="H100", gpus=8)
            for name in (f"n{index:03}" for index in range(count))
        }
        self.policies = PolicyBook([PolicyDocument(name="base", spec=spec)])
        self.state = FleetState()
        self.quarantines: list[NodeQuarantine] = []
        self.reports: dict[str, NodeReport] = {}
        self.last: FleetEvaluation | None = None
        self.alerts: list[str] = []
        self.defaults: Rules = {}

    def round(self, *reports: NodeReport, minutes: float = 1) -> FleetEvaluation:
        """Evaluate after some minutes: the given reports, and a healthy one of all nodes without any so far."""
        self.now += 60 * minutes
        given = {one.node: replace(one, measured_at=self.now) if not one.measured_at else one for one in reports}
        given = {name: _with_run(one) for name, one in given.items()}
        healthy = {name: report(name, self.now) for name in self.facts if name not in self.reports}
        self.reports = {**self.reports, **healthy, **given}
        made = evaluate(
            FleetInput(
                facts=self.facts,
                reports=self.reports,
                policies=self.policies,
                defaults=self.defaults,
                quarantines=tuple(self.quarantines),
            ),
            self.state,
            self.now,
        )
        self.state, self.last = made.state, made
        self.alerts += [alert.reason for alert in made.alerts]
        return made

    def change(self, node: str, **facts: Any) -> None:
        self.facts[node] = replace(self.facts[node], **facts)

    def policy(self, **spec: Any) -> None:
        self.policies = PolicyBook([PolicyDocument(name="base", spec={**SPEC, **spec})])

    def of(self, node: str) -> HealthDecision:
        assert self.last is not None
        return self.last.decisions[node]

    def kept(self, node: str) -> NodeState:
        return self.state.nodes[node]
