"""What cannot change in place: our rows of kinds against the real API server and the real webhooks.

Every object is created; then each of its values is changed or removed, and each scalar that its schema knows is added.
Of all edits that are valid in a new object, the server has to refuse those that we call a replacement, and no others.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.cluster.bed.bed import Bed
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.cluster.judges import SCHEMA_ONLY
from tests.cluster.published import Root
from tests.cluster.server import ApiServer
from tests.cluster.test_updates import NAMESPACE, is_refused, stored, under
from tests.differential.edits import edits

Body = dict[str, Any]
EDITS = int(os.environ.get("RECONCILER_TEST_EDITS", "20"))
"""Edits of each object; 0: all."""

_HERE = Path(__file__).parent
_FILES = (*sorted((_HERE.parent / "cluster" / "specimens").glob("*.yaml")), _HERE / "updates.yaml")
_JUDGED_IN_BED = {
    "kubeflow.org",
    "jobset.x-k8s.io",
    "kueue.x-k8s.io",
    "ray.io",
    "workload.codeflare.dev",
    "trainer.kubeflow.org",
}
_IN_NO_QUEUE_HERE = {"Pod", "Deployment", "StatefulSet", "LeaderWorkerSet"}
"""Kinds that a server without Kueue judges here; `tests/cluster/managed-updates.yaml` has them in queues."""
_QUEUE = "kueue.x-k8s.io/queue-name"
_UNLIMITED = {"cpu": 1_000_000, "memory": "1000Ti", "nvidia.com/gpu": 1_000_000}


def _specimens() -> Iterator[tuple[str, Body]]:
    for path in _FILES:
        for number, body in enumerate(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)):
            if body["kind"] not in SCHEMA_ONLY and body["kind"] != "AppWrapper":  # its webhook runs in no test
                yield f"{path.stem}-{number}-{body['kind']}", body


def _is_for_bed(body: Body) -> bool:
    """Whether webhooks judge an object. The bed has both MPIJobs and a cluster one, so that there Kueue sees v1, too."""
    kind = (body["apiVersion"], body["kind"])
    if kind == ("kubeflow.org/v1", "MPIJob"):
        return False
    return kind[0].partition("/")[0] in _JUDGED_IN_BED or kind == ("batch/v1", "Job")


PLAIN = [pytest.param(body, id=name) for name, body in _specimens() if not _is_for_bed(body)]
MANAGED = [pytest.param(body, id=name) for name, body in _specimens() if _is_for_bed(body)]
QUEUED = [pytest.param(body, id=name) for name, body in _specimens() if body["kind"] in {"Job", "JobSet", "PyTorchJob"}]


@dataclass
class Figures:
    """What the tests of a run counted."""

    edits: int = 0
    refused: int = 0
    missed: list[str] = field(default_factory=list)
    false_alarms: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        missed, alarms = len(self.missed), len(self.false_alarms)
        return f"{self.edits} edits, {self.refused} refused: {missed} refusals missed, {alarms} false alarms"


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    """Yield what this module counts, and print it when a run has all edits."""
    counted = Figures()
    yield counted
    if not EDITS:
        print(f"\n{counted}\n", "\n".join((*counted.missed, *counted.false_alarms)))  # noqa: T201 - of a large run


@pytest.mark.parametrize("specimen", PLAIN)
def test_an_update_is_what_the_server_takes(api_server: ApiServer, figures: Figures, specimen: Body) -> None:
    """F-062: objects of Kubernetes itself, and of operators without a webhook."""
    _judge(api_server, specimen, figures)


@pytest.mark.usefixtures("kueue", "jobset", "training_operator", "trainer")
@pytest.mark.parametrize("specimen", MANAGED)
def test_an_update_is_what_the_webhooks_take(bed: Bed, figures: Figures, specimen: Body) -> None:
    """F-062: with the webhooks of Kueue, JobSet and both of Kubeflow's; Kueue suspends no job without a queue."""
    if specimen["kind"] == "TrainJob":
        bed.apply(_runtime(specimen))
    _judge(bed.server, _without_queue(specimen), figures)


@pytest.mark.usefixtures("kueue", "jobset", "training_operator", "kwok")
@pytest.mark.parametrize("specimen", QUEUED)
def test_an_update_of_a_job_in_a_queue(bed: Bed, figures: Figures, specimen: Body) -> None:
    """F-062: jobs that Kueue admitted; those that are written as suspended wait in a queue that does not exist."""
    bed.apply(flavor("any"), _unlimited_queue(), local_queue("open", NAMESPACE, "open"))
    labels = {_QUEUE: "open", "kueue.x-k8s.io/max-exec-time-seconds": "3600"}
    if _is_written_suspended(specimen):
        labels = {_QUEUE: "nowhere", "kueue.x-k8s.io/priority-class": "none"}
    metadata = specimen["metadata"]
    queued = {**specimen, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}
    _judge(bed.server, queued, figures, ready=None if _is_written_suspended(specimen) else bed)


