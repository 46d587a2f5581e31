"""Networks between the nodes of a job: presets of vendors, networks of a queue, and what contradicts them."""

from typing import Any

import pytest

from reconciler.kinds.torchrun.networks import PRESETS
from tests.cluster.judges import Judge
from tests.kinds.torchrun.torchrun_cases import rendered
from tests.kinds.walking import Result

TEXT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  image: train:1
  nodeResources: {gpus: 8, cpus: 96, memory: 1000Gi}
  queue: {resources: {gpu: {quota: 32}}}
  QUEUE
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: train}
spec:
  jobQueue: q
  command: python train.py
  JOB
"""


def under(queue: str, job: str = "numGPUs: 16", backend: str = "kueue") -> Result:
    return rendered(TEXT.replace("QUEUE", queue).replace("JOB", job), backend)


def pod(result: Result) -> dict[str, Any]:
    template: dict[str, Any] = result.one("Job")["spec"]["template"]
    return template


def trainer(result: Result) -> dict[str, Any]:
    container: dict[str, Any] = pod(result)["spec"]["containers"][0]
    return container


def env(result: Result) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in trainer(result)["env"]}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_renders_what_a_server_takes(name: str, judged: Judge) -> None:
    """F-146: with the source of each value, and with quotas for what it requests."""
    preset = PRESETS[name]
    result = under(f"network: {name}")
    assert result.problems == ()
    assert preset.env.items() <= env(result).items()
    requests = trainer(result)["resources"]["requests"]
    assert {**preset.per_node, **preset.per_pod}.items() <= requests.items()
    covered = result.one("ClusterQueue")["spec"]["resourceGroups"][0]["coveredResources"]
    assert set(requests) <= set(covered)
    assert preset.annotations.items() <= pod(result)["metadata"].get("annotations", {}).items()
    added = trainer(result).get("securityContext", {}).get("capabilities", {}).get("add", [])
    assert added == list(preset.capabilities)
    assert preset.source.startswith("https://")
    if preset.env:
        index = next(index for index, item in enumerate(trainer(result)["env"]) if item["name"] in preset.env)
        path = ("spec", "template", "spec", "containers", 0, "env", index)
        assert preset.source in result.manifest("Job").why(path).text
    judged(list(result.manifests))


def test_a_pod_gets_the_share_that_it_has_of_the_gpus() -> None:
    half = under("network: eks-efa-p5", "numGPUs: 8\n  numNodes: 2")
    assert trainer(half)["resources"]["limits"]["vpc.amazonaws.com/efa"] == 16
    odd = under("network: eks-efa-p4d", "numGPUs: 2\n  numNodes: 2")
    assert odd.errors == ["torchrun.network"]
    assert "4 vpc.amazonaws.com/efa of a node cannot be shared" in str(odd.problems[0])
    whole = under("network: gke-tcpxo", "numGPUs: 8\n  numNodes: 2")
    assert whole.errors == ["torchrun.network"]


def test_one_node_needs_no_network_and_a_job_may_leave_it() -> None:
    assert "FI_PROVIDER" not in env(under("network: eks-efa-p5", "numGPUs: 8"))
    assert "FI_PROVIDER" not in env(under("network: eks-efa-p5", "numGPUs: 16\n  network: none"))


def test_a_queue_defines_networks_and_a_job_takes_one() -> None:
    """On top of a preset or on its own: its values are over those of the preset."""
    queue = """networks:
    - name: rail
      preset: sriov-infiniband
      resources: {nvidia.com/mlnxnics: 8}
      annotations: {k8s.v1.cni.cncf.io/networks: "rail-0,rail-1"}
      env: [{name: NCCL_IB_HCA, value: mlx5}]
    - {name: plain, env: [{name: NCCL_SOCKET_IFNAME, value: bond0}], capabilities: [SYS_RESOURCE]}"""
    result = under(queue, "numGPUs: 16\n  network: rail")
    assert result.problems == ()
    assert trainer(result)["resources"]["limits"]["nvidia.com/mlnxnics"] == 8
    assert pod(result)["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "rail-0,rail-1"}
    assert env(result)["NCCL_IB_HCA"] == "mlx5"
    assert trainer(result)["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    plain = under(queue, "numGPUs: 16\n  network: plain")
    assert trainer(plain)["securityContext"] == {"capabilities": {"add": ["SYS_RESOURCE"]}}
    assert "nvidia.com/mlnxnics" in str(plain.one("ClusterQueue")), "other jobs of the queue request it"


def test_what_the_queue_says_of_the_trainer_stays() -> None:
    text = "network: rdma-shared\n  securityContext: {runAsUser: 1000, capabilities: {drop: [ALL], add: [NET_RAW]}}"
    assert trainer(under(text))["securityContext"] == {
        "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"], "add": ["NET_RAW", "IPC_LOCK"]},
    }


@pytest.mark.parametrize(
    ("queue", "job", "words"),
    [
        ("network: infinband", "numGPUs: 16", "did you mean sriov-infiniband?"),
        ("networks: [{name: a, preset: nothing-like-it}]", "numGPUs: 16", "known: rdma-shared"),
        ("network: rdma-hca", "numGPUs: 16\n  network: rdma-hcb", "did you mean rdma-hca?"),
        ("network: rdma-hca", "numGPUs: 16\n  network: gke-tcpx", "networks of the queue: rdma-hca"),
    ],
)
def test_a_network_that_is_not_there(queue: str, job: str, words: str) -> None:
    result = under(queue, job)
    assert set(result.errors) == {"torchrun.network-unknown"}
    assert words in " ".join(map(str, result.problems))


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("NCCL_IB_HCA", "mlx5_9", "variable NCCL_IB_HCA replaces 'ibp' of network coreweave-infiniband"),
        ("NCCL_IB_DISABLE", "1", "NCCL_IB_DISABLE=1 turns off network coreweave-infiniband"),
        ("NCCL_NET", "Socket", "NCCL_NET=Socket turns off"),
        ("NCCL_IB_HCA", "ibp", ""),
        ("NCCL_DEBUG", "INFO", ""),
    ],
)
def test_variables_that_contradict_the_network(variable: str, value: str, words: str) -> None:
    """The job's own variable counts, and the plan says what it replaces."""
    result = under("network: coreweave-infiniband", f"numGPUs: 16\n  env: [{{name: {variable}, value: '{value}'}}]")
    assert result.rules == (["torchrun.network-conflict"] if words else [])
    assert words in " ".join(map(str, result.problems))
    assert env(result)[variable] == value
    assert [item["name"] for item in trainer(result)["env"]].count(variable) == 1


