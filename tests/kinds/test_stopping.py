"""Who starts and who stops a workload, for every kind that runs pods."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.kinds.manifests.manifest import manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.stopping import stopped_or_started
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason
from reconciler.kube.values import mapping, value_at
from reconciler.kube.yaml import read

TESTS = Path(__file__).resolve().parents[1]
QUEUE = "kueue.x-k8s.io/queue-name"
_BODIES = [*yaml.safe_load_all((TESTS / "live/running/workloads.yaml").read_text())]
WORKLOADS = {body["metadata"]["name"]: body for body in _BODIES if BUILT_IN.pod_sets(body)}
QUEUED = [name for name, body in WORKLOADS.items() if QUEUE in body["metadata"].get("labels", {})]


def rendered(body: dict[str, Any]) -> tuple[dict[str, Any] | None, tuple[Problem, ...]]:
    text = yaml.safe_dump(body)
    (document,) = read("jobs/a.yaml", text.encode()).documents
    made = manifest(cluster="main", tree=body, source=document.source, reason=Reason(rule="source", text="written so"))
    found, problems = stopped_or_started(BUILT_IN, made, document)
    return (None if found is None else dict(found.body)), problems


def changed(name: str, *, queue: bool = True, stop: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(yaml.safe_dump(WORKLOADS[name]))
    if not queue:
        body["metadata"]["labels"].pop(QUEUE)
    if stop is not None:
        annotations = mapping(body["metadata"].get("annotations"))
        body["metadata"]["annotations"] = {**annotations, "gpureconciler.io/suspend": stop}
    return body


@pytest.mark.parametrize("name", QUEUED)
def test_a_queue_starts_what_it_holds(name: str) -> None:
    """The source says `suspend: true`, as the examples of Kueue do; what is rendered leaves it to the queue."""
    body = WORKLOADS[name]
    row = BUILT_IN.of(body)
    found, problems = rendered(body)
    assert problems == ()
    assert found is not None
    if not row.pods.suspend:
        assert found == body
        return
    assert value_at(body, row.pods.suspend) is True
    assert value_at(found, row.pods.suspend) is None
    alone, _ = rendered(changed(name, queue=False))
    assert value_at(alone, row.pods.suspend) is True, "without a queue, it says what a person wants"


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("job", "parallelism", 0),
        ("deployment", "replicas", 0),
        ("queued-deployment", "replicas", 0),
        ("queued-statefulset", "replicas", 0),
        ("lws", "replicas", 0),
    ],
)
def test_a_stopped_workload_has_no_pods_where_its_kind_allows_none(name: str, field: str, value: int) -> None:
    found, problems = rendered(changed(name, stop="true"))
    assert problems == ()
    assert found is not None
    assert found["spec"][field] == value
    assert "suspend" not in found["spec"]
    assert "activeDeadlineSeconds" not in found["spec"], "it would end while it has no pods"
    pods = BUILT_IN.pod_sets(found)
    assert pods is not None
    assert sum(one.replicas for one in pods) == 0


@pytest.mark.parametrize(
    "name",
    ["jobset", "pytorchjob", "mpijob", "trainjob", "raycluster", "rayjob", "appwrapper", "queued-pod", "partial"],
)
def test_a_stopped_workload_that_kueue_would_resume_is_deleted(name: str) -> None:
    found, (problem,) = rendered(changed(name, stop="true"))
    assert found is None
    assert (problem.rule, problem.severity) == ("suspend.annotation", Severity.WARNING)
    assert problem.message.startswith("suspended by Git: ")
    assert (problem.place.line, problem.field) != (1, ""), "the annotation is named"


@pytest.mark.parametrize("name", [name for name in QUEUED if BUILT_IN.of(WORKLOADS[name]).pods.suspend])
def test_without_a_queue_it_is_suspended(name: str) -> None:
    body = changed(name, queue=False, stop="true")
    row = BUILT_IN.of(body)
    found, problems = rendered(body)
    assert problems == ()
    assert value_at(found, row.pods.suspend) is True


def test_what_runs_no_pods_is_not_stopped() -> None:
    metadata = {"name": "a", "namespace": "ml", "annotations": {"gpureconciler.io/suspend": "true"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    found, (problem,) = rendered(service)
    assert found == service
    assert problem.message == "a Service runs no pods, so nothing is stopped"


@pytest.mark.parametrize("value", ["false", "True", "", "yes"])
def test_only_true_stops(value: str) -> None:
    found, problems = rendered(changed("job", stop=value))
    assert problems == ()
    assert found is not None
    assert found["spec"]["parallelism"] == WORKLOADS["job"]["spec"]["parallelism"]
