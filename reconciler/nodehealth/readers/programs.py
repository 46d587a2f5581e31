"""Programs of this machine that measure: run once, with a deadline, and what they printed."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId
from reconciler.processes import ChildCommand, ChildProcess, ProcessError, ProcessUnavailable, without_credentials

_MEMORY_BYTES = 1 << 40  # programs of CUDA map the memory of all GPUs
_OUTPUT_BYTES = 16 << 20


class ProgramOutput(Struct, frozen=True, kw_only=True):
    """The output of a program, its exit code, and its last message."""

    code: int
    text: str
    message: str = ""


def run_program(argv: Sequence[str], *, seconds: float, environ: Mapping[str, str] = os.environ) -> ProgramOutput:
    """Run a program. Raises `ProcessError` if it is not installed or does not end in time."""
    command = ChildCommand(
        name=Path(argv[0]).name,
        argv=(absolute(argv[0], environ), *argv[1:]),
        folder=Path("/"),
        environ={**without_credentials(environ), "LC_ALL": "C"},
        memory_bytes=_MEMORY_BYTES,
    )
    child = ChildProcess(command, interactive=True)
    try:
        code, output = child.collect(seconds=seconds, max_bytes=_OUTPUT_BYTES)
    finally:
        child.end()
    return ProgramOutput(code=code, text=output.decode("utf-8", "replace"), message=child.last_message())


def absolute(program: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program. Raises `ProgramMissing` if it is not installed."""
    found = shutil.which(program, path=environ.get("PATH"))
    if found is None:
        raise ProgramMissing(f"{program} is not installed")
    return found


class ProgramMissing(ProcessError):
    """A program is not installed on this machine."""


def not_run(name: ReadingId, problem: ProcessError) -> NodeReading:
    """Return the reading of a program that did not run to its end."""
    if isinstance(problem, ProgramMissing):
        error = ReadError.NOT_SUPPORTED
    else:
        error = ReadError.DEADLINE if isinstance(problem, ProcessUnavailable) else ReadError.FAILED
    return NodeReading(name=name, error=error, detail=str(problem))
