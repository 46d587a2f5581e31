"""TorchrunQueue and TorchrunJob: what is understood, what is rendered, what is refused, and why."""

import gc
import json
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.torchrun.intent import job_intent, queue_intent
from reconciler.kinds.torchrun.render import render_job, render_queue
from reconciler.kube.problems import Severity
from reconciler.kube.yaml import read
from reconciler.repo.config import Backend
from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory
from tests import sizes
from tests.cluster.judges import Judge
from tests.kinds.torchrun.torchrun_cases import cluster_of, documents, inventory_of, rendered

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  image: train:1
  nodeResources: {gpus: 8, cpus: 96, memory: 800Gi}
"""


def queue(more: str = "") -> str:
    return QUEUE + more + "---\n"


def job(spec: str = "numGPUs: 16", name: str = "train") -> str:
    return (
        f"apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {{name: {name}}}\n"
        f"spec:\n  jobQueue: q\n  command: python train.py\n  {spec}\n"
    )


def pod_of(body: dict[str, Any]) -> dict[str, Any]:
    spec = body["spec"]
    template = spec.get("template") or spec["pytorchReplicaSpecs"]["Worker"]["template"]
    found: dict[str, Any] = template["spec"]
    return found


def gpus_of(body: dict[str, Any], key: str = "nvidia.com/gpu") -> int:
    """GPUs that a workload asks for in all."""
    spec = body["spec"]
    pods = spec.get("parallelism") or spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
    limits = pod_of(body)["containers"][0].get("resources", {}).get("limits", {})
    return int(pods) * int(limits.get(key, 0))


# --- both forms -----------------------------------------------------------------------------------------------------

FLAT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  kaiQueue: team
  parentKaiQueue: org
  image: train:1
  nodeResources: {gpus: 8}
  scheduling: {nodeSelector: {pool: a}, priorityClassName: high}
---
"""
TYPED = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  queue: {name: team, parentQueue: org}
  podTemplate:
    spec:
      priorityClassName: high
      nodeSelector: {pool: a}
      containers:
        - name: trainer
          image: train:1
          resources: {limits: {nvidia.com/gpu: 8}}
---
"""


@pytest.mark.parametrize("backend", list(Backend))
def test_both_forms_mean_the_same(backend: Backend) -> None:
    """F-041, F-050: the documentation's form and that of the types render to the same objects."""
    flat = rendered(FLAT + job("numGPUs: 16"), backend)
    typed = rendered(TYPED + job("numNodes: 2").replace("jobQueue", "queue"), backend)
    assert [m.body for m in flat.manifests] == [m.body for m in typed.manifests]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FLAT.replace("kaiQueue: team", "kaiQueue: team\n  queue: {name: other}"), "jobs/test.yaml:7:17"),
        (TYPED.replace("podTemplate:", "image: other:2\n  podTemplate:"), "podTemplate.spec.containers[0].image"),
        (TYPED.replace("podTemplate:", "nodeResources: {gpus: 4}\n  podTemplate:"), "nvidia.com/gpu"),
        (
            TYPED.replace("{limits: {nvidia.com/gpu: 8}}", "{limits: {nvidia.com/gpu: 8, amd.com/gpu: 8}}"),
            "amd.com/gpu",
        ),
        (FLAT.replace("gpus: 8", "gpus: 8") + job("numGPUs: 16\n  queue: p"), "spec.queue"),
        (queue() + job("numGPUs: 16\n  numNodes: 2\n  distributed: {maxNodes: 4}"), "distributed.maxNodes 4"),
        (queue() + job("numGPUs: 8\n  env: [{name: A, value: secret-1}, {name: A, value: secret-2}]"), "spec.env[1]"),
    ],
)
def test_contradictions_name_both_places(text: str, words: str) -> None:
    """F-050: two values that differ are an error with both places, and what may be a secret is not repeated."""
    result = rendered(text)
    (problem,) = (problem for problem in result.problems if problem.rule == "torchrun.contradiction")
    assert words in str(problem)
    assert str(problem).count("jobs/test.yaml:") == 2
    assert "secret-" not in str(problem)


def test_the_same_value_twice_is_no_contradiction() -> None:
    result = rendered(FLAT.replace("kaiQueue: team", "kaiQueue: team\n  queue: {name: team}"))
    assert result.problems == ()


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("numGPUs: 17", "torchrun.distribution"),
        ("numGPUs: 16\n  numNodes: 3", "torchrun.distribution"),
        ("numGPUs: 32\n  numNodes: 2", "torchrun.distribution"),
        ("numGPUs: 16\n  distributed: {minNodes: 3}", "torchrun.elastic"),
        ("numGPUs: 16\n  distributed: {minNodes: 1, rdzvBackend: static}", "torchrun.elastic"),
        ("numGPUs: 0\n  distributed: {backend: nccl}", "torchrun.backend"),
        ("numGPUs: 8\n  labels: {kai.scheduler/queue: other}", "torchrun.reserved-label"),
        ("numGPUs: 8\n  labels: {a: 'not a value!'}", "torchrun.label"),
        ("numGPUs: 8\n  jobName: 'a b'", "torchrun.label"),
        ("numGPUs: 8\n  workspaceStorage: {source: git}", "torchrun.workspace"),
        ("numGPUs: 8\n  workspaceStorage: {source: zip, url: 'http://a/b.zip', ref: main}", "torchrun.workspace"),
        ("numGPUs: 8\n  workspaceStorage: {source: existing, url: 'http://a/b.zip'}", "torchrun.workspace"),
        ("numGPUs: 8\n  workspaceStorage: {source: existing, hotReload: inplace}", "torchrun.hot-reload"),
        ("numGPUs: 8\n  storage: {checkpoints: {enabled: true}}", "torchrun.size"),
        ("numGPUs: 8\n  storage: {checkpoints: {size: 1Gi, sizePerGPU: 1Gi}}", "torchrun.contradiction"),
        ("numGPUs: 8\n  storage: {datasets: {mountPath: /data}}", "torchrun.datasets"),
        ("numGPUs: 8\n  volumes: {additionalMounts: [{name: missing, mountPath: /missing}]}", "torchrun.mount-unknown"),
    ],
)
@pytest.mark.parametrize("backend", list(Backend))
def test_what_cannot_be_meant_is_refused(spec: str, rule: str, backend: Backend) -> None:
    """F-030, F-052, F-053: refused with a place and with what to do, and nothing is rendered of the job."""
    result = rendered(queue() + job(spec), backend)
    assert rule in result.errors
    problem = next(problem for problem in result.problems if problem.rule == rule)
    assert problem.place.line > 1
    assert problem.hint
    assert all(m.key.kind not in ("Job", "PyTorchJob") for m in result.manifests)


