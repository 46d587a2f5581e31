"""Kaiwo's workloads and queues in a repository, as a user sees them: plans, edits, what is removed and what is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fleet import Fleet

NODES = "".join(
    f"\n    - {{name: node-{index}, labels: {{kaiwo/worker: 'true'}}, gpu: {{product: AMD-Instinct-MI300X, count: 8}}, cpus: 96}}"
    for index in range(4)
)
EVIDENCE = f"""\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {{name: main}}
spec:
  cluster: main
  takenAt: "2026-11-02T08:00:00Z"
  nodes: {NODES}
"""
QUEUES = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoQueueConfig
metadata: {name: kaiwo}
spec:
  clusterQueues:
  - name: kaiwo
    namespaces: [default]
    spec:
      namespaceSelector: {}
      resourceGroups:
      - coveredResources: [cpu, memory, amd.com/gpu]
        flavors:
        - name: mi300x
          resources:
          - {name: cpu, nominalQuota: 400}
          - {name: memory, nominalQuota: 4Ti}
          - {name: amd.com/gpu, nominalQuota: 32}
  resourceFlavors:
  - name: mi300x
"""
JOB = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata: {name: NAME, labels: {team: research}}
spec:
  user: test@example.com
  image: registry.example.com/train:1.0
  gpus: 8
  entrypoint: python main.py
"""


def plan(fleet: Fleet, *arguments: str) -> dict[str, Any]:
    ran = fleet.run("plan", "-o", "json", *arguments)
    assert ran.out, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def settle(fleet: Fleet, message: str = "edit") -> None:
    """Commit the sources and what they render to."""
    fleet.commit(message)
    ran = fleet.run("commit")
    assert ran.code == 0, ran.out + ran.err
    assert plan(fleet)["changes"] == []


@pytest.fixture
def kaiwo(fleet: Fleet, kept: Path) -> Fleet:
    """Return a repository of Kaiwo's kinds on a cluster with Kueue, 4 nodes of 8 MI300X, and one job."""

    def make() -> None:
        fleet.edit("reconciler.yaml", "backend: kai  ", "backend: kueue")
        fleet.edit("reconciler.yaml", "vendor: nvidia", "vendor: amd   ")
        fleet.git("rm", "-rq", "queues", "jobs", "rendered", "tests")
        fleet.write("evidence/main/nodes.yaml", EVIDENCE)
        fleet.write("queues/kaiwo.yaml", QUEUES)
        fleet.write("jobs/train.yaml", JOB.replace("NAME", "train"))
        fleet.edit("reconciler.yaml", "emptySources: refuse", "emptySources: allow")
        settle(fleet)

    fleet.make_once(kept, make)
    return fleet


def names(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["operation"], one["key"]["kind"], one["key"]["name"]) for one in found["changes"]]


def test_a_job_is_planned_with_its_gpus(kaiwo: Fleet) -> None:
    """F-072, F-154: GPUs and queue count as those of any other job, and the labels of the source are on it."""
    kaiwo.write("jobs/more.yaml", JOB.replace("NAME", "more").replace("gpus: 8", "gpus: 16"))
    found = plan(kaiwo)
    (change,) = found["changes"]
    assert (names(found), change["gpusAfter"]) == ([("create", "Job", "more")], 16)
    assert change["queue"] == "kaiwo"
    (queue,) = found["gpus"]
    assert (queue["queue"], queue["before"], queue["after"]) == ("kaiwo", 8, 24)


def test_an_edit_reaches_the_job(kaiwo: Fleet) -> None:
    """KA-17, D-27, F-076: the image alone differs, and the Job must be replaced; with `replace` it gets a new generation."""
    kaiwo.edit("jobs/train.yaml", "train:1.0", "train:1.1")
    found = plan(kaiwo)
    (change,) = found["changes"]
    assert [one["path"] for one in change["fields"]] == ["spec.template.spec.containers[name=workload].image"]
    assert "immutable" in " ".join(one["rule"] for one in (*found["risks"], *found["problems"]))
    kaiwo.edit("jobs/train.yaml", "labels:", "annotations: {gpureconciler.io/on-immutable-change: replace}, labels:")
    (change,) = plan(kaiwo)["changes"]
    assert (change["operation"], change["key"]["name"].startswith("train-g")) == ("replace", True)


def test_workloads_of_a_namespace_share_their_local_queue(kaiwo: Fleet) -> None:
    """F-044: two jobs render the same object, which stays as long as one of them is there."""
    kaiwo.edit("queues/kaiwo.yaml", "    namespaces: [default]\n", "")
    kaiwo.write("jobs/more.yaml", JOB.replace("NAME", "more").replace("{team", "{team: vision, x"))
    settle(kaiwo)
    assert "app.kubernetes.io/managed-by" in kaiwo.files()["main/default/localqueue-kaiwo.yaml"].decode()
    kaiwo.git("rm", "-q", "jobs/train.yaml")
    assert names(plan(kaiwo)) == [("delete", "Job", "train")]


def test_only_what_was_rendered_is_removed(kaiwo: Fleet) -> None:
    """KA-16, D-28, F-142: without the KaiwoQueueConfig its own objects go, and no other queue is named anywhere."""
    kaiwo.write("queues/foreign.yaml", FOREIGN)
    settle(kaiwo)
    kaiwo.git("rm", "-q", "jobs/train.yaml", "queues/kaiwo.yaml")
    assert sorted(names(plan(kaiwo))) == [
        ("delete", "ClusterQueue", "kaiwo"),
        ("delete", "Job", "train"),
        ("delete", "LocalQueue", "kaiwo"),
        ("delete", "ResourceFlavor", "mi300x"),
    ]


