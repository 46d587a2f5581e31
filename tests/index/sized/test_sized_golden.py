"""Every kind sized: what is rendered, and the source edited in place, compared with recorded files.

`GOLDEN=1 pytest tests/core/render/sized/test_sized_golden.py` writes them again.
"""

import json
import os
from pathlib import Path

import pytest
import yaml

from reconciler.index.sized import Sized, apply_decision, mark_refused, sized_manifest
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.manifests.ownership import own
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.training import training_job
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read, write
from reconciler.repo.config import Backend, Cluster
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decision import Decision
from tests.cluster.judges import Judge
from tests.index.sized.sized_cases import (
    CATALOGUE,
    decision,
    job_of,
    launch_of,
    no_decision,
    question,
    source,
    starts,
)

GOLDEN = Path(__file__).parent / "golden"
CLUSTER = Cluster(name="prod", backend=Backend.KUEUE)
SETTINGS = SizingSettings()

CASES = {
    "pytorchjob": (question(32), decision(16, 2, 2)),
    "appwrapper": (question(8, 4), decision(8, 2, 4)),
    "job": (question(4, 16), decision(8, 1, 8)),
    "jobset": (question(4, 8), decision(16, 2, 1, 2)),
    "trainjob": (question(16), decision(4, 2, 4)),
    "rayjob": (question(16), decision(8, 2, 2)),
    "torchrunjob": (question(16), decision(8, 1, 2)),
}


def sized(name: str, answer: Decision | None = None) -> Sized:
    """Size a source by its question; or let it pass by `answer`."""
    job = job_of(source(name))
    asked, chosen = CASES[name]
    if answer is not None:
        return mark_refused(job.document, answer, SETTINGS)
    return apply_decision(job, launch_of(job), asked, chosen, SETTINGS)


def compare(name: str, content: bytes) -> None:
    path = GOLDEN / name
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    assert content.decode() == path.read_text(encoding="utf-8"), name


@pytest.mark.parametrize("name", sorted(CASES))
def test_sized_as_recorded(name: str, judged: Judge) -> None:
    """F-012, F-013: replicas, GPUs, CPUs, variables and flags of every kind; a real API server takes every object."""
    found = sized(name)
    asked, chosen = CASES[name]
    assert chosen.chosen is not None
    assert asked.samples(chosen.chosen.layout) == asked.effective_batch
    assert [problem.rule for problem in found.problems] == (
        ["sizing.machine-rank"] if name in {"pytorchjob", "appwrapper"} else []
    )
    manifest = own(sized_manifest(found, CLUSTER, namespaced=True), found.document)
    compare(f"{name}.yaml", write(manifest.body))
    assert not findings(CATALOGUE, manifest.body)
    for path in found.reasons:
        why = manifest.why(path)
        assert why.rule.startswith("sizing.") or why.rule == "source", path
        assert why.text or why.rule == "source", path
        assert why.places, path
    if name != "torchrunjob":  # read by us, not by a cluster
        judged([manifest])


@pytest.mark.parametrize("name", sorted(CASES))
def test_edited_as_recorded(name: str) -> None:
    """F-012: in the user's own file only what sizing owns differs; comments, order and quotes stay."""
    found = sized(name)
    edited = edit_source(source(name).encode(), [(found.document, found.data)])
    assert edited.problems == ()
    compare(f"{name}.source.yaml", edited.content)
    before = source(name)
    for comment in ("# Fine-tuning of the team's assistant.", "# who pays", "# left over", "# where the code is"):
        assert edited.content.decode().count(comment) == before.count(comment) * (2 if "where" in comment else 1)


@pytest.mark.parametrize("name", sorted(CASES))
def test_passed_as_recorded(name: str, judged: Judge) -> None:
    """F-011: without a recommendation a job passes as it is written, with the done label and what was found."""
    found = sized(name, no_decision())
    manifest = own(sized_manifest(found, CLUSTER, namespaced=True), found.document)
    body, plain = manifest.body, found.document.data
    assert body["spec"] == plain["spec"]
    assert body["metadata"]["annotations"]["ado-autoconf.ibm.com/recommendation"] == '{"error":"No recommendation"}'
    assert body["metadata"]["labels"]["autoconf-plugin-done"] == "yes"
    if name != "torchrunjob":
        judged([manifest])


def findings(catalogue: Catalogue, body: dict[str, object]) -> list[str]:
    return [finding.message for finding in catalogue.violations(body)]


def test_the_cases_are_all_sources() -> None:
    """No kind is forgotten."""
    assert sorted(CASES) == sorted(path.stem for path in (Path(__file__).parent / "sources").glob("*.yaml"))
    assert {path.name for path in GOLDEN.iterdir()} == {
        f"{name}{end}" for name in CASES for end in (".yaml", ".source.yaml")
    }


def whole_edit(name: str, text: str, index: int = 0) -> tuple[str, Sized]:
    """Size one document of a file and edit the file."""
    raw = text.encode()
    found = read("jobs/a.yaml", raw).documents[index]
    job = training_job(BUILT_IN, found, starts).intent
    assert job is not None
    asked, chosen = CASES[name]
    result = apply_decision(job, launch_of(job), asked, chosen, SETTINGS)
    edited = edit_source(raw, [(found, result.data)])
    assert edited.problems == ()
    return edited.content.decode(), result


@pytest.mark.parametrize("name", sorted(CASES))
def test_files_of_other_forms_are_edited_too(name: str) -> None:
    """F-012: JSON stays JSON, carriage returns stay, neighbours in the file and in a List are not touched."""
    text = source(name)
    recorded = (GOLDEN / f"{name}.source.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    for form in (json.dumps(data), json.dumps(data, indent=2), json.dumps(data, indent="\t")):
        content, result = whole_edit(name, form)
        assert json.loads(content) == result.data
    assert whole_edit(name, text.replace("\n", "\r\n"))[0] == recorded.replace("\n", "\r\n")
    other = "# before\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}   # own\n"
    assert whole_edit(name, f"{other}---\n{text}---\n{other}", 1)[0] == f"{other}---\n{recorded}---\n{other}"
    indented = "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))
    listed = f"apiVersion: v1\nkind: List\nitems:\n  -\n{indented}  - {{apiVersion: v1, kind: ConfigMap}} # last\n"
    content, result = whole_edit(name, listed)
    assert content.endswith("  - {apiVersion: v1, kind: ConfigMap} # last\n")
    assert yaml.safe_load(content)["items"][0] == result.data


SHARED = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: shared}
spec:
  pytorchReplicaSpecs:
    Master: &node
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: a
              command: [accelerate, launch, -m, tuning.sft_trainer, --per_device_train_batch_size=16]
              resources: {limits: {nvidia.com/gpu: 1}}
    Worker: *node   # as the Master
"""


@pytest.mark.parametrize(("workers", "shared"), [(2, True), (3, False)])
def test_a_worker_that_is_an_alias_of_the_master(workers: int, shared: bool) -> None:
    """What changes alike on both sides of an alias is edited once; what differs is refused with the way out."""
    raw = SHARED.encode()
    job = job_of(raw)
    chosen = decision(4 * workers, workers, 4)
    result = apply_decision(job, launch_of(job), question(4, 4 * workers), chosen, SETTINGS)
    assert result.data["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == workers - 1
    edited = edit_source(raw, [(result.document, result.data)])
    if shared:
        assert edited.problems == ()
        assert b"Worker: *node   # as the Master\n" in edited.content
        assert edited.content.count(b"AUTOCONF_NUM_GPUS") == 1
    else:
        assert [problem.rule for problem in edited.problems] == ["sizing.shared"]
        assert edited.content == raw
