"""The examples of docs/libraries.md: each runs alone, prints what the page says, and loads no part of the program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = re.compile(r"^## (\w+):.*?```python\n(.*?)```.*?```text\n(.*?)```", re.MULTILINE | re.DOTALL)
EXAMPLES = {name: (code, output) for name, code, output in _EXAMPLE.findall((ROOT / "docs/libraries.md").read_text())}
LIBRARIES = {"kube", "launch", "sizing", "nodehealth"}
_GROUND = {"errors", "clock", "packages", "resources", "processes", "http", "version"}
_LOADED = """
import sys as _sys
print("LOADED", *sorted({name.split(".")[1] for name in _sys.modules if name.startswith("reconciler.")}))
"""


def test_every_library_has_an_example() -> None:
    assert EXAMPLES.keys() == LIBRARIES


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_an_example_runs_without_the_program(library: str) -> None:
    code, output = EXAMPLES[library]
    assert len([line for line in code.splitlines() if line]) <= 15
    ran = subprocess.run([sys.executable, "-c", code + _LOADED], cwd=ROOT, capture_output=True, text=True, check=False)
    printed, _, loaded = ran.stdout.rpartition("LOADED ")
    assert printed == output, ran.stderr
    assert {*loaded.split()} <= LIBRARIES | _GROUND
