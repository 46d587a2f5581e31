"""Volcano (F-156): queues as a tree with quotas, the queue of every workload, and what its webhooks refuse."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.facts import Quota, Reference
from reconciler.kinds.kind import Kind
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.volcano import POD_GROUP, QUEUE
from reconciler.queues.queues import QueueKey, usage_by_cluster
from reconciler.repo.config import Cluster
from tests.plan.plan_cases import Body, as_row, evaluate, inventory, plain, pod_spec, rows

GPU = "nvidia.com/gpu"
MAIN = Cluster(name="main")
LABEL = "volcano.sh/queue-name"
ANNOTATION = "scheduling.volcano.sh/queue-name"


def queue(name: str, parent: str = "", **amounts: Mapping[str, Any]) -> Body:
    """Return a queue with `capability`, `deserved` and `guarantee`."""
    spec: dict[str, Any] = {"parent": parent} if parent else {}
    spec |= {key: {"resource": value} if key == "guarantee" else value for key, value in amounts.items()}
    return plain("Queue", name, namespace="", api="scheduling.volcano.sh/v1beta1", spec=spec)


def gpus(number: float) -> dict[str, float]:
    return {GPU: number}


def vc_job(name: str = "train", pods: int = 1, each: int = 8, **spec: Any) -> Body:
    task = {"name": "worker", "replicas": pods, "template": {"spec": pod_spec(each)}}
    return plain("Job", name, api="batch.volcano.sh/v1alpha1", spec={"tasks": [task], **spec})


def pod(scheduler: str = "volcano", **metadata: Any) -> Body:
    body = plain("Pod", "p", spec=pod_spec(4, schedulerName=scheduler))
    body["metadata"] |= metadata
    return body


def labelled(body: Body, name: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "labels": {LABEL: name}}}


def spark(scheduler: str) -> Body:
    spec = {"batchScheduler": scheduler, "batchSchedulerOptions": {"queue": "a"}, "executor": {"instances": 1}}
    return plain("SparkApplication", "s", api="sparkoperator.k8s.io/v1beta2", spec=spec)


def found(*bodies: Body) -> list[tuple[str, str, str, str]]:
    """Return the findings: rule, result, object and field."""
    verdicts = evaluate(BUILT_IN, rows(bodies), MAIN, inventory(64), {})
    return [(one.rule, one.result.value, one.key.name, one.field) for one in verdicts]


def row_of(kind: tuple[str, str]) -> Kind:
    return BUILT_IN[kind]


@pytest.mark.parametrize(
    ("amounts", "quota"),
    [
        ({"capability": gpus(16), "deserved": gpus(8), "guarantee": gpus(4)}, Quota("", 8, 16, GPU)),
        ({"capability": gpus(16), "guarantee": gpus(4)}, Quota("", 4, 16, GPU)),
        ({"deserved": {GPU: "8", "cpu": "64"}}, Quota("", 8, None, GPU)),
        ({"capability": {"cpu": 64}}, Quota("", 0, None)),
        ({}, Quota("", 0, None)),
        ({"capability": {GPU: 8, "amd.com/gpu": 4}}, Quota("", 0, 12)),
        ({"capability": {GPU: 8}, "deserved": {"amd.com/gpu": 4}}, Quota("", 4, None)),
        ({"capability": {"nvidia.com/mig-1g.10gb": 7}}, Quota("", 0, None)),
    ],
)
def test_a_queue_has_capability_as_limit_and_the_rest_guaranteed(amounts: Body, quota: Quota) -> None:
    """F-156: capability and guarantee in the queue table."""
    assert as_row(queue("a", **amounts)).quotas == (quota,)


def test_the_root_is_no_parent_in_the_table() -> None:
    above = as_row(queue("a", "root"))
    assert above.parent == ""
    assert above.references == (Reference(*QUEUE, "", "root", "spec.parent"),)
    assert as_row(queue("b", "a")).parent == "a"


@pytest.mark.parametrize(
    ("body", "name", "field"),
    [
        (vc_job(queue="a"), "a", "spec.queue"),
        (vc_job(), "default", "spec"),
        (vc_job(queue=7), "default", "spec"),
        (labelled(vc_job(queue="a"), "b"), "a", "spec.queue"),
        (spark("volcano"), "a", "spec.batchSchedulerOptions.queue"),
        (spark("yunikorn"), "", ""),
        (pod(annotations={ANNOTATION: "a"}), "a", f'metadata.annotations["{ANNOTATION}"]'),
        (pod(labels={LABEL: "a"}), "a", f'metadata.labels["{LABEL}"]'),
        (pod("default-scheduler", annotations={ANNOTATION: "a"}), "", ""),
        (pod(), "", ""),
        (pod(annotations={ANNOTATION: ["a"]}), "", ""),
    ],
)
def test_the_queue_of_a_workload(body: Body, name: str, field: str) -> None:
    row = as_row(body)
    assert (row.queue, row.references[0].field if row.queue else "") == (name, field)
    assert not name or row.queue_kind == QUEUE


def test_gpus_are_counted_in_their_queue() -> None:
    usage = usage_by_cluster(rows([queue("a"), vc_job(pods=2, queue="a"), vc_job("other"), pod(labels={LABEL: "a"})]))
    assert usage["main"].requested == {(QueueKey(*QUEUE, "a"), ""): 20, (QueueKey(*QUEUE, "default"), ""): 8}


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        ({}, 32),
        ({"minAvailable": 2}, 16),
        ({"minAvailable": 4}, 32),
        ({"minAvailable": 9}, 32),
        ({"minAvailable": "2"}, 32),
    ],
)
def test_a_gang_starts_with_its_least_pods(spec: Body, least: int) -> None:
    row = as_row(vc_job(pods=4, **spec))
    assert (row.gpus, row.least_gpus) == (32, least)


def test_the_least_pods_of_several_tasks_are_of_whichever_task() -> None:
    tasks = [
        {"name": "m", "replicas": 1, "template": {"spec": pod_spec(8)}},
        {"name": "w", "replicas": 4, "minAvailable": 2, "template": {"spec": pod_spec(8)}},
    ]
    of_tasks = as_row(plain("Job", "x", api="batch.volcano.sh/v1alpha1", spec={"tasks": tasks}))
    assert (of_tasks.gpus, of_tasks.least_gpus) == (40, 24)
    fewer = as_row(plain("Job", "x", api="batch.volcano.sh/v1alpha1", spec={"tasks": tasks, "minAvailable": 1}))
    assert fewer.least_gpus == 0, "one pod of either task, so of each task there may be none"


def test_a_job_larger_than_a_capability_is_an_error() -> None:
    team = queue("a", capability=gpus(16))
    assert found(team, vc_job(pods=3, queue="a")) == [("quota.queue-limit", "deny", "train", "spec.queue")]
    assert found(team, vc_job(pods=3, queue="a", minAvailable=2)) == []
    assert found(queue("a", capability={"amd.com/gpu": 4}), vc_job(queue="a")) == [], "another vendor has no limit"
    parent = queue("p", capability=gpus(8))
    assert found(parent, queue("c", "p"), vc_job(pods=2, queue="c")) == [
        ("quota.queue-limit", "deny", "train", "spec.queue")
    ]


def test_a_queue_that_does_not_exist() -> None:
    group = plain("PodGroup", "g", api="scheduling.volcano.sh/v1beta1", spec={"queue": "gone", "minMember": 2})
    missing = [("reference.queue", "deny", "train", "spec.queue"), ("reference.queue", "deny", "g", "spec.queue")]
    assert sorted(found(vc_job(queue="gone"), group)) == sorted(missing)
    assert found(vc_job(queue="default"), vc_job("other")) == [], "every cluster has it"
    assert found(queue("a", "gone")) == [("reference.parent", "deny", "a", "spec.parent")]
    kai = plain("Queue", "gone", namespace="", api="scheduling.run.ai/v2")
    assert ("reference.queue", "deny", "train", "spec.queue") in found(kai, vc_job(queue="gone"))


def test_only_queues_at_the_bottom_accept_jobs() -> None:
    tree = [queue("p"), queue("c", "p")]
    refused = [("quota.bottom-queue", "deny", "train", "spec.queue")]
    assert found(*tree, vc_job(queue="p")) == refused
    assert found(vc_job(queue="root")) == refused
    assert found(*tree, vc_job(queue="c")) == []
    assert found(queue("a", "root"), vc_job()) == []
    nodes = inventory(64)
    (verdict,) = evaluate(BUILT_IN, rows([*tree, vc_job("a", queue="p"), vc_job("b", queue="p")]), MAIN, nodes, {})
    assert verdict.message == "is in queue p, which has children (c), so Volcano refuses it; so is 1 more"


def test_children_of_a_queue() -> None:
    both = [queue("a", "p", deserved=gpus(6)), queue("b", "p", deserved=gpus(6))]
    too_much = ("quota.children", "deny", "p", "spec.deserved")
    assert found(queue("p", deserved=gpus(8)), *both) == [too_much]
    assert found(queue("p", deserved=gpus(12)), *both) == []
    assert found(queue("p", capability=gpus(8)), *both) == [too_much]
    assert found(queue("p"), *both) == [("quota.children", "warn", "p", "spec.deserved")]
    assert found(queue("root", deserved=gpus(8)), queue("a", "root", deserved=gpus(16))) == []
    assert found(queue("p", deserved={"amd.com/gpu": 2}), *both) == []


def test_limits_of_children() -> None:
    top = queue("top", capability=gpus(16))
    above = ("quota.child-limit", "deny", "leaf", "spec.capability")
    assert found(top, queue("mid", "top"), queue("leaf", "mid", capability=gpus(32))) == [above]
    assert found(top, queue("mid", "top"), queue("leaf", "mid", capability=gpus(16))) == []
    assert found(top, queue("leaf", "top", capability={"amd.com/gpu": 32})) == []
    assert found(queue("leaf", "elsewhere", capability=gpus(8))) == [
        ("reference.parent", "deny", "leaf", "spec.parent")
    ]


def test_queues_in_a_ring_are_told_once() -> None:
    assert found(queue("a", "b", capability=gpus(8)), queue("b", "a")) == [("reference.parent-cycle", "deny", "a", "")]


def changed(before: Sequence[Any], after: Sequence[Any], old: Body | None = None, new: Body | None = None) -> list[str]:
    frozen = row_of(("batch.volcano.sh", "Job")).life.immutable
    assert frozen is not None
    return list(frozen({"spec": {"tasks": before, **(old or {})}}, {"spec": {"tasks": after, **(new or {})}}))


def test_only_numbers_of_pods_of_a_job_change() -> None:
    task = {"name": "w", "replicas": 2, "template": {"spec": pod_spec(8)}}
    assert changed([task], [task | {"replicas": 4, "minAvailable": 1}], {"minAvailable": 2}, {"minAvailable": 1}) == []
    assert changed([task], [task | {"template": {"spec": pod_spec(4)}}]) == ["spec.tasks[0].template"]
    assert changed([task], [task, task]) == ["spec.tasks"]
    assert changed([task], [task], {"queue": "a"}, {"queue": "b"}) == ["spec.queue"]
    assert changed([task], [task], {}, {"priorityClassName": "high"}) == []
    claim = {"mountPath": "/data", "volumeClaim": {"storageClassName": "a"}}
    named = claim | {"volumeClaimName": "made-by-volcano"}
    assert changed([task], [task], {"volumes": [claim]}, {"volumes": [named]}) == []
    other = {"mountPath": "/data", "volumeClaimName": "b"}
    assert changed([task], [task], {"volumes": [other]}, {"volumes": [other | {"volumeClaimName": "c"}]}) == [
        "spec.volumes"
    ]


def test_a_queue_is_not_deleted_while_groups_run_in_it() -> None:
    deletion = row_of(QUEUE).life.deletion
    assert deletion is not None
    assert deletion.users is not None
    users = deletion.users(queue("a"))
    assert users.kind == POD_GROUP
    group = {"spec": {"queue": "a"}, "status": {"phase": "Running"}}
    assert users.runs(group)
    assert not users.runs({**group, "spec": {"queue": "b"}})
    assert not users.runs({**group, "status": {"phase": "Completed"}})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([GPU, "root", "8"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["capability", "deserved", "guarantee", "resource", GPU, "parent", "queue", "tasks", "replicas"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(kind=st.sampled_from(["Queue", "PodGroup", "Job"]), spec=ANYTHING, other=ANYTHING)
def test_hostile_values(kind: str, spec: Any, other: Any) -> None:
    """F-156: a value of the wrong type counts as absent, and is reported by the schema."""
    api = "batch.volcano.sh/v1alpha1" if kind == "Job" else "scheduling.volcano.sh/v1beta1"
    body = plain(kind, "x", namespace="ml" if kind != "Queue" else "", api=api, spec=spec)
    row = as_row(body)
    assert isinstance(row, ObjectSummary)
    assert all(quota.guaranteed is not None and quota.guaranteed >= 0 for quota in row.quotas)
    frozen = BUILT_IN.of(body).life.immutable
    if frozen is not None:
        assert all(isinstance(field, str) for field in frozen(body, {**body, "spec": other}))
    found(body, vc_job(queue="x"))
