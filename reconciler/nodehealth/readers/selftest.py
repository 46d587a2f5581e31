"""The parent of the GPU tests: one child process for each GPU, with a deadline. All that it gets are readings.

A GPU in error ends its child's use of it, and that error is the evidence; a child that does not answer is killed, and
the tests after it are readings without a value. Nothing here sets a clock, a limit or a mode.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from reconciler.nodehealth.active.plans import PLANS, ProfilePlan, obstacle, sticky_code
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.cuda.driver import LIBRARY
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings, Value
from reconciler.processes import ChildCommand, ChildProcess, ProcessUnavailable, without_credentials

_MEMORY_BYTES = 1 << 50  # no limit: a driver maps all memory of all GPUs
_ANSWER_BYTES = 1 << 20


class SelfTestLimits(Struct, frozen=True, kw_only=True):
    """Seconds of one GPU: after `budget` no further sample is taken, after `deadline` its process is killed."""

    budget: float = 5.0
    deadline: float = 30.0


_LIMITS = SelfTestLimits()


class GpuSelfTest:
    """Tests of the GPUs of this machine, one GPU at a time: they share links and power."""

    def __init__(
        self,
        *,
        limits: SelfTestLimits = _LIMITS,
        library: str = LIBRARY,
        root: Path = Path("/"),
        environ: Mapping[str, str] = os.environ,
        cpus: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._library = library
        self._root = root
        self._cpus = cpus
        # CUDA's own order begins with the fastest GPU.
        self._environ = {**without_credentials(environ), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        self._clock = clock

    def read(
        self, slot: str, tests: Sequence[str | Mapping[str, Value]], peers: Sequence[str] = ()
    ) -> Iterator[NodeReading]:
        """Yield the readings of one GPU, and of copies from it to `peers`, which become one reading.

        A test is a name, or a request with its name in `test` and its parameters.
        """
        child = ChildProcess(self._command(), interactive=True)
        deadline = self._clock() + self._limits.deadline
        try:
            talk = _Conversation(child, slot, deadline, self._clock)
            yield talk.ask(
                "device",
                {
                    "test": "open",
                    "slot": slot,
                    "seconds": self._limits.budget,
                    "library": self._library,
                    "root": str(self._root),
                    "cpus": self._cpus,
                },
            )
            for test in tests:
                request = {"test": test} if isinstance(test, str) else test
                yield talk.ask(str(request["test"]), request)
            if peers:
                yield _of_peers(slot, {peer: talk.ask("peer", {"test": "peer", "other": peer}) for peer in peers})
        finally:
            child.end()

    def _command(self) -> ChildCommand:
        return ChildCommand(
            name="the test of a GPU",
            # -P: no module of the current folder is imported instead.
            argv=(sys.executable, "-P", "-m", "reconciler.nodehealth.readers.cuda.child"),
            folder=Path("/"),
            environ=self._environ,
            memory_bytes=_MEMORY_BYTES,
        )


class _Conversation:
    """Questions to the child of one GPU. After an error that ends the use of the GPU, the rest is not asked."""

    def __init__(self, child: ChildProcess, slot: str, deadline: float, clock: Callable[[], float]) -> None:
        self._child = child
        self._slot = slot
        self._deadline = deadline
        self._clock = clock
        self._stopped: NodeReading | None = None

    def ask(self, test: str, request: Mapping[str, Value]) -> NodeReading:
        """Ask for one measurement."""
        name = ReadingId(f"cuda.{test}")
        if self._stopped is not None:
            return self._not_run(name, self._stopped)
        start = self._clock()
        try:
            line = json.dumps(request).encode() + b"\n"
            answer = self._child.exchange(line, seconds=max(0.0, self._deadline - start), max_bytes=_ANSWER_BYTES)
            found = json.loads(answer)
        except ProcessUnavailable as problem:
            is_late = not self._child.has_exited()
            error = ReadError.DEADLINE if is_late else ReadError.FAILED
            reading = NodeReading(name=name, slot=self._slot, error=error, detail=str(problem))
            self._stopped = reading
            return reading
        error_text = found.get("error")
        reading = NodeReading(
            name=name,
            slot=self._slot,
            value=found.get("value"),
            error=ReadError(error_text) if error_text else None,
            detail=found.get("detail", ""),
            milliseconds=round((self._clock() - start) * 1000, 3),
        )
        if reading.error is not None and (name == ReadingId.CUDA_DEVICE or sticky_code(reading)):
            self._stopped = reading
        return reading

    def _not_run(self, name: ReadingId, stopped: NodeReading) -> NodeReading:
        """Return why a test was not run: the GPU is in use or unusable for the same reason as before."""
        is_verdict = stopped.error in (ReadError.DEADLINE, ReadError.FAILED)
        error = ReadError.FAILED if is_verdict else stopped.error
        return NodeReading(name=name, slot=self._slot, error=error, detail=f"not run: {stopped.detail}")


def _of_peers(slot: str, readings: Mapping[str, NodeReading]) -> NodeReading:
    """Merge the copies to several GPUs; the first error that ended the use of the GPU is that of the reading."""
    value: dict[str, Value] = {
        peer: reading.value if reading.error is None else {"error": reading.error.value, "detail": reading.detail}
        for peer, reading in readings.items()
    }
    total = sum(reading.milliseconds for reading in readings.values())
    broken = next((reading for reading in readings.values() if sticky_code(reading)), None)
    if broken is None and all(reading.error is not None for reading in readings.values()):
        broken = next(iter(readings.values()))
    if broken is not None:
        return NodeReading(
            name=ReadingId.CUDA_PEER, slot=slot, value=broken.value, error=broken.error, detail=broken.detail
        )
    return NodeReading(name=ReadingId.CUDA_PEER, slot=slot, value=value, milliseconds=round(total, 3))


class SelfTestSource:
    """The tests of a profile as a source: those of every GPU that the sources before it found idle."""

    name = "cuda"

    def __init__(
        self,
        *,
        library: str = LIBRARY,
        root: Path = Path("/"),
        environ: Mapping[str, str] = os.environ,
        plans: Mapping[ProbeProfile, ProfilePlan] = PLANS,
    ) -> None:
        self._library, self._root, self._environ, self._plans = library, root, environ, plans

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:
        """Test the GPUs one after the other. A profile without tests reads nothing."""
        plan = self._plans[profile]
        if not plan.gpu_tests:
            return SourceReadings()
        limits = SelfTestLimits(budget=plan.budget, deadline=plan.deadline + plan.soak_seconds)
        tests: list[str | Mapping[str, Value]] = [*plan.gpu_tests]
        if plan.soak_seconds:
            tests.append({"test": "soak", "seconds": plan.soak_seconds})
        test = GpuSelfTest(limits=limits, library=self._library, root=self._root, environ=self._environ)
        readings: list[NodeReading] = []
        slots = [gpu.slot for gpu in before.gpus]
        obstacles = {slot: obstacle(before.readings, slot) for slot in slots}
        for slot in slots:
            blocked = obstacles[slot]
            if blocked is None:
                peers = [other for other in slots if other != slot and obstacles[other] is None]
                readings += test.read(slot, tests, peers if plan.has_peers else ())
            else:
                names = ["device", *plan.gpu_tests, *["soak"] * bool(plan.soak_seconds)]
                names += ["peer"] * (plan.has_peers and len(slots) > 1)
                error, detail = blocked
                readings += (
                    NodeReading(name=ReadingId(f"cuda.{name}"), slot=slot, error=error, detail=detail) for name in names
                )
        return SourceReadings(readings=tuple(readings))

    def close(self) -> None:
        """Do nothing: every child ended with its tests."""
