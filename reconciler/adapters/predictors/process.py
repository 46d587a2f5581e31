"""A process that cannot hang us: pipes that never block, its own group, deadlines, a cap on memory, a short memory."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from reconciler.adapters.predictors.asked import one_line
from reconciler.core.plan.masking import MASK, is_secret_name, redact
from reconciler.errors import PredictorError, PredictorUnavailable

_GLANCE_SECONDS = 0.05  # how often deadline, memory and end are looked at
_CHUNK = 1 << 16
_TAIL = 4096  # bytes of its messages that are kept for ours
_PAGE = os.sysconf("SC_PAGE_SIZE")


def found(command: str) -> str:
    """Make a command that the user names independent of the folder it will run in; links stay: a venv is one."""
    return os.path.abspath(command if os.sep in command else shutil.which(command) or command)  # noqa: PTH100 - keeps links


class Program(Struct, frozen=True, kw_only=True):
    """What to run, and where; `name` is for messages.

    `memory_bytes` bounds what it may hold in memory, where /proc tells that; elsewhere nothing is bounded.
    """

    name: str
    argv: Sequence[str]
    folder: Path
    environ: Mapping[str, str]
    memory_bytes: int


class Process:
    """A running program. Not for two threads at once; whoever starts it calls `end`.

    With `talks` it is spoken to by `exchange`; otherwise `wait` awaits its end, and all it prints are messages.
    """

    def __init__(self, program: Program, *, talks: bool) -> None:
        self._program = program
        self._tail = bytearray()
        self._said = bytearray()
        self._unsent = memoryview(b"")
        self._is_over = False
        try:
            self._process = subprocess.Popen(
                list(program.argv),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if talks else subprocess.STDOUT,
                cwd=program.folder,
                env=dict(program.environ),
                start_new_session=True,  # Ctrl-C is ours to handle; and the whole group can be ended
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error  # ValueError: a NUL in an argument
            raise PredictorError(f"{one_line(program.argv[0])} could not be started: {reason}") from error
        self._selector = selectors.DefaultSelector()
        self._hear(self._process.stdout, self._said if talks else self._tail)
        self._hear(self._process.stderr, self._tail)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)

    def exchange(self, message: bytes, *, seconds: float, most: int) -> bytes:
        """Send one line and return the line that answers it, of at most `most` bytes.

        Raises `PredictorUnavailable` where none comes in time; after that the process is of no use.
        """
        deadline = time.monotonic() + seconds
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - asked for by `talks`
        self._said.clear()
        self._unsent = memoryview(message)
        self._selector.register(stdin, selectors.EVENT_WRITE)
        while (end := self._said.find(b"\n")) < 0:
            if self.ended():
                self._drain()
                raise PredictorUnavailable(f"{self._program.name} {self._last_words()}")
            if len(self._said) > most:
                raise PredictorUnavailable(f"{self._program.name} gave an answer without end")
            self._turn(deadline, seconds)
        if self._unsent:
            raise PredictorUnavailable(f"{self._program.name} answered before it was asked")
        if len(self._said) > end + 1:
            raise PredictorUnavailable(f"{self._program.name} said more than an answer")
        return bytes(self._said[:end])

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit code. Raises `PredictorUnavailable` where it takes too long."""
        deadline = time.monotonic() + seconds
        while not self.ended():
            self._turn(deadline, seconds)
        self._drain()
        self.end()
        return self._process.returncode

    def ended(self) -> bool:
        """Tell whether it has ended, without forgetting its id: `end` has its group to end yet."""
        if self._process.returncode is None and hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None

    def end(self) -> None:
        """End it and all it started that stayed in its group; nothing is left behind. May be called twice."""
        if not self._is_over:
            with suppress(ProcessLookupError, PermissionError):  # the latter is what macOS says of zombies
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._is_over = True
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def message(self) -> str:
        """Return the last line it printed that says anything; empty where it printed none."""
        lines = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return one_line(redact(self._without_secrets(lines[-1]))) if lines else ""

    def _without_secrets(self, text: str) -> str:
        """Blot out the values of variables that the program was given as secrets: what it prints may end in Git."""
        for name, value in self._program.environ.items():
            if len(value) >= _SHORTEST_SECRET and is_secret_name(name):
                text = text.replace(value, MASK)
        return text

    def resident_bytes(self) -> int:
        """Memory it holds; 0 where that cannot be known."""
        try:
            with open(f"/proc/{self._process.pid}/statm", "rb") as file:  # noqa: PTH123 - the cheap way, 20 times a second
                return int(file.read().split()[1]) * _PAGE
        except (OSError, IndexError):  # no /proc, or ended just now
            return 0

    def _hear(self, stream: IO[bytes] | None, into: bytearray) -> None:
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, into)

    def _turn(self, deadline: float, seconds: float) -> None:
        """Read and write what is ready; wait for it only briefly."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise PredictorUnavailable(f"{self._program.name} gave no answer within {seconds:g} s")
        for key, _ in self._selector.select(min(left, _GLANCE_SECONDS)):
            if key.fileobj is self._process.stdin:
                self._write(key.fd)
            else:
                self._read(key)
        if (held := self.resident_bytes()) > self._program.memory_bytes:
            raise PredictorUnavailable(
                f"{self._program.name} took {held >> 20} MiB of memory, over its cap of "
                f"{self._program.memory_bytes >> 20} MiB"
            )

    def _write(self, descriptor: int) -> None:
        try:
            self._unsent = self._unsent[os.write(descriptor, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has ended, or closed its ear: an answer may come yet, or the deadline
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._selector.unregister(descriptor)

    def _read(self, key: selectors.SelectorKey) -> int:
        """Read once what is there; return how much."""
        try:
            chunk = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            self._selector.unregister(key.fileobj)
        key.data.extend(chunk)
        if key.data is self._tail:
            del self._tail[:-_TAIL]
        return len(chunk)

    def _drain(self) -> None:
        """Read what it left in the pipes, no more than they hold: others may write into them still."""
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._process.stdin:
                for _ in range(_MOST_CHUNKS):
                    if not self._read(key):
                        break

    def _last_words(self) -> str:
        message = self.message()
        return f"ended without an answer{f': {message}' if message else ''}"


_SHORTEST_SECRET = 6
_MOST_CHUNKS = 32  # 2 MiB: more than a pipe holds
