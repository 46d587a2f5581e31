"""Node pools, flavors, quotas and topologies proposed from observed nodes (F-045, F-046)."""

from typing import Any

import pytest
import yaml

from reconciler.index.sized.splice import edit_source
from reconciler.kube.yaml import Document, read, write
from reconciler.live.observe.pools import node_pools, pool_name, topology_levels
from reconciler.live.observe.propose import Proposed, propose_kueue, propose_torchrun
from reconciler.repo.config import Backend, Cluster
from reconciler.sizing.inventory import Inventory, Node, Taint

KUEUE = Cluster(name="main", backend=Backend.KUEUE)


def node(name: str, product: str = "", gpus: int = 0, *, cordoned: bool = False, **labels: str) -> Node:
    key = "amd.com/gpu.product-name" if product.startswith("AMD") else "nvidia.com/gpu.product"
    topology = {f"topology.example.com/{label}": value for label, value in labels.items()}
    return Node(
        name=name,
        labels=({key: product} if product else {}) | topology,
        product=product,
        gpus=gpus,
        allocatable_gpus=gpus,
        cpus=100,
        allocatable_cpus=100,
        allocatable_memory_gib=1000,
        unschedulable=cordoned,
    )


H100, MI300X = "NVIDIA-H100-80GB-HBM3", "AMD_Instinct_MI300X"
FLEET = Inventory(
    cluster="main",
    taken_at="2026-11-01T00:00:00Z",
    nodes=(
        node("cpu-1"),
        node("h-1", H100, 8, block="b1", rack="r1"),
        node("h-2", H100, 8, block="b1", rack="r2"),
        node("h-3", H100, 8, cordoned=True, block="b1", rack="r2"),
        node("m-1", MI300X, 8, block="b2", rack="r3"),
    ),
)


def documents(*bodies: dict[str, Any]) -> list[Document]:
    raw = b"---\n".join(write(body) for body in bodies)
    return list(read("queues/all.yaml", raw).documents)


def data(found: Proposed) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one.data["kind"], one.data["metadata"]["name"]): one.data for one in found.proposals}


def test_flavors_and_quotas_of_a_mixed_fleet() -> None:
    """F-045: AMD, NVIDIA and CPU nodes; nine tenths of CPUs and memory; a cordoned node does not count."""
    found = data(propose_kueue(KUEUE, FLEET, [], share=0.9))
    assert {name: found[kind, name]["spec"] for kind, name in found if kind == "ResourceFlavor"} == {
        "cpu-only": {"nodeLabels": {"gpureconciler.io/node-pool": "cpu-only"}},
        "nvidia-h100-80gb-hbm3-8gpu": {
            "nodeLabels": {"nvidia.com/gpu.product": H100},
            "topologyName": "default-topology",
        },
        "amd-instinct-mi300x-8gpu": {
            "nodeLabels": {"amd.com/gpu.product-name": MI300X},
            "topologyName": "default-topology",
        },
    }
    (group,) = found["ClusterQueue", "main"]["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "amd.com/gpu", "nvidia.com/gpu"]
    quotas = {
        flavor["name"]: [resource["nominalQuota"] for resource in flavor["resources"]] for flavor in group["flavors"]
    }
    assert quotas == {
        "cpu-only": [90, "900Gi", 0, 0],
        "amd-instinct-mi300x-8gpu": [90, "900Gi", 8, 0],
        "nvidia-h100-80gb-hbm3-8gpu": [180, "1800Gi", 0, 16],
    }
    assert next(iter(quotas)) == "cpu-only"
    assert found["Topology", "default-topology"]["spec"]["levels"] == [
        {"nodeLabel": "topology.example.com/block"},
        {"nodeLabel": "topology.example.com/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]
    assert found["LocalQueue", "main"]["metadata"]["namespace"] == "default"


def test_labels_for_nodes_are_patches() -> None:
    """F-046: nodes that no label of their own tells apart get one, in a patch that a person applies."""
    found = propose_kueue(KUEUE, FLEET, [], share=0.9)
    assert list(found.patches) == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "cpu-1", "labels": {"gpureconciler.io/node-pool": "cpu-only"}},
        }
    ]
    mixed = Inventory(cluster="main", taken_at="", nodes=(node("a", H100, 8), node("b", H100, 4)))
    pools = node_pools(mixed)
    assert [(pool.name, pool.unlabelled) for pool in pools] == [
        ("nvidia-h100-80gb-hbm3-4gpu", ("b",)),
        ("nvidia-h100-80gb-hbm3-8gpu", ("a",)),
    ]


