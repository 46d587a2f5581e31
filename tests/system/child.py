"""The command line in a child process with little memory and little time, whose every look outside is written down."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEMORY = 256 << 20
"""Bytes of address space over what the program has once it has planned a small repository."""
SECONDS = 2
"""Of processor time."""
DEADLINE = 120
"""Of wall clock: for a machine that does many other things meanwhile."""

_STARTER = """
import gc, json, os, resource, signal, sys
from math import ceil
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from reconciler.__main__ import FRAMES
from reconciler.cli.main import run
sys.setrecursionlimit(FRAMES)
known = sys.argv[1]
requests = os.fdopen(os.dup(0))
replies = os.fdopen(os.dup(1), "w")
for number in (0, 1):
    os.dup2(os.open(os.devnull, os.O_RDWR), number)
run(["plan", "--repo", known, "--cache", "off"])
for form in ("json", "markdown", "sarif", "junit", "github"):
    __import__(f"reconciler.plan.outputs.{form if form != 'json' else 'json_report'}")
sys.stdout.flush()
gc.freeze()
WATCHED = ("open", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "os.listdir", "os.remove")
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
def limited(request):
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    for number, path in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    seen = []
    def hook(event, args):
        if event in WATCHED:
            seen.append((event, os.fsdecode(args[0]) if isinstance(args[0], (str, bytes, os.PathLike)) else str(args[0])))
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + request["memory"], size + request["memory"]))
    resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"]))
    signal.alarm(request["deadline"])
    sys.addaudithook(hook)
    code = run(request["arguments"])
    sys.stdout.flush()
    watched = list(seen)
    with open(request["report"], "w") as file:
        json.dump({"seen": watched, "cpu": used()}, file)
    return code
for line in requests:
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = limited(json.loads(line))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    replies.write(f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\\n")
    replies.flush()
"""


def peak_memory() -> int:
    """Return the most bytes that this program has held in memory.

    `ru_maxrss` would count what the parent held when it started this program.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the program printed and did. `seen` holds audit events and their first argument."""

    code: int
    out: str
    err: str
    seen: tuple[tuple[str, str], ...]
    cpu: float

    def opened(self) -> set[str]:
        """Names that were opened, folders that were listed."""
        return {name for event, name in self.seen if event in {"open", "os.listdir"}}


class Starter:
    """A program that has planned `known`, a small good repository. Every run is a fork of it, with limits."""

    def __init__(self, known: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _STARTER, str(known)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the program."""
        self._process.communicate()
        assert self._process.returncode == 0

    def run(self, *arguments: str, folder: Path, memory: int = MEMORY, seconds: int = SECONDS) -> Outcome:
        """Run the command line in a folder."""
        out, err, report = (folder.parent / name for name in ("child.out", "child.err", "child.json"))
        report.unlink(missing_ok=True)
        request = {
            "folder": str(folder),
            "environ": {**os.environ, "PYTHONPATH": str(ROOT)},
            "out": str(out),
            "err": str(err),
            "report": str(report),
            "memory": memory,
            "seconds": seconds,
            "deadline": DEADLINE,
            "arguments": arguments,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        told: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {"seen": [], "cpu": -1.0}
        return Outcome(
            code=code,
            out=out.read_bytes().decode("utf-8", "backslashreplace"),
            err=err.read_bytes().decode("utf-8", "backslashreplace"),
            seen=tuple((event, name) for event, name in told["seen"]),
            cpu=told["cpu"],
        )