def test_a_queue_that_is_not_there_is_suggested() -> None:
    result = rendered(
        queue().replace("name: q", "name: h100-training") + job().replace("jobQueue: q", "jobQueue: h100-trainin")
    )
    (problem,) = result.problems
    assert problem.rule == "torchrun.queue-unknown"
    assert "did you mean h100-training?" in problem.hint
    assert problem.field == "spec.jobQueue"


@pytest.mark.parametrize(
    ("name", "gpus", "fits"),
    [("1train", 8, True), ("1train", 16, False), ("a" * 60, 8, True), ("a" * 62, 16, False), ("a.b", 8, False)],
)
def test_names_that_cannot_name_hosts_are_refused(name: str, gpus: int, fits: bool, judged: Judge) -> None:
    """F-052: host names of pods are DNS labels; the API server agrees with every name that we let through."""
    for backend in Backend:
        result = rendered(queue() + job(f"numGPUs: {gpus}", name=name), backend)
        assert ("torchrun.name" not in result.rules) == fits
        judged(result.manifests)


# --- distribution ---------------------------------------------------------------------------------------------------


@settings(max_examples=sizes.examples(60), deadline=None)
@given(gpus=st.integers(1, 70), per_node=st.integers(1, 16), backend=st.sampled_from(Backend))
def test_rendered_gpus_are_the_request(gpus: int, per_node: int, backend: Backend) -> None:
    """F-030: the sum over all pods equals numGPUs, or the job is refused with the nearest choices."""
    text = queue().replace("gpus: 8", f"gpus: {per_node}") + job(f"numGPUs: {gpus}")
    result = rendered(text, backend)
    workloads = [m.body for m in result.manifests if m.key.kind in ("Job", "PyTorchJob")]
    if "torchrun.distribution" in result.errors:
        assert workloads == []
        return
    assert [gpus_of(body) for body in workloads] == [gpus]


NODES = """
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: nodes}
spec:
  takenAt: "2026-11-20T08:00:00Z"
  nodes:
    - {name: a, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}, gpu: {product: NVIDIA-H100-80GB-HBM3, count: 8, memoryMiB: 81559}}
    - {name: b, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}, gpu: {product: NVIDIA-H100-80GB-HBM3, count: 8, memoryMiB: 81559}}
    - {name: c, labels: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}, gpu: {product: NVIDIA-A100-SXM4-40GB, count: 4, memoryMiB: 40960}}
"""


