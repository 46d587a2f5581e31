"""Every hostile file ends in its clear error, in a child process with little memory and little time."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[3]

_SECONDS = 3
"""Of processor time, for starting Python, making the file and reading it; the reader's own part stays below one."""
_MEMORY = 256 * 1024 * 1024
"""Address space over what the child has when it starts to read."""
_DEADLINE = 60
"""Of wall clock: for a machine that does many other things meanwhile."""

_CHILD = """
import gc, importlib.util, json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
opened = []
from reconciler.core.documents import read
read("warm-up.yaml", "a: gr\\u00fcn".encode())
spec = importlib.util.spec_from_file_location("hostile_files", {cases!r})
cases = importlib.util.module_from_spec(spec)
sys.modules["hostile_files"] = cases
spec.loader.exec_module(cases)
case = cases.CASES[int(sys.argv[1])]
raw = case.make()
gc.disable()
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + {memory}, size + {memory}))
sys.addaudithook(lambda event, args: opened.append(event) if event in ("open", "os.system", "subprocess.Popen") else None)
reading = read("dir/file.yaml", raw)
rules = sorted({{problem.rule for problem in reading.problems}})
places = [str(problem.place) for problem in reading.problems[:20]]
texts = [str(problem) for problem in reading.problems[:20]]
json.dump([rules, places, texts, len(reading.documents), opened], sys.stdout)
"""


def load_cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile_files", HERE / "hostile_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES = load_cases().CASES


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limits need Linux")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_hostile_file(number: int) -> None:
    case = CASES[number]
    code = _CHILD.format(seconds=_SECONDS, memory=_MEMORY, cases=str(HERE / "hostile_files.py"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(number)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rules, places, texts, documents, opened = json.loads(done.stdout)
    assert set(rules) <= case.rules, texts
    assert bool(rules) == bool(case.rules)
    assert opened == []
    assert all(place.startswith("dir/file.yaml") for place in places)
    assert all(len(text) < 600 and text.isprintable() for text in texts), texts
    if not case.rules and case.holds_documents:
        assert documents > 0
