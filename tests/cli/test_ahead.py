"""Git is asked before the command line is read: that may save time, and must change nothing else."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.cli.ahead import looked_at
from tests.cli.fleet import Fleet

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("line", "environ", "folder"),
    [
        ("plan", {}, "."),
        ("lint --repo fleet", {}, "fleet"),
        ("plan --repo=fleet -o json", {}, "fleet"),
        ("plan -o json", {"RECONCILER_REPO": "fleet"}, "fleet"),
        ("plan --repo here", {"RECONCILER_REPO": "fleet"}, "here"),
        ("explain Job/vit", {}, "."),
        ("plan --repo", {}, ""),
        ("plan --revision HEAD", {}, None),
        ("plan --revision=HEAD", {}, None),
        ("plan", {"RECONCILER_REVISION": "HEAD"}, None),
        ("plan --help", {}, None),
        ("plan --cache off", {}, None),
        ("plan", {"RECONCILER_CACHE": "off"}, None),
        ("--help", {}, None),
        ("--debug plan", {}, None),
        ("verify", {}, None),
        ("commit", {}, None),
        ("", {}, None),
    ],
)
def test_the_folder_that_a_line_will_look_at(line: str, environ: Mapping[str, str], folder: str | None) -> None:
    """Only a verb that looks at a working tree, and only where nothing says otherwise."""
    assert looked_at(line.split(), environ) == folder


def _process(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command as a user does, in a process of its own: only there is anything asked ahead."""
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


LINES = [
    ("plan",),
    ("plan", "-o", "json"),
    ("plan", "--base", "HEAD"),
    ("plan", "--revision", "HEAD"),
    ("lint",),
    ("render",),
    ("plan", "--nonsense"),
    ("plan", "--cluster", "nowhere"),
    ("plan", "--base", "nowhere"),
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_what_is_said_is_the_same(fleet: Fleet, line: tuple[str, ...]) -> None:
    """With the settings remembered, so that git has begun, as without: edits, wrong flags, other revisions."""
    fleet.run("commit")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
    said = fleet.run(*line)
    for _ in range(2):
        code, out, err = _process(fleet.root, *line)
        assert (code, out) == (said.code, said.out)
        assert err.splitlines()[-1:] == said.err.splitlines()[-1:]


def test_from_a_folder_inside_and_from_another_working_tree(fleet: Fleet, tmp_path: Path) -> None:
    """Paths are those below the root of the repository that the folder is in."""
    fleet.run("commit")
    fleet.git("worktree", "add", "--quiet", str(tmp_path / "other"))
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
    said = fleet.run("plan")
    _process(fleet.root, "plan")
    assert _process(fleet.root / "jobs", "plan") == (0, said.out, "")
    assert _process(tmp_path, "plan", "--repo", str(fleet.root / "jobs")) == (0, said.out, "")
    for _ in range(2):
        code, out, _ = _process(tmp_path / "other", "plan")
        assert (code, "1 updated" in out) == (0, False)


@pytest.mark.parametrize("folder", ["nowhere", "plain", "file"])
def test_without_a_repository(tmp_path: Path, folder: str) -> None:
    """The error is told once, by what reads the command line."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("")
    code, out, err = _process(tmp_path, "plan", "--repo", folder)
    assert (code, out) == (2 if folder != "plain" else 6, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_before_the_first_commit(fleet: Fleet) -> None:
    """There is no commit to compare with, so nothing is asked ahead."""
    fleet.git("update-ref", "-d", "HEAD")
    said = fleet.run("plan")
    for _ in range(2):
        assert _process(fleet.root, "plan") == (said.code, said.out, said.err)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_nothing_goes_on_that_nobody_waits_for(fleet: Fleet) -> None:
    """A git that hangs is ended where the command line turns out to be wrong."""
    fleet.run("plan")
    os.mkfifo(fleet.root / "jobs" / ".gitignore")
    started = subprocess.Popen(
        [sys.executable, "-m", "reconciler", "plan", "--nonsense"],
        cwd=fleet.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    _, err = started.communicate(timeout=60)
    assert (started.returncode, b"--nonsense" in err) == (2, True)
    deadline = time.monotonic() + 10
    while _lives(started.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(started.pid)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