def test_annotations_and_amounts_that_contradict_the_network() -> None:
    annotated = under("network: sriov-infiniband", "numGPUs: 16\n  annotations: {k8s.v1.cni.cncf.io/networks: other}")
    assert annotated.rules == ["torchrun.network-conflict"]
    assert pod(annotated)["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "other"
    spec = "podTemplate: {spec: {containers: [{name: trainer, resources: {limits: {rdma/ib: 2}}}]}}"
    amount = under(f"network: coreweave-infiniband\n  {spec}")
    assert amount.rules == ["torchrun.network-conflict"]
    assert trainer(amount)["resources"]["limits"]["rdma/ib"] == 2


def test_huge_pages_need_cpu_or_memory() -> None:
    text = TEXT.replace("{gpus: 8, cpus: 96, memory: 1000Gi}", "{gpus: 8}")
    result = rendered(text.replace("QUEUE", "network: eks-efa-p5").replace("JOB", "numGPUs: 16"))
    assert result.errors == ["torchrun.network"]


def test_shared_memory_and_set_up() -> None:
    """The size that the queue sets counts; lines of a preset run before those of the job."""
    preset = under("network: gke-rdma", "numGPUs: 16\n  setupCommand: make")
    volumes = {volume["name"]: volume for volume in pod(preset)["spec"]["volumes"]}
    assert volumes["shm"]["emptyDir"]["sizeLimit"] == "250Gi"
    lines = trainer(preset)["command"][2].splitlines()
    assert lines[1:3] == ["source /usr/local/gib/scripts/set_nccl_env.sh", "eval make"]
    own = under("network: gke-rdma\n  storage: {shmSizePerGPU: 4Gi}")
    volumes = {volume["name"]: volume for volume in pod(own)["spec"]["volumes"]}
    assert volumes["shm"]["emptyDir"]["sizeLimit"] == "32Gi"


def test_a_sidecar_receives_for_the_gpus() -> None:
    spec = pod(under("network: gke-tcpx"))["spec"]
    (daemon,) = spec["initContainers"]
    assert (daemon["name"], daemon["restartPolicy"]) == ("tcpx-daemon", "Always")
    names = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in daemon["volumeMounts"]} <= names
    host = pod(under("network: oci-rdma-host-h100"))["spec"]
    assert (host["hostNetwork"], host["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