def test_without_node_resources_the_evidence_decides() -> None:
    """F-030: the measured nodes give the GPUs of a node, and the reason points into the evidence."""
    plain = QUEUE.replace("{gpus: 8, cpus: 96, memory: 800Gi}", "{gpuType: h100-80gb}") + "---\n"
    result = rendered(plain + job(), inventory=inventory_of(NODES, "kueue"))
    body = result.one("Job", "train")
    assert body["spec"]["parallelism"] == 2
    assert pod_of(body)["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    why = result.manifest("Job", "train").why(("spec", "parallelism"))
    assert [place.path for place in why.places] == ["jobs/test.yaml", "evidence/kueue/nodes.yaml"]
    assert "16 GPUs / 8 per node = 2 nodes" in why.text


_RESOURCES = "{gpus: 8, cpus: 96, memory: 800Gi}"
_MIG = "  podTemplate: {spec: {containers: [{name: trainer, resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]}}\n"


@pytest.mark.parametrize(
    ("resources", "more", "per_pod"),
    [
        ("{gpuType: h100-80gb}", "", 8),
        ("{cpus: 96}", "  scheduling: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}}\n", 4),
        ("{cpus: 96}", "  scheduling: {nodeSelector: {pool: cpu}}\n", 0),
        ("{cpus: 96}", "", 0),
        ("{gpuType: h100-80gb, gpus: 0}", "", 0),
        ("{gpuType: h100-80gb}", _MIG, 0),
    ],
)
def test_a_job_that_names_only_nodes_takes_them_whole(resources: str, more: str, per_pod: int) -> None:
    """F-030: a queue that names a GPU has the GPUs that were measured; its jobs do not silently get none."""
    text = QUEUE.replace(_RESOURCES, resources) + more + "---\n" + job("numNodes: 2")
    body = rendered(text, inventory=inventory_of(NODES, "kueue")).one("Job", "train")
    assert gpus_of(body) == 2 * per_pod


@pytest.mark.parametrize("spec", ["numNodes: 2", "suspend: false"])
def test_whole_nodes_of_an_unknown_size(spec: str) -> None:
    text = QUEUE.replace(_RESOURCES, "{gpuType: h100-80gb}") + "---\n" + job(spec)
    result = rendered(text)
    assert result.errors == ["torchrun.node-size-unknown"]
    (error,) = (problem for problem in result.problems if problem.severity is Severity.ERROR)
    assert "numGPUs: 0" in error.hint
    assert rendered(text.replace(spec, "numGPUs: 0")).errors == []


def test_nothing_says_how_big_a_node_is() -> None:
    bare = QUEUE.replace(_RESOURCES, "{cpus: 8}") + "---\n"
    assert rendered(bare + job()).errors == ["torchrun.node-size-unknown"]


def test_a_part_of_a_node_gets_its_share() -> None:
    """F-030: 6 of 8 GPUs take 6/8 of CPU and memory, and the reason shows the arithmetic."""
    result = rendered(queue() + job("numGPUs: 6"))
    resources = pod_of(result.one("Job", "train"))["containers"][0]["resources"]
    assert resources == {
        "limits": {"nvidia.com/gpu": 6, "memory": "600Gi"},
        "requests": {"nvidia.com/gpu": 6, "memory": "600Gi", "cpu": "72"},
    }
    path = ("spec", "template", "spec", "containers", 0, "resources", "requests", "cpu")
    assert "6/8 of 96 = 72" in result.manifest("Job", "train").why(path).text


def test_a_part_of_a_measured_node_gets_its_share() -> None:
    """F-030: the same if the evidence says how many GPUs a node has."""
    text = QUEUE.replace(_RESOURCES, "{gpuType: h100-80gb, cpus: 96, memory: 800Gi}") + "---\n" + job("numGPUs: 6")
    result = rendered(text, inventory=inventory_of(NODES, "kueue"))
    resources = pod_of(result.one("Job", "train"))["containers"][0]["resources"]
    assert resources["requests"] == {"nvidia.com/gpu": 6, "memory": "600Gi", "cpu": "72"}


# --- vendors, CPU ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "vendor", "key"),
    [
        ("", Vendor.NVIDIA, "nvidia.com/gpu"),
        ("", Vendor.AMD, "amd.com/gpu"),
        ("  scheduling: {nodeSelector: {gpu: MI300X}}\n", Vendor.NVIDIA, "amd.com/gpu"),
        ("  scheduling: {nodeSelector: {gpu: H100}}\n", Vendor.AMD, "nvidia.com/gpu"),
        ("  scheduling: {nodeSelector: {pool: a}}\n", Vendor.AMD, "amd.com/gpu"),
    ],
)
def test_both_vendors(spec: str, vendor: Vendor, key: str) -> None:
    """F-035: the same job asks for NVIDIA's or AMD's resource, and starts as many processes on either."""
    body = rendered(queue(spec) + job(), "kueue", vendor=vendor).one("Job", "train")
    assert gpus_of(body, key) == 16
    assert "--nproc-per-node=8" in pod_of(body)["containers"][0]["command"][2]


@pytest.mark.parametrize(
    ("resources", "processes"), [("{gpus: 0, cpus: 12}", 12), ("{gpus: 0}", 1), ("{cpus: 2500m}", 2)]
)
def test_jobs_without_gpus(resources: str, processes: int) -> None:
    """F-063: no GPU key at all, one process a CPU or one, and gloo."""
    text = queue().replace("{gpus: 8, cpus: 96, memory: 800Gi}", resources) + job("suspend: false")
    body = rendered(text).one("Job", "train")
    assert "gpu" not in json.dumps(pod_of(body).get("resources", {}))
    assert gpus_of(body) == gpus_of(body, "amd.com/gpu") == 0
    (trainer,) = pod_of(body)["containers"]
    assert f"--nproc-per-node={processes} " in trainer["command"][2]
    assert {"name": "TORCH_DISTRIBUTED_BACKEND", "value": "gloo"} in trainer["env"]


# --- backends -------------------------------------------------------------------------------------------------------


def test_one_source_under_each_backend(judged: Judge) -> None:
    """F-039: several nodes are a gang under KAI and admitted whole under Kueue; without a queue it is said."""
    text = queue("  kaiQueue: team\n") + job()
    kai, kueue, plain = (rendered(text, backend) for backend in Backend)
    assert kai.kinds() == ["PyTorchJob/train", "Queue/team"]
    workers = kai.one("PyTorchJob")["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert kai.one("PyTorchJob")["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 2}
    assert workers["template"]["metadata"]["labels"]["kai.scheduler/queue"] == "team"
    assert workers["template"]["spec"]["schedulerName"] == "kai-scheduler"
    assert kueue.kinds() == [
        "ClusterQueue/team",
        "Job/train",
        "LocalQueue/q",
        "ResourceFlavor/default-flavor",
        "Service/train",
    ]
    assert kueue.one("Job")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert plain.kinds() == ["Job/train", "Service/train"]
    assert plain.rules == ["torchrun.no-gang"]
    judged([*kai.manifests, *kueue.manifests, *plain.manifests])


def test_one_node_under_kai_is_a_plain_job() -> None:
    result = rendered(queue() + job("numGPUs: 8"), "kai")
    assert result.kinds() == ["Job/train", "Queue/q"]
    assert "--standalone" in pod_of(result.one("Job"))["containers"][0]["command"][2]


