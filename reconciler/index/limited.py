"""Work that may take for ever, in a forked child that is ended when it exceeds its limits.

The child shares what the parent has read. Its limit of time is processor time, so a busy machine changes no result.
"""

import faulthandler
import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from msgspec import Struct

from reconciler.errors import is_lack_of_memory
from reconciler.index.workers import signals_held, start_worker

SECONDS = 1.0
"""Processor time of one task."""
MEMORY_BYTES = 256 << 20
"""What a child may allocate besides what the parent holds."""
RESULT_BYTES = 32 << 10
"""The result of one task."""
MAX_EXCEEDED = 10
"""After so many tasks over a limit the caller does the others no more."""

_OUT_OF_MEMORY, _LONG_RESULT, _FAILED = 75, 76, 70  # exit codes of the child
_LENGTH_BYTES = 4  # in front of each result: a pipe keeps no bounds
_CHUNK_BYTES = 1 << 16
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Task = Callable[[int], bytes]


class LimitedRun(Struct, frozen=True, kw_only=True):
    """The results of the tasks before the first one that exceeds a limit; `exceeded` is that limit (empty: none).

    `learned` is what the child knows after the last task.
    """

    results: list[bytes]
    learned: bytes = b""
    exceeded: str = ""


def run_limited(task: Task, count: int, *, learned: Callable[[], bytes] = bytes) -> LimitedRun:
    """Do the tasks 0 … count - 1 one after the other, until one exceeds a limit. An error of a task is raised."""
    reader, writer = os.pipe()
    with signals_held():
        child = os.fork()
        if child == 0:
            os.close(reader)
            _serve(task, count, learned, writer)
    os.close(writer)
    try:
        received = _read(reader)
    except BaseException:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    results = _split(received)
    code = os.waitstatus_to_exitcode(status)
    if code == _FAILED:
        raise RuntimeError(results[-1].decode())
    if code == 0:
        return LimitedRun(results=results[:-1], learned=results[-1])
    return LimitedRun(results=results, exceeded=_exceeded(code))


def _exceeded(code: int) -> str:
    match code:
        case _ if code == -signal.SIGPROF:
            return f"takes more than {SECONDS:g} s of processor time"
        case _ if code == _OUT_OF_MEMORY:
            return f"needs more than {MEMORY_BYTES >> 20} MiB of memory"
        case _ if code == _LONG_RESULT:
            return f"gives more than {RESULT_BYTES >> 10} KiB of messages"
        case _:
            return "ends the CEL engine"


def _read(descriptor: int) -> bytes:
    received = bytearray()
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        received += chunk
    return bytes(received)


def _split(received: bytes) -> list[bytes]:
    """Return the whole results; the last one may have been cut off."""
    results = []
    start = 0
    while (body := start + _LENGTH_BYTES) <= len(received):
        end = body + int.from_bytes(received[start:body], "big")
        if end > len(received):
            break
        results.append(received[body:end])
        start = end
    return results


# The child.


def _serve(task: Task, count: int, learned: Callable[[], bytes], writer: int) -> NoReturn:
    """Do the tasks and exit. Nothing but results leaves the child: no output, no core file, no exit handler."""
    code = _FAILED
    try:
        gc.disable()
        _limit()
        start_worker()
        for position in range(count):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            result = task(position)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if len(result) > RESULT_BYTES:
                os._exit(_LONG_RESULT)
            _write(writer, result)
        _write(writer, learned())
        code = 0
    except BrokenPipeError:  # the parent has gone
        code = 0
    except BaseException as error:  # noqa: BLE001 - the parent raises it
        if is_lack_of_memory(error):
            os._exit(_OUT_OF_MEMORY)
        _write(writer, traceback.format_exc()[-RESULT_BYTES:].encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _limit() -> None:
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    _lower(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - once for each child
            held = int(file.read().split()[0]) * _PAGE_BYTES
        _lower(resource.RLIMIT_AS, held + MEMORY_BYTES)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _write(descriptor: int, result: bytes) -> None:
    message = memoryview(len(result).to_bytes(_LENGTH_BYTES, "big") + result)
    while message:
        message = message[os.write(descriptor, message) :]
