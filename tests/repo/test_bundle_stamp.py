"""The stamp of an installation: what is remembered under one says nothing under another."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reconciler

_PRINT = "from reconciler import resources as bundle; print(bundle.stamp())"


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
    (root / "reconciler/kube/problems.py").write_text("# edited\n" + (root / "reconciler/kube/problems.py").read_text())
    stamps.append(_stamp(root))
    next((root / "schemas").rglob("*.json")).touch()
    stamps.append(_stamp(root))
    (root / "reconciler/plan/outputs/names.py").unlink()
    stamps.append(_stamp(root))
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == len(stamps) - 1


OWN, PLUGIN, OTHER = "gpu_reconciler-1.0.dist-info", "our_kinds-2.0.dist-info", "click-8.0.dist-info"
RECORD = """\
../../../bin/reconciler,sha256=x,226
reconciler/kube/problems.py,sha256=a,9
reconciler/kube/__pycache__/problems.cpython-311.pyc,,
gpu_reconciler-1.0.dist-info/INSTALLER,sha256=p,4
"""


def _installed(root: Path, **records: str) -> Path:
    """Make an installation without dependencies, with a plugin and another package."""
    _checkout(root)
    (root / "reconciler/bundle").mkdir()
    for name, record in ((OWN, records.get("own", RECORD)), (PLUGIN, records.get("plugin", "")), (OTHER, "")):
        (root / name).mkdir()
        (root / name / "RECORD").write_text(record)
    (root / PLUGIN / "entry_points.txt").write_text("[gpu_reconciler.kinds]\nours = our_kinds:KINDS\n")
    return root


def test_the_same_installation_on_another_machine_has_the_same_stamp(tmp_path: Path) -> None:
    """At another time, in another folder, by another installer: a pipeline keeps its cache from run to run."""
    one = _installed(tmp_path / "one")
    other = _installed(tmp_path / "other", own=RECORD.replace("=x", "=y").replace("=p", "=uv").replace("cpython", "c"))
    os.utime(other, (1, 1))
    assert _stamp(one) == _stamp(other)


@pytest.mark.parametrize("change", ["a module", "a plugin", "a version", "a package"])
def test_another_installation_has_another_stamp(tmp_path: Path, change: str) -> None:
    root = _installed(tmp_path / "installed")
    before = _stamp(root)
    if change == "a module":
        (root / OWN / "RECORD").write_text(RECORD.replace("=a", "=b"))
    elif change == "a plugin":
        (root / PLUGIN / "RECORD").write_text("our_kinds.py,sha256=c,1\n")
    elif change == "a version":
        (root / OTHER).rename(root / OTHER.replace("8.0", "8.1"))
    else:
        (root / OTHER.replace("click", "rich")).mkdir()
    assert _stamp(root) != before


def test_an_installation_without_records_is_known_by_its_time(tmp_path: Path) -> None:
    """Not every installer writes them."""
    root = _installed(tmp_path / "installed")
    known = _stamp(root)
    (root / OWN / "RECORD").unlink()
    before = _stamp(root)
    (root / "reconciler/kube/problems.py").touch()
    assert _stamp(root) == before != known
    assert before.strip().isdigit()
