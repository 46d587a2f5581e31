"""TrainJobs with their runtimes in one plan, on the real Kueue and Trainer, whose webhooks read runtimes from caches."""

import shutil
from pathlib import Path

import pytest

from reconciler.cli.main import run
from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.bed.bed import Bed
from tests.kinds.torchrun.test_torchrun_admitted import TEXT
from tests.live.apply.test_torchrun import Site
from tests.ready import new_cache

NAME = "train-jobs"
JOBS = 12


@pytest.fixture
def site(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    """Make a repository with a queue and many TrainJobs, each of which has a runtime of its own."""
    for variable, value in IDENTITY.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setenv("RECONCILER_DECISION_LOG", str(tmp_path / "decisions.jsonl"))
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", f"inventory-{NAME}")
    fleet = Fleet(tmp_path / "fleet", capsys)
    assert run(["init", str(fleet.root)]) == 0
    for part in ("jobs", "queues", "rendered", "evidence"):
        shutil.rmtree(fleet.root / part)
    fleet.edit("reconciler.yaml", "backend: kai ", "backend: kueue ")
    fleet.edit("reconciler.yaml", "Namespace/default", f"Namespace/{NAME}")
    fleet.edit("reconciler.yaml", "namespace: default ", f"namespace: {NAME} ")
    queue, _, _ = TEXT.format(pool=NAME, queue=NAME, name="", gpus=8, kind="", suspend="").partition("---\n")
    fleet.write("queues/q.yaml", queue)
    for number in range(JOBS):
        text = TEXT.format(pool=NAME, queue=NAME, name=f"train-{number}", gpus=8, kind="TrainJob", suspend="false")
        fleet.write(f"jobs/train-{number}.yaml", text.partition("---\n")[2])
    return Site(fleet, bed, tmp_path, NAME)


@pytest.mark.usefixtures("kueue", "trainer")
def test_train_jobs_and_their_runtimes_are_created_by_one_apply(site: Site) -> None:
    """Neither the dry run of a plan nor a cache that is late keeps an apply from creating them at once."""
    site.bed.server.client.ensure_namespaces([NAME])
    plan = site.reconcile()
    (cluster,) = plan["clusters"]
    assert sorted(cluster["unchecked"]) == sorted(f"TrainJob/{NAME}/train-{number}" for number in range(JOBS))
    jobs = site.bed.get(f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAME}/trainjobs")["items"]
    assert len(jobs) == JOBS
