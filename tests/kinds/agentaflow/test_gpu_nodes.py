"""GPUNodes as evidence, and the annotation of nodes with the same: every GPU with its own product and memory."""

import json
from typing import Any

import pytest

from reconciler.index.evidence import read_evidence
from reconciler.index.parsed import ParsedFile
from reconciler.kinds.agentaflow.gpu_node import annotated_devices, common, parse_gpu_node
from reconciler.kinds.registry import BUILT_IN
from reconciler.live.observe.evidence import observe_nodes
from reconciler.live.status.capacity import gpu_issues, node_loads
from reconciler.repo.config import Cluster, Config
from tests.kinds.kaiwo.kaiwo_cases import CATALOGUE, documents

MIXED = [
    {"id": f"gpu-{index}", "name": name, "memoryTotal": memory, "pciBusID": f"00000000:0{index}:00.0"}
    for index, (name, memory) in enumerate([("NVIDIA A100-SXM4-80GB", 81920)] * 5 + [("NVIDIA L40S", 46068)] * 3)
]
NODE: dict[str, Any] = {
    "apiVersion": "agentaflow.io/v1",
    "kind": "GPUNode",
    "metadata": {"name": "a"},
    "spec": {"nodeName": "gpu-a", "gpuDevices": MIXED},
    "status": {
        "phase": "Maintenance",
        "lastUpdated": "2026-11-01T06:00:00Z",
        "gpuStatus": [{"id": "gpu-0", "utilization": 30.0, "memoryUsed": 100}, {"id": "gpu-1", "utilization": 70}],
    },
}
INVENTORY = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: main}
spec:
  takenAt: "2026-11-01T06:00:00Z"
  nodes: [{name: gpu-a, gpu: {product: X, count: 4}}, {name: gpu-z, gpu: {product: Z, count: 1, memoryMiB: 7}}]
"""


def evidence(*texts: str) -> Any:
    config = Config(clusters=(Cluster(name="main"),))
    read = tuple(one for text in texts for one in documents(text, "evidence/main/nodes.yaml"))
    assert [problem for one in read for problem in CATALOGUE.validate(one)] == []
    sound = (True,) * len(read)
    file = ParsedFile("evidence/main/nodes.yaml", "", b"", read, sound, ("",) * len(read), ())
    return read_evidence(config, config.clusters, BUILT_IN, [file])


def test_each_gpu_is_a_record() -> None:
    """F-027, agentaflow defect 1: 8 GPUs of two kinds are 8 records, each with its product and memory."""
    (document,) = documents(json.dumps(NODE))
    found = parse_gpu_node(document)
    assert len(found.devices) == 8
    assert {one.product for one in found.devices} == {"NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"}
    assert [one.memory_mib for one in found.devices] == [81920] * 5 + [46068] * 3
    assert (found.name, found.is_open) == ("gpu-a", False)
    assert annotated_devices({"agentaflow.gpu/devices": json.dumps(MIXED)}) == found.devices
    assert common(found.devices) == ("NVIDIA-A100-SXM4-80GB", 46068)


@pytest.mark.parametrize("written", [None, "", "{", "7", '["a", 7]', "[" * 5000, '{"id": 1}'])
def test_annotations_that_cannot_be_read(written: Any) -> None:
    """F-027: what is no list of GPUs is none."""
    assert all(not one.memory_mib and not one.product for one in annotated_devices({"agentaflow.gpu/devices": written}))


def test_nodes_beside_the_inventory() -> None:
    """F-027, agentaflow defect 3: a GPUNode adds what was not measured, and replaces nothing."""
    other = {**NODE, "metadata": {"name": "gpu-b"}, "spec": {"gpuDevices": MIXED[:2]}}
    found = evidence(INVENTORY, json.dumps(NODE), json.dumps(other))
    nodes = {node.name: node for node in found.inventories["main"].nodes}
    assert found.problems == ()
    assert (nodes["gpu-a"].product, nodes["gpu-a"].gpus, nodes["gpu-a"].memory_mib) == ("X", 4, 46068)
    assert (nodes["gpu-b"].product, nodes["gpu-b"].gpus) == ("NVIDIA-A100-SXM4-80GB", 2)
    assert nodes["gpu-b"].unschedulable
    assert nodes["gpu-z"].memory_mib == 7
    assert [node.name for node in found.measured["main"].nodes] == ["gpu-a", "gpu-z"]


def test_nodes_alone() -> None:
    """F-027: GPUNodes without an inventory are one, as old as they are."""
    found = evidence(json.dumps(NODE)).inventories["main"]
    assert (found.taken_at, len(found.nodes), found.nodes[0].gpus) == ("2026-11-01T06:00:00Z", 1, 8)


def test_utilisation_of_nodes() -> None:
    """F-027, agentaflow defect 2, agentaflow defect 22: the status is read; GPUs of unknown use do not count as idle."""
    (document,) = documents(json.dumps(NODE))
    loads = node_loads(None, [parse_gpu_node(document)])
    assert (loads["gpu-a"].percent, loads["gpu-a"].gpus) == (50.0, 2)
    (empty,) = documents(json.dumps({**NODE, "status": {"gpuStatus": [{"id": "gpu-0"}]}}))
    assert node_loads(None, [parse_gpu_node(empty)]) == {}


def test_the_annotation_of_a_live_node() -> None:
    """F-027, agentaflow defect 1: without labels, `observe` reads product and memory from the annotation."""
    status = {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    body: dict[str, Any] = {
        "metadata": {"name": "gpu-a", "annotations": {"agentaflow.gpu/devices": json.dumps(MIXED)}},
        "spec": {},
        "status": status,
    }
    (node,) = observe_nodes([body]).nodes
    assert (node.product, node.gpus, node.memory_mib) == ("NVIDIA-A100-SXM4-80GB", 8, 46068)
    body["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}
    (labelled,) = observe_nodes([body]).nodes
    assert labelled.product == "NVIDIA-L40S"


def test_a_gpu_node_is_no_source() -> None:
    """F-027: it says what a node is, which nobody decides."""
    row = BUILT_IN.find("agentaflow.io", "GPUNode")
    assert row.source.refusal is not None


@pytest.mark.parametrize(
    ("state", "issues"),
    [
        ({"temperature": 85}, ()),
        ({"temperature": 86}, ("gpu-0 warning (86 °C)",)),
        ({"temperature": 86, "utilization": 99}, ("gpu-0 warning (86 °C)",)),
        ({"temperature": 96}, ("gpu-0 unhealthy (96 °C)",)),
        ({"temperature": 40, "memoryUsed": 40000}, ()),
        ({"temperature": 40, "memoryUsed": 75000}, ("gpu-0 warning (40 °C)",)),
        ({"utilization": 99}, ()),
    ],
)
def test_issues_of_gpus(state: dict[str, Any], issues: tuple[str, ...]) -> None:
    """F-100, agentaflow defect 21: the real memory decides, and a busy GPU stays as hot as it is."""
    (document,) = documents(json.dumps({**NODE, "status": {"gpuStatus": [{"id": "gpu-0", **state}]}}))
    assert gpu_issues(parse_gpu_node(document)) == issues
