"""JobSets and TrainJobs as we render them, on the real Kueue, KAI, JobSet controller and Trainer: gang or not."""

from typing import Any

import pytest

from tests.cluster.bed.bed import GPU, Bed
from tests.cluster.bed.kai import pod_groups
from tests.kinds.torchrun.torchrun_cases import rendered

TEXT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: q, namespace: {pool}}}
spec:
  kaiQueue: {queue}
  image: train:1
  nodeResources: {{gpus: 8}}
  queue: {{resources: {{gpu: {{quota: 16, limit: 16}}}}}}
  scheduling: {{nodeSelector: {{pool: {pool}}}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}, namespace: {pool}}}
spec: {{jobQueue: q, command: python train.py, numGPUs: {gpus}, workload: {kind}, suspend: {suspend}}}
"""


@pytest.fixture(params=["JobSet", "TrainJob"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of workload, whose controller runs."""
    chosen: str = request.param
    request.getfixturevalue("jobset" if chosen == "JobSet" else "trainer")
    return chosen


def bodies(pool: str, name: str, kind: str, *, gpus: int = 16, backend: str = "kueue") -> list[dict[str, Any]]:
    queue = "default-queue" if backend == "kai" else pool
    text = TEXT.format(pool=pool, queue=queue, name=name, gpus=gpus, kind=kind, suspend="false")
    return [each.body for each in rendered(text, backend).manifests if each.key.kind != "Queue"]


def reserved(bed: Bed, queue: str) -> int:
    """Return the GPUs that Kueue has granted in a queue."""
    status = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}").get("status", {})
    amounts = [each for flavor in status.get("flavorsReservation", []) for each in flavor["resources"]]
    return sum(int(each["total"]) for each in amounts if each["name"] == GPU)


def path_of(pool: str, name: str, kind: str) -> str:
    api = "jobset.x-k8s.io/v1alpha2" if kind == "JobSet" else "trainer.kubeflow.org/v1alpha1"
    return f"/apis/{api}/namespaces/{pool}/{kind.lower()}s/{name}"


@pytest.mark.usefixtures("kueue")
def test_kueue_admits_all_pods_or_none(bed: Bed, kind: str) -> None:
    """F-039, F-055: with 8 of 16 GPUs taken there is no pod, later both; suspended in place it resumes, deleted not."""
    pool = f"admitted-{kind.lower()}"
    bed.server.client.ensure_namespaces([pool])
    bed.apply(*bodies(pool, "first", "auto", gpus=8))
    bed.wait(lambda: reserved(bed, pool) == 8, "the first job takes half of the quota")
    bed.apply(*bodies(pool, "train", kind))
    path = path_of(pool, "train", kind)
    bed.wait(lambda: bed.get(path)["spec"].get("suspend"), "the second one waits")
    bed.wait(lambda: waits(bed, pool), "Kueue says that it does not fit")
    assert not [pod for pod in bed.pods(pool) if pod["metadata"]["name"].startswith("train")]

    bed.delete(f"/apis/batch/v1/namespaces/{pool}/jobs/first", propagationPolicy="Background")
    bed.wait(lambda: len(nodes(bed, pool)) == 2, "both pods")
    bed.wait(lambda: reserved(bed, pool) == 16, "the whole quota is taken")
    assert [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in nodes(bed, pool)] == [
        ("train-node-0-0", "train"),
        ("train-node-0-1", "train"),
    ]
    (service,) = bed.get(f"/api/v1/namespaces/{pool}/services")["items"]
    assert (service["metadata"]["name"], service["spec"]["publishNotReadyAddresses"]) == ("train", True)

    answer = bed.server.client.request(
        "PATCH", path, {"spec": {"suspend": True}}, content_type="application/merge-patch+json"
    )
    assert answer.ok, answer.body
    bed.wait(lambda: not bed.get(path)["spec"]["suspend"], "Kueue resumes what it has admitted")
    bed.delete(path, propagationPolicy="Background")
    bed.wait(lambda: reserved(bed, pool) == 0, "deleted, it holds no quota")


@pytest.mark.usefixtures("kueue")
def test_kueue_counts_a_train_job_by_its_runtime(bed: Bed) -> None:
    """F-039: both pods with all of their GPUs are one workload, which resumes the TrainJob as a whole."""
    pool = "runtime-counted"
    bed.server.client.ensure_namespaces([pool])
    bed.apply(*bodies(pool, "first", "auto", gpus=8))
    bed.wait(lambda: reserved(bed, pool) == 8, "the first job takes half of the quota")
    bed.apply(*bodies(pool, "train", "TrainJob"))
    bed.wait(lambda: waits(bed, pool), "Kueue says that it does not fit")
    path = path_of(pool, "train", "TrainJob")
    assert bed.get(path)["spec"]["suspend"] is True
    (pods,) = [each for each in pod_sets(bed, pool) if each["name"] == "node"]
    (container,) = pods["template"]["spec"]["containers"]
    assert (pods["count"], container["resources"]["requests"][GPU]) == (2, "8")
    bed.delete(f"/apis/batch/v1/namespaces/{pool}/jobs/first", propagationPolicy="Background")
    bed.wait(lambda: bed.get(path)["spec"]["suspend"] is False, "it is resumed")
    bed.wait(lambda: reserved(bed, pool) == 16, "the whole quota is taken")


