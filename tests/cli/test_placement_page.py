"""Admission and placement of one plan agree: the pull request that opens the page about placement, and racks."""

import json
from pathlib import Path

import pytest

from reconciler.repo.evidence.usage import Usage, UsedPodSet, UsedWorkload, write_usage
from reconciler.sizing.inventory import Inventory, Node, write_inventory
from tests.cli.fleet import Fleet

PAGE = Path(__file__).resolve().parents[2] / "docs/placement.md"
PRODUCT = "NVIDIA-H100-80GB-HBM3"
NOW = "2026-11-02T09:00:00Z"
SETTINGS = f"""\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {{name: fleet}}
spec:
  clusters:
    - {{name: main, backend: kueue, namespace: team, external: [Namespace]}}
  sources: [jobs, queues]
  evidence: {{maxAge: 7d}}
  placement: {{strategy: fragmentation}}
  prices:
    currency: EUR
    source: contract of 2026
    date: "2026-10-01"
    gpuHours: {{{PRODUCT}: 2.50}}
"""
RACK = "topology.kubernetes.io/rack"
RACKS = f"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {{name: racks}}
spec: {{levels: [{{nodeLabel: {RACK}}}, {{nodeLabel: kubernetes.io/hostname}}]}}
"""
FLAVOR = f"{{topologyName: racks, nodeLabels: {{nvidia.com/gpu.product: {PRODUCT}}}}}"
QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 40}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: research, namespace: team}
spec: {clusterQueue: research}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: paper}
value: 10
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: team
  labels: {{kueue.x-k8s.io/queue-name: research{priority}}}
spec:
  suspend: true
  parallelism: {pods}
  completions: {pods}
  completionMode: Indexed
  template:
    metadata: {{annotations: {{{annotations}}}}}
    spec:
      restartPolicy: Never
      nodeSelector: {{nvidia.com/gpu.product: {product}}}
      containers:
        - {{name: train, image: "registry.example.com/train:1", resources: {{limits: {{nvidia.com/gpu: 8}}}}}}
"""


def _job(fleet: Fleet, name: str, pods: int, priority: str = "", annotations: str = "") -> None:
    text = JOB.format(name=name, pods=pods, priority=priority, annotations=annotations, product=PRODUCT)
    fleet.write(f"jobs/{name}.yaml", text)


def _runs(name: str, since: str, nodes: tuple[str, ...], priority: int = 0) -> UsedWorkload:
    pods = UsedPodSet(
        name="main",
        count=len(nodes),
        requests={"nvidia.com/gpu": "8"},
        flavors={"nvidia.com/gpu": "h100"},
        nodes=tuple((node, 1) for node in nodes),
    )
    return UsedWorkload(
        api_version="batch/v1",
        kind="Job",
        namespace="team",
        name=name,
        queue="research",
        cluster_queue="research",
        priority=priority,
        state="running",
        created_at=since,
        admitted_at=since,
        started_at=since,
        pod_sets=(pods,),
    )


@pytest.fixture
def research(empty: Fleet) -> Fleet:
    """Return a fleet of 8 nodes in two racks, on which two jobs hold 32 of the 40 GPUs of a queue."""
    fleet = empty
    fleet.write("reconciler.yaml", SETTINGS)
    fleet.write("queues/research.yaml", QUEUES)
    for name, pods in (("sweep", 2), ("eval", 2)):
        _job(fleet, name, pods)
    nodes = tuple(
        Node(
            name=f"h100-0{number}",
            gpus=8,
            allocatable_gpus=8,
            product=PRODUCT,
            labels={"nvidia.com/gpu.product": PRODUCT, RACK: f"r{number // 5}"},
        )
        for number in range(1, 9)
    )
    folder = fleet.root / "evidence/main"
    folder.mkdir(parents=True)
    (folder / "nodes.yaml").write_bytes(write_inventory(Inventory(cluster="main", taken_at=NOW, nodes=nodes)))
    running = (
        _runs("eval", "2026-11-02T03:00:00Z", ("h100-01", "h100-05")),
        _runs("sweep", "2026-11-02T06:30:00Z", ("h100-03", "h100-04")),
    )
    (folder / "usage.yaml").write_bytes(write_usage(Usage(cluster="main", observed_at=NOW, workloads=running)))
    fleet.commit("start")
    assert fleet.run("commit").code == 0
    return fleet


def test_the_page_opens_with_what_a_plan_prints(research: Fleet) -> None:
    """F-158, F-160: what starts, where, what it displaces, and what it costs; what is preempted frees its nodes."""
    _job(research, "vit-large", 3, priority=", kueue.x-k8s.io/priority-class: paper")
    _job(research, "long", 1)
    printed = research.run("plan", "--width", "100").out
    block = PAGE.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    missing = [part for part in block.split("…\n") if part not in printed]
    assert not missing, printed


def test_a_rack_without_room_holds_back_a_job_with_quota(research: Fleet) -> None:
    """F-158, F-160: the queue has the GPUs, but no rack has them on as many nodes as the job needs together."""
    research.edit("queues/research.yaml", "nominalQuota: 40", "nominalQuota: 64")
    research.write("queues/racks.yaml", RACKS)
    research.edit("queues/research.yaml", "metadata: {name: h100}\n", f"metadata: {{name: h100}}\nspec: {FLAVOR}\n")
    _job(research, "wide", 4, annotations=f"kueue.x-k8s.io/podset-required-topology: {RACK}")
    plan = json.loads(research.run("plan", "-o", "json").out)
    (forecast,) = [one for one in plan["admissions"] if one["key"]["name"] == "wide"]
    (placed,) = plan["placement"][0]["workloads"]
    assert (placed["word"], placed["guaranteedBy"]) == ("waits", "Kueue TAS")
    assert (forecast["verdict"], forecast["reason"]) == (
        "waits",
        f"for room in a domain of its topology: {placed['why']}",
    )