def test_kai_queue_keeps_unlimited() -> None:
    """F-040: quota, limit, weight and parent; -1 stays -1, what is not given is unlimited."""
    text = queue(
        "  queue: {name: team, parentQueue: org, resources: {gpu: {quota: 8.5, limit: -1, overQuotaWeight: 3}}}\n"
    )
    spec = rendered(text, "kai").one("Queue")["spec"]
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    assert spec == {
        "parentQueue": "org",
        "resources": {"cpu": unlimited, "memory": unlimited, "gpu": {"quota": 8.5, "limit": -1, "overQuotaWeight": 3}},
    }


@pytest.mark.parametrize(
    ("share", "quota"),
    [
        ("{quota: 8, limit: 24}", {"nominalQuota": "8", "borrowingLimit": "16"}),
        ("{quota: 8}", {"nominalQuota": "8"}),
        ("{quota: -1, limit: 24}", {"nominalQuota": "24", "borrowingLimit": "0"}),
        ("{limit: 24}", {"nominalQuota": "24", "borrowingLimit": "0"}),
        ("{quota: 0, limit: 0}", {"nominalQuota": "0", "borrowingLimit": "0"}),
    ],
)
def test_kueue_quota(share: str, quota: dict[str, str], judged: Judge) -> None:
    """F-040: the guaranteed quota is nominal, the rest up to the limit is borrowed; flavors cover all resources."""
    result = rendered(queue(f"  queue: {{resources: {{gpu: {share}}}}}\n"))
    (group,) = result.one("ClusterQueue")["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert [entry["name"] for entry in flavor["resources"]] == group["coveredResources"]
    assert flavor["resources"][1] == {"name": "nvidia.com/gpu", **quota}
    judged(result.manifests)


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("", "default-flavor"),
        ("  scheduling: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}\n", "nvidia-h100-80gb-hbm3"),
        ("  scheduling: {nodeSelector: {pool: A_100, zone: b}}\n", "pool-a-100-zone-b"),
        ("  scheduling: {nodeSelector: {a: " + "x" * 63 + ", b: " + "y" * 63 + "}}\n", "a-" + "x" * 52 + "-e9e0ac91"),
    ],
)
def test_queues_of_the_same_nodes_share_a_kueue_flavor(node: str, name: str, judged: Judge) -> None:
    """F-040: Kueue lends within a cohort only what is of one flavor, so a flavor of one queue alone is never lent."""
    result = rendered(queue(node) + queue(node).replace("name: q", "name: other"))
    flavors = [manifest for manifest in result.manifests if manifest.key.kind == "ResourceFlavor"]
    assert [one.key.name for one in flavors] == [name, name]
    assert flavors[0].body == flavors[1].body
    for one in (manifest.body for manifest in result.manifests if manifest.key.kind == "ClusterQueue"):
        assert one["spec"]["resourceGroups"][0]["flavors"][0]["name"] == name
    judged(result.manifests[:3])


def test_kueue_queues_cover_all_that_their_pods_ask_for(judged: Judge) -> None:
    """F-040: Kueue never admits a pod that asks for a resource its queue does not cover."""
    text = queue(
        "  podTemplate: {spec: {containers: ["
        "{name: trainer, resources: {limits: {rdma/ib: 1, ephemeral-storage: 10Gi}}}, "
        "{name: side, image: side:1, resources: {requests: {example.com/fpga: 1}, limits: {example.com/fpga: 1}}}]}}\n"
    )
    (group,) = rendered(text).one("ClusterQueue")["spec"]["resourceGroups"]
    more = ["ephemeral-storage", "example.com/fpga", "rdma/ib"]
    assert group["coveredResources"] == ["cpu", "nvidia.com/gpu", "memory", *more]
    (flavor,) = group["flavors"]
    assert [one["name"] for one in flavor["resources"]] == group["coveredResources"]
    assert [one["nominalQuota"] for one in flavor["resources"]][3:] == ["1000000Gi", "1000000", "1000000"]
    judged(rendered(text).manifests)


