"""Warnings about jobs that start, and then do not run as they should."""

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from reconciler.repo.config import Backend, Cluster
from tests.kinds.torchrun.torchrun_cases import inventory_of, rendered
from tests.kinds.walking import Result
from tests.plan.plan_cases import evaluate

JOBS = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: q, namespace: a}}
spec: {{image: "a:1", {queue}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: train, namespace: a}}
spec: {{jobQueue: q, {job}}}
"""
TRAIN = "command: python train.py"
QUOTA = "queue: {resources: {gpu: {quota: 32}}}"
NODES = """
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {{name: nodes}}
spec:
  cluster: kueue
  takenAt: "2026-01-01T00:00:00Z"
  nodes:
    - {{name: a, labels: {{nvidia.com/gpu.product: NVIDIA-H100-NVL}}, gpu: {{product: NVIDIA-H100-NVL, count: 8}}}}
    - {{name: b, labels: {{nvidia.com/gpu.product: {second}}}, gpu: {{product: {second}, count: 8}}}}
"""


def warned(queue: str, job: str, backend: Backend = Backend.KUEUE, second: str = "") -> list[tuple[str, str]]:
    return [(found.rule, found.message) for found in result(queue, job, backend, second).problems]


def result(queue: str, job: str, backend: Backend = Backend.KUEUE, second: str = "") -> Result:
    inventory = inventory_of(NODES.format(second=second), "kueue") if second else None
    return rendered(JOBS.format(queue=queue, job=job), backend, inventory)


@pytest.mark.parametrize(
    ("selector", "second", "why"),
    [
        ("", "", "there is no evidence of cluster kueue"),
        ("", "NVIDIA-H100-80GB-HBM3", "it matches NVIDIA-H100-80GB-HBM3 and NVIDIA-H100-NVL"),
        ("", "NVIDIA-A100-SXM4-80GB", ""),
        (", scheduling: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-NVL}}", "", ""),
        (", scheduling: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-NVL}}", "NVIDIA-H100-NVL", ""),
    ],
)
def test_a_gpu_type_that_selects_no_nodes(selector: str, second: str, why: str) -> None:
    """F-030: it names the flavor, but the pods run on any GPU."""
    found = warned(
        f"{QUOTA}, nodeResources: {{gpus: 8, gpuType: h100}}{selector}", f"{TRAIN}, numGPUs: 8", second=second
    )
    message = f"gpuType 'h100' selects no nodes, because {why}: pods may run on any GPU"
    assert found == ([("torchrun.gpu-type-unselected", message)] if why else [])


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ("nvidia.com/mig-1g.10gb: 2", "2 nvidia.com/mig-1g.10gb"),
        ("gpu.intel.com/i915: '2'", "2 gpu.intel.com/i915"),
        ("nvidia.com/mig-1g.10gb: 1", ""),
        ("nvidia.com/gpu: 2", ""),
        ("memory: 2, ephemeral-storage: 2", ""),
    ],
)
def test_several_devices_for_one_process(resources: str, told: str) -> None:
    """F-031: torchrun starts one process for each whole GPU, and knows no other devices."""
    containers = f"containers: [{{name: trainer, resources: {{limits: {{{resources}}}}}}}]"
    found = warned(f"{QUOTA}, podTemplate: {{spec: {{{containers}}}}}", TRAIN)
    message = f"requests {told}, but torchrun starts one process, which uses one of them"
    assert found == ([("torchrun.devices", message)] if told else [])


@pytest.mark.parametrize(
    ("queue", "job", "backend", "second", "is_told"),
    [
        ("nodeResources: {gpus: 8}", "numGPUs: 16", Backend.KUEUE, "", True),
        ("nodeResources: {gpus: 8}", "numGPUs: 16", Backend.KUEUE, "NVIDIA-H100-NVL", False),
        (f"{QUOTA}, nodeResources: {{gpus: 8}}", "numGPUs: 16", Backend.KUEUE, "", False),
        ("nodeResources: {gpus: 8}", "numGPUs: 8", Backend.KUEUE, "", False),
        ("nodeResources: {gpus: 8}", "numGPUs: 0, numNodes: 2", Backend.KUEUE, "", False),
        ("nodeResources: {gpus: 8}", "numGPUs: 16", Backend.KAI, "", False),
        ("nodeResources: {gpus: 8}", "numGPUs: 16", Backend.NONE, "", True),
    ],
)
def test_pods_that_nothing_starts_together(queue: str, job: str, backend: Backend, second: str, is_told: bool) -> None:
    """F-039: Kueue admits what fits a quota; without one, and without evidence, it admits everything."""
    rules = [rule for rule, _ in warned(queue, f"{TRAIN}, {job}", backend, second)]
    assert rules == ["torchrun.no-gang"] * is_told


@pytest.mark.parametrize(
    "command", ["bash -c 'torchrun train.py'", "cd x && torchrun train.py", "FOO=1 accelerate launch train.py"]
)
def test_a_launcher_inside_the_launcher(command: str) -> None:
    job = f'command: "{command}", numGPUs: 8'
    assert [rule for rule, _ in warned(f"{QUOTA}, nodeResources: {{gpus: 8}}", job)] == ["torchrun.nested-launcher"]


@pytest.mark.parametrize(
    ("backend", "selector", "rule"),
    [
        (Backend.KUEUE, ", scheduling: {nodeSelector: {pool: one}}", ""),
        (Backend.KUEUE, "", "torchrun.topology"),
        (Backend.KAI, "", "torchrun.unsupported"),
        (Backend.NONE, "", "torchrun.unsupported"),
    ],
)
def test_a_topology_needs_kueue_and_labels_of_nodes(backend: Backend, selector: str, rule: str) -> None:
    """F-062: the flavor has it in its spec and in its name, as queues without it do not share the flavor."""
    queue = f"queue: {{topologyName: racks, resources: {{gpu: {{quota: 8}}}}}}, nodeResources: {{gpus: 8}}{selector}"
    found = result(queue, f"{TRAIN}, numGPUs: 8", backend)
    assert rule in found.rules if rule else found.problems == ()
    if not rule:
        flavor = found.one("ResourceFlavor")
        assert flavor["spec"] == {"nodeLabels": {"pool": "one"}, "topologyName": "racks"}
        assert flavor["metadata"]["name"] == "pool-one-topology-racks"


def test_a_selector_that_no_flavor_of_the_queue_has() -> None:
    """F-047: the selector of the job overrides that of the queue, and Kueue never admits it."""
    queue = f"{QUOTA}, nodeResources: {{gpus: 8}}, scheduling: {{nodeSelector: {{pool: one}}}}"
    found = result(queue, f"{TRAIN}, numGPUs: 8, scheduling: {{nodeSelector: {{pool: two}}}}")
    rows = [summarize(BUILT_IN, cluster="main", body=m.body, path=f"{m.key}.yaml", digest="") for m in found.manifests]
    verdicts = evaluate(BUILT_IN, rows, Cluster(name="main"), None, {})
    (verdict,) = (verdict for verdict in verdicts if verdict.rule == "quota.queue-limit")
    assert verdict.message.startswith("requires node labels that no flavor of queue q has")
