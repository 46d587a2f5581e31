"""`Running`: a git that writes into a file, so that it works on while nobody reads."""

import os
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import IO

from reconciler.adapters.git import command
from reconciler.adapters.git.command import Git, end, failure, scratch, too_long

_GLANCE_SECONDS = 0.25  # how often the size of what it writes is looked at
_MODESTY = 3  # of nice(1): half of the time that its neighbour gets


class Running:
    """A started git; `output` waits for its end. Whoever drops it ends it.

    A `modest` one leaves the processor to whoever has other work meanwhile: git looks at files with many threads.
    """

    def __init__(
        self, git: Git, *arguments: str, data: bytes = b"", as_user: bool = False, modest: bool = False
    ) -> None:
        self._verb = arguments[0]
        self._output, self._errors = scratch(), scratch()  # closed by `drop`
        with ExitStack() as stack:
            given: IO[bytes] | int = subprocess.DEVNULL
            if data:
                given = stack.enter_context(scratch())
                given.write(data)
                given.seek(0)
            self._process = git.start(
                *arguments, stdin=given, stdout=self._output, stderr=self._errors, as_user=as_user
            )
        if modest:
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _MODESTY)
        self._deadline = time.monotonic() + command.DEADLINE_SECONDS

    def output(self, *, accept: Sequence[int] = (0,)) -> bytes:
        """Return all it printed. Raises `RepositoryError` where it failed, hung, or lists without end."""
        while not _ended(self._process, _GLANCE_SECONDS):
            if time.monotonic() > self._deadline:
                self._process.kill()
            self._refuse_too_long()
        self._refuse_too_long()
        if self._process.returncode not in accept:
            self._errors.seek(0)
            raise failure(self._verb, self._process.returncode, self._errors.read(65536))
        self._output.seek(0)
        return self._output.read()

    def _refuse_too_long(self) -> None:
        if os.fstat(self._output.fileno()).st_size > command.LISTING_BYTES:
            self.drop()
            raise too_long()

    def drop(self) -> None:
        """End it, whatever it is at."""
        end(self._process)
        self._output.close()
        self._errors.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never started
            self.drop()


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait without spinning where the system can tell the end of a process."""
    if process.poll() is None and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            watched = os.pidfd_open(process.pid)
            try:
                select.select([watched], [], [], seconds)
            finally:
                os.close(watched)
            return process.poll() is not None
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None
