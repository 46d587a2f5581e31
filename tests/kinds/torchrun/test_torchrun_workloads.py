"""JobSet and TrainJob as the workload of a TorchrunJob."""

import pytest

from reconciler.queues.queues import usage_by_cluster
from tests.kinds.torchrun.torchrun_cases import CATALOGUE, rendered
from tests.kinds.walking import Result
from tests.plan.plan_cases import rows

TEXT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  image: train:1
  nodeResources: {gpus: 8}
  queue: {resources: {gpu: {quota: 32}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: train}
spec:
  jobQueue: q
  command: python train.py
  numGPUs: 16
"""


def target(kind: str, backend: str = "kueue", *, gpus: int = 16, more: str = "") -> Result:
    text = TEXT.replace("numGPUs: 16", f"numGPUs: {gpus}\n  workload: {kind}{more}")
    return rendered(text, backend)


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_pods_meet_below_the_name_of_the_job_set(kind: str) -> None:
    """F-039, F-052: no Service of ours; pod 0 of the one replicated job serves the rendezvous."""
    result = target(kind)
    assert result.problems == ()
    assert "Service/train" not in result.kinds()
    body = result.one("JobSet") if kind == "JobSet" else result.one("TrainingRuntime")["spec"]["template"]
    (replicated,) = body["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["replicas"]) == ("node", 1)
    job = replicated["template"]["spec"]
    assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (2, 2, 6)
    (container,) = job["template"]["spec"]["containers"]
    assert container["name"] == ("trainer" if kind == "JobSet" else "node")
    assert "--rdzv-endpoint=train-node-0-0.train:29500" in container["command"][2]


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_its_gpus_count_in_its_queue(kind: str) -> None:
    """F-032: those of a TrainJob are in the runtime that it names."""
    bodies = [manifest.body for manifest in target(kind).manifests]
    usage = usage_by_cluster(rows(bodies))["main"]
    assert {(queue.name, gpus) for (queue, _), gpus in usage.requested.items()} == {("q", 16)}


def test_another_pod_is_another_runtime() -> None:
    """A running TrainJob keeps the JobSet that it has, so a change is one that only a new TrainJob takes."""
    before, same = target("TrainJob"), target("TrainJob")
    after = target("TrainJob", more="\n  env: [{name: LR, value: '1'}]")
    names = [result.one("TrainingRuntime")["metadata"]["name"] for result in (before, same, after)]
    assert names[0] == names[1] != names[2]
    (refused,) = CATALOGUE.transitions(before.one("TrainJob"), after.one("TrainJob"))
    assert refused.path == ("spec", "runtimeRef")


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_under_kai_only_one_node_is_a_gang(kind: str) -> None:
    """F-039: an error that names the way out; one node needs no gang."""
    result = target(kind, "kai")
    assert result.errors == ["torchrun.no-gang"]
    assert "`workload: auto`" in str(result.problems[0])
    one = target(kind, "kai", gpus=8)
    assert one.problems == ()
    assert one.one(kind)["spec"]["suspend"] is False
    assert one.one(kind)["metadata"]["labels"]["kai.scheduler/queue"] == "q"


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_without_queueing_nothing_starts_the_pods_together(kind: str) -> None:
    assert "torchrun.no-gang" in target(kind, "none").rules


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_under_kueue_a_suspended_one_is_deleted(kind: str) -> None:
    """F-055: Kueue resumes it otherwise. Elsewhere it is suspended in place."""
    result = target(kind, more="\n  suspend: true")
    assert result.rules == ["torchrun.suspend"]
    assert not [each for each in result.kinds() if each.startswith(("JobSet", "TrainJob", "TrainingRuntime"))]
    assert target(kind, "none", more="\n  suspend: true").one(kind)["spec"]["suspend"] is True


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_kueue_admits_an_elastic_one_as_a_whole(kind: str) -> None:
    """F-053: it may lose nodes, and ends with the first pod that ends well; it never starts with fewer."""
    result = target(kind, more="\n  distributed: {minNodes: 1}")
    assert result.rules == ["torchrun.elastic-host", "torchrun.elastic-whole"]
    text = str([manifest.body for manifest in result.manifests])
    assert "--nnodes=1:2" in text
    assert "'succeededCount': 1" in text


def test_the_job_overrides_its_queue_and_a_letter_comes_first() -> None:
    text = TEXT.replace("  image: train:1", "  image: train:1\n  workload: JobSet")
    assert rendered(text.replace("numGPUs: 16", "workload: auto\n  numGPUs: 16")).one("Job")
    short = rendered(text.replace("numGPUs: 16", "numGPUs: 8").replace("name: train}", "name: 1train}"))
    assert short.errors == ["torchrun.name"]


def test_a_train_job_has_no_time_to_live() -> None:
    more = "\n  reliability: {ttlSecondsAfterFinished: 3600}"
    assert target("TrainJob", more=more).rules == ["torchrun.unsupported"]
    assert target("JobSet", more=more).one("JobSet")["spec"]["ttlSecondsAfterFinished"] == 3600


@pytest.mark.parametrize(
    ("backend", "more", "expected"),
    [
        ("kueue", "", ["torchrun.elastic-host", "torchrun.elastic-sync", "torchrun.elastic-growth"]),
        ("kai", "", ["torchrun.elastic-host"]),
        ("kai", ", rdzvBackend: etcd-v2, rdzvEndpoint: 'etcd:2379'", []),
    ],
)
def test_what_an_elastic_job_cannot_do(backend: str, more: str, expected: list[str]) -> None:
    """F-053: grow under Kueue, and go on without the pod that serves its rendezvous."""
    result = target("auto", backend, more=f"\n  distributed: {{minNodes: 1{more}}}")
    assert result.rules == expected
