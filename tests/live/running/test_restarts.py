"""What a change of a running workload does to its pods: the operators decide, and a plan says so before."""

import copy
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kinds.manifests.manifest import manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import SourceRef
from reconciler.kube.reasons import Reason
from reconciler.kube.schemas import Catalogue
from reconciler.kube.values import value_at, with_value
from reconciler.plan.comparison import Comparison, compare
from reconciler.plan.live.controlled import as_sent, controlled_fields
from tests.cluster.bed.bed import Bed
from tests.live.running.test_running import OPERATORS, PODS, WORKLOADS, prepare, queues

pytestmark = [pytest.mark.usefixtures(*OPERATORS), pytest.mark.timeout(900)]
Body = dict[str, Any]
Edit = Callable[[Body], Body]
CATALOGUE = Catalogue(resources)
_QUEUE = "kueue.x-k8s.io/queue-name"
_SETTLED = 15  # seconds in which an operator has done what it does


def put(*path: str | int, value: Any) -> Edit:
    """Return an edit that sets one field, as a person does in a source."""
    return lambda body: dict(with_value(body, path, value))


def image(*path: str | int) -> Edit:
    """Return an edit of the image of the first container of a template."""
    return put(*path, "spec", "containers", 0, "image", value="example.com/other:2")


def both(*edits: Edit) -> Edit:
    def edit(body: Body) -> Body:
        for one in edits:
            body = one(body)
        return body

    return edit


def alone(body: Body) -> Body:
    """Return a workload that is in no queue and not suspended."""
    found = copy.deepcopy(body)
    del found["metadata"]["labels"][_QUEUE]
    row = BUILT_IN.of(found)
    return dict(with_value(found, row.pods.suspend, value=False)) if row.pods.suspend else found


_TEMPLATE = ("spec", "template")
_WORKERS = ("spec", "workerGroupSpecs", 0, "template")
_TORCH = ("spec", "pytorchReplicaSpecs", "Worker")
_MPI = ("spec", "mpiReplicaSpecs", "Worker", "template")
_LWS = ("spec", "leaderWorkerTemplate", "workerTemplate")
_ON_DELETE = put("spec", "updateStrategy", value={"type": "OnDelete"})
_RECREATE = put("spec", "upgradeStrategy", value={"type": "Recreate"})
CASES: Mapping[str, tuple[str, Edit, Edit]] = {
    "image of a Deployment": ("deployment", dict, image(*_TEMPLATE)),
    "annotation of the pods of a Deployment": (
        "deployment",
        dict,
        put(*_TEMPLATE, "metadata", "annotations", "example.com/note", value="x"),
    ),
    "annotation of a Deployment": ("deployment", dict, put("metadata", "annotations", value={"example.com/note": "x"})),
    "history of a Deployment": ("deployment", dict, put("spec", "revisionHistoryLimit", value=3)),
    "image of a queued Deployment": ("queued-deployment", dict, image(*_TEMPLATE)),
    "image of a StatefulSet": ("statefulset", dict, image(*_TEMPLATE)),
    "image of a StatefulSet that waits for deletions": ("statefulset", _ON_DELETE, image(*_TEMPLATE)),
    "parallelism of a queued Job": ("job", put("spec", "completions", value=4), put("spec", "parallelism", value=3)),
    "deadline of a queued Job": ("job", dict, put("spec", "activeDeadlineSeconds", value=9000)),
    "image of a queued PyTorchJob": ("pytorchjob", dict, image(*_TORCH, "template")),
    "workers of a queued PyTorchJob": ("pytorchjob", dict, put(*_TORCH, "replicas", value=3)),
    "image of a PyTorchJob": ("pytorchjob", alone, image(*_TORCH, "template")),
    "image of a queued MPIJob": ("mpijob", dict, image(*_MPI)),
    "image of an MPIJob": ("mpijob", alone, image(*_MPI)),
    "image of a queued RayCluster": ("raycluster", dict, image(*_WORKERS)),
    "workers of a queued RayCluster": ("raycluster", dict, put("spec", "workerGroupSpecs", 0, "replicas", value=2)),
    "image of a RayCluster": ("raycluster", alone, image(*_WORKERS)),
    "image of a RayCluster that is recreated": ("raycluster", both(alone, _RECREATE), image(*_WORKERS)),
    "image of a LeaderWorkerSet": ("lws", alone, image(*_LWS)),
    "image of a queued LeaderWorkerSet": ("lws", dict, image(*_LWS)),
}


def forecast(before: Body, after: Body) -> Comparison:
    made = manifest(
        cluster="main", tree=after, source=SourceRef(path="a.yaml"), reason=Reason(rule="source", text="written so")
    )
    return compare(BUILT_IN, CATALOGUE, before, made)


def running(bed: Bed, namespace: str) -> dict[str, str]:
    """Return the UIDs of the pods that run, by name; plays the kubelet: it starts what has a node, and ends what is deleted."""
    pods = []
    for pod in bed.pods(namespace):
        if "deletionTimestamp" in pod["metadata"]:
            bed.delete_pod(namespace, pod["metadata"]["name"])
            continue
        pods.append(pod)
        if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
            bed.set_phase(pod, "Running")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running"}


@pytest.mark.parametrize(("name", "prepared", "edit"), CASES.values(), ids=CASES.keys())
def test_a_plan_knows_which_pods_an_edit_replaces(bed: Bed, name: str, prepared: Edit, edit: Edit) -> None:
    namespace = f"restarts-{os.urandom(3).hex()}"
    prepare(bed, namespace)
    bed.apply(*yaml.safe_load_all(queues(namespace)))
    bodies = yaml.safe_load_all(WORKLOADS.read_text().replace("NAME", namespace))
    body = prepared(next(one for one in bodies if one["metadata"]["name"] == name and BUILT_IN.pod_sets(one)))
    bed.apply(body)
    wanted = next(count for prefix, count in PODS.items() if prefix.startswith(name))
    wanted = min(wanted, value_at(body, ("spec", "replicas")) or wanted)
    bed.wait(lambda: len(running(bed, namespace)) >= wanted, f"{wanted} pods of {name} run")
    before = running(bed, namespace)
    after = edit(body)
    path = bed.server.client.path(body)
    assert path is not None
    live, row = bed.get(path), BUILT_IN.of(body)
    bed.apply(
        as_sent(after, live, controlled_fields(BUILT_IN, live), partial(CATALOGUE.list_keys, row.group, row.kind))
    )
    predicted = bool(forecast(body, after).restarts)
    if predicted:
        bed.wait(lambda: not set(before.values()) & set(running(bed, namespace).values()), f"new pods of {name}")
        return
    end = time.monotonic() + _SETTLED
    while time.monotonic() < end:
        assert set(before.values()) <= set(running(bed, namespace).values())
        time.sleep(1)
