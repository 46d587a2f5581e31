"""Plans with `rendered: none`: what they say is true where Argo CD or Flux builds the sources and nothing is committed."""

import os
from pathlib import Path

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.plan.opening import open_run
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


BUILT = CONFIG.replace("sources: [apps]", "sources:\n    - {path: apps, build: kustomize}")
REMOTE = "resources: [https://bases.example.com/a.yaml]\n"


def allow(fleet: Fleet) -> None:
    fleet.edit("reconciler.yaml", "build: kustomize}", "build: kustomize, network: true}")


def network_of(fleet: Fleet, base: str) -> list[bool]:
    opened = open_run(str(fleet.root), {"base": base}, os.environ)
    return [one.network for one in opened.workspace.config.builds]


def test_a_change_cannot_allow_the_network_for_itself(reviewed: Fleet) -> None:
    """Its own review would fetch what it names; once the base has the line, the builds use it."""
    reviewed.write("reconciler.yaml", BUILT)
    reviewed.write("apps/kustomization.yaml", REMOTE)
    reviewed.commit("builds")
    reviewed.git("branch", "--force", "main", "HEAD")
    assert "build.remote" in reviewed.run("lint").out
    allow(reviewed)
    planned = reviewed.run("plan", "--base", "main", "--width", "200")
    assert planned.code == 3
    assert "the base does not let this build use the network yet" in planned.out
    assert "apps (kustomize) → apps (kustomize) with network" in planned.out
    assert "the network is used once the base has it" in planned.out
    assert "no longer read" not in planned.out
    reviewed.commit("network")
    assert network_of(reviewed, "main") == [False]
    reviewed.git("branch", "--force", "main", "HEAD")
    assert network_of(reviewed, "main") == [True]


def test_a_new_build_has_no_network(reviewed: Fleet) -> None:
    reviewed.write("reconciler.yaml", BUILT)
    allow(reviewed)
    reviewed.commit("builds")
    assert network_of(reviewed, "main") == [False]


def test_a_link_among_the_sources_is_a_note(reviewed: Fleet) -> None:
    """Flux ignores it, so a plan does not end because of it; excluded, it is not even named."""
    (reviewed.root / "apps/link.yaml").symlink_to("values.yaml")
    planned = reviewed.run("plan", "--base", "main")
    assert planned.code == 0, planned.out
    assert "Warnings" in planned.out
    assert "git.symlink" in planned.out
    reviewed.write("apps/.sourceignore", "link.yaml\n")
    planned = reviewed.run("plan", "--base", "main")
    assert (planned.code, "git.symlink" in planned.out) == (0, False)
    reviewed.edit("reconciler.yaml", "  rendered: none\n", "")
    (reviewed.root / "apps/.sourceignore").unlink()
    planned = reviewed.run("plan", "--base", "main")
    assert (planned.code, "git.symlink" in planned.out) == (3, True)


_DELIVERY = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {path: ./apps/NAME, sourceRef: {kind: GitRepository, name: fleet}}
"""


def test_what_nothing_delivers_is_not_counted_for_each_cluster(reviewed: Fleet) -> None:
    """It counts for the cluster that its folder names, or not at all, which is said."""
    (reviewed.root / "reconciler.yaml").unlink()
    for name in ("alpha", "beta"):
        reviewed.write(f"clusters/{name}/apps.yaml", _DELIVERY.replace("NAME", name))
        reviewed.write(f"apps/{name}/values.yaml", VALUES)
    reviewed.write("queues/beta/queue.yaml", VALUES)
    reviewed.write("shared/values.yaml", VALUES)
    reviewed.capture.readouterr()
    assert run(["init", "--existing", str(reviewed.root)]) == 0
    out = reviewed.capture.readouterr().out
    assert "found     queues/beta (build: kustomize) on beta: manifests that nothing builds" in out
    assert "left out  shared: nothing in the repository delivers it to a cluster" in out
    sources = yaml.safe_load((reviewed.root / "reconciler.yaml").read_text())["spec"]["sources"]
    assert {one["path"]: one["clusters"] for one in sources if isinstance(one, dict)} == {
        "apps/alpha": ["alpha"],
        "apps/beta": ["beta"],
        "queues/beta": ["beta"],
    }
    assert "shared" not in sources
