"""Volcano (F-156): its shipped schemas, what its webhooks refuse, and the right group for a wrong one."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.problems import Severity
from reconciler.kube.schemas.builtin.validators import builtin_violations
from reconciler.kube.schemas.catalogue import ADD_DEFINITION
from reconciler.kube.schemas.messages import OBSERVE
from reconciler.kube.yaml import read
from tests.kube.schemas.test_schemas_catalogue import CATALOGUE

QUEUE = "scheduling.volcano.sh/v1beta1"
JOB = "batch.volcano.sh/v1alpha1"


def problems(api: str, kind: str, spec: Any, *, name: str = "a", **metadata: Any) -> list[str]:
    """Return what is wrong with an object: severity, field and message."""
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    document = read("a.yaml", yaml.safe_dump(body).encode()).documents[0]
    return [
        f"{'W' if one.severity is Severity.WARNING else 'E'} {one.field}: {one.message}"
        for one in CATALOGUE.validate(document)
    ]


def queue(**spec: Any) -> list[str]:
    return problems(QUEUE, "Queue", spec)


def job(**spec: Any) -> list[str]:
    return problems(JOB, "Job", spec)


TASK = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x:1"}]}}}
GPU = "nvidia.com/gpu"


def test_what_volcano_accepts() -> None:
    assert queue(weight=1, reclaimable=True, capability={GPU: 16, "cpu": "64"}, deserved={GPU: 8}) == []
    assert queue(capability={"cpu": "64"}, deserved={GPU: 8}, guarantee={"resource": {GPU: "8"}}) == []
    assert queue() == []
    assert job(minAvailable=2, queue="a", tasks=[TASK, TASK | {"name": "v"}]) == []
    assert job(tasks=[TASK | {"minAvailable": 1}]) == []
    assert problems(QUEUE, "PodGroup", {"minMember": 2, "queue": "a", "minResources": {GPU: 8}}) == []


def test_guarantee_deserved_and_capability_are_in_order() -> None:
    assert queue(capability={GPU: 4}, deserved={GPU: 8}) == [
        f'E spec.deserved["{GPU}"]: 8 is more than spec.capability, 4'
    ]
    assert queue(deserved={"cpu": "500m"}, guarantee={"resource": {"cpu": "1"}}) == [
        "E spec.guarantee.resource.cpu: 1 is more than spec.deserved, 500m"
    ]
    found = queue(capability={"memory": "1Gi"}, guarantee={"resource": {"memory": "1025Mi"}})
    assert found[0] == "E spec.guarantee.resource.memory: 1025Mi is more than spec.capability, 1Gi"
    assert found[1].startswith(
        "W spec.guarantee.resource.memory: 1025Mi is guaranteed, but spec.deserved has no memory"
    )
    assert queue(deserved={"cpu": "-1"}) == ["E spec.deserved.cpu: -1 is negative"]
    assert queue(weight=-1) == ["E spec.weight: -1 is not positive"]


@pytest.mark.parametrize(
    ("path", "weights", "is_refused"),
    [
        ("root/a", "1/2", False),
        ("root/a", "1/0x1p-2", False),
        ("root/a", "1", True),
        ("root/a", "", True),
        ("", "1/2", True),
        ("root/a", "1/0", True),
        ("root/a", "1/-1", True),
        ("root/a", "1/x", True),
    ],
)
def test_a_place_in_the_tree_has_a_weight_for_each_part(path: str, weights: str, is_refused: bool) -> None:
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    found = problems(QUEUE, "Queue", {}, annotations=annotations)
    assert bool(found) is is_refused
    assert all(one.startswith("E metadata.annotations") for one in found)


def test_a_job_has_pods_for_each_minimum() -> None:
    assert job(tasks=[]) == ["E spec.tasks: the job has no task"]
    assert job(minAvailable=3, tasks=[TASK]) == ["E spec.minAvailable: 3 pods are more than the 2 of all tasks"]
    assert job(tasks=[TASK | {"minAvailable": 3}]) == [
        "E spec.tasks[0].minAvailable: 3 pods are more than the replicas of the task, 2"
    ]
    assert job(tasks=[TASK, TASK]) == ["E spec.tasks[1].name: another task is named w"]
    assert job(maxRetry=-1, ttlSecondsAfterFinished=-2, tasks=[TASK | {"replicas": -1}]) == [
        "E spec.maxRetry: -1 is negative",
        "E spec.ttlSecondsAfterFinished: -2 is negative",
        "E spec.tasks[0].replicas: -1 is negative",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"capability": [8]}, "spec.capability"),
        ({"deserved": {GPU: True}}, f'spec.deserved["{GPU}"]'),
        ({"guarantee": "8"}, "spec.guarantee"),
        ({"guarantee": {"resource": {GPU: "eight"}}}, f'spec.guarantee.resource["{GPU}"]'),
        ({"parent": ["root"]}, "spec.parent"),
        ({"weight": "heavy"}, "spec.weight"),
    ],
)
def test_wrong_types_are_reported_where_they_are(spec: Any, field: str) -> None:
    found = queue(**spec)
    assert found
    assert all(one.startswith(f"E {field}") for one in found)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "capability": st.none() | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=4)),
            "deserved": st.none() | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=4)),
            "guarantee": st.none() | st.fixed_dictionaries({"resource": st.none()}),
            "weight": st.none() | st.integers(),
            "tasks": st.none() | st.lists(st.none() | st.fixed_dictionaries({}, optional={"replicas": st.integers()})),
            "minAvailable": st.none() | st.integers(),
        },
    )
)
def test_values_that_a_schema_accepts_never_raise_an_error(spec: Any) -> None:
    for group, kind in (("scheduling.volcano.sh", "Queue"), ("batch.volcano.sh", "Job")):
        for found in builtin_violations({"spec": spec}, group, kind):
            assert found.message.strip()


@pytest.mark.parametrize(
    ("written", "kind", "severity", "hint"),
    [
        ("scheduling.volcano.io/v1beta1", "Queue", "E", "did you mean scheduling.volcano.sh/v1beta1?"),
        ("sheduling.volcano.sh/v1beta1", "PodGroup", "E", "did you mean scheduling.volcano.sh/v1beta1?"),
        ("batch.volcano.io/v1alpha1", "Job", "E", "did you mean batch.volcano.sh/v1alpha1?"),
        ("bus.volcano.io/v1alpha1", "Command", "E", "did you mean bus.volcano.sh/v1alpha1?"),
        ("flow.volcano.io/v1alpha1", "JobFlow", "W", "did you mean flow.volcano.sh?"),
        ("flow.volcano.sh/v1alpha1", "JobFlow", "W", ADD_DEFINITION),
        ("topology.volcano.sh/v1alpha1", "HyperNode", "W", ADD_DEFINITION),
        ("scheduling.volcano.sh/v1", "Queue", "E", f"use scheduling.volcano.sh/v1beta1, or {OBSERVE}"),
        ("scheduling.volcano.sh/v1beta1", "NamespaceQueue", "W", ADD_DEFINITION),
        ("scheduling.volcano.sh/v1beta1", "Queues", "E", "did you mean Queue?"),
    ],
)
def test_the_group_that_was_meant(written: str, kind: str, severity: str, hint: str) -> None:
    text = f"apiVersion: {written}\nkind: {kind}\nmetadata: {{name: a}}\n"
    (problem,) = CATALOGUE.validate(read("a.yaml", text.encode()).documents[0])
    assert (problem.severity is Severity.ERROR, problem.hint) == (severity == "E", hint)