def test_names_of_flavors_do_not_depend_on_the_kubelet() -> None:
    """F-045: CPUs and memory are in no name, so that an upgrade of nodes renames no flavor."""
    assert pool_name("nvidia.com/gpu", H100, 8) == "nvidia-h100-80gb-hbm3-8gpu"
    assert pool_name("nvidia.com/gpu", "Tesla T4", 1) == "nvidia-tesla-t4-1gpu"
    assert pool_name("amd.com/gpu", "", 8) == "amd-gpu-8gpu"
    assert pool_name("", "", 0) == "cpu-only"


def test_existing_queues_are_edited() -> None:
    """F-045: only quotas change; cohort, limits and comments are the user's."""
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "nvidia-h100-80gb-hbm3-8gpu"},
        "spec": {"nodeLabels": {"nvidia.com/gpu.product": H100}},
    }
    text = b"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  cohortName: all  # shared
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: nvidia-h100-80gb-hbm3-8gpu
          resources:
            - {name: cpu, nominalQuota: 100}
            - name: nvidia.com/gpu
              nominalQuota: 24  # three nodes
              borrowingLimit: 8
"""
    (queue,) = read("queues/team.yaml", text).documents
    fleet = Inventory(cluster="main", taken_at="", nodes=FLEET.nodes[1:3])
    found = propose_kueue(KUEUE, fleet, [*documents(flavor), queue], share=0.9)
    (edit,) = (one for one in found.proposals if one.document is queue)
    edited = edit_source(text, [(queue, edit.data)])
    assert edited.problems == ()
    lines = [line for line in edited.content.decode().splitlines() if line not in text.decode().splitlines()]
    assert lines == ["            - {name: cpu, nominalQuota: 180}", "              nominalQuota: 16  # three nodes"]
    done = yaml.safe_load(edited.content)
    (settled,) = documents(done)
    others = [one.data for one in found.proposals if one.document is not queue]
    again = propose_kueue(KUEUE, fleet, [settled, *documents(*others)], share=0.9)
    assert again.proposals == ()


def test_shared_flavors_are_left_alone() -> None:
    def queue(name: str) -> dict[str, Any]:
        flavors = [{"name": "nvidia-h100-80gb-hbm3-8gpu", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}]
        spec = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]}
        return {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": spec,
        }

    found = propose_kueue(KUEUE, FLEET, documents(queue("a"), queue("b")), share=0.9)
    assert found.notes == ("the quotas of a, b stay unchanged: several ClusterQueues share the flavors",)
    assert not [one for one in data(found) if one[0] == "ClusterQueue"]


def test_taints_of_a_pool() -> None:
    taint = Taint(key="gpu", value="yes", effect="NoSchedule")
    nodes = tuple(
        Node(
            name=f"n{number}", labels={"nvidia.com/gpu.product": H100}, product=H100, gpus=8,
            taints=(taint, Taint(key="x", effect="PreferNoSchedule")),
        )
        for number in range(2)
    )  # fmt: skip
    found = data(propose_kueue(KUEUE, Inventory(cluster="main", taken_at="", nodes=nodes), [], share=0.9))
    spec = found["ResourceFlavor", "nvidia-h100-80gb-hbm3-8gpu"]["spec"]
    assert spec["nodeTaints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert "topologyName" not in spec


def test_no_topology_without_labels() -> None:
    """F-045: levels come from labels that all nodes have, never from invented ones."""
    assert topology_levels([node("a", H100, 8)]) == ()
    assert topology_levels([node("a", H100, 8, rack="r1"), node("b", H100, 8)]) == ()


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{gpus: 8, cpus: 88, memory: 960Gi}", {"gpus": 8, "cpus": 90, "memory": "900Gi"}),
        ("{gpus: 8, cpus: 90, memory: 900Gi}", None),
    ],
)
def test_node_resources_of_torchrun_queues(resources: str, expected: dict[str, Any] | None) -> None:
    """F-045: what one node gives away, from the smallest node that the queue selects."""
    text = (
        "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunQueue\nmetadata: {name: h100}\nspec:\n"
        f"  nodeResources: {resources}\n  scheduling: {{nodeSelector: {{nvidia.com/gpu.product: {H100}}}}}\n"
    )
    found = list(propose_torchrun(FLEET, list(read("queues/h100.yaml", text.encode()).documents), share=0.9))
    assert [one.data["spec"]["nodeResources"] for one in found] == ([expected] if expected else [])
