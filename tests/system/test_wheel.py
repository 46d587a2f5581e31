"""What is installed from the wheel works alone: in an empty environment, from another folder."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from reconciler.version import __version__
from tests.cli.fleet import IDENTITY
from tests.cluster.fixtures import left_out
from tests.system.child import ROOT


def _run(*arguments: str | Path, folder: Path, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, from the files that Git knows."""
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    name = _run(sys.executable, "-c", code, folder, folder=ROOT).split()[-1]
    return folder / name


def test_the_wheel_holds_all_data_with_its_dot_files(wheel: Path) -> None:
    """Schemas, rules and the template, `.github` and `.gitattributes` too, and no tests."""
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name.removeprefix("reconciler/bundle/") for name in names if name.startswith("reconciler/bundle/")}
    assert "action.yml" in inside
    for folder in ("schemas", "policies", "gitops-repo-template", "templates"):
        there = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert there <= inside
    for name in (
        "models.json",
        "models.schema.json",
        "gpus.json",
        "gpus.schema.json",
        "xids.json",
        "xids.schema.json",
        "kernel_events.json",
    ):
        assert f"reconciler/data/{name}" in names
    frameworks = {str(path.relative_to(ROOT)) for path in (ROOT / "reconciler/launch/frameworks").glob("*.toml")}
    assert len(frameworks) >= 20
    assert frameworks <= set(names)
    for name in (".gitattributes", ".gitignore", ".gitlab-ci.yml", ".github/workflows/plan.yaml"):
        assert f"gitops-repo-template/{name}" in inside
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]


@pytest.mark.usefixtures("package_index")
@pytest.mark.timeout(300)
def test_the_installed_command_works_alone(wheel: Path, tmp_path: Path) -> None:
    """Install into an empty environment; `init`, `plan`, `commit`, `schema` from another folder by PATH alone."""
    home = tmp_path / "venv"
    venv.create(home)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(home / "bin/python"), "install"]
    install = [*pip, "--quiet", "--no-compile", str(wheel)]  # few of the modules are ever imported
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280)
    if "NewConnectionError" in done.stderr:
        left_out("the package index cannot be reached, so that the wheel's dependencies cannot be installed")
    assert done.returncode == 0, done.stderr
    environ = {
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        **IDENTITY,
    }

    def reconciler(*arguments: str, folder: Path = tmp_path) -> str:
        return _run("reconciler", *arguments, folder=folder, environ=environ)

    where = _run(
        home / "bin/python", "-c", "import reconciler; print(reconciler.__file__)", folder=tmp_path, environ=environ
    )
    assert where.startswith(str(home))
    assert '"TorchrunJob"' in reconciler("schema", "TorchrunJob")
    reconciler("init", "fleet")
    reconciler("init", "pinned", "--source", str(wheel))
    pip += ["--no-deps", "--dry-run", "--force-reinstall"]
    pinned = _run(*pip, "-r", "requirements.txt", folder=tmp_path / "pinned", environ=environ)
    assert f"Would install gpu-reconciler-{__version__}" in pinned
    fleet = tmp_path / "fleet"
    assert (fleet / ".github/workflows/plan.yaml").is_file()
    assert "No changes" in reconciler("plan", folder=fleet)
    job = fleet / "jobs/vision/vit.yaml"
    job.write_text(job.read_text().replace("numGPUs: 16", "numGPUs: 24"))
    assert "vit" in reconciler("plan", folder=fleet)
    _run("git", "commit", "-qam", "more", folder=fleet, environ=environ)
    reconciler("commit", folder=fleet)
    assert "verified" in reconciler("verify", folder=fleet)
    assert reconciler("explain", "PyTorchJob/vit", folder=fleet)
    stamp = (home / "bin/python", "-c", "from reconciler import resources as bundle; print(bundle.stamp())")
    before = _run(*stamp, folder=tmp_path, environ=environ)
    _run(*install, "--no-deps", "--force-reinstall", folder=tmp_path)
    assert _run(*stamp, folder=tmp_path, environ=environ) == before, "caches last: the same files, installed again"