@pytest.mark.usefixtures("kueue", "jobset")
@pytest.mark.parametrize("gpus", [8, 16])
def test_kueue_takes_what_runs_on_worker_clusters(bed: Bed, gpus: int) -> None:
    """F-047: the check of the ClusterQueue, and a job that the controllers of this cluster leave alone."""
    pool = f"sent-{gpus}"
    text = TEXT.replace("queue: {{res", "queue: {{multiKueue: workers, res")
    text = text.format(pool=pool, queue=pool, name="train", gpus=gpus, kind="auto", suspend="false")
    bed.server.client.ensure_namespaces([pool])
    bed.apply(*(each.body for each in rendered(text, "kueue").manifests))
    kind = "JobSet" if gpus == 16 else "Job"
    path = path_of(pool, "train", kind) if kind == "JobSet" else f"/apis/batch/v1/namespaces/{pool}/jobs/train"
    assert bed.get(path)["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    queue = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{pool}")
    assert queue["spec"]["admissionChecksStrategy"]["admissionChecks"] == [{"name": "workers"}]
    bed.wait(lambda: inactive(bed, pool), "without its check the queue admits nothing")
    assert not bed.pods(pool)


def inactive(bed: Bed, queue: str) -> bool:
    """Whether Kueue says that a queue lacks an admission check: what `reference.admission-check` denies."""
    status = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}").get("status", {})
    return any(one["reason"] == "AdmissionCheckNotFound" for one in status.get("conditions", ()))


def pod_sets(bed: Bed, pool: str) -> list[dict[str, Any]]:
    """Return the groups of pods of all workloads of a namespace."""
    workloads = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{pool}/workloads")["items"]
    return [each for workload in workloads for each in workload["spec"]["podSets"]]


def nodes(bed: Bed, pool: str) -> list[dict[str, Any]]:
    return [pod for pod in bed.pods(pool) if pod["metadata"]["name"].startswith("train-node")]


def waits(bed: Bed, pool: str) -> bool:
    workloads = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{pool}/workloads")["items"]
    conditions = [one for each in workloads for one in each.get("status", {}).get("conditions", ())]
    return any(one["type"] == "QuotaReserved" and "insufficient" in one["message"] for one in conditions)


@pytest.mark.usefixtures("kai", "kwok")
def test_under_kai_several_pods_are_no_gang(bed: Bed, kind: str) -> None:
    """F-039: the reason of the error: a group that needs one pod, which starts where two do not fit. One pod runs."""
    pool = f"kai-{kind.lower()}"
    bed.node(f"{pool}-a", pool)
    bed.wait(lambda: bed.ready_nodes(pool) == 1, "one node ready")
    bed.apply(*bodies(pool, "one", kind, gpus=8, backend="kai"))
    bed.wait(lambda: bed.bound(pool), "one pod of one node runs")
    (group,) = pod_groups(bed, pool)
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (1, "default-queue")
    bed.delete(path_of(pool, "one", kind), propagationPolicy="Background")
    bed.wait(lambda: not bed.pods(pool), "gone")

    bed.apply(*two_nodes(pool, kind))
    bed.wait(lambda: len(bed.pods(pool)) == 2, "two pods of two nodes")
    bed.wait(lambda: bed.bound(pool), "one is placed")
    assert len(bed.bound(pool)) == 1
    assert {group["spec"]["minMember"] for group in pod_groups(bed, pool)} == {1}


def two_nodes(pool: str, kind: str) -> list[dict[str, Any]]:
    """Return what we refuse to render: the same objects with two pods."""
    found = bodies(pool, "two", kind, gpus=8, backend="kai")
    for body in found:
        spec = body["spec"]
        if body["kind"] == "TrainJob":
            spec["trainer"]["numNodes"] = 2
            continue
        if body["kind"] == "TrainingRuntime":
            spec["mlPolicy"]["numNodes"] = 2
            spec = spec["template"]["spec"]
        spec["replicatedJobs"][0]["template"]["spec"].update(completions=2, parallelism=2)
    return found


@pytest.mark.usefixtures("kueue", "scheduler", "kwok")
def test_it_ends_when_its_pods_do(bed: Bed, kind: str) -> None:
    """F-057: placed on two nodes, complete, and its quota is free."""
    pool = f"complete-{kind.lower()}"
    for name in ("a", "b"):
        bed.node(f"{pool}-{name}", pool)
    *first, job = bodies(pool, "train", kind)
    bed.apply(*first)
    bed.wait(lambda: bed.judge(job)[0].ok, "Kueue knows the runtime")  # its webhook reads it from a cache
    bed.apply(job)
    done = "Completed" if kind == "JobSet" else "Complete"
    bed.wait(lambda: done in ended(bed.get(path_of(pool, "train", kind))), "complete")
    bed.wait(lambda: reserved(bed, pool) == 0, "its quota is free")


def ended(body: dict[str, Any]) -> list[str]:
    return [one["type"] for one in body.get("status", {}).get("conditions", ()) if one["status"] == "True"]
