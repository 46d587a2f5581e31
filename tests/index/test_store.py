"""The store on disk never changes a result: lost, damaged, shared or replaced, plans have the same bytes."""

import os
import random
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from reconciler.plan import opening
from reconciler.plan.outputs.json_report import render_json
from reconciler.plan.use_cases import plan
from reconciler.plan.workspace import Workspace
from tests.cli.fleet import IDENTITY
from tests.index.fleets import NAMESPACE, START, MemoryFleet, job, queue

ENVIRONMENT = {**os.environ, **IDENTITY}


def open_workspace(root: str, flags: dict[str, str]) -> Workspace:
    return opening.open_run(root, flags, ENVIRONMENT).workspace


def plan_json(root: str, flags: dict[str, str]) -> str:
    return render_json(plan(open_workspace(root, flags)).plan)


class DiskFleet:
    """A Git repository and a cache folder beside it."""

    def __init__(self, top: Path) -> None:
        self.root, self.cache = top / "repo", top / "cache"
        self.root.mkdir()
        for path, text in START.items():
            self.write(path, text)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit()

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True, capture_output=True, env=ENVIRONMENT)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "edit")

    def render(self) -> None:
        planned = plan(open_workspace(str(self.root), {"cache": "off"}))
        for path, content in planned.contents().items():
            self.write(path, (content or b"").decode())
        self.commit()

    def plan(self, **flags: str) -> str:
        return plan_json(str(self.root), flags)

    def warm(self) -> str:
        return self.plan(cache_dir=str(self.cache))

    def cold(self) -> str:
        return self.plan(cache="off")

    def files(self) -> list[Path]:
        return sorted(self.cache.glob("*.cache"))


@pytest.fixture
def fleet(tmp_path: Path) -> DiskFleet:
    fleet = DiskFleet(tmp_path)
    fleet.warm()
    return fleet


def test_unchanged_repository_writes_nothing(fleet: DiskFleet) -> None:
    before = {file.name: file.stat().st_ino for file in fleet.files()}
    fleet.warm()
    assert before
    assert {file.name: file.stat().st_ino for file in fleet.files()} == before


def test_one_changed_file_rewrites_one_segment(fleet: DiskFleet) -> None:
    before = {file.name: file.stat().st_ino for file in fleet.files()}
    fleet.write("manifests/c1.yaml", "# comment\n" + START["manifests/c1.yaml"])
    assert fleet.warm() == fleet.cold()
    after = {file.name: file.stat().st_ino for file in fleet.files()}
    changed = [name for name, inode in after.items() if before.get(name) != inode]
    assert 1 <= len(changed) <= 2  # a segment and the totals, which know the line of the object


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_misses(fleet: DiskFleet, seed: int) -> None:
    cold = fleet.cold()
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for file in fleet.files():
        raw = bytearray(file.read_bytes())
        raw[chance.randrange(len(raw))] ^= 0xFF
        file.write_bytes(raw if chance.random() < 0.7 else raw[: len(raw) // 2])
    assert fleet.warm() == cold
    assert fleet.warm() == cold


def test_store_that_vanishes_during_a_run(fleet: DiskFleet) -> None:
    cold = fleet.cold()
    workspace = open_workspace(str(fleet.root), {"cache_dir": str(fleet.cache)})
    for file in fleet.files():
        file.unlink()
    assert render_json(plan(workspace).plan) == cold


def _plan(root: str, cache: str) -> str:
    return plan_json(root, {"cache_dir": cache})


def test_two_processes_share_a_store(fleet: DiskFleet) -> None:
    cold = fleet.cold()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        plans = [pool.submit(_plan, str(fleet.root), str(fleet.cache)) for _ in range(6)]
        assert {plan.result() for plan in plans} == {cold}


@pytest.mark.parametrize("flags", [{"processes": "1"}, {"processes": "2"}, {"cluster": "a"}])
def test_settings_of_a_run_do_not_mix(fleet: DiskFleet, flags: dict[str, str]) -> None:
    assert fleet.plan(cache_dir=str(fleet.cache), **flags) == fleet.plan(cache="off", **flags)
    assert fleet.warm() == fleet.cold()


def test_head_that_moves(fleet: DiskFleet) -> None:
    """From one commit to the next, and back, to a branch without a common commit."""
    fleet.render()
    fleet.warm()
    fleet.write("jobs/a/two.yaml", job("two", of="q1"))
    fleet.write("queues/q1.yaml", queue("q1", 16))
    fleet.commit()
    assert fleet.warm() == fleet.cold()
    fleet.git("rm", "--quiet", "jobs/a/one.yaml")
    fleet.commit()
    assert fleet.warm() == fleet.cold()
    fleet.git("checkout", "--quiet", "HEAD~2")
    assert fleet.warm() == fleet.cold()
    fleet.git("reflog", "expire", "--expire=now", "--all")
    fleet.git("checkout", "--quiet", "--orphan", "other")
    fleet.commit()
    fleet.git("gc", "--quiet", "--prune=now")
    assert fleet.warm() == fleet.cold()


@pytest.mark.parametrize("name", [b"jobs/a/\xff.yaml", b"jobs/a/tab\there.yaml", b"queues/\xe2\x80\xa8.yaml"])
def test_unprintable_names_do_not_damage_the_store(fleet: DiskFleet, name: bytes) -> None:
    path = os.fsencode(fleet.root) + b"/" + name
    Path(os.fsdecode(path)).write_text(job("odd"))
    assert fleet.warm() == fleet.cold()
    fleet.commit()
    assert "git.file-name" in fleet.warm()
    assert fleet.warm() == fleet.cold()
    fleet.git("rm", "--quiet", "-r", "--cached", "jobs", "queues")
    Path(os.fsdecode(path)).unlink()
    fleet.commit()
    assert fleet.warm() == fleet.cold()


def test_first_of_two_queues_counts_whichever_was_read_last() -> None:
    fleet = MemoryFleet()
    fleet.warm()
    fleet.write("queues/a.yaml", queue("q2", 8))
    assert fleet.warm() == fleet.cold()
    fleet.write("queues/q2.yaml", "# moved\n" + queue("q2"))
    assert fleet.warm() == fleet.cold()


def test_namespace_that_moves_to_another_cluster() -> None:
    fleet = MemoryFleet(START | {"manifests/ns.yaml": NAMESPACE.replace("VALUE", "x")})
    fleet.warm()
    fleet.files["jobs/b/ns.yaml"] = fleet.files.pop("manifests/ns.yaml")
    assert fleet.warm() == fleet.cold()


def test_gpus_are_counted_again_when_a_job_changes_its_size() -> None:
    fleet = MemoryFleet()
    before = fleet.warm()
    fleet.write("jobs/a/one.yaml", job("one", gpus=16))
    after = fleet.warm()
    assert '"after": 16' in after
    assert before != after
    assert after == fleet.cold()
