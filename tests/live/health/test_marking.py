"""What we write to nodes of the real API server, beside every other writer."""

import threading

import pytest
from msgspec.structs import replace

from reconciler.health.fast_lane import MarkResult, node_key, write_mark
from reconciler.kube.client import KubernetesCluster
from reconciler.live.observe.owners import repair_owner
from reconciler.nodehealth.nodes import (
    AUTOSCALER_TAINT,
    HEARTBEAT_SECONDS,
    KEEP,
    STATE_LABEL,
    TAINT,
    HealthTaint,
    NodeMark,
    is_overridden,
    taint_record,
)
from tests.live.health.conftest import START, MakeNode, Node, SetClock, conditions, events, read, taints
from tests.live.speed.conftest import Requests

DAY = 86400.0


def bad(node: Node, **changes: object) -> NodeMark:
    taint = HealthTaint(reason="gpu.recovery_action", case="case-1", since=START, until=START + DAY)
    mark = NodeMark(
        node=node["metadata"]["name"],
        uid=node["metadata"]["uid"],
        state="quarantined",
        is_problem=True,
        reason="GpuRecoveryAction",
        message="GPU 0000:9b:00.0 must be reset",
        taint=taint,
    )
    return replace(mark, **changes)


def good(node: Node) -> NodeMark:
    metadata = node["metadata"]
    return NodeMark(
        node=metadata["name"],
        uid=metadata["uid"],
        state="healthy",
        is_problem=False,
        reason="NoProblem",
        message="all checks pass",
        validated=True,
    )


def test_a_bad_node_gets_condition_taint_label_and_event_and_a_good_one_loses_them(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock
) -> None:
    """F-096: the fast lane's writes, and their way back."""
    node = make_node()
    written = write_mark(live, bad(node), node, clock=clock)
    assert written.result is MarkResult.WRITTEN
    seen = read(live, written.node)
    assert conditions(seen) == {"Ready": "True", "GPUProblem": "True", "GPUValidated": "Unknown"}
    assert (
        seen["spec"]["taints"][0].items()
        >= {"key": TAINT, "value": "gpu.recovery_action", "effect": "NoSchedule"}.items()
    )
    assert seen["metadata"]["labels"][STATE_LABEL] == "quarantined"
    record = taint_record(seen)
    assert record is not None
    assert (record.case, record.until) == ("case-1", "2026-09-22T14:13:20Z")
    assert events(live, seen) == ["GpuRecoveryAction"]
    managers = {row["manager"] for row in seen["metadata"]["managedFields"]}
    assert "gpureconciler-health" in managers

    assert write_mark(live, good(node), seen, clock=clock).result is MarkResult.WRITTEN
    seen = read(live, written.node)
    assert conditions(seen) == {"Ready": "True", "GPUProblem": "False", "GPUValidated": "True"}
    assert (taints(seen), seen["metadata"]["labels"][STATE_LABEL], taint_record(seen)) == ([], "healthy", None)
    assert events(live, seen) == ["GpuRecoveryAction", "NoProblem"]


def test_nothing_is_written_while_nothing_changes(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock, requests: Requests
) -> None:
    node = make_node()
    write_mark(live, bad(node), node, clock=clock)
    seen = read(live, node["metadata"]["name"])
    requests.take()
    clock.pause(60.0)
    assert write_mark(live, bad(node), seen, clock=clock).result is MarkResult.UNCHANGED
    assert not requests.take()
    clock.pause(HEARTBEAT_SECONDS)
    assert write_mark(live, bad(node), seen, clock=clock).changes == ()
    assert dict(requests.take()) == {"apply": 1}, "a heartbeat, and no event"
    row = next(
        one for one in read(live, node["metadata"]["name"])["status"]["conditions"] if one["type"] == "GPUProblem"
    )
    assert (row["lastTransitionTime"], row["lastHeartbeatTime"]) == ("2026-09-21T14:13:20Z", "2026-09-21T14:19:20Z")


def test_a_dry_run_sends_nothing(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock, requests: Requests
) -> None:
    """F-101: a dry run makes no write requests at all."""
    node = make_node()
    requests.take()
    planned = write_mark(live, bad(node), node, clock=clock, dry_run=True)
    assert planned.result is MarkResult.PLANNED
    assert len(planned.changes) == 4
    assert not requests.take()
    assert read(live, planned.node) == node


