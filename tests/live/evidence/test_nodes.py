"""Nodes of a live cluster become evidence: table tests on plain objects (F-045)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.live.observe.evidence import observe_nodes, selector_labels, shrink
from reconciler.sizing.inventory import Inventory, Node, Taint, same_nodes, write_inventory


def node(name: str = "n", labels: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {}, "status": {**ready, **status}}


NVIDIA = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
AMD = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X", "amd.com/gpu.vram": "192G"}


@pytest.mark.parametrize(
    ("labels", "capacity", "expected"),
    [
        (NVIDIA, {"nvidia.com/gpu": "8"}, ("NVIDIA-H100-80GB-HBM3", 8, 81559)),
        (AMD, {"amd.com/gpu": "8"}, ("AMD_Instinct_MI300X", 8, 183105)),
        ({}, {"cpu": "64"}, ("", 0, 0)),
        (NVIDIA | {"nvidia.com/gpu.count": "8"}, {}, ("NVIDIA-H100-80GB-HBM3", 8, 81559)),  # no device plugin yet
        (NVIDIA | {"nvidia.com/gpu.count": "8"}, {"nvidia.com/gpu": "0"}, ("", 0, 0)),
        ({"beta.amd.com/gpu.family.AI": "4"}, {}, ("", 4, 0)),
    ],
)
def test_gpus(labels: dict[str, str], capacity: dict[str, str], expected: tuple[str, int, int]) -> None:
    """F-045: AMD, NVIDIA and CPU nodes."""
    (found,) = observe_nodes([node(labels=labels, capacity=capacity, allocatable=capacity)]).nodes
    assert (found.product, found.gpus, found.memory_mib) == expected


def test_what_changes_often_is_left_out() -> None:
    """Bytes of memory, taints of conditions, heartbeats and foreign labels are no decision's input."""
    capacity = {"cpu": "96", "memory": "1056461568Ki", "nvidia.com/gpu": "8"}
    first = node(labels=NVIDIA | {"example.com/last-boot": "1"}, capacity=capacity, allocatable=capacity)
    second = node(
        labels=NVIDIA | {"example.com/last-boot": "2"},
        capacity={**capacity, "memory": "1056461440Ki"},
        allocatable={**capacity, "memory": "1056461440Ki"},
    )
    second["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    assert observe_nodes([first]).nodes == observe_nodes([second]).nodes


def test_labels_of_selectors_are_kept() -> None:
    labels = {"team-pool": "a", "other": "b", "topology.kubernetes.io/zone": "z", "topology.ebs.csi.aws.com/zone": "z"}
    (found,) = observe_nodes([node(labels=labels)], ["team-pool"]).nodes
    assert found.labels == {"team-pool": "a", "topology.kubernetes.io/zone": "z"}
    queue = {"spec": {"scheduling": {"nodeSelector": {"team-pool": "a"}}, "levels": [{"nodeLabel": "rack"}]}}
    assert set(selector_labels([queue, {"spec": {"nodeLabels": {"flavor": "x"}}}])) == {"team-pool", "rack", "flavor"}
    term = {"matchExpressions": [{"key": "side", "operator": "In", "values": ["a"]}, {}, 7]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, "x"]}}}
    assert list(selector_labels({"affinity": affinity})) == ["side"]


def test_cordons_taints_and_broken_gpus() -> None:
    body = node(labels=NVIDIA, capacity={"nvidia.com/gpu": "8"}, allocatable={"nvidia.com/gpu": "7"})
    body["spec"] = {"unschedulable": True, "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    body["status"]["conditions"][0]["status"] = "Unknown"
    seen = observe_nodes([body])
    (found,) = seen.nodes
    assert (found.unschedulable, found.gpus, found.allocatable_gpus) == (True, 8, 7)
    assert found.taints == (Taint(key="gpu", value="yes", effect="NoSchedule"),)
    assert seen.notes == (
        "node n is not ready, and stays in the evidence until it is deleted",
        "node n: 1 of 8 GPUs are not allocatable",
    )


def test_contradictions_are_told() -> None:
    labels = NVIDIA | {"nvidia.com/gpu.count": "8"}
    unknown = node("b", capacity={"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "4"})
    assert observe_nodes([node("a", labels=labels), unknown]).notes == (
        "node a: its labels report 8 GPUs, but no device plugin offers them",
        "node b has 4 GPUs of an unknown product (no label such as nvidia.com/gpu.product)",
    )


@given(st.permutations([node(f"n{number}", labels=NVIDIA, capacity={"nvidia.com/gpu": "8"}) for number in range(5)]))
def test_the_order_of_the_server_does_not_matter(bodies: list[dict[str, Any]]) -> None:
    found = Inventory(cluster="main", taken_at="2026-11-01T00:00:00Z", nodes=observe_nodes(bodies).nodes)
    expected = Inventory(
        cluster="main",
        taken_at="2026-11-01T00:00:00Z",
        nodes=observe_nodes(sorted(bodies, key=lambda body: body["metadata"]["name"])).nodes,
    )
    assert write_inventory(found) == write_inventory(expected)
    assert same_nodes(found, expected)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["metadata", "name", "labels", "spec", "taints", "status", "capacity", "allocatable", "cpu", "memory", "nvidia.com/gpu", "key", "conditions"]), inner)))  # fmt: skip
def test_malformed_nodes_never_fail(body: Any) -> None:
    observe_nodes([body if isinstance(body, dict) else {}])


def fleet(nodes: int, gpus: int = 8) -> Inventory:
    return Inventory(
        cluster="main", taken_at="", nodes=tuple(Node(name=f"n{number}", gpus=gpus) for number in range(nodes))
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, fleet(0), ""),
        (fleet(8), fleet(6), ""),
        (fleet(8), fleet(5), "3 of 8 nodes are gone (38%); at most 25% may go at once"),
        (fleet(100), fleet(75), ""),
        (fleet(100), fleet(74), "26 of 100 nodes are gone (26%); at most 25% may go at once"),
        (fleet(8), fleet(8, 4), "32 of 64 GPUs are gone (50%); at most 25% may go at once"),
        (fleet(1), fleet(0), "none of 1 node is left"),
    ],
)
def test_fleets_that_shrink(before: Inventory | None, after: Inventory, expected: str) -> None:
    assert shrink(before, after, 0.25) == expected
