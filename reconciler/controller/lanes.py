"""Rounds beside the passes: a thread that makes them, each in a child process, and tells the log what is new."""

import threading
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Protocol

from reconciler.console.logs import Log
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request
from reconciler.errors import ReconcilerError
from reconciler.kube.secrets import mask_text

INTERVAL_SECONDS = 15.0
_PAUSE = 1.0  # between two rounds, so that a burst of news is one round
_log = Log(__name__)


class RoundRunner(Protocol):
    """Makes rounds in child processes."""

    def run(self, request: Request) -> PassOutcome:
        """Make one round."""
        ...

    def stop(self) -> None:
        """Ask all rounds to end: those that run, and those that start later."""
        ...


class RoundLane:
    """A thread that makes rounds of one kind: of all sources that `find` returns, at every interval and after news."""

    def __init__(
        self,
        name: str,
        find: Callable[[], list[Request]],
        runner: RoundRunner,
        *,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._name, self._find, self._runner, self._interval = name, find, runner, interval
        self._stopping, self._news = threading.Event(), threading.Event()
        self._said: dict[str, tuple[str, str]] = {}
        self._threads = [threading.Thread(target=self._rounds, name=name, daemon=True)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End the rounds."""
        self._stopping.set()
        self._news.set()
        self._runner.stop()
        for thread in self._threads:
            thread.join(seconds)

    def found(self, requests: list[Request]) -> None:
        """Note the sources of the next rounds."""

    def took(self, request: Request, outcome: PassOutcome) -> None:
        """Note the outcome of a round."""

    def is_due(self, _: Request) -> bool:
        """Return whether a round is made now."""
        return True

    def pause(self) -> float:
        """Return the seconds until the next look, unless there is news."""
        return self._interval

    def _rounds(self) -> None:
        while not self._stopping.is_set():
            self._news.clear()
            for request in self._requests():
                if self.is_due(request) and not self._stopping.is_set():
                    self._round(request)
            self._stopping.wait(_PAUSE)
            self._news.wait(self.pause())

    def _requests(self) -> list[Request]:
        try:
            requests = self._find()
        except ReconcilerError as error:
            _log.event("error", f"{self._name} has no credentials", error=mask_text(str(error)))
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            _log.event("error", f"bug in {self._name}", error=mask_text(repr(error)))
        else:
            self.found(requests)
            return requests
        return []

    def _round(self, request: Request) -> None:
        outcome = self._runner.run(request)
        if self._stopping.is_set():
            return
        self.took(request, outcome)
        failed = outcome.failure
        said = (outcome.message, failed.message if failed is not None else "")
        if self._said.get(request.source.key) == said and not outcome.pushed:
            return  # nothing new
        self._said[request.source.key] = said
        _log.event(
            "info" if failed is None else "error",
            self._name,
            source=request.source.key,
            revision=outcome.revision,
            detail=outcome.message,
            pushed=outcome.pushed,
            reason=failed.reason if failed is not None else "",
            error=failed.message if failed is not None else "",
        )


class ReviewLane(RoundLane):
    """Rounds over open change requests, at the interval of each source, and at once after a webhook."""

    def __init__(self, find: Callable[[], list[Request]], runner: RoundRunner) -> None:
        super().__init__("change requests", find, runner)
        self._next: dict[str, float] = {}  # replaced, never changed: two threads use it

    def hint(self, key: str) -> None:
        """Look at a source soon."""
        self._next = {**self._next, key: 0.0}
        self._news.set()

    def found(self, requests: list[Request]) -> None:
        """Forget the times of other sources."""
        known = {request.source.key for request in requests}
        self._next = {key: at for key, at in self._next.items() if key in known}

    def is_due(self, request: Request) -> bool:
        """Return whether the interval of a source is over."""
        return monotonic() >= self._next.get(request.source.key, 0.0)

    def took(self, request: Request, _: PassOutcome) -> None:
        """Wait for the interval of the source."""
        self._next = {**self._next, request.source.key: monotonic() + request.source.interval}

    def pause(self) -> float:
        """Return the seconds until a source is due, or may be new."""
        return min(max(min(self._next.values(), default=inf) - monotonic(), 0.0), super().pause())
