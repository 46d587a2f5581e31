"""A child process that reads with a library of a driver: requests and records are lines of JSON, each with a deadline.

A call may hang in the kernel, where no signal ends it. Such a child is killed, left behind and never waited for.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from reconciler.nodehealth.readers.calls import NODE

Record = Mapping[str, Any]

_CHUNK_BYTES = 1 << 16
_MAX_BYTES = 32 << 20  # of one answer
_START_SECONDS = 10.0  # for the first record of a process, which has to load its library
_KILLED_SECONDS = 0.2  # a child that does not hang in the kernel is gone by then


class ChildHang(Exception):
    """The child did not answer in time, or ended. `gpu` and `call` say where it was."""

    def __init__(self, at: Record, detail: str) -> None:
        super().__init__(detail)
        self.gpu, self.call, self.detail = int(at["gpu"]), str(at["call"]), detail


class ReadingChild:
    """`python -m reconciler.nodehealth.readers.reading_child SOURCE`. Not thread-safe."""

    def __init__(self, source: str, environ: Mapping[str, str]) -> None:
        self._source, self._environ = source, dict(environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._has_answered = False

    def start(self) -> None:
        """Start the process now, so that it loads its library while the caller does something else."""
        if self._process is None:
            self._has_answered = False
            self._process = python_child(("reconciler.nodehealth.readers.reading_child", self._source), self._environ)

    def ask(self, request: Record, *, call_seconds: float, deadline: float) -> Iterator[Record]:
        """Yield the records that answer one request. Raises `ChildHang` if one does not come in time."""
        self.start()
        process = self._process
        assert process is not None  # noqa: S101 - started above
        assert process.stdin is not None  # noqa: S101 - a pipe
        assert process.stdout is not None  # noqa: S101 - a pipe
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        at: Record = {"gpu": NODE, "call": "init"}
        rest, size = b"", 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                allowed = call_seconds if self._has_answered else max(call_seconds, _START_SECONDS)
                left = min(allowed, deadline - time.monotonic())
                if left <= 0 or not selector.select(left):
                    raise ChildHang(at, f"{at['call']} did not return")
                chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
                size += len(chunk)
                if not chunk or size > _MAX_BYTES:
                    raise ChildHang(at, f"the reader process exited during {at['call']}")
                self._has_answered = True
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    record = json.loads(line)
                    if "end" in record:
                        return
                    if "call" in record:
                        at = record
                    else:
                        yield record

    def abandon(self) -> "subprocess.Popen[bytes] | None":
        """Kill the process, and return it if it still runs then: it hangs in the kernel."""
        process, self._process = self._process, None
        if process is None:
            return None
        kill(process)
        return process if process.poll() is None else None


def python_child(module: Sequence[str], environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a module of ours with its arguments in a session of its own, with pipes to it and from it."""
    return subprocess.Popen(
        (sys.executable, "-m", *module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and close its pipes, without waiting for one that hangs in the kernel."""
    with suppress(ProcessLookupError, PermissionError):
        process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_SECONDS)