def test_taints_of_others_survive_concurrent_edits(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock
) -> None:
    """A second writer keeps adding and removing its taint while ours comes and goes: neither loses anything."""
    node = make_node(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}], unschedulable=True)
    name, rounds = node["metadata"]["name"], 15
    failures: list[str] = []

    def other() -> None:
        key = node_key(name)
        for number in range(rounds):
            while True:
                before = read(live, name)
                rows = [*before["spec"]["taints"], {"key": f"other/{number}", "effect": "NoSchedule"}]
                version = {
                    "op": "test",
                    "path": "/metadata/resourceVersion",
                    "value": before["metadata"]["resourceVersion"],
                }
                try:
                    live.patch(
                        key, [version, {"op": "replace", "path": "/spec/taints", "value": rows}], manager="other"
                    )
                    break
                except Exception as error:  # noqa: BLE001 - a conflict: read again
                    if "422" not in str(error):
                        failures.append(str(error))
                        return

    writer = threading.Thread(target=other)
    writer.start()
    results = []
    while writer.is_alive():
        results += [write_mark(live, mark, read(live, name), clock=clock) for mark in (bad(node), good(node))]
    writer.join()
    last = write_mark(live, bad(node), read(live, name), clock=clock)
    assert not failures
    assert last.result in (MarkResult.WRITTEN, MarkResult.UNCHANGED)
    seen = read(live, name)
    assert {one.result for one in results} <= {MarkResult.WRITTEN, MarkResult.UNCHANGED, MarkResult.CONTENDED}
    assert {f"other/{number}" for number in range(rounds)} | {"nvidia.com/gpu", TAINT} <= set(taints(seen))
    assert seen["spec"]["unschedulable"] is True, "a cordon of others stays"


def test_a_stale_look_at_the_node_is_read_again(live: KubernetesCluster, make_node: MakeNode, clock: SetClock) -> None:
    node = make_node()
    name = node["metadata"]["name"]
    live.patch(node_key(name), {"spec": {"taints": [{"key": "theirs", "effect": "NoExecute"}]}}, manager="other")
    written = write_mark(live, bad(node), node, clock=clock)
    assert (written.result, written.conflicts) == (MarkResult.WRITTEN, 1)
    assert taints(read(live, name)) == ["theirs", TAINT]


def test_a_machine_that_was_replaced_or_is_gone_is_left_alone(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock
) -> None:
    """F-102: a report of the machine before says nothing about the one that has its name now."""
    node = make_node()
    other = bad(node, uid="00000000-0000-0000-0000-000000000000")
    assert write_mark(live, other, node, clock=clock).result is MarkResult.REPLACED
    assert taints(read(live, other.node)) == []
    live.delete(node_key(other.node), uid=node["metadata"]["uid"], propagation="Background")
    assert write_mark(live, bad(node), node, clock=clock).result is MarkResult.GONE


@pytest.mark.parametrize("had_keep", [False, True])
def test_cluster_autoscaler_keeps_the_node_while_evidence_is_collected(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock, *, had_keep: bool
) -> None:
    node = make_node(annotations={KEEP: "true"} if had_keep else None)
    taint = HealthTaint(reason="xid", case="c", since=START, until=START + 1, key=AUTOSCALER_TAINT, keep=True)
    write_mark(live, bad(node, taint=taint), node, clock=clock)
    seen = read(live, node["metadata"]["name"])
    assert (taints(seen), seen["metadata"]["annotations"][KEEP]) == ([AUTOSCALER_TAINT], "true")
    write_mark(live, good(node), seen, clock=clock)
    seen = read(live, node["metadata"]["name"])
    assert (KEEP in seen["metadata"].get("annotations", {})) is had_keep, "that of others stays"


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"dgxc.nvidia.com/nvsentinel-state": "quarantined"}, "NVSentinel"),
        ({"karpenter.sh/nodepool": "gpu"}, "Karpenter"),
        ({"eks.amazonaws.com/compute-type": "auto"}, "EKS node auto repair"),
        ({"cloud.google.com/gke-nodepool": "gpu"}, "GKE node auto-repair"),
    ],
)
def test_where_somebody_else_repairs_nodes_we_only_say_what_we_see(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock, labels: dict[str, str], name: str
) -> None:
    """F-101: one owner for every node."""
    node = make_node(labels=labels)
    owner = repair_owner(node)
    assert owner is not None
    assert owner.name == name
    written = write_mark(live, bad(node), node, clock=clock, owner=owner)
    assert (written.result, written.observed) == (MarkResult.WRITTEN, owner)
    seen = read(live, written.node)
    assert conditions(seen)["GPUProblem"] == "True"
    assert (taints(seen), seen["metadata"]["labels"]) == ([], node["metadata"]["labels"])


def test_a_taint_that_a_person_removed_is_recognized(
    live: KubernetesCluster, make_node: MakeNode, clock: SetClock
) -> None:
    node = make_node()
    name = node["metadata"]["name"]
    write_mark(live, bad(node), node, clock=clock)
    assert not is_overridden(read(live, name))
    live.patch(node_key(name), {"spec": {"taints": None}}, manager="kubectl")
    assert is_overridden(read(live, name))
