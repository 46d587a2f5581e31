"""Every hostile file ends in its clear error, in a child process with little memory and little time."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[3]

_SECONDS = 3
"""Of processor time, for making the file and reading it; the reader's own part stays below one."""
_MEMORY = 256 * 1024 * 1024
"""Address space over what the child has when it starts to read."""
_DEADLINE = 60
"""Of wall clock: for a machine that does many other things meanwhile."""

_STARTER = """
import gc, importlib.util, json, os, resource, signal, sys, traceback
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from reconciler.kube.yaml import read
read("warm-up.yaml", "a: gr\\u00fcn".encode())
spec = importlib.util.spec_from_file_location("hostile_files", {cases!r})
cases = importlib.util.module_from_spec(spec)
sys.modules["hostile_files"] = cases
spec.loader.exec_module(cases)
gc.disable()
def limited(number):
    opened = []
    resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
    signal.alarm({deadline})
    raw = cases.CASES[number].make()
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + {memory}, size + {memory}))
    sys.addaudithook(lambda event, args: opened.append(event) if event in ("open", "os.system", "subprocess.Popen") else None)
    reading = read("dir/file.yaml", raw)
    rules = sorted({{problem.rule for problem in reading.problems}})
    places = [str(problem.place) for problem in reading.problems[:20]]
    texts = [str(problem) for problem in reading.problems[:20]]
    return rules, places, texts, len(reading.documents), opened[:]
for line in sys.stdin:
    ours, theirs = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            told = json.dumps(limited(int(line)))
            code = 0
        except BaseException:
            told = traceback.format_exc()[-2000:]
        finally:
            with open(theirs, "w") as reply:
                reply.write(told)
            os._exit(code)
    os.close(theirs)
    with open(ours) as reply:
        told = reply.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), told]), flush=True)
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


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[int], tuple[int, str]]]:
    """Start a program that reads cases by their numbers, each in a fork of itself; return its exit code and reply."""
    limits = {"seconds": _SECONDS, "memory": _MEMORY, "deadline": _DEADLINE}
    code = _STARTER.format(cases=str(HERE / "hostile_files.py"), **limits)
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def asked(number: int) -> tuple[int, str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            ended, told = json.loads(process.stdout.readline())
            return ended, told

        yield asked


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limits need Linux")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_hostile_file(number: int, ask: Callable[[int], tuple[int, str]]) -> None:
    case = CASES[number]
    ended, told = ask(number)
    assert ended == 0, told
    rules, places, texts, documents, opened = json.loads(told)
    assert set(rules) <= case.rules, texts
    assert bool(rules) == bool(case.rules)
    assert opened == []
    assert all(place.startswith("dir/file.yaml") for place in places)
    assert all(len(text) < 600 and text.isprintable() for text in texts), texts
    if not case.rules and case.holds_documents:
        assert documents > 0
