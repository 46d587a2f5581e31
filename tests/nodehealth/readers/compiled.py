"""The C fakes of libraries, built by the system's compiler."""

import shutil
import subprocess
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"


def build(name: str, target: Path, *flags: str) -> Path:
    """Compile `fakes/<name>.c` into a shared library; skip the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("left out: no C compiler for the fake libraries")
    source = FAKES / f"{name}.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-unused-parameter"]
    subprocess.run([*command, *flags, "-o", str(target), str(source)], check=True)
    return target
