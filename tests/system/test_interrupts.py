"""What ends early ends cleanly: signals, closed pipes, full disks leave no half of anything."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import corpus
from tests.cli.fleet import IDENTITY, Fleet
from tests.processes import living
from tests.system.child import ROOT

_PATIENCE = 60  # seconds
_STARTED = 0.6
"""Processor time in seconds after which a run has read its repository; compiling it takes several more."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository that takes some seconds to compile, in two processes if there may be two."""
    root = tmp_path_factory.mktemp("large") / "fleet"
    root.mkdir()
    corpus.write(root, 500)
    return root


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository of which every output is larger than the buffer of a pipe."""
    root = tmp_path_factory.mktemp("printed") / "fleet"
    root.mkdir()
    corpus.write(root, 60)
    return root


def _environ(folder: Path) -> dict[str, str]:
    return {**os.environ, **IDENTITY, "PYTHONPATH": str(ROOT), "RECONCILER_CACHE_DIR": str(folder / "cache")}


def _start(root: Path, folder: Path, *arguments: str, **streams: int) -> subprocess.Popen[bytes]:
    call = [sys.executable, "-m", "reconciler", arguments[0], "--repo", str(root), *arguments[1:]]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen(call, cwd=folder, env=_environ(folder), start_new_session=True, **given)  # type: ignore[call-overload,no-any-return]


def _processor_time(process: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _compiles(running: "subprocess.Popen[bytes]", processes: str) -> bool:
    return len(living(running.pid)) >= 3 if processes == "2" else _processor_time(running.pid) > _STARTED


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if ".git/" not in str(path.relative_to(folder))}


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for children in /proc")
@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", ["plan", "commit"])
def test_a_signal_leaves_nothing_behind(
    large: Path, tmp_path: Path, verb: str, sent: signal.Signals, processes: str
) -> None:
    """Ctrl-C in a terminal reaches every process of the group; an init system's SIGTERM only the first."""
    root = shutil.copytree(large, tmp_path / "fleet", symlinks=True)
    before = _files(root)
    running = _start(root, tmp_path, verb, "--processes", processes)
    deadline = time.monotonic() + _PATIENCE
    while running.poll() is None and not _compiles(running, processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert running.poll() is None, "it was faster than the signal"
    if sent is signal.SIGINT:
        os.killpg(running.pid, sent)
    else:
        running.send_signal(sent)
    out, err = running.communicate(timeout=_PATIENCE)
    assert running.returncode == 128 + sent, err
    assert out == b""
    assert b"Traceback" not in err
    assert err.split() == [{signal.SIGINT: b"interrupted", signal.SIGTERM: b"terminated"}[sent]]
    deadline = time.monotonic() + 5
    while living(running.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert living(running.pid) == []
    assert _files(root) == before
    assert not list((root / ".git").rglob("*.lock"))
    assert not list((tmp_path / "cache").rglob("new-*"))
    git = ["git", "-C", str(root), "status", "--porcelain"]
    assert subprocess.run(git, check=True, capture_output=True).stdout == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("plan", "--full"), ("plan", "-o", "json"), ("render",)])
def test_a_reader_that_leaves_early(
    printed: Path, tmp_path: Path, arguments: tuple[str, ...], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`| head`: no complaint, and no success: 141, as other programs end."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    running = _start(printed, printed.parent, *arguments)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.read(10)
    running.stdout.close()
    with running.stderr as errors:
        assert errors.read() == b""
    assert running.wait(_PATIENCE) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("verb", ["plan", "lint", "render", "verify", "schema", "version"])
def test_standard_output_is_closed(fleet: Fleet, tmp_path: Path, verb: str) -> None:
    call = f'exec "$0" -m reconciler {verb} {"" if verb in ("schema", "version") else "--repo " + str(fleet.root)} >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", call, sys.executable], cwd=ROOT, env=_environ(tmp_path), capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr
    assert b"bug:" not in done.stderr
    assert done.returncode in {0, 6}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("verb", ["plan", "lint", "render", "schema", "version"])
def test_a_full_disk_behind_standard_output(fleet: Fleet, tmp_path: Path, verb: str) -> None:
    """The output is not whole, so that the exit code cannot be 0."""
    with Path("/dev/full").open("wb") as full:
        place = () if verb in {"schema", "version"} else ("--repo", str(fleet.root))
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", verb, *place],
            cwd=ROOT,
            env=_environ(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 6, done.stderr
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_plan_that_cannot_be_saved_whole_is_not_saved(fleet: Fleet, tmp_path: Path) -> None:
    """A disk that fills up (here: a limit on the size of files) leaves the old plan as it was."""
    saved = tmp_path / "plan.json"
    assert fleet.run("plan", "--out", str(saved)).code == 0
    before = saved.read_bytes()
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
    code = (
        "import resource, signal, sys\nfrom reconciler.cli.main import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        f"sys.exit(run(['plan', '--repo', {str(fleet.root)!r}, '--out', {str(saved)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=_environ(tmp_path), capture_output=True, check=False
    )
    assert done.returncode == 6, done.stderr
    assert saved.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".plan")] == []