def _runtime(train_job: Body) -> Body:
    """Return the runtime that a TrainJob names."""
    (runtime,) = [body for _, body in _specimens() if body["kind"] == "ClusterTrainingRuntime"]
    return {**runtime, "metadata": {"name": train_job["spec"]["runtimeRef"]["name"]}}


def _without_queue(body: Body) -> Body:
    metadata = body["metadata"]
    labels = {label: value for label, value in metadata.get("labels", {}).items() if label != _QUEUE}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _unlimited_queue() -> Body:
    body = cluster_queue("open", 0, flavor="any")
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in _UNLIMITED.items()]
    flavors = [{"name": "any", "resources": quotas}]
    body["spec"]["resourceGroups"] = [{"coveredResources": list(_UNLIMITED), "flavors": flavors}]
    return body


def _is_written_suspended(body: Body) -> bool:
    spec = body["spec"]
    return spec.get("suspend") is True or spec.get("runPolicy", {}).get("suspend") is True


def _judge(server: ApiServer, specimen: Body, figures: Figures, *, ready: Bed | None = None) -> None:
    random = Random(repr(specimen))  # noqa: S311 - no secret
    name = f"before-{specimen['kind'].lower()}-{random.randrange(10**6)}"
    before = stored(server, specimen, name)
    path = server.client.path(before)
    assert path is not None
    try:
        _settle(server, before, path, ready)
        cases = list(edits(before, Root(server, before)))
        if EDITS:
            cases = random.sample(cases, min(EDITS, len(cases)))
        valid = server.apply_dry_run([under(body, f"{name}-new") for _, body in cases])
        cases = [case for case, result in zip(cases, valid, strict=True) if result.ok]
        results = server.apply_dry_run([body for _, body in cases])
        missed: list[str] = []
        alarms: list[str] = []
        for (what, body), result in zip(cases, results, strict=True):
            if _is_beside_the_point(what, before, result.message):
                continue
            figures.edits += 1
            figures.refused += not result.ok
            if result.ok is is_refused(before, body):
                line = f"{specimen['kind']} {specimen['metadata']['name']}: {what}"
                (alarms if result.ok else missed).append(f"{line}: {result.message[:300] or 'refused by us alone'}")
        figures.missed += missed
        figures.false_alarms += alarms
        assert not [*missed, *alarms], "\n".join((*missed, *alarms))
        assert cases
    finally:
        server.client.request("DELETE", f"{path}?propagationPolicy=Background&gracePeriodSeconds=0")


def _settle(server: ApiServer, before: Body, path: str, ready: Bed | None) -> None:
    """Bring an object into the state that is compared: a claim is bound, a job in a queue is admitted."""
    if before["kind"] == "PersistentVolumeClaim":
        name = before["spec"]["storageClassName"]  # not that of the specimen of a class, whose fields cannot change
        expandable = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        server.client.apply([{**expandable, "provisioner": "example.com/a", "allowVolumeExpansion": True}])
        size = before["spec"]["resources"]["requests"]
        status = {"status": {"phase": "Bound", "capacity": size, "accessModes": before["spec"]["accessModes"]}}
        bound = server.client.request("PATCH", f"{path}/status", status, content_type="application/merge-patch+json")
        assert bound.ok, bound.body
    if ready is not None:
        ready.wait(lambda: not _is_written_suspended(ready.get(path)), f"{path} is admitted")


def _is_beside_the_point(what: str, before: Body, message: str) -> bool:
    """Tell what says nothing about a field.

    Server-side apply leaves null where the last key of a mapping or the key of an item is removed, keeps the address
    that it gave to a Service, and an admission plugin sets the priority class of a Pod again.
    """
    return (
        'Invalid value: "null"' in message
        or "Required value" in message
        or what == "remove spec.clusterIP"
        or ("label kueue.x-k8s.io" in what and before["kind"] in _IN_NO_QUEUE_HERE)
        or (before["kind"] == "Pod" and what == "remove spec.priorityClassName")
        or (before["kind"] == "PersistentVolumeClaim" and "only dynamically provisioned pvc can be resized" in message)
    )
