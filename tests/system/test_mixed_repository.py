"""A repository of hundreds of documents, from the first plan to the last: exact, accepted, complete."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks import corpus
from reconciler.kinds.manifests.generations import base_path
from reconciler.repo.config import Backend
from tests import sizes
from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer
from tests.ready import new_cache

_DOCUMENTS = 1000 if sizes.LARGE else 160
_SAMPLE = 150
"""Objects of one backend that the real API server judges."""
_RENDERED = 300 if sizes.LARGE else 100
"""Documents of which they are taken."""


def _fleet(root: Path, count: int, backend: str, capture: pytest.CaptureFixture[str]) -> Fleet:
    root.mkdir()
    corpus.write(root, count, backend=backend)
    return Fleet(root, capture)


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))


def _names(fleet: Fleet) -> list[str]:
    ran = fleet.run("plan", "-o", "name")
    assert ran.code == 0, ran.err
    return ran.out.splitlines()


@pytest.mark.parametrize("backend", list(Backend))
def test_plan_commit_verify_edit(backend: Backend, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F-039, F-141: commit, verify, nothing to do; then an edit changes exactly its own objects, and why is told."""
    fleet = _fleet(tmp_path / "fleet", _DOCUMENTS, backend, capsys)
    first = fleet.run("plan", "-o", "name")
    assert first.code == 0, first.err
    assert fleet.run("commit").code == 0
    assert fleet.run("verify").code == 0
    assert _names(fleet) == []
    assert len(first.out.splitlines()) == len(fleet.files())
    job = sorted((fleet.root / "jobs").rglob("*.yaml"))[37]
    replaced = _edit(fleet, job, "maxRestarts:", "maxRestarts: 7  # was")
    assert any(base_path(file) != file for file in replaced), "torchrun is started with it, and pods cannot change"
    updated = _edit(fleet, job, "activeDeadlineSeconds:", "activeDeadlineSeconds: 3600  # was")
    assert updated <= fleet.files().keys(), "what can change in place keeps its name"


def _edit(fleet: Fleet, job: Path, old: str, new: str) -> set[str]:
    """Edit a job, plan and commit; return the files that this changes, which are all of the objects of the job."""
    path, name = str(job.relative_to(fleet.root)), job.stem
    fleet.edit(path, old, new)
    edited = _names(fleet)
    assert edited
    assert all(name in line for line in edited), edited
    assert path in fleet.run("plan").out
    fleet.commit()
    before = fleet.files()
    assert fleet.run("commit").code == 0
    after = fleet.files()
    assert sorted(map(base_path, before)) == sorted(map(base_path, after))
    changed = {file for file in before.keys() | after.keys() if before.get(file) != after.get(file)}
    assert all(name in file for file in changed), changed
    assert fleet.run("verify").code == 0
    return changed


def test_a_deleted_job_keeps_its_checkpoints(fleet: Fleet) -> None:
    """F-060: what a job leaves behind for the next run stays; what lived with it goes."""
    fleet.edit("reconciler.yaml", "share: 0.25", "share: 0.9")
    (fleet.root / "jobs/vision/vit.yaml").unlink()
    fleet.write("jobs/vision/other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: {team: x}}\n")
    fleet.commit()
    ran = fleet.run("plan")
    assert ran.code == 0, ran.err
    fleet.run("commit")
    left = [name for name in fleet.files() if "vit" in name]
    lasting = [
        name
        for name in left
        if yaml.safe_load(fleet.files()[name])["metadata"].get("annotations", {}).get("gpureconciler.io/keep") == "true"
    ]
    assert left == lasting
    assert "main/default/pytorchjob-vit.yaml" not in left
    assert fleet.run("verify").code == 0
    assert fleet.run("plan", "--exit-code").code == 0


@pytest.mark.parametrize("backend", list(Backend))
def test_a_real_api_server_accepts_what_is_rendered(
    backend: Backend, api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = _fleet(tmp_path / "fleet", _RENDERED, backend, capsys)
    assert fleet.run("render", "--to", str(tmp_path / "out")).code == 0
    files = sorted((tmp_path / "out").rglob("*.yaml"))
    sample = random.Random(3).sample(files, min(_SAMPLE, len(files)))  # noqa: S311 - a reproducible choice
    assert_all_accepted(api_server.client.apply_files_dry_run(sample))


@pytest.mark.parametrize("backend", list(Backend))
def test_kustomize_builds_what_is_rendered(
    backend: Backend, kubectl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = _fleet(tmp_path / "fleet", _RENDERED, backend, capsys)
    assert fleet.run("render", "--to", str(tmp_path / "out")).code == 0
    tree = tmp_path / "out/rendered/main"
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*.yaml"))
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names}
    (tree / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    built = subprocess.run([kubectl, "kustomize", tree], capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stderr
    assert built.stdout.count("\n---\n") + 1 == len(names)
    shutil.rmtree(tree)
