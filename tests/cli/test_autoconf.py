"""`reconciler autoconf`, as a user runs it, on a stand-in of ado-autoconf."""

import stat
import sys
from pathlib import Path

import pytest

from reconciler.cli.main import run

STANDIN = Path(__file__).resolve().parents[1] / "ports" / "predictors" / "standin"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Make an interpreter that has the library, as a venv is one."""
    path = tmp_path / "bin" / "python"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{STANDIN}" exec "{sys.executable}" "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_compile_then_check(python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "autoconf.table"
    assert run(["autoconf", "compile", "--python", python, "-o", str(target), "--points", "1000"]) == 0
    said = capsys.readouterr().out
    assert f"{target}: ado-autoconf 1.9.7, model 3.1.0" in said
    assert "192 cells, equal to the model at 1,000 random points" in said
    assert run(["autoconf", "check", str(target)]) == 0
    assert capsys.readouterr().out == said
    assert [path.name for path in tmp_path.iterdir() if path.name != "bin"] == ["autoconf.table"]


def test_a_changed_table_is_refused(python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "autoconf.table"
    assert run(["autoconf", "compile", "--python", python, "-o", str(target), "--points", "1000"]) == 0
    target.write_bytes(target.read_bytes().replace(b'"threshold":0.5', b'"threshold":0.1'))
    assert run(["autoconf", "check", str(target)]) == 6
    assert "its digest differs" in capsys.readouterr().err


def test_nothing_is_written_where_table_and_model_differ(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_SMOOTH", "1")
    target = tmp_path / "autoconf.table"
    assert run(["autoconf", "compile", "--python", python, "-o", str(target), "--points", "1000"]) == 6
    assert "was not written" in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["compile"], 6, "No module named 'autoconf'"),
        (["compile", "--python", "/no/such/python"], 6, "could not be started"),
        (["compile", "-o", "no/such/folder/x"], 2, "folder does not exist"),
        (["compile", "--points", "1"], 2, "points"),
        (["check", "none"], 2, "none does not exist"),
        (["check"], 2, "FILE"),
        (["explode"], 2, "explode"),
    ],
)
def test_mistakes(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["autoconf", *arguments]) == code
    assert words in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
