"""Every hostile repository ends in its clear answer: little time, little memory, nothing touched outside."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.outputs import output_names
from tests import sizes
from tests.cli.fleet import IDENTITY
from tests.ready import new_cache
from tests.system.child import MEMORY, ROOT, SECONDS, Starter
from tests.system.hostile_repositories import CASES, Hostile

_MANY = 60  # seconds of processor time where there are tens of thousands of files or documents
_ROOMY = 2 << 30


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make one good repository, of which every case takes a copy."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in IDENTITY.items():
            patch.setenv(name, value)
        root = tmp_path_factory.mktemp("known") / "fleet"
        assert run(["init", str(root)]) == 0
        yield root


@pytest.fixture(scope="module")
def starter(known: Path) -> Iterator[Starter]:
    made = Starter(known)
    yield made
    made.close()


@pytest.fixture
def root(known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a repository to spoil, and remove it: some cases hold 100 MB or 20,000 files."""
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    yield Path(shutil.copytree(known, tmp_path / "fleet", symlinks=True))
    shutil.rmtree(tmp_path / "fleet")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limits need Linux")
@pytest.mark.parametrize("memory", [0, 1 << 18, 1 << 20])
def test_a_run_without_memory_ends(starter: Starter, root: Path, memory: int) -> None:
    """It plans or says why not; it does not wait for a thread that never begins."""
    done = starter.run("plan", folder=root, memory=memory)
    assert done.code in (0, 6), done.err
    assert done.code == 0 or "memory" in done.err


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limits need Linux")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hostile_repository_has_its_answer(case: Hostile, starter: Starter, root: Path) -> None:
    """F-140: the answer is the documented exit code, the stable rule, and a line that says what to do."""
    case.make(root)
    seconds, memory = (SECONDS, MEMORY) if case.limited else (_MANY, _ROOMY)
    done = starter.run("plan", "-o", "json", folder=root, seconds=seconds, memory=memory)
    assert done.code == case.code, done.err[-2000:]
    said = done.out + done.err
    for rule in case.rules:
        assert rule in said
    if done.out:
        told = json.loads(done.out)
        found = [problem for problem in told["problems"] if problem["rule"] in case.rules]
        assert len({problem["rule"] for problem in found}) == len(case.rules)
        assert all(problem["place"]["path"].isprintable() and problem["message"] for problem in found)
        assert all(problem["hint"] for problem in found)
    assert "Traceback" not in done.err
    assert not (root.parent / "pwned").exists()
    _nothing_outside(done.seen, root)


LIMITED = [case for case in CASES if case.limited]
FORMS = tuple(name for name in output_names("plan") if name != "text")


@pytest.mark.parametrize("number", range(len(LIMITED)), ids=[case.name for case in LIMITED])
def test_every_output_is_printable(
    number: int, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name, message or hint of a hostile repository breaks a line, a terminal, a comment or a runner's log.

    Forms other than text take turns, two for each repository; a large run takes all of them.
    """
    case = LIMITED[number]
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    case.make(root)
    capsys.readouterr()
    assert run(["lint", "--repo", str(root)]) == case.code
    turns = FORMS if sizes.LARGE else (FORMS[number % len(FORMS)], FORMS[(number + 1) % len(FORMS)])
    for form in ("text", *turns):
        capsys.readouterr()
        assert run(["plan", "--repo", str(root), "-o", form]) == case.code, form
        out, err = capsys.readouterr()
        assert all(sign.isprintable() for sign in (out + err).replace("\n", "").replace("\t", "")), form
        if form != "github":
            assert not re.search(r"^\s*(::|##\[)", out, re.MULTILINE), form
        if form == "text":
            for word in case.words:
                assert word in " ".join((out + err).split())


def _nothing_outside(seen: tuple[tuple[str, str], ...], root: Path) -> None:
    """Fail if anything was opened but the repository, the cache, the program itself and temporary files."""
    programs = {name for event, name in seen if event in {"subprocess.Popen", "os.posix_spawn", "os.exec"}}
    assert {os.path.basename(name) for name in programs} <= {"git"}  # noqa: PTH119 - an argument, not a path
    assert not {event for event, _ in seen} & {"os.system", "socket.connect"}
    ours = (
        str(root),
        str(root.parent / "cache"),
        str(ROOT),
        "/dev/null",
        "/dev/urandom",
        "/proc/",
        tempfile.gettempdir(),
        "/usr/lib",
    )
    for event, name in seen:
        if event not in {"open", "os.listdir"} or not name.startswith("/"):
            continue
        assert name.startswith(ours) or "/lib/python" in name or "/etc/mime.types" in name, (event, name)
        assert not name.startswith("/etc"), name
