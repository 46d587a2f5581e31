"""The same repository gives the same bytes: whatever the machine, the user, the clock, the cache."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import corpus
from tests import sizes
from tests.cli.fleet import IDENTITY, Fleet
from tests.ready import new_cache
from tests.system.child import ROOT

_VERBS = (
    ("plan", "-o", "json"),
    ("plan", "-o", "markdown"),
    ("plan", "-o", "text"),
    ("plan", "-o", "sarif"),
    ("plan", "-o", "junit"),
    ("render",),
)

# Name of a world, its environment (over that of the plain world), and flags.
_PLACES: Mapping[str, Mapping[str, str]] = {
    **{f"hash seed {seed}": {"PYTHONHASHSEED": str(seed)} for seed in (1, 2, 77, 4_000_000_000)},
    "Kiritimati": {"TZ": "Pacific/Kiritimati"},
    "Turkish": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "LANGUAGE": "tr"},
    "POSIX in UTF-8 mode": {"LC_ALL": "POSIX", "PYTHONUTF8": "1"},
    "no home": {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""},
    "user's git settings": {"GIT_CONFIG_GLOBAL": "gitconfig"},
}
_TOGETHER = dict(pair for name, place in _PLACES.items() if not name.startswith("POSIX") for pair in place.items())
_WORLDS: Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "all at once": (_TOGETHER, ()),
    "POSIX in UTF-8 mode": ({**_PLACES["hash seed 1"], **_PLACES["POSIX in UTF-8 mode"]}, ()),
    "no cache": ({}, ("--cache", "off")),
    "one process": ({}, ("--processes", "1")),
    "two processes": ({"FORK": "1"}, ("--processes", "2")),
    **({name: (environ, ()) for name, environ in _PLACES.items()} if sizes.LARGE else {}),
}


_FORKING = """
import os, sys
from reconciler.index import workers
forks = []
os.register_at_fork(after_in_parent=lambda: forks.append(1))
workers._WORTH_FORKING, workers._CHUNK = 2, 8
from reconciler.cli.main import run
code = run(sys.argv[1:])
sys.exit(code if len(forks) >= 2 else "nothing was forked")
"""


def _environ(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    own = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    config = folder / "gitconfig"
    config.write_text(
        "[core]\n\tquotePath = true\n\tautocrlf = true\n[diff]\n\tnoprefix = true\n[log]\n\tdate = local\n"
    )
    settings = {"RECONCILER_CACHE_DIR": new_cache(folder)}
    extra = {name: str(config) if value == "gitconfig" else value for name, value in extra.items()}
    return {**kept, **IDENTITY, **own, **settings, **extra}


def _run(root: Path, environ: Mapping[str, str], *arguments: str, umask: int = -1) -> bytes:
    program = ("-c", _FORKING) if "FORK" in environ else ("-m", "reconciler")
    call = [sys.executable, *program, arguments[0], "--repo", str(root), *arguments[1:]]
    done = subprocess.run(call, capture_output=True, env=dict(environ), cwd=root.parent, check=False, umask=umask)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def _all(root: Path, environ: Mapping[str, str]) -> dict[tuple[str, ...], bytes]:
    return {verb: _run(root, environ, *verb) for verb in _VERBS}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, ...], bytes]]:
    """Make a repository with documents of all shapes that was rendered once and edited since."""
    folder = tmp_path_factory.mktemp("plain")
    root = folder / "fleet"
    root.mkdir()
    corpus.write(root, 450 if sizes.LARGE else 80)
    environ = _environ(folder, {})
    _run(root, environ, "commit")
    chance = random.Random(5)  # noqa: S311 - a reproducible choice
    for path in chance.sample(sorted((root / "jobs").rglob("*.yaml")), 12):
        path.write_text(path.read_text().replace("maxRestarts: ", "maxRestarts: 1"))
    for path in chance.sample(sorted((root / "manifests").rglob("config*.yaml")), 3):
        path.unlink()
    return root, _all(root, environ)


@pytest.mark.parametrize("world", _WORLDS)
def test_another_world_gives_the_same_bytes(
    world: str, expected: tuple[Path, dict[tuple[str, ...], bytes]], tmp_path: Path
) -> None:
    """F-140: hash seeds, time zones, locales, homes, caches, processes and settings of git have no influence."""
    root, plain = expected
    extra, flags = _WORLDS[world]
    environ = _environ(tmp_path, extra)
    first, *others = _VERBS[: 3 if sizes.LARGE else 2]
    assert _run(root, environ, *first, *flags) == plain[first], "cold"
    if "FORK" in environ:  # a warm run forks nothing
        return
    warm = [first, *others] if "off" not in flags else others
    assert {verb: _run(root, environ, *verb, *flags) for verb in warm} == {verb: plain[verb] for verb in warm}, "warm"


def test_another_clone_gives_the_same_bytes(
    expected: tuple[Path, dict[tuple[str, ...], bytes]], tmp_path: Path
) -> None:
    """F-140: path of the clone, order in which files came to be, their times and modes have no influence."""
    root, plain = expected
    clone = tmp_path / "a very different place" / "grün"
    clone.mkdir(parents=True)
    shutil.copytree(root / ".git", clone / ".git")
    sources = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts]
    random.Random(11).shuffle(sources)  # noqa: S311 - the same
    for path in sources:
        target = clone / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o640)
        os.utime(target, (1, 1))
    environ = _environ(tmp_path, {})
    assert _all(clone, environ) == plain


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_same_commit(expected: tuple[Path, dict[tuple[str, ...], bytes]], tmp_path: Path, umask: int) -> None:
    """F-140: the commit has the same id, under any umask: tree, message, trailers."""
    root, _ = expected
    made = []
    for name, extra in (("one", {}), ("two", {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "9", "LC_ALL": "de_DE.UTF-8"})):
        clone = tmp_path / name / "fleet"
        shutil.copytree(root, clone)
        environ = _environ(tmp_path / name, extra)
        subprocess.run(["git", "commit", "-qam", "edit"], cwd=clone, env=environ, check=True)
        _run(clone, environ, "commit", umask=umask if name == "two" else 0o022)
        call = ["git", "rev-parse", "HEAD", "HEAD^{tree}"]
        made.append(subprocess.run(call, cwd=clone, env=environ, check=True, capture_output=True).stdout)
    assert made[0] == made[1]


def test_no_clock_reaches_a_plan(expected: tuple[Path, dict[tuple[str, ...], bytes]], tmp_path: Path) -> None:
    """F-140: under a clock that jumps by years with each look, a plan is the same."""
    root, plain = expected
    (tmp_path / "sitecustomize.py").write_text(
        "import time\n_now = [1]\ndef _jump():\n    _now[0] += 10**8\n    return _now[0]\n"
        "time.time = lambda: float(_jump())\ntime.time_ns = lambda: _jump() * 10**9\n"
        "time.localtime = time.gmtime = lambda *_: (_ for _ in ()).throw(AssertionError('the clock was asked'))\n"
    )
    environ = _environ(tmp_path, {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    assert _all(root, environ) == plain


def test_the_date_is_that_of_the_head_commit(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-140: an exception expires by the date of the commit that is planned, whatever the clock says."""
    fleet.write("jobs/pod.yaml", _PRIVILEGED)
    fleet.write("policies/allow.yaml", _EXCEPTION)
    for date, code in (("2031-01-01", 0), ("2031-01-03", 3)):
        monkeypatch.setitem(IDENTITY, "GIT_COMMITTER_DATE", f"{date}T12:00:00+00:00")
        fleet.write("NEWS.md", date)
        fleet.commit()
        assert fleet.run("plan").code == code
        assert fleet.run("plan", "--revision", "HEAD").code == code
        assert fleet.run("plan", "--date", "2031-01-02").code == 0


_PRIVILEGED = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {team: x}}
spec:
  containers: [{name: c, image: 'a:1', securityContext: {privileged: true}}]
"""
_EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: allow}
spec:
  rule: no-privileged
  object: {kind: Pod, namespace: default, name: p}
  reason: driver install
  owner: ops@example.com
  expires: '2031-01-02'
"""
