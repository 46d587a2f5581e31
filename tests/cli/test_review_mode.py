"""Plans with `rendered: none`: what they say is true where Argo CD or Flux builds the sources and nothing is committed."""

from pathlib import Path

import pytest

from tests.cli.fleet import IDENTITY, Fleet
from tests.ready import new_cache

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters: [{name: main, backend: none}]
  rendered: none
  sources: [apps]
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: "x:1", command: [a]}]
"""
VALUES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: values, namespace: ml}
data: {a: b}
"""


@pytest.fixture
def reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fleet:
    """Return a repository whose base has a job and a ConfigMap, at a branch of its own."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    fleet = Fleet(tmp_path / "fleet", capsys)
    fleet.root.mkdir()
    fleet.git("init", "--quiet", "--initial-branch=main")
    for path, text in {"reconciler.yaml": CONFIG, "apps/job.yaml": JOB, "apps/values.yaml": VALUES}.items():
        fleet.write(path, text)
    fleet.commit("as it is")
    fleet.git("switch", "--quiet", "--create", "change")
    return fleet


@pytest.mark.parametrize("output", ["text", "markdown", "github", "sarif"])
def test_no_output_speaks_of_rendered_files(reviewed: Fleet, output: str) -> None:
    """Deleted objects are shown with the file that defined them."""
    (reviewed.root / "apps/values.yaml").unlink()
    reviewed.edit("apps/job.yaml", "[a]", "[b]")
    planned = reviewed.run("plan", "--base", "main", "--output", output)
    assert planned.code == 5
    for word in ("rendered/", "committed", "onImmutableChange", "replace` starts a new"):
        assert word not in planned.out + planned.err
    if output in {"text", "markdown"}:
        assert "Must not be merged" in planned.out
        assert "apps/values.yaml" in planned.out
        assert "let the tool that applies it delete it first" in " ".join(planned.out.split())


def test_a_moved_object_is_shown_without_the_folder(reviewed: Fleet) -> None:
    reviewed.edit("apps/values.yaml", "name: values", "name: settings")
    for output in ("text", "markdown"):
        planned = reviewed.run("plan", "--base", "main", "--output", output)
        assert planned.code == 0, planned.out
        assert "main/ml/configmap-settings.yaml" in planned.out
        assert "rendered/" not in planned.out


def test_commit_says_why_there_is_nothing_to_commit(reviewed: Fleet) -> None:
    reviewed.edit("apps/values.yaml", "{a: b}", "{a: c}")
    committed = reviewed.run("commit")
    assert committed.code == 0
    assert "nothing to commit: spec.rendered is none" in committed.err
    assert "run `reconciler commit` again" not in committed.err
