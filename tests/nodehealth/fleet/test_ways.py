"""Every transition as something that happens to a fleet: what people merge, what nodes report, what Kubernetes says."""

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.findings import FindingSeverity, ProbeProfile
from reconciler.nodehealth.fleet.decisions import HealthProposal
from reconciler.nodehealth.fleet.lifecycle import TRANSITIONS, Signal
from reconciler.nodehealth.fleet.state import CheckFailure, FleetState, HealthPhase, NodeState
from reconciler.nodehealth.policy import Lane
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.fleet.rounds import SLOTS, Rounds, fail, report

NODE = "n001"
P, S = HealthPhase, Signal
_IMPOSSIBLE = {(P.VALIDATING, S.FENCED)}  # nothing is fenced that is out of use: the failure itself is the signal


def merged(stage: Stage = Stage.QUARANTINE) -> NodeQuarantine:
    return NodeQuarantine(name=NODE, node=NODE, uid=f"uid-{NODE}", reason="slow", stage=stage)


def in_phase(phase: HealthPhase, signal: Signal) -> Rounds:
    """Return a fleet whose node is in a phase, as the rounds before have left it."""
    fleet = Rounds(count=40)
    is_fenced = signal in (S.OVERRIDDEN, S.WITHDRAWN) or (phase is P.SUSPECT and signal is S.RECOVERED)
    failure = CheckFailure(
        check="gpu.lost", slot=SLOTS[0], severity=FindingSeverity.FATAL, lane=Lane.FAST, enforced=True, acts=True,
        boot_id="boot-1", first=fleet.now, last=fleet.now, profile=ProbeProfile.LIGHT,
        passing_since=fleet.now - 3600 if signal is S.RECOVERED else 0.0,
    )  # fmt: skip
    keeps = phase is P.SUSPECT or signal in (
        S.RECOVERED,
        S.OVERRIDDEN,
        S.DRAINED,
        S.DRAIN,
        S.REPAIR,
        S.VALIDATE,
        S.REBOOTED,
    )
    fleet.state = FleetState(
        nodes={
            NODE: NodeState(
                phase=phase,
                since=fleet.now - 600,
                uid=f"uid-{NODE}",
                boot_id="boot-1",
                measured_at=fleet.now,
                received_at=fleet.now,
                gpus=dict(zip(SLOTS, ("GPU-1", "GPU-2"), strict=True)),
                failures=(failure,) if keeps else (),
                ours=is_fenced,
                cause="gpu.off" if signal is S.WITHDRAWN else "",
                until=fleet.now + 86_400 if is_fenced else 0.0,
                merged=signal is S.RELEASED,
            )
        }
    )
    return fleet


def _world(signal: Signal, fleet: Rounds) -> NodeReport:
    """Make the signal happen; return the report of the node."""
    stages = {S.DRAIN: Stage.DRAIN, S.REPAIR: Stage.REPAIR, S.VALIDATE: Stage.VALIDATE,
              S.RETIRE: Stage.RETIRE, S.MERGED: Stage.QUARANTINE, S.DRAINED: Stage.DRAIN}  # fmt: skip
    if signal in stages:
        fleet.quarantines = [merged(stages[signal])]
    if signal is S.OVERRIDDEN:
        fleet.change(NODE, unfenced=True)
    if signal is S.DRAINED:
        fleet.change(NODE, drained=True)
    if signal is S.REPLACED:
        fleet.change(NODE, uid="uid-new")
        return report(NODE, 0, uid="uid-new")
    if signal is S.SURVIVED:
        fleet.change(NODE, jobs=3)
    if signal is S.SUSPECTED and fleet.state.nodes[NODE].phase is P.HEALTHY:
        return report(NODE, 0, fail("hbm"))
    made = {
        S.SUSPECTED: report(NODE, 0, fail("gpu.lost")),
        S.FENCED: report(NODE, 0, fail("gpu.lost")),
        S.REBOOTED: report(NODE, 0, boot="boot-2"),
        S.VALIDATED: report(NODE, 0, deep=True),
    }
    return made.get(signal, report(NODE, 0))


@pytest.mark.parametrize(
    ("phase", "signal"),
    sorted(TRANSITIONS.keys() - _IMPOSSIBLE),
    ids=lambda one: one.value,
)
def test_what_makes_every_transition(phase: HealthPhase, signal: Signal) -> None:
    """F-096: each row of the table has something that happens, and leads where the table says."""
    fleet = in_phase(phase, signal)
    fleet.round(_world(signal, fleet))
    assert fleet.of(NODE).phase is TRANSITIONS[phase, signal], fleet.of(NODE).reason


def test_a_drained_node_is_told_and_its_repair_is_proposed() -> None:
    """F-096: while pods with GPUs are left nothing is proposed; then `stage: repair`, until that is merged."""
    fleet = Rounds(count=40)
    fleet.round()
    fleet.quarantines = [merged(Stage.DRAIN)]
    fleet.round(report(NODE, 0))
    assert (fleet.of(NODE).phase, fleet.of(NODE).proposal) == (P.DRAINING, None)
    assert fleet.of(NODE).reason.endswith("pods with GPUs are left on the node")
    fleet.change(NODE, drained=True)
    for _ in range(2):
        fleet.round(report(NODE, 0))
        decision = fleet.of(NODE)
        assert (decision.phase, decision.proposal) == (P.REMEDIATING, HealthProposal.REMEDIATE)
        assert "drained: no pod with GPUs is left" in decision.reason
        fleet.change(NODE, drained=False)  # asked only while it drains
    fleet.quarantines = [merged(Stage.REPAIR)]
    fleet.round(report(NODE, 0))
    assert (fleet.of(NODE).phase, fleet.of(NODE).proposal) == (P.REMEDIATING, None)


def test_a_silent_node_can_be_drained() -> None:
    """Pods are counted whether or not the agent reports: a broken node often has none."""
    fleet = Rounds(count=40)
    fleet.round()
    fleet.quarantines = [merged(Stage.DRAIN)]
    fleet.round()
    fleet.change(NODE, drained=True)
    fleet.round(minutes=60)
    assert fleet.of(NODE).phase is P.REMEDIATING


def test_nobody_else_is_asked_to_repair() -> None:
    """A node that another system repairs gets no proposal."""
    fleet = Rounds(count=40)
    fleet.change(NODE, owner="nvsentinel", drained=True)
    fleet.state = FleetState(nodes={NODE: replace(NodeState(), phase=P.DRAINING, uid=f"uid-{NODE}")})
    fleet.quarantines = [merged(Stage.DRAIN)]
    fleet.round()
    assert (fleet.of(NODE).phase, fleet.of(NODE).proposal) == (P.REMEDIATING, None)