def test_a_flavor_of_a_topology_is_not_recreated(kaiwo: Fleet) -> None:
    """D-17: its labels are immutable while it has a topology: refused, since queues that run jobs use it."""
    kaiwo.edit("queues/kaiwo.yaml", "resourceFlavors:\n  - name: mi300x\n", TOPOLOGY)
    settle(kaiwo)
    kaiwo.edit("queues/kaiwo.yaml", "pool: a", "pool: b")
    (problem,) = [one for one in plan(kaiwo)["problems"] if one["severity"] == "error"]
    assert (problem["rule"], problem["place"]["path"]) == ("immutable.refused", "queues/kaiwo.yaml")
    assert "must be replaced" in problem["message"]
    assert "nodeLabels are immutable when topologyName is set" in problem["message"]


def test_a_namespace_that_is_removed_loses_its_local_queue(kaiwo: Fleet) -> None:
    """F-044: and nothing else goes."""
    kaiwo.edit("queues/kaiwo.yaml", "[default]", "[default, vision]")
    settle(kaiwo)
    kaiwo.edit("queues/kaiwo.yaml", "[default, vision]", "[default]")
    (change,) = plan(kaiwo)["changes"]
    assert (change["operation"], change["key"]["kind"], change["key"]["namespace"]) == (
        "delete",
        "LocalQueue",
        "vision",
    )


def test_claims_stay_when_their_workload_goes(kaiwo: Fleet) -> None:
    """D-21, F-073: the plan removes Job, configuration and download; the claim is marked as kept, and says so."""
    storage = (
        "  storage:\n    storageEnabled: true\n    storageClassName: fast\n    data:\n      storageSize: 1Gi\n      download:\n"
        "        git: [{repository: 'https://git.example.com/a.git', targetPath: code}]\n"
    )
    kaiwo.edit("reconciler.yaml", "- Namespace/default", "- Namespace/default\n        - StorageClass/fast")
    kaiwo.write("jobs/stored.yaml", JOB.replace("NAME", "stored") + storage)
    settle(kaiwo)
    claim = kaiwo.files()["main/default/persistentvolumeclaim-stored-data.yaml"].decode()
    assert 'gpureconciler.io/keep: "true"' in claim
    assert "Prune=false" in claim
    kaiwo.git("rm", "-q", "jobs/stored.yaml")
    gone = names(plan(kaiwo))
    assert {kind for _, kind, _ in gone} >= {"ConfigMap", "Job"}
    assert {operation for operation, _, _ in gone} <= {"delete", "keep"}


TOPOLOGY = """\
resourceFlavors:
  - {name: mi300x, topologyName: racks, nodeLabels: {pool: a}}
  topologies:
  - metadata: {name: racks}
    spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
"""
FOREIGN = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: foreign}
spec: {namespaceSelector: {}}
"""

# The shapes of the manifests that come with Kaiwo: numbers of GPUs, Ray or not, where their data comes from.
GIT = "git: [{repository: 'https://git.example.com/a.git', path: code, targetPath: code}]"
STORED = f"""
  storage:
    storageEnabled: true
    storageClassName: shared
    data: {{storageSize: 20Mi, mountPath: /workload, download: {{{GIT}}}}}
    huggingFace: {{storageSize: 100Gi, mountPath: /hf_cache, preCacheRepos: [{{repoId: a/b, files: []}}]}}
"""
TOKEN = "\n  env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf-token, key: hf-token}}}]"
RAY = "\n  image: ray:1.0\n  ray: true\n  entrypoint: python code/main.py"
SCRIPT = "\n  image: train:1.0\n  entrypoint: |\n    accelerate launch code/run.py \\\n    --bf16"
SHIPPED = {
    "pretrain": ("KaiwoJob", f"gpus: 8{RAY}{TOKEN}{STORED}", 8),
    "finetune": ("KaiwoJob", f"gpus: 16{RAY}{TOKEN}{STORED}", 16),
    "rlhf": ("KaiwoJob", f"gpus: 12{RAY}{TOKEN}{STORED}", 12),
    "dpo": ("KaiwoJob", f"gpus: 4{SCRIPT}{STORED}", 4),
    "batch": ("KaiwoJob", f"gpusPerReplica: 4\n  replicas: 1{RAY}{TOKEN}{STORED}", 4),
    "serve": ("KaiwoService", f"gpus: 4\n  ray: true\n  serveConfigV2: 'applications: []'{TOKEN}{STORED}", 4),
    "tiny": ("KaiwoJob", f"gpus: 1{RAY}{STORED}", 1),
    "bert": ("KaiwoJob", f"gpus: 2{SCRIPT}", 2),
}


def test_the_shapes_of_shipped_workloads(kaiwo: Fleet) -> None:
    """KA-21, F-065, F-073: they load, and each is planned with the GPUs that it asks for."""
    kaiwo.edit(
        "reconciler.yaml", "- Namespace/default", "- Namespace/default\n        - StorageClass/shared\n        - Secret"
    )
    kaiwo.git("rm", "-q", "jobs/train.yaml")
    for name, (kind, spec, _) in SHIPPED.items():
        head = f"apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  user: a@example.com"
        kaiwo.write(f"jobs/{name}.yaml", f"{head}\n  {spec}\n")
    found = plan(kaiwo)
    gpus = {one["key"]["name"]: one["gpusAfter"] for one in found["changes"] if one["gpusAfter"]}
    assert gpus == {name: number for name, (_, _, number) in SHIPPED.items()}
    assert not [one for one in found["problems"] if one["severity"] == "error"]
