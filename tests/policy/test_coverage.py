"""Workloads that request what their ClusterQueue does not cover. `tests/differential` compares them with Kueue."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import Cluster, RuleSetting
from tests.plan.plan_cases import KUEUE_QUEUE, Body, as_row, cluster_queue, evaluate, flavor, local_queue, plain, rows

RULE = "quota.not-covered"
GPU = "nvidia.com/gpu"


def queue(*covered: str, **spec: Any) -> list[Body]:
    body = cluster_queue("gpus", {"h100": 64}, others=covered)
    return [flavor("h100"), {**body, "spec": {**body["spec"], **spec}}, local_queue("team", "gpus")]


def train(resources: Body, /, *, pods: int = 2, **spec: Any) -> Body:
    container = {"name": "main", "image": "repo/train:1", "resources": resources}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "labels": {KUEUE_QUEUE: "team"}},
        "spec": {
            "parallelism": pods,
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], **spec}},
        },
    }


def verdicts(*bodies: Body, **settings: Any) -> list[Verdict]:
    found = evaluate(BUILT_IN, rows(bodies), Cluster(name="main"), None, {RULE: RuleSetting(**settings)})
    return [verdict for verdict in found if verdict.rule == RULE]


def messages(*bodies: Body, **settings: Any) -> list[str]:
    return [verdict.message for verdict in verdicts(*bodies, **settings)]


def lacks(names: str) -> list[str]:
    them = "them" if " and " in names else "it"
    return [f"requests {names}, but ClusterQueue gpus does not cover {them}"]


def test_a_job_requests_what_its_queue_does_not_cover() -> None:
    (verdict,) = verdicts(*queue(), train({"requests": {"cpu": "4", "memory": "64Gi", "ephemeral-storage": "1Gi"}}))
    assert verdict.result is Result.DENY
    assert [verdict.message] == lacks("cpu, ephemeral-storage and memory")
    assert verdict.field == f'metadata.labels["{KUEUE_QUEUE}"]'
    assert "add them to coveredResources of a resource group" in verdict.hint
    assert f"spec.rules.{RULE}.parameters.excludeResourcePrefixes" in verdict.hint


@pytest.mark.parametrize(
    ("resources", "spec", "missing"),
    [
        ({"limits": {"cpu": 1}}, {}, "cpu"),
        ({"limits": {"cpu": 1}, "requests": {"cpu": 0}}, {}, ""),
        ({"requests": {"cpu": "0", "memory": "1Ki"}}, {}, "memory"),
        ({"requests": {"cpu": "100u"}}, {}, "cpu"),
        ({"limits": {"rdma/ib": 1}}, {}, "rdma/ib"),
        ({"limits": {"hugepages-2Mi": "1Gi"}}, {}, "hugepages-2Mi"),
        ({}, {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]}, "cpu"),
        ({}, {"overhead": {"memory": "64Mi"}}, "memory"),
        ({}, {"resources": {"requests": {"cpu": "1"}}}, "cpu"),
        ({}, {"resources": {"limits": {"cpu": "1"}}}, "cpu"),
        ({}, {}, ""),
    ],
)
def test_what_pods_request(resources: Body, spec: Body, missing: str) -> None:
    assert messages(*queue(), train(resources, **spec)) == (lacks(missing) if missing else [])


def test_a_queue_that_covers_all_of_it() -> None:
    assert not messages(*queue("cpu", "memory"), train({"limits": {"cpu": "4", "memory": "64Gi", GPU: 8}}))


def test_gpus_have_one_verdict() -> None:
    """Those that a queue does not grant at all are for `quota.queue-limit`."""
    objects = rows([*queue("cpu"), train({"limits": {"amd.com/gpu": 8, "cpu": 1}})])
    found = evaluate(BUILT_IN, objects, Cluster(name="main"), None, {})
    limits = [verdict.message for verdict in found if verdict.rule in {RULE, "quota.queue-limit"}]
    assert limits == ["requests amd.com/gpu, but queue gpus grants none"]


def test_a_queue_without_resource_groups_covers_nothing() -> None:
    assert messages(*queue(resourceGroups=[]), train({"limits": {"cpu": 1}})) == lacks("cpu")


def test_a_cohort_lends_nothing_that_a_queue_does_not_cover() -> None:
    other = cluster_queue("other", {"h100": 8}, cohort="all", others=("cpu",))
    assert messages(*queue(cohortName="all"), other, train({"limits": {"cpu": 1}})) == lacks("cpu")


def test_no_verdict_without_the_queue() -> None:
    """It may be anywhere: what it covers is unknown."""
    assert not messages(local_queue("team", "gpus"), train({"limits": {"cpu": 1}}))
    assert not messages(*queue()[1:2], train({"limits": {"cpu": 1}}))


def test_no_verdict_without_pods() -> None:
    limits = plain("LimitRange", "defaults", spec={"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]})
    assert not messages(*queue(), limits, train({"limits": {"cpu": 1}}, pods=0))
    done = train({"limits": {"cpu": 1}})
    done["metadata"]["annotations"] = {"gpureconciler.io/finished": '{"result": "succeeded", "at": "2026-11-01"}'}
    assert as_row(done).finished
    assert not messages(*queue(), done)


@pytest.mark.parametrize(
    ("item", "resources", "missing"),
    [
        ({"default": {"memory": "1Gi"}}, {}, "memory"),
        ({"defaultRequest": {"memory": "1Gi"}}, {}, "memory"),
        ({"max": {"memory": "1Gi"}}, {}, "memory"),
        ({"min": {"memory": "1Gi"}}, {}, "memory"),
        ({"default": {"memory": "1Gi"}}, {"requests": {"memory": 0}}, ""),
        ({"default": {"memory": 0}}, {}, ""),
        ({"default": {"cpu": "1", "memory": "1Gi"}}, {}, "memory"),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, {}, ""),
    ],
)
def test_a_limit_range_sets_requests(item: Body, resources: Body, missing: str) -> None:
    limits = plain("LimitRange", "defaults", spec={"limits": [{"type": "Container", **item}]})
    reason = f" (a LimitRange of namespace ml sets {missing})"
    found = messages(*queue("cpu"), limits, train(resources))
    assert found == ([f"{message}{reason}" for message in lacks(missing)] if missing else [])
    assert not messages(*queue("cpu"), {**limits, "metadata": {"name": "x", "namespace": "other"}}, train(resources))


def test_a_limit_range_says_nothing_new_of_what_pods_request() -> None:
    limits = plain("LimitRange", "defaults", spec={"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]})
    assert messages(*queue(), limits, train({"limits": {"memory": "2Gi"}})) == lacks("memory")


def test_a_runtime_class_adds_its_overhead() -> None:
    kata = plain("RuntimeClass", "kata", namespace="", api="node.k8s.io/v1", overhead={"podFixed": {"memory": "64Mi"}})
    assert messages(*queue(), kata, train({}, runtimeClassName="kata")) == lacks("memory")
    assert not messages(*queue(), train({}, runtimeClassName="kata"))


def test_a_train_job_requests_what_its_runtime_says() -> None:
    template = {"spec": {"containers": [{"name": "node", "resources": {"limits": {"cpu": 1}}}]}}
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    runtime = plain(
        "TrainingRuntime",
        "torch",
        api="trainer.kubeflow.org/v1alpha1",
        spec={"template": {"spec": {"replicatedJobs": jobs}}},
    )
    reference = {"name": "torch", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    trained = plain("TrainJob", "train", api="trainer.kubeflow.org/v1alpha1", spec={"runtimeRef": reference})
    trained["metadata"]["labels"] = {KUEUE_QUEUE: "team"}
    assert messages(*queue(), runtime, trained) == lacks("cpu")
    trained["spec"]["trainer"] = {"resourcesPerNode": {"limits": {"memory": "1Gi"}}}
    assert messages(*queue(), runtime, trained) == lacks("memory")


def test_prefixes_that_kueue_excludes() -> None:
    job = train({"limits": {"cpu": "4", "memory": "64Gi", "networking.example.com/vpc1": 1}})
    assert messages(*queue(), job, parameters={"excludeResourcePrefixes": ["cpu", "networking.example.com/"]}) == lacks(
        "memory"
    )


@pytest.mark.parametrize("wrong", ["cpu", [1], [""], {"cpu": 1}])
def test_wrong_prefixes_are_an_error(wrong: Any) -> None:
    (verdict,) = verdicts(*queue(), train({"limits": {"cpu": "4"}}), parameters={"excludeResourcePrefixes": wrong})
    assert verdict.result is Result.ERROR
    assert "is not a list of prefixes" in verdict.message


def test_a_disabled_rule_says_nothing() -> None:
    assert not messages(*queue(), train({"limits": {"cpu": "4"}}), enabled=False)
