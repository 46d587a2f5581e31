"""KA-22, F-122: the GPUs of queues and nodes, from the objects of a cluster and from evidence, as text and JSON."""

import json
from typing import Any

from reconciler.live.pages.capacity import ClusterCapacity, capacity_json, render_capacity
from reconciler.live.status.capacity import live_nodes, live_queues, recorded_nodes
from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory, Node

Body = dict[str, Any]


def _workload(name: str, queue: str, gpus: int, *conditions: str) -> Body:
    admission = {
        "clusterQueue": "kaiwo",
        "podSetAssignments": [{"resourceUsage": {"amd.com/gpu": str(gpus), "cpu": "4"}}],
    }
    container = {"resources": {"limits": {"amd.com/gpu": "4"}}}
    return {
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "queueName": queue,
            "podSets": [{"count": gpus // 4, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {
            "conditions": [{"type": one, "status": "True"} for one in conditions],
            **({"admission": admission} if "Admitted" in conditions else {}),
        },
    }


def _cluster_queue(name: str, gpus: int) -> Body:
    resources = [{"name": "amd.com/gpu", "nominalQuota": gpus}, {"name": "cpu", "nominalQuota": "100"}]
    return {
        "metadata": {"name": name},
        "spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": resources}]}]},
    }


def _local_queue(namespace: str, name: str, target: str) -> Body:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": target}}


QUEUES = ClusterCapacity(
    cluster="main",
    source="live",
    queues=live_queues(
        [_cluster_queue("kaiwo", 16), _cluster_queue("idle", 8)],
        [_local_queue("team-a", "kaiwo", "kaiwo"), _local_queue("team-b", "kaiwo", "kaiwo")],
        [
            _workload("one", "kaiwo", 8, "Admitted"),
            _workload("two", "kaiwo", 12),
            _workload("old", "kaiwo", 4, "Admitted", "Finished"),
            _workload("lost", "absent", 4),
        ],
    ),
)


def test_ka_22_f_122_queues_as_text() -> None:
    assert render_capacity(QUEUES) == (
        "main (live)\n"
        "  queue                    quota  requested  admitted  pending  workloads\n"
        "  ClusterQueue idle            8          0         0        0          0\n"
        "  ClusterQueue kaiwo          16         20         8       12          2\n"
        "  LocalQueue team-a/kaiwo      -         20         8       12          2\n"
        "  LocalQueue team-b/kaiwo      -          0         0        0          0\n"
    )


def test_ka_22_f_122_queues_as_json() -> None:
    (cluster,) = json.loads(capacity_json([QUEUES]))["clusters"]
    assert cluster["queues"][1] == {
        "kind": "ClusterQueue",
        "namespace": "",
        "name": "kaiwo",
        "quota": 16,
        "requested": 20,
        "admitted": 8,
        "pending": 12,
        "workloads": 2,
    }
    assert "nodes" not in cluster


def _node(name: str, resource: str, *, cordoned: bool = False) -> Body:
    labels = (
        {"amd.com/gpu.product-name": "MI300X"} if resource.startswith("amd") else {"nvidia.com/gpu.product": "H100"}
    )
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"allocatable": {resource: "8", "cpu": "95500m", "memory": "1024Gi"}},
    }


def _pod(node: str, phase: str = "Running") -> Body:
    resources = {"requests": {"cpu": "4", "memory": "32Gi"}, "limits": {"amd.com/gpu": "2", "cpu": "8"}}
    return {"spec": {"nodeName": node, "containers": [{"resources": resources}]}, "status": {"phase": phase}}


def test_ka_22_f_122_nodes_of_a_vendor_with_what_is_used() -> None:
    nodes = [_node("b", "amd.com/gpu", cordoned=True), _node("a", "amd.com/gpu"), _node("c", "nvidia.com/gpu")]
    pods = [_pod("a"), _pod("a"), _pod("a", "Succeeded"), _pod("c")]
    found = ClusterCapacity(cluster="main", source="live", nodes=live_nodes(nodes, pods, Vendor.AMD))
    assert render_capacity(found) == (
        "main (live)\n"
        "  node  model   GPUs    CPUs  memory GiB  pods\n"
        "  a     MI300X   4/8  8/95.5     64/1024     2\n"
        "  b     MI300X   0/8  0/95.5      0/1024     0  cordoned\n"
        "  MI300X: 4/16 GPUs\n"
    )
    assert [row.name for row in live_nodes(nodes, pods, Vendor.NVIDIA)] == ["c"]


def test_ka_22_f_122_what_evidence_does_not_say_is_unknown() -> None:
    nodes = (
        Node(name="a", product="AMD_Instinct_MI300X", gpus=8),
        Node(name="b", product="NVIDIA-H100", gpus=8, cpus=96),
    )
    inventory = Inventory(cluster="main", taken_at="2026-11-01T06:00:00Z", nodes=nodes)
    (amd,) = recorded_nodes(inventory, Vendor.AMD)
    assert (amd.gpus, amd.used_gpus, amd.cpus, amd.pods) == (8, None, None, None)
    (nvidia,) = recorded_nodes(inventory, Vendor.NVIDIA)
    assert (nvidia.name, nvidia.cpus) == ("b", 96.0)
    assert recorded_nodes(None, Vendor.AMD) == ()
