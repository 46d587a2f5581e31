"""The command line in a child process with little memory and little time, whose every look outside is written down."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEMORY = 256 << 20
"""Bytes of address space over what the program has when it starts to work."""
SECONDS = 2
"""Of processor time over what it has taken to start, rounded up."""
DEADLINE = 120
"""Of wall clock: for a machine that does many other things meanwhile."""

_CODE = """
import json, os, resource, sys
from math import ceil
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from reconciler.cli.main import run
seconds, memory, report, known = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
sys.stdout = open(os.devnull, "w")
run(["plan", "--repo", known, "--cache", "off"])
for form in ("json", "markdown", "sarif", "junit", "github"):
    __import__(f"reconciler.outputs.{form if form != 'json' else 'json_report'}")
sys.stdout = sys.__stdout__
seen = []
WATCHED = ("open", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "os.listdir", "os.remove")
def hook(event, args):
    if event in WATCHED:
        seen.append((event, os.fsdecode(args[0]) if isinstance(args[0], (str, bytes, os.PathLike)) else str(args[0])))
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
started = used()
resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
resource.setrlimit(resource.RLIMIT_CPU, (ceil(started) + seconds, ceil(started) + seconds))
sys.addaudithook(hook)
code = run(sys.argv[5:])
sys.stdout.flush()
watched = list(seen)
with open(report, "w") as file:
    json.dump({"seen": watched, "cpu": used() - started}, file)
sys.exit(code)
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


def run_child(
    *arguments: str,
    folder: Path,
    known: Path,
    memory: int = MEMORY,
    seconds: int = SECONDS,
    environ: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the command line with limits, once it has planned `known`, a small good repository: that is its start."""
    report = folder.parent / "child.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(seconds), str(memory), str(report), str(known), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environ or {})},
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    told: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {"seen": [], "cpu": -1.0}
    return Outcome(
        code=done.returncode,
        out=done.stdout.decode("utf-8", "backslashreplace"),
        err=done.stderr.decode("utf-8", "backslashreplace"),
        seen=tuple((event, name) for event, name in told["seen"]),
        cpu=told["cpu"],
    )
