"""The harness itself: the server answers, knows the CRDs, refuses what is broken, and leaves nothing behind."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.judges import Judge, assert_all_accepted
from tests.cluster.parts import KUBERNETES_MINOR
from tests.cluster.server import ApiServer


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox:1.36"}]}}
    metadata = {"name": "train", "namespace": "harness"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team-a"},
    "spec": {"resources": {"gpu": {"quota": 8, "limit": -1, "overQuotaWeight": 1}}},
}


def test_it_is_a_kubernetes_of_the_pinned_minor(api_server: ApiServer) -> None:
    assert api_server.client.get("/version")["minor"] == KUBERNETES_MINOR


def test_accepted_objects_are_not_stored(api_server: ApiServer) -> None:
    """Plain objects and custom ones are accepted in one call, and a dry run leaves nothing on the server."""
    results = api_server.client.apply_dry_run([job(), QUEUE])
    assert [(result.name, result.ok) for result in results] == [
        ("batch/v1/Job harness/train", True),
        ("scheduling.run.ai/v2/Queue team-a", True),
    ]
    assert api_server.client.get("/apis/batch/v1/namespaces/harness/jobs")["items"] == []
    assert api_server.client.get("/apis/scheduling.run.ai/v2/queues")["items"] == []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (job(paralelism=2), ".spec.paralelism"),
        (job(parallelism=-1), "spec.parallelism"),
        (job(parallelism="two"), "spec.parallelism"),
        ({**QUEUE, "spec": {"resources": {"gpu": {"quota": "eight"}}}}, "spec.resources.gpu.quota"),
        ({**QUEUE, "spec": {"weight": 1}}, ".spec.weight"),
        ({**QUEUE, "kind": "Qeue"}, "no kind Qeue"),
        ({**QUEUE, "metadata": {}}, "metadata.name"),
        ({**QUEUE, "metadata": {"name": "Team_A"}}, "RFC 1123"),
    ],
)
def test_a_broken_object_is_refused_with_its_field(api_server: ApiServer, broken: dict[str, Any], words: str) -> None:
    """Unknown fields, wrong values and wrong types are refused, and the words name the field."""
    (result,) = api_server.client.apply_dry_run([broken])
    assert not result.ok
    causes = " ".join(f"{cause.field}: {cause.message}" for cause in result.causes)
    assert words in f"{result.message} {causes}"


def test_the_assertion_lists_every_refusal(api_server: ApiServer) -> None:
    """One refused object does not hide the others."""
    broken = [job(paralelism=2), job(), {**QUEUE, "spec": {"weight": 1}}]
    with pytest.raises(AssertionError, match=r"refuses 2 objects:\n- batch/v1/Job .*\n(.*\n)*- scheduling") as failure:
        assert_all_accepted(api_server.client.apply_dry_run(broken))
    assert "paralelism" in str(failure.value)


def test_the_judge_accepts_once_and_refuses_always(judged: Judge, api_server: ApiServer) -> None:
    """A refused object is refused again, it is not remembered as seen."""
    judged([job(), QUEUE])
    judged([job(), QUEUE])
    for _ in range(2):
        with pytest.raises(AssertionError, match="paralelism"):
            judged([job(paralelism=2)])


def test_a_file_is_read_by_the_server_itself(api_server: ApiServer, tmp_path: Path) -> None:
    """`012` is a number for one parser and a string for another: the file goes to the server as it is."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: harness}\ndata: {mode: %s}\n"
    good.write_text(text % "'012'")
    bad.write_text(text % "012")
    results = api_server.client.apply_files_dry_run([good, bad])
    assert [result.ok for result in results] == [True, False]
    assert str(bad) in results[1].name


@pytest.mark.parametrize(
    ("document", "kinds"),
    [
        ("api/v1", {"Pod", "Service", "ConfigMap"}),
        ("apis/batch/v1", {"Job", "CronJob"}),
        ("apis/scheduling.run.ai/v2", {"Queue"}),
        ("apis/scheduling.run.ai/v2alpha2", {"PodGroup"}),
        ("apis/kueue.x-k8s.io/v1beta1", {"ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology"}),
        ("apis/kueue.x-k8s.io/v1beta2", {"ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology"}),
        ("apis/kubeflow.org/v1", {"PyTorchJob", "TFJob", "MPIJob", "JAXJob", "XGBoostJob"}),
        ("apis/ray.io/v1", {"RayCluster", "RayJob", "RayService"}),
        ("apis/workload.codeflare.dev/v1beta2", {"AppWrapper"}),
        ("apis/jobset.x-k8s.io/v1alpha2", {"JobSet"}),
        ("apis/leaderworkerset.x-k8s.io/v1", {"LeaderWorkerSet"}),
        ("apis/trainer.kubeflow.org/v1alpha1", {"TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"}),
    ],
)
def test_the_server_publishes_what_it_serves(api_server: ApiServer, document: str, kinds: set[str]) -> None:
    """The OpenAPI documents, from which the offline schemas are made, hold every kind that we render or pass."""
    schemas = api_server.openapi()[document]["components"]["schemas"].values()
    published = {entry["kind"] for schema in schemas for entry in schema.get("x-kubernetes-group-version-kind", ())}
    assert kinds <= published
