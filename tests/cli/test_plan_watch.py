"""`plan --watch` plans again in the same process whenever files or branches change, until it is told to end."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from watchdog.observers.api import BaseObserver

from reconciler.cli.main import run
from tests.cli.fleet import IDENTITY, Fleet

JOB = "jobs/vision/vit.yaml"
_PATIENCE = 30  # seconds


class Watch:
    """A running `plan --watch`, whose lines of both streams are read as they come."""

    def __init__(self, root: str, *arguments: str) -> None:
        call = [sys.executable, "-m", "reconciler", "plan", "--watch", "--repo", root, *arguments]
        environ = {**os.environ, **IDENTITY, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(call, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def until(self, text: str) -> list[str]:
        """Wait for a line that contains a text; return all lines up to it."""
        lines: list[str] = []
        while not lines or text not in lines[-1]:
            lines.append(self._lines.get(timeout=_PATIENCE).rstrip())
        return lines

    def end(self, number: int = signal.SIGINT) -> tuple[int, list[str]]:
        """Send a signal; return the exit code and the lines that were not read yet."""
        self.process.send_signal(number)
        code = self.process.wait(_PATIENCE)
        return code, self.until("end of output")[:-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self.process.stdout.close()
        self._lines.put("end of output")


@pytest.fixture
def watch(fleet: Fleet) -> Iterator[Callable[..., Watch]]:
    started: list[Watch] = []

    def start(*arguments: str, root: Path = fleet.root) -> Watch:
        started.append(Watch(str(root), *arguments))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def test_every_change_of_a_file_is_planned(fleet: Fleet, watch: Callable[..., Watch]) -> None:
    fleet.run("commit")
    process = watch("--base", "HEAD")
    assert "No changes" in "\n".join(process.until("plan sha256:"))
    fleet.edit(JOB, "numGPUs: 16", "numGPUs: 8")
    assert process.until("changed")[-1] == f"{JOB} changed"
    assert any("requested on main" in line for line in process.until("plan sha256:"))
    fleet.edit(JOB, "numGPUs: 8", "numGPUs: 16")
    assert "No changes" in "\n".join(process.until("plan sha256:"))
    code, lines = process.end()
    assert (code, lines[-1]) == (130, "interrupted")


def test_an_error_has_its_place_and_ends_nothing(fleet: Fleet, watch: Callable[..., Watch]) -> None:
    process = watch()
    process.until("plan sha256:")
    good = (fleet.root / JOB).read_text()
    fleet.write(JOB, good + "  wrong: 1\n")
    place = f"{JOB}:{len(good.splitlines()) + 1}:3"
    lines = process.until("error: ")
    assert any(place in line for line in lines), lines
    fleet.write("reconciler.yaml", "spec: [")
    assert any(line.startswith("reconciler.yaml:") for line in process.until("error: "))
    fleet.git("checkout", "--quiet", "--", "reconciler.yaml")
    fleet.write(JOB, good)
    process.until("plan sha256:")
    assert process.end(signal.SIGTERM)[0] == 143


def test_what_changes_no_plan_prints_nothing(fleet: Fleet, watch: Callable[..., Watch]) -> None:
    process = watch()
    process.until("plan sha256:")
    fleet.write(".notes.swp", "an editor's file")
    (fleet.root / JOB).touch()
    fleet.git("update-index", "--refresh")
    time.sleep(0.5)  # a plan of a small repository takes a tenth
    fleet.edit(JOB, "numGPUs: 16", "numGPUs: 8")  # what comes next is about this edit
    lines = [line for line in process.until("changed") if line]
    assert len(lines) == 1
    assert JOB in lines[0]


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_commit_is_planned(fleet: Fleet, watch: Callable[..., Watch], is_linked: bool) -> None:
    """Branches are watched too, of a linked working tree in the folder that all of them share."""
    fleet.run("commit")
    root = fleet.root
    if is_linked:
        root = fleet.root.parent / "linked"
        fleet.git("worktree", "add", "--quiet", "-b", "edit", str(root))
    process = watch("--base", "HEAD", root=root)
    process.until("plan sha256:")
    job = root / JOB
    job.write_text(job.read_text().replace("numGPUs: 16", "numGPUs: 8"))
    process.until("plan sha256:")
    subprocess.run(["git", "-C", str(root), "commit", "-qam", "edit"], check=True, env={**os.environ, **IDENTITY})
    command = [sys.executable, "-m", "reconciler", "commit", "--repo", str(root)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **IDENTITY})
    while "No changes" not in "\n".join(process.until("plan sha256:")):
        pass  # the plan of the moment between the files of the commit and its branch


@pytest.mark.parametrize("flag", [("--out", "plan.json"), ("--live",), ("--exit-code",)])
def test_flags_that_need_one_plan_are_refused(fleet: Fleet, flag: tuple[str, ...]) -> None:
    ran = fleet.run("plan", "--watch", *flag)
    assert ran.code == 2
    assert f"error: {flag[0]} does not apply to --watch" in ran.err


def test_a_folder_without_a_repository_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--watch", "--repo", str(tmp_path)]) == 6
    assert "is not in a Git repository" in capsys.readouterr().err


def test_a_limit_of_the_system_is_named(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(BaseObserver, "start", refuse)
    ran = fleet.run("plan", "--watch")
    assert ran.code == 6
    assert f"error: cannot watch {fleet.root}: inotify watch limit reached; raise the limits fs.inotify." in ran.err
