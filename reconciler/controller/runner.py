"""`ChildRunner`: each pass runs in a process of its own, so that one source cannot stop, block or starve another."""

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from reconciler.adapters.process import ChildCommand, ChildProcess, ProcessError
from reconciler.controller.outcome import PassFailure, PassOutcome, failure
from reconciler.controller.reconcile import Request
from reconciler.errors import OutsideError, one_line

_GRACE_SECONDS = 15.0  # after the time limit of the source, within which the child reports by itself
_ANSWER_BYTES = 8 << 20


class ChildRunner:
    """Runs passes as child processes of this program. Safe to use from any thread.

    `folder` holds their temporary files, such as keys, which a pass that is killed cannot remove. A pass begins only
    while `leads` returns True; when that changes, `interrupt` is called.
    """

    def __init__(
        self, environ: Mapping[str, str], *, folder: Path, memory_bytes: int, leads: Callable[[], bool] = lambda: True
    ) -> None:
        self._environ, self._folder, self._memory, self._leads = environ, folder, memory_bytes, leads
        self._children: dict[str, ChildProcess] = {}  # by key of the source: one pass at a time for each
        self._lock = threading.Lock()
        self._is_stopping = False

    def run(self, request: Request) -> PassOutcome:
        """Make one pass; a child that fails or takes too long is a failure of the pass."""
        try:
            scratch = TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True)
        except OSError as error:
            return PassOutcome(failure=failure(OutsideError(f"{self._folder} cannot be written: {error.strerror}")))
        with scratch as name:
            return self._run(request, name)

    def _run(self, request: Request, scratch: str) -> PassOutcome:
        command = ChildCommand(
            name=f"the pass over {request.source.key}",
            argv=(sys.executable, "-P", "-m", "reconciler", "controller", "--pass"),
            folder=self._folder,
            environ={**self._environ, "TMPDIR": scratch},
            memory_bytes=self._memory,
        )
        try:
            child = ChildProcess(command, interactive=True)
        except ProcessError as error:
            return PassOutcome(failure=PassFailure(reason="InternalError", message=error.message))
        with self._lock:
            self._children[request.source.key] = child
        try:
            if self._is_stopping or not self._leads():
                child.ask_to_end()
            line = msgspec.json.encode(request) + b"\n"
            seconds = request.source.timeout + _GRACE_SECONDS
            answer = child.exchange(line, seconds=seconds, max_bytes=_ANSWER_BYTES)
            return msgspec.json.decode(answer, type=PassOutcome)
        except ProcessError as error:
            return PassOutcome(failure=PassFailure(reason="PassFailed", message=error.message))
        except msgspec.MsgspecError:
            text = one_line(child.last_message()) or "no answer"
            return PassOutcome(failure=PassFailure(reason="InternalError", message=text))
        finally:
            with self._lock:
                del self._children[request.source.key]
            child.end()

    def interrupt(self) -> None:
        """Ask all running passes to end."""
        with self._lock:
            for child in self._children.values():
                child.ask_to_end()

    def stop(self) -> None:
        """Ask all passes to end: those that run, and those that start later."""
        self._is_stopping = True
        self.interrupt()