def test_a_time_to_live_that_would_run_the_job_again_is_told() -> None:
    """F-054: what syncs the repository makes anew what deleted itself."""
    result = rendered(queue() + job("numGPUs: 16\n  reliability: {ttlSecondsAfterFinished: 600}"), "kai")
    (problem,) = (problem for problem in result.problems if problem.rule == "torchrun.ttl")
    assert "600 s" in problem.message
    assert problem.severity is Severity.WARNING
    assert result.one("PyTorchJob")["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 600


@pytest.mark.parametrize(("cpus", "told"), [(96, True), (128, True), (95, False), (88, False)])
def test_a_pod_leaves_a_node_some_cpus(cpus: int, told: bool) -> None:
    """F-030: a pod that asks for all that a node has fits no node, because the node's daemons run there too."""
    nodes = """
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: kai}
spec:
  takenAt: "2026-11-20T08:00:00Z"
  nodes:
    - {name: a, gpu: {product: H100, count: 8, memoryMiB: 81559}, cpus: 96}
    - {name: b, gpu: {product: H100, count: 8, memoryMiB: 81559}}
"""
    text = queue().replace("cpus: 96", f"cpus: {cpus}")
    assert rendered(text, "kai", inventory_of(nodes, "kai")).rules == ["torchrun.node-cpus"] * told
    assert rendered(text, "kai").rules == []


def test_kueue_refuses_what_it_cannot_grant() -> None:
    assert rendered(queue("  queue: {resources: {gpu: {quota: 0.5}}}\n")).errors == ["torchrun.kueue-fraction"]
    assert rendered(queue("  queue: {resources: {gpu: {quota: 8, limit: 4}}}\n")).errors == ["torchrun.quota"]


@pytest.mark.parametrize("backend", list(Backend))
def test_priority(backend: Backend) -> None:
    """F-049: the job's priority wins over its queue's: on the pods, which Kueue reads, and in the label that KAI does."""
    text = queue("  scheduling: {priorityClassName: low}\n") + job(
        "numGPUs: 8\n  scheduling: {priorityClassName: high}"
    )
    body = rendered(text, backend).one("Job", "train")
    assert pod_of(body)["priorityClassName"] == "high"
    labels = {key: value for key, value in body["metadata"]["labels"].items() if "riority" in key}
    assert labels == ({"priorityClassName": "high"} if backend is Backend.KAI else {})


@pytest.mark.parametrize("gpus", [8, 16])
@pytest.mark.parametrize("backend", list(Backend))
def test_suspend_and_resume_are_an_edit(backend: Backend, gpus: int, judged: Judge) -> None:
    """F-055: only the workload changes; its claims stay. Kueue runs a suspended job without pods, which frees its quota."""
    storage = "  storage: {workspace: {claimName: code}, checkpoints: {size: 1Gi}}\n"
    running = rendered(queue(storage) + job(f"numGPUs: {gpus}"), backend)
    held = rendered(queue(storage) + job(f"numGPUs: {gpus}\n  suspend: true"), backend)
    assert running.kinds() == held.kinds()
    changed = [m.key for m, n in zip(running.manifests, held.manifests, strict=True) if m.body != n.body]
    assert [key.name for key in changed] == ["train"]
    body, before = held.one(changed[0].kind, "train"), running.one(changed[0].kind, "train")
    if backend is Backend.KUEUE:
        assert body["spec"] == {**before["spec"], "parallelism": 0}
        assert "suspend" not in before["spec"], "Kueue itself resumes what it admits"
    else:
        assert body["spec"].get("suspend", body["spec"].get("runPolicy", {}).get("suspend")) is True
    judged(held.manifests)


def test_a_suspended_job_of_kueue_has_neither_a_deadline_nor_a_minimum() -> None:
    """F-055: to the server a Job without pods runs, and Kueue refuses a minimum beyond its pods."""
    spec = "numGPUs: 32\n  distributed: {minNodes: 2}\n  reliability: {activeDeadlineSeconds: 60}\n  suspend: "
    running, body = (
        rendered(queue() + job(spec + word), Backend.KUEUE).one("Job", "train") for word in ("false", "true")
    )
    assert (body["spec"]["parallelism"], body["spec"]["completions"]) == (0, 4)
    assert "activeDeadlineSeconds" not in body["spec"]
    assert "annotations" not in body["metadata"]
    immutable = BUILT_IN.find("batch", "Job").life.immutable
    assert immutable is not None
    assert immutable(running, body) == ["spec.parallelism"], "Kueue lets nobody change it while the job runs"
    assert immutable(body, running) == []


@pytest.mark.parametrize("backend", list(Backend))
def test_elastic_jobs(backend: Backend, judged: Judge) -> None:
    """F-053: as many pods as nodes at most, torchrun told the range, the gang its least."""
    result = rendered(queue() + job("numGPUs: 32\n  distributed: {minNodes: 2, maxNodes: 4}"), backend)
    kind = "PyTorchJob" if backend is Backend.KAI else "Job"
    body = result.one(kind, "train")
    assert gpus_of(body) == 32
    assert "--nnodes=2:4 " in pod_of(body)["containers"][0]["command"][2]
    if backend is Backend.KAI:
        assert body["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 2}
        assert body["spec"]["elasticPolicy"] == {"minReplicas": 2, "maxReplicas": 4}
    if backend is Backend.KUEUE:
        assert body["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] == "2"
    judged(result.manifests)


@pytest.mark.parametrize(
    ("reliability", "expected"),
    [
        ("", (6, None, None, "Never", "OnFailure")),
        ("\n  reliability: {maxRestarts: 2, restartPolicy: OnFailure}", (4, None, None, "OnFailure", "OnFailure")),
        (
            "\n  reliability: {maxRestarts: 0, ttlSecondsAfterFinished: 0, activeDeadlineSeconds: 60, restartPolicy: Never}",
            (0, 0, 60, "Never", "Never"),
        ),
    ],
)
def test_reliability_defaults(reliability: str, expected: tuple[int, int | None, int | None, str, str]) -> None:
    """F-054: what is left out has a documented default: 3 restarts of each pod, no end that would be synced away."""
    spec = rendered(queue() + job(f"numGPUs: 16{reliability}")).one("Job", "train")["spec"]
    found = (spec["backoffLimit"], spec.get("ttlSecondsAfterFinished"), spec.get("activeDeadlineSeconds"))
    restart = spec["template"]["spec"]["restartPolicy"]
    assert (*found, restart) == expected[:4]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    evicted = [{"type": "DisruptionTarget", "status": "True"}]
    ignored = {"rules": [{"action": "Ignore", "onPodConditions": evicted}]}
    assert spec.get("podFailurePolicy") == (ignored if restart == "Never" else None)
    policy = rendered(queue() + job(f"numGPUs: 16{reliability}"), "kai").one("PyTorchJob")["spec"]
    assert policy["runPolicy"]["backoffLimit"] == expected[0]
    assert policy["runPolicy"]["cleanPodPolicy"] == "Running"
    assert policy["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] == expected[4]


def test_a_single_pod_may_fail_as_often_as_the_job_restarts() -> None:
    """F-054: the limit counts pods; torchrun's own restarts are those of the job."""
    body = rendered(queue() + job("numGPUs: 8\n  reliability: {maxRestarts: 5}")).one("Job", "train")
    assert body["spec"]["backoffLimit"] == 5
    assert "--max-restarts=5 " in pod_of(body)["containers"][0]["command"][2]


@pytest.mark.parametrize(("backend", "kind"), [("kai", "PyTorchJob"), ("kueue", "Job"), ("none", "Job")])
def test_annotations_of_a_job_are_those_of_its_workload(backend: str, kind: str) -> None:
    """F-039: KAI reads the topology from the workload; Kueue's own annotations stay beside them."""
    more = "annotations: {kai.scheduler/topology: dc}\n  distributed: {minNodes: 2}"
    metadata = rendered(queue() + job(f"numGPUs: 32\n  {more}"), backend).one(kind, "train")["metadata"]
    assert metadata["annotations"]["kai.scheduler/topology"] == "dc"
    assert ("kueue.x-k8s.io/job-min-parallelism" in metadata["annotations"]) == (backend == "kueue")


def test_the_service_lets_pods_meet_before_they_are_ready() -> None:
    """F-052: headless, by the Job's own pods, and named as the pods' subdomain."""
    result = rendered(queue() + job("numGPUs: 16\n  distributed: {port: 31000}"))
    service = result.one("Service")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert service["ports"] == [{"name": "rendezvous", "port": 31000}]
    assert service["selector"] == {"batch.kubernetes.io/job-name": "train"}
    assert pod_of(result.one("Job", "train"))["subdomain"] == "train"


@pytest.mark.parametrize("backend", ["etcd", "etcd-v2"])
def test_etcd(backend: str) -> None:
    """F-052: etcd needs an endpoint; the one of torchrun-controller is assumed only with a warning."""
    own = queue("  queue: {resources: {gpu: {quota: 32}}}\n")
    spec = f"numGPUs: 16\n  distributed: {{rdzvBackend: {backend}"
    assumed = rendered(own + job(spec + "}"))
    assert assumed.rules == ["torchrun.etcd-endpoint"]
    named = rendered(own + job(spec + ", rdzvEndpoint: 'etcd.infra:2379'}"))
    script = pod_of(named.one("Job", "train"))["containers"][0]["command"][2]
    assert f"--rdzv-backend={backend} --rdzv-endpoint=etcd.infra:2379" in script
    assert "is_host" not in script
    assert named.problems == ()


# --- templates, overrides, clashes ----------------------------------------------------------------------------------


def test_mpi_is_said_to_need_more() -> None:
    """F-052: torchrun does not launch MPI; the variable is set all the same."""
    result = rendered(queue() + job("numGPUs: 8\n  distributed: {backend: mpi}"))
    assert (result.rules, result.errors) == (["torchrun.backend"], [])


def test_a_job_overrides_and_the_override_is_said() -> None:
    """F-041, F-064: env, labels and annotations merge; a changed one is a warning with both places."""
    text = TYPED.replace("podTemplate:", "podTemplate:\n    metadata: {labels: {team: a, tier: x}}", 1).replace(
        "image: train:1", "image: train:1\n          env: [{name: A, value: '1'}, {name: B, value: '2'}]"
    )
    spec = "numNodes: 1\n  env: [{name: B, value: '3'}, {name: C, value: '4'}]\n  labels: {team: b}\n  image: own:2"
    result = rendered(text + job(spec))
    template = result.one("Job", "train")["spec"]["template"]
    (trainer,) = template["spec"]["containers"]
    assert trainer["env"][1:] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    assert (template["metadata"]["labels"]["team"], template["metadata"]["labels"]["tier"]) == ("b", "x")
    assert trainer["image"] == "own:2"
    assert result.rules == ["torchrun.override", "torchrun.override"]
    assert result.errors == []


@pytest.mark.parametrize(
    "spec",
    [
        "volumes: {additionalVolumes: [{name: cache, emptyDir: {}}]}",
        "volumes: {additionalVolumes: [{name: workspace, emptyDir: {}}]}",
        "volumes: {additionalVolumes: [{name: x, emptyDir: {}}], additionalMounts: [{name: x, mountPath: /cache}]}",
        "volumes: {additionalVolumes: [{name: x, emptyDir: {}}], additionalMounts: [{name: x, mountPath: /app}]}",
    ],
)
def test_volumes_that_clash_are_refused(spec: str) -> None:
    """F-064: a volume or a mount path that is taken is an error that says by what."""
    text = TYPED.replace(
        "spec:\n      priority", "spec:\n      volumes: [{name: cache, emptyDir: {}}]\n      priority"
    ).replace("image: train:1", "image: train:1\n          volumeMounts: [{name: cache, mountPath: /cache}]")
    text = text.replace("podTemplate:", "storage: {workspace: {claimName: code}}\n  podTemplate:")
    result = rendered(text + job(f"numNodes: 1\n  {spec}"))
    assert result.errors == ["torchrun.clash"]


def test_resources_of_a_queue(judged: Judge) -> None:
    """F-042: prefix renames the object and the claims of the pod template; immutable is marked; exact stays."""
    text = TYPED.replace(
        "spec:\n      priority",
        "spec:\n      volumes: [{name: c, persistentVolumeClaim: {claimName: cache}}]\n      priority",
    )
    claim = "template: {apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}"
    text = text.replace(
        "podTemplate:",
        f"resources:\n    - {{name: cache, nameMode: prefix, immutable: true, {claim}}}\n    - {{name: plain, {claim}}}\n  podTemplate:",
    )
    result = rendered(text + job("numNodes: 1"))
    prefixed = result.one("PersistentVolumeClaim", "q-cache")
    assert prefixed["metadata"]["annotations"] == {"gpureconciler.io/immutable": "true"}
    assert "annotations" not in result.one("PersistentVolumeClaim", "plain")["metadata"]
    volumes = pod_of(result.one("Job", "train"))["volumes"]
    assert volumes == [{"name": "c", "persistentVolumeClaim": {"claimName": "q-cache"}}]
    judged(result.manifests)


@pytest.mark.parametrize(
    ("containers", "rule"),
    [
        ("[{name: main, image: a}]", "torchrun.trainer"),
        ("[{name: trainer, image: a}, {name: trainer, image: b}]", "torchrun.trainer"),
        ("[{name: side, image: a}, {name: trainer, image: b}]", "torchrun.trainer"),
        ("[{name: trainer, image: a, resources: {limits: {nvidia.com/gpu: half}}}]", "torchrun.gpus"),
    ],
)
def test_the_trainer_comes_first(containers: str, rule: str) -> None:
    text = f"{QUEUE.partition('spec:')[0]}spec: {{podTemplate: {{spec: {{containers: {containers}}}}}}}"
    assert rule in rendered(text).errors


def test_what_the_job_decides_itself_is_reported() -> None:
    text = TYPED.replace("image: train:1", "image: train:1\n          command: [sleep]\n          args: ['1']").replace(
        "spec:\n      priority", "spec:\n      restartPolicy: Always\n      hostname: h\n      priority"
    )
    assert rendered(text).rules == ["torchrun.unsupported"] * 4


# --- storage and code -----------------------------------------------------------------------------------------------

STORAGE = """
  storage:
    shmSizePerGPU: 8Gi
    workspace: {enabled: true, sizePerGPU: 10Gi}
    datasets: {enabled: true, size: 1Ti}
    checkpoints: {enabled: true, sizePerGPU: 50Gi}
"""
GIT = "workspaceStorage: {source: git, url: 'https://git.example.com/a.git', ref: %s, hotReload: %s}"


def test_volumes_grow_with_gpus() -> None:
    """F-061: 10Gi x 8 GPUs = 80Gi; datasets are read-only; shared memory is memory; checkpoints are kept."""
    result = rendered(queue(STORAGE) + job(f"numGPUs: 8\n  {GIT % ('main', 'restart')}"))
    sizes = {
        m.key.name: m.body["spec"]["resources"]["requests"]["storage"]
        for m in result.manifests
        if m.key.kind == "PersistentVolumeClaim"
    }
    assert sizes == {"q-datasets": "1Ti", "train-workspace": "80Gi", "train-checkpoints": "400Gi"}
    keep = {
        m.key.name
        for m in result.manifests
        if m.body["metadata"].get("annotations", {}).get("gpureconciler.io/keep") == "true"
    }
    assert keep == {"q-datasets", "train-checkpoints"}, "F-062: the workspace goes with its job, checkpoints stay"
    pod = pod_of(result.one("Job", "train"))
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}
    assert mounts["datasets"]["readOnly"] is volumes["datasets"]["persistentVolumeClaim"]["readOnly"] is True
    assert "readOnly" not in mounts["checkpoints"]
    assert (mounts["workspace"]["mountPath"], pod["containers"][0]["workingDir"]) == ("/app", "/app")
    path = ("spec", "resources", "requests", "storage")
    assert "10Gi per GPU x 8 GPUs = 80Gi" in result.manifest("PersistentVolumeClaim", "train-workspace").why(path).text


@pytest.mark.parametrize("backend", list(Backend))
@pytest.mark.parametrize("gpus", [8, 16])
def test_an_edit_of_code_in_place_leaves_the_training_alone(backend: Backend, gpus: int, judged: Judge) -> None:
    """F-060: in `inplace` mode another ref is another sync Job, and every other object is the same, byte for byte."""
    before, after = (
        rendered(queue(STORAGE) + job(f"numGPUs: {gpus}\n  {GIT % (ref, 'inplace')}"), backend)
        for ref in ("one", "two")
    )
    old, new = ({m.key: m.body for m in result.manifests} for result in (before, after))
    gone, come = (set(old) - set(new)), (set(new) - set(old))
    assert [key.name.rpartition("-")[0] for key in (*gone, *come)] == ["train-sync", "train-sync"]
    assert all(old[key] == new[key] for key in set(old) & set(new))
    judged(after.manifests)


def test_an_edit_of_code_restarts_by_its_digest() -> None:
    """F-060: in `restart` mode the digest and the script that fetches are what changes in the pod template."""
    before, after = (
        rendered(queue() + job(f"numGPUs: 8\n  {GIT % (ref, 'restart')}")).one("Job", "train") for ref in ("one", "two")
    )
    digests = [
        body["spec"]["template"]["metadata"]["annotations"]["torchrun.ai/workspace-digest"] for body in (before, after)
    ]
    assert digests[0] != digests[1]
    assert [pod_of(body)["initContainers"][0]["name"] for body in (before, after)] == ["workspace-sync"] * 2
    assert pod_of(before)["containers"] == pod_of(after)["containers"]


def test_the_pods_of_a_job_share_its_folder() -> None:
    """F-058: whatever rank a pod gets after a restart, the code and what the job wrote are there."""
    result = rendered(queue() + job(f"numGPUs: 16\n  {GIT % ('main', 'restart')}"))
    pod = pod_of(result.one("Job", "train"))
    mounts = [pod["initContainers"][0]["volumeMounts"][0], pod["containers"][0]["volumeMounts"][0]]
    assert [mount["subPath"] for mount in mounts] == ["train"] * 2
    assert result.one("PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_sync_sees_the_credentials_of_the_object_store() -> None:
    """F-058: variables of object stores reach the sync, others do not."""
    env = "env: [{name: AWS_REGION, value: eu}, {name: OTHER, value: x}, {name: AZURE_KEY, value: k}]"
    result = rendered(queue() + job(f"numGPUs: 8\n  {env}\n  workspaceStorage: {{source: s3, url: 's3://a/b.tar.gz'}}"))
    (sync,) = pod_of(result.one("Job", "train"))["initContainers"]
    assert [item["name"] for item in sync["env"]] == ["AWS_REGION", "AZURE_KEY"]


# --- reasons --------------------------------------------------------------------------------------------------------


def every_leaf(node: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(node, dict):
        return [leaf for key, value in node.items() for leaf in every_leaf(value, (*path, key))]
    if isinstance(node, list):
        return [leaf for index, value in enumerate(node) for leaf in every_leaf(value, (*path, index))]
    return [path]


def test_every_value_says_why() -> None:
    """F-141: each leaf of each object leads to a place in the sources, or is a default that says so."""
    text = queue(STORAGE + "  scheduling: {nodeSelector: {pool: a}}\n") + job(
        f"numGPUs: 32\n  {GIT % ('main', 'restart')}"
    )
    for backend in Backend:
        for manifest in rendered(text, backend).manifests:
            for path in every_leaf(manifest.body):
                why = manifest.why(path)
                assert why.rule != "unknown"
                assert why.places or why.text, (manifest.key, path)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("spec", "template", "spec", "containers", 0, "image"), "jobs/test.yaml:6:10"),
        (("metadata", "labels", "torchrun.ai/job-queue"), "jobs/test.yaml:4:18"),
        (("metadata", "name"), "jobs/test.yaml:11:18"),
        (("spec", "template", "spec", "containers", 0, "env", 1, "value"), "jobs/test.yaml:17:29"),
    ],
)
def test_copied_values_lead_to_their_line(path: tuple[str | int, ...], place: str) -> None:
    """F-141: a value that was copied is traced to line and column."""
    text = queue() + job("numGPUs: 8\n  env:\n    - {name: MODE, value:   fast}")
    manifest = rendered(text).manifest("Job", "train")
    assert str(manifest.why(path).places[0]) == place


# --- hostile input --------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
QUEUE_KEYS = (
    "kaiQueue",
    "queue",
    "nodeResources",
    "image",
    "storage",
    "scheduling",
    "distributed",
    "podTemplate",
    "workspaceStorage",
    "resources",
)
JOB_KEYS = (
    "jobQueue",
    "queue",
    "command",
    "numGPUs",
    "numNodes",
    "env",
    "volumes",
    "labels",
    "reliability",
    "storage",
    "suspend",
    "distributed",
)
PARTS = (
    "name",
    "resources",
    "gpu",
    "quota",
    "gpus",
    "cpus",
    "memory",
    "workspace",
    "sizePerGPU",
    "spec",
    "containers",
    "env",
    "metadata",
    "labels",
    "template",
    "additionalVolumes",
    "minNodes",
    "rdzvBackend",
    "source",
)
DEEP = st.recursive(
    JSON,
    lambda inner: st.dictionaries(st.sampled_from(PARTS), inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=sizes.examples(300), deadline=None)
@given(
    queue_spec=DEEP | st.dictionaries(st.sampled_from(QUEUE_KEYS), DEEP),
    job_spec=DEEP | st.dictionaries(st.sampled_from(JOB_KEYS), DEEP),
    backend=st.sampled_from(Backend),
)
def test_nothing_written_raises(queue_spec: Any, job_spec: Any, backend: Backend) -> None:
    """Whatever stands in a document, even what its schema refuses, gives intents or problems, never an exception."""
    cluster = cluster_of(backend)
    for spec in (queue_spec, job_spec):
        for kind, parse in (("TorchrunQueue", queue_intent), ("TorchrunJob", job_intent)):
            body = {"apiVersion": "torchrun.ai/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
            for document in read("a.json", json.dumps(body).encode()).documents:
                parsed = parse(document)
                assert (parsed.intent is None) == any(problem.severity == "error" for problem in parsed.problems)
    (good_queue,) = documents(QUEUE)
    (good_job,) = documents(job())
    for document in read("q.json", json.dumps({**good_queue.data, "spec": queue_spec}).encode()).documents:
        found = queue_intent(document).intent
        other = job_intent(good_job).intent
        if found and other:
            render_queue(found, cluster, None)
            render_job(other, found, cluster, None)
    for document in read("j.json", json.dumps({**good_job.data, "spec": job_spec}).encode()).documents:
        wanted, known = job_intent(document).intent, queue_intent(good_queue).intent
        if wanted and known:
            render_job(wanted, known, cluster, None)


def test_what_is_remembered_of_a_queue_keeps_no_evidence() -> None:
    """A process that plans again and again must not keep the nodes of each plan."""
    (good,) = documents(QUEUE)
    found = queue_intent(good).intent
    assert found is not None
    inventory = Inventory(cluster="main", taken_at="2026-11-02T00:00:00Z")
    alive = weakref.ref(inventory)
    render_queue(found, cluster_of(Backend.KAI), inventory)
    del inventory
    gc.collect()
    assert alive() is None
