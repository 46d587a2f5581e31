"""A complete family is one folder and one row: every stage knows its kinds without another change."""

from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kinds.facts import KindId
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from reconciler.kinds.training import is_training_kind, training_job, training_kind_names
from reconciler.kube.objects import ObjectKey
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.repo.config import Cluster
from reconciler.repo.versions import ComponentVersion
from reconciler.sizing.inventory import Inventory
from tests.kinds.acme import GANG, KINDS, RUN

REGISTRY = BUILT_IN.extend(KINDS, versions=(("acme", "1.0"),))
CATALOGUE = Catalogue(resources).with_definitions([kind.source.crd for kind in REGISTRY.values() if kind.source.crd])
SOURCE = """\
apiVersion: acme.example.com/v1
kind: Run
metadata: {name: llama, namespace: ml}
spec:
  image: acme/train:1
  nodes: 2
  command: [torchrun, train.py]
  resources: {limits: {nvidia.com/gpu: 8}}
"""


def document(text: str = SOURCE) -> Document:
    (found,) = read("runs/llama.yaml", text.encode()).documents
    return found


class Lookup:
    """A cluster without definitions and evidence."""

    cluster = Cluster(name="main")

    def inventory(self) -> Inventory | None:
        return None

    def defined(self, kind: KindId, namespace: str, name: str) -> Any | None:
        raise LookupError(kind, namespace, name)

    def generation(self, key: ObjectKey) -> str:
        raise LookupError(key)

    def has_runs(self) -> bool:
        return False

    def version(self, component: str) -> ComponentVersion:
        raise LookupError(component)

    def defined_names(self, kind: KindId, namespace: str) -> tuple[str, ...]:
        raise LookupError(kind, namespace)


def rendered() -> dict[str, Any]:
    assert RUN.source.parse is not None
    assert RUN.source.render is not None
    parsed = RUN.source.parse(document())
    assert parsed.intent is not None
    (manifest,) = RUN.source.render(parsed.intent, Lookup()).manifests
    assert manifest.why(("spec", "size")).fields == ("spec.nodes",)
    return manifest.body


def test_the_registry_finds_its_kinds() -> None:
    assert REGISTRY.of(document().data) is RUN
    assert REGISTRY.versions == (("acme", "1.0"),)
    assert len(REGISTRY) == len(BUILT_IN) + len(KINDS)
    assert "acme.example.com" in REGISTRY.own_groups


def test_its_schema_is_known() -> None:
    assert CATALOGUE.validate(document()) == ()
    wrong = CATALOGUE.validate(document(SOURCE.replace("nodes: 2", "nodes: 0")))
    assert [problem.field for problem in wrong] == ["spec.nodes"]
    assert ("Run", "acme.example.com") in {(name.kind, name.group) for name in CATALOGUE.kinds()}


def test_rendered_pods_are_counted() -> None:
    body = rendered()
    assert body["kind"] == "Gang"
    summary = summarize(REGISTRY, cluster="main", body=body, path="x.yaml", digest="d")
    assert (summary.gpus, summary.pods, summary.gpus_per_pod, summary.is_workload) == (16, 2, 8, True)
    assert summarize(BUILT_IN, cluster="main", body=body, path="x.yaml", digest="d").pods == 1


def test_immutable_fields() -> None:
    before, after = rendered(), rendered()
    after["spec"]["template"] = {}
    assert GANG.life.immutable is not None
    assert [*GANG.life.immutable(before, after)] == ["spec.template"]


def test_its_training_is_read() -> None:
    assert is_training_kind(REGISTRY, document())
    assert not is_training_kind(BUILT_IN, document())
    assert "Run" in training_kind_names(REGISTRY)
    job = training_job(REGISTRY, document(), lambda _: True).intent
    assert job is not None
    assert (job.kind, job.replicas, job.command) == ("Run", 2, ("torchrun", "train.py"))


def test_a_wrapper_may_hold_it() -> None:
    components = [{"template": yaml.safe_load(SOURCE)}]
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "x", "namespace": "ml"},
        "spec": {"components": components},
    }
    job = training_job(REGISTRY, document(yaml.safe_dump(wrapper)), lambda _: True).intent
    assert job is not None
    assert job.root == ("spec", "components", 0, "template")


def test_a_kind_is_registered_once() -> None:
    with pytest.raises(ValueError, match=r"Run of group 'acme\.example\.com' is registered twice"):
        REGISTRY.extend((RUN,))


def path(group: str, kind: str, kinds: Kinds = REGISTRY) -> str:
    return kinds.manifest_path("main", ObjectKey(group=group, kind=kind, namespace="ml", name="x"))


def test_the_second_group_of_a_name_is_in_the_path() -> None:
    """Names that are registered first keep the paths that they have in existing repositories."""
    assert path("batch", "Job") == "main/ml/job-x.yaml"
    assert path("batch.volcano.sh", "Job") == "main/ml/job.batch.volcano.sh-x.yaml"
    assert path("scheduling.run.ai", "Queue") == "main/ml/queue.scheduling.run.ai-x.yaml"
    assert path("scheduling.volcano.sh", "Queue") == "main/ml/queue.scheduling.volcano.sh-x.yaml"
    assert path("cert-manager.io", "Certificate") == "main/ml/certificate-x.yaml"
    assert path("acme.example.com", "Run") == "main/ml/run-x.yaml"
    other = REGISTRY.extend((Kind(group="example.org", kind="Run"),))
    assert path("example.org", "Run", other) == "main/ml/run.example.org-x.yaml"


@pytest.mark.parametrize(
    ("group", "kind"),
    [("example.com", "TorchrunQueue"), ("example.com", "NodeInventory"), ("example.com", "Namespace")],
)
def test_a_foreign_kind_of_a_registered_name_is_not_that_kind(group: str, kind: str) -> None:
    row = BUILT_IN.find(group, kind)
    assert row == BUILT_IN.find("example.com", "Widget")
