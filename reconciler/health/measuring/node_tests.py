"""Tests that an agent makes beside its sweeps: as part of a deep run of its node, or because somebody asks for one."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from reconciler.clock import Clock
from reconciler.errors import one_line
from reconciler.nodehealth.findings import HealthFinding
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId

FRESH_SECONDS = 30.0
"""A test that ended this short a time ago is not made again."""

Test = Callable[[SweepResult | None], NodeReading]
"""Makes a test, and returns its reading. It gets the last sweep, which tells whether the GPUs are idle."""

Judge = Callable[[SweepResult, Collection[NodeReading]], tuple[HealthFinding, ...]]
"""Judges readings of tests together with a sweep."""


class NodeTests:
    """The tests of one node by the ids of their checks. Each runs in a thread of its own, one at a time."""

    def __init__(self, tests: Mapping[str, Test], judge: Judge, clock: Clock, *, deep: Collection[str] = ()) -> None:
        """`deep` are those that belong to a deep run."""
        self._tests, self._judge, self._clock = dict(tests), judge, clock
        self.deep = tuple(deep)
        self._running: dict[str, threading.Thread] = {}
        self._ended: dict[str, float] = {}
        self._readings: dict[str, NodeReading] = {}
        self._lock = threading.Lock()

    def begin(self, checks: Iterable[str], last: SweepResult | None) -> None:
        """Start tests, unless they run or have just ended. Checks that are none of the tests are left out."""
        with self._lock:
            for check in checks:
                ended = self._ended.get(check)
                is_fresh = ended is not None and self._clock.elapsed() - ended < FRESH_SECONDS
                if check in self._tests and check not in self._running and not is_fresh:
                    thread = threading.Thread(target=self._run, args=(check, last), name=check, daemon=True)
                    self._running[check] = thread
                    thread.start()

    def wait(self, checks: Iterable[str], seconds: float) -> tuple[str, ...]:
        """Wait until tests have ended, or for this long; return those that still run."""
        deadline = self._clock.elapsed() + seconds
        for check in checks:
            thread = self._running.get(check)
            if thread is not None:
                thread.join(max(deadline - self._clock.elapsed(), 0))
        return tuple(check for check in checks if check in self._running)

    def findings(self, last: SweepResult) -> tuple[HealthFinding, ...]:
        """Return what the tests say that have ended since the last call."""
        with self._lock:
            readings, self._readings = self._readings, {}
        return self._judge(last, readings.values()) if readings else ()

    def _run(self, check: str, last: SweepResult | None) -> None:
        try:
            reading = self._tests[check](last)
        except Exception as error:  # noqa: BLE001 - a test that breaks is a reading without a value
            detail = one_line(f"{type(error).__name__}: {error}")
            reading = NodeReading(name=ReadingId(check), error=ReadError.FAILED, detail=detail)
        with self._lock:
            self._readings[check] = reading
            self._ended[check] = self._clock.elapsed()
            self._running.pop(check, None)
