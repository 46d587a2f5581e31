"""The image: judged by hadolint, and its build steps run here as they are written."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from reconciler.version import __version__
from tests.cluster.fixtures import left_out

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+) \\$", re.MULTILINE)


def instructions() -> Iterator[tuple[str, str]]:
    """Yield every instruction with its argument; continued lines are joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            name, _, argument = line.partition(" ")
            yield name, " ".join(argument.split())


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = [[]]
    for name, argument in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, argument))
    return found[1:]


def test_hadolint_finds_nothing() -> None:
    """F-132."""
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        left_out("hadolint has no package for this machine")
    done = _run([program, "--failure-threshold", "style", str(DOCKERFILE)])
    assert done.returncode == 0, done.stdout


def test_the_image_is_pinned_and_runs_as_nobody() -> None:
    """F-132: a base with a full version, system packages and Python packages at versions, a user that is not root."""
    everything = [pair for stage in stages() for pair in stage]
    assert {argument.split()[0] for name, argument in everything if name == "FROM"} == {"${PYTHON}"}
    (base,) = (argument for name, argument in instructions() if name == "ARG")
    assert re.fullmatch(r"PYTHON=docker\.io/library/python:3\.11\.\d+-slim-bookworm", base)
    last = stages()[-1]
    assert [argument for name, argument in last if name == "USER"] == ["65532:65532"]
    assert not [argument for name, argument in last if name in {"ADD", "EXPOSE", "VOLUME"}]
    for _, argument in (pair for pair in everything if pair[0] == "RUN" and "apt-get install" in pair[1]):
        (packages,) = re.findall(r"apt-get install (.*?) &&", argument)
        assert all("=" in name for name in packages.split() if not name.startswith("-"))


@pytest.mark.parametrize("name", ["requirements.txt", "build.txt"])
def test_pins_satisfy_pyproject(name: str) -> None:
    """Run `make lock` if this fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["dependencies"] if name == "requirements.txt" else project["build-system"]["requires"]
    pins = dict(_PIN.findall((ROOT / "image" / name).read_text(encoding="utf-8")))
    for requirement in map(Requirement, wanted):
        assert Version(pins[requirement.name.lower()]) in requirement.specifier


def test_the_context_holds_what_the_wheel_needs_and_no_more(tmp_path: Path) -> None:
    _context(tmp_path / "src")
    names = {path.name for path in (tmp_path / "src").iterdir()}
    assert names == {
        *(
            "README.md",
            "LICENSE",
            "pyproject.toml",
            "reconciler",
            "schemas",
            "policies",
            "gitops-repo-template",
            "templates",
            "action.yml",
            "image",
        )
    }
    assert not [*(tmp_path / "src").rglob("__pycache__")]


@pytest.mark.skipif(os.environ.get("RECONCILER_TEST_IMAGE") != "1", reason="`make test-image`: it downloads packages")
@pytest.mark.timeout(300)
def test_the_build_steps_make_an_environment_that_works(tmp_path: Path) -> None:
    """F-132: every RUN of the build stage runs here, with /opt and /src below a folder, on this machine's Python."""
    source = tmp_path / "src"
    _context(source)
    for argument in (argument for name, argument in stages()[0] if name == "RUN"):
        command = argument.replace("/opt/", f"{tmp_path}/opt/")
        environ = {**os.environ, "PATH": f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"}
        done = _run(["sh", "-c", command], cwd=source, env=environ)
        if "NewConnectionError" in done.stderr:
            left_out("the package index cannot be reached")
        assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"
    home = tmp_path / "opt" / "reconciler"
    shutil.rmtree(source)
    (entry,) = (argument for name, argument in stages()[-1] if name == "ENTRYPOINT")
    (program,) = shlex.split(entry.strip("[]").replace(",", " "))
    clean = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = _run([program, "version"], env=clean, cwd=tmp_path)
    assert __version__ in done.stdout, done.stderr
    assert not (home / "bin" / "pip").exists()


def _run(argv: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(argv, capture_output=True, text=True, check=False, **options)


def _context(target: Path) -> None:
    """Copy what .dockerignore lets through: everything is excluded but the names with `!`."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    inner = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    target.mkdir()
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns(*inner))
        else:
            shutil.copy(ROOT / name, target / name)
