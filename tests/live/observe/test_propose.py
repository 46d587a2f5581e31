"""`reconciler propose`: from evidence to edits of queue files, which the real API server accepts."""

import yaml

from reconciler.kube.client import KubernetesCluster
from tests.cli.fleet import Fleet

EVIDENCE = "evidence/main/nodes.yaml"
NODE = """\
    - name: {name}
      labels: {{{labels}}}
      {gpu}
      cpus: 96
      allocatable: {{cpus: 95, memoryGiB: 1000}}
      {more}
"""
H100 = "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, topology.kubernetes.io/zone: a"
MI300X = "amd.com/gpu.product-name: AMD_Instinct_MI300X, topology.kubernetes.io/zone: b"


def inventory(*nodes: str) -> str:
    return (
        "apiVersion: gpureconciler.io/v1alpha1\nkind: NodeInventory\nmetadata: {name: main}\n"
        f'spec:\n  cluster: main\n  takenAt: "2026-11-01T06:00:00Z"\n  nodes:\n{"".join(nodes)}'
    )


def node(name: str, labels: str, product: str = "", more: str = "") -> str:
    gpu = f"gpu: {{product: {product}, count: 8}}" if product else "unschedulable: false"
    return NODE.format(name=name, labels=labels, gpu=gpu, more=more or "taints: []")


def test_proposed_objects_are_accepted(fleet: Fleet, live: KubernetesCluster) -> None:
    """F-045, F-046: pools of a mixed fleet as files; the server accepts them, and a second proposal is empty."""
    fleet.edit("reconciler.yaml", "backend: kai", "backend: kueue")
    fleet.write(
        EVIDENCE,
        inventory(
            node("h-1", H100, "NVIDIA-H100-80GB-HBM3"),
            node("h-2", H100, "NVIDIA-H100-80GB-HBM3", "unschedulable: true"),
            node("m-1", MI300X, "AMD_Instinct_MI300X"),
            node("c-1", "kubernetes.io/arch: amd64"),
        ),
    )
    shown = fleet.run("propose", "--exit-code")
    assert shown.code == 1
    assert "+++ queues/main-pools.yaml" in shown.out
    assert not (fleet.root / "queues/main-pools.yaml").exists()
    ran = fleet.run("propose", "--write")
    assert ran.out.splitlines() == [
        "wrote queues/h100.yaml",
        "wrote queues/main-pools.yaml",
        "wrote node-labels/main.yaml",
    ]
    queue = (fleet.root / "queues/h100.yaml").read_text()
    assert "    cpus: 85              # of 96; the rest is for the node's daemons\n    memory: 900Gi\n" in queue
    made = list(yaml.safe_load_all((fleet.root / "queues/main-pools.yaml").read_text()))
    assert [body["kind"] for body in made] == ["Topology", *["ResourceFlavor"] * 3, "ClusterQueue", "LocalQueue"]
    for body in made:
        assert live.apply(body, dry_run=True).is_new, body["metadata"]["name"]
    (patch,) = yaml.safe_load_all((fleet.root / "node-labels/main.yaml").read_text())
    assert patch["metadata"] == {"name": "c-1", "labels": {"gpureconciler.io/node-pool": "cpu-only"}}
    again = fleet.run("propose", "--exit-code")
    assert (again.code, again.out) == (0, "main: the queues fit the nodes\n")


def test_without_evidence(fleet: Fleet) -> None:
    (fleet.root / EVIDENCE).unlink()
    ran = fleet.run("propose")
    assert (ran.code, "run `reconciler observe --cluster main` first" in ran.err) == (0, True)
