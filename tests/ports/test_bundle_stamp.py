"""The stamp of an installation: what is remembered under one says nothing under another."""

import shutil
import subprocess
import sys
from pathlib import Path

import reconciler

_PRINT = "from reconciler.adapters import bundle; print(bundle.stamp())"


def _stamp(root: Path) -> str:
    call = [sys.executable, "-c", _PRINT]
    environ = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(call, cwd=root, env=environ, check=True, capture_output=True, text=True).stdout


def _checkout(root: Path) -> Path:
    own = Path(reconciler.__file__).parent
    shutil.copytree(own, root / "reconciler", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(own.parent / "schemas", root / "schemas")
    return root


def test_an_edit_of_the_code_or_of_a_schema_changes_the_stamp(tmp_path: Path) -> None:
    root = _checkout(tmp_path / "checkout")
    stamps = [_stamp(root), _stamp(root)]
    (root / "reconciler/core/problems.py").write_text("# edited\n" + (root / "reconciler/core/problems.py").read_text())
    stamps.append(_stamp(root))
    next((root / "schemas").rglob("*.json")).touch()
    stamps.append(_stamp(root))
    (root / "reconciler/outputs/names.py").unlink()
    stamps.append(_stamp(root))
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == len(stamps) - 1


def test_an_installed_package_is_known_by_what_lies_beside_it(tmp_path: Path) -> None:
    root = _checkout(tmp_path / "installed")
    (root / "reconciler/bundle").mkdir()
    before = _stamp(root)
    (root / "reconciler/core/problems.py").touch()
    assert _stamp(root) == before
