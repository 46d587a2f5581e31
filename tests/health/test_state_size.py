"""The state of a large fleet in which everything fails fits into its ConfigMap, and says the same when it is read."""

import msgspec
from msgspec.structs import replace

from reconciler.health.state_store import _MAX_COUNT, LaneState, _packed, compact
from reconciler.nodehealth.findings import FindingSeverity, RepairAction
from reconciler.nodehealth.fleet.failures import absorb, short
from reconciler.nodehealth.fleet.state import CheckFailure, FleetState, HealthPhase, NodeState
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from tests.nodehealth.fleet.rounds import SLOTS, fail, report

CHECKS = ("gpu.reachable", "gpu.recovery_action", "fabric.state")


def node(number: int, checks: tuple[str, ...]) -> NodeState:
    gpus = {
        f"0000:{16 + gpu:02x}:00.0": f"GPU-{number:08x}-{gpu:04x}-2222-3333-{number * 7919 + gpu:012x}"
        for gpu in range(8)
    }
    at = 1_800_000_000.0 + number
    failures = tuple(
        CheckFailure(
            check=check, slot=slot, uuid=uuid, message=f"{check}: the call failed, {number % 97} sweeps in a row",
            seen=FindingSeverity.FATAL, severity=FindingSeverity.FATAL, advised=RepairAction.RESET_GPU,
            action=RepairAction.RESET_GPU, acts=True, cause=check, boot_id=f"{number:032x}", first=at, last=at,
        )
        for check in checks
        for slot, uuid in gpus.items()
    )  # fmt: skip
    return NodeState(
        phase=HealthPhase.SUSPECT, since=at, uid=f"{number:032x}", measured_at=at, gpus=gpus, failures=failures
    )


def test_2048_nodes_with_three_failing_checks_on_each_gpu_fit() -> None:
    """F-100: 16,384 GPUs; with twice as many checks the texts are left to the next reports."""
    for checks, texts in ((CHECKS, True), ((*CHECKS, "nvlink.active", "pcie.width", "remap.failure"), False)):
        state = LaneState(
            fleet=FleetState(nodes={f"train-{number:04}": node(number, checks) for number in range(2048)})
        )
        kept = compact(state, texts=texts)
        assert len(_packed(kept)) <= _MAX_COUNT
        assert msgspec.json.decode(msgspec.json.encode(kept), type=LaneState) == kept


def test_a_compact_state_still_knows_the_device() -> None:
    """F-100: another GPU in the slot ends the failure, the same one does not."""
    policy = PolicyBook([PolicyDocument(name="base", spec={})]).base
    first = absorb(NodeState(), report("n", 100.0, fail("gpu.reachable")), policy, {}, 100.0)
    kept = compact(LaneState(fleet=FleetState(nodes={"n": replace(first, phase=HealthPhase.SUSPECT)}))).fleet.nodes["n"]
    assert (kept.failures[0].uuid, kept.gpus[SLOTS[0]]) == ("", short("GPU-1"))
    silent = replace(report("n", 160.0), passed=())
    assert absorb(kept, silent, policy, {}, 160.0).failures
    swapped = replace(report("n", 160.0, uuids=("GPU-9", "GPU-2")), passed=())
    assert not absorb(kept, swapped, policy, {}, 160.0).failures
