"""The machine under test: sweeps of it, tests on one of its GPUs, and time that runs out."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.clock import SystemClock
from reconciler.health.node import node_name, node_sources
from reconciler.health.probe import take_sweep
from reconciler.nodehealth.active.plans import obstacle
from reconciler.nodehealth.readers.cuda.driver import LIBRARY
from reconciler.nodehealth.readers.selftest import GpuSelfTest, SelfTestLimits
from reconciler.nodehealth.readings import NodeReading, ReadingId, Sweep, Value


class NoGpu(Exception):
    """There is no GPU to test: no driver, no GPU, or none that is idle."""


@dataclass
class Machine:
    """What the steps share. `scale` shortens every repetition and pause; figures of less than 1 mean nothing."""

    folder: Path
    library: str = LIBRARY
    root: Path = Path("/")
    scale: float = 1.0
    seconds: float = 540.0
    started: float = field(default_factory=time.monotonic)
    slot: str = ""

    @property
    def left(self) -> float:
        """Seconds until the run must end."""
        return self.seconds - (time.monotonic() - self.started)

    def times(self, count: int) -> int:
        """Return how often to repeat something."""
        return max(2, round(count * self.scale))

    def sweep(self) -> Sweep:
        """Read everything that is not a test, once."""
        sources = node_sources(os.environ, root=self.root)
        try:
            return take_sweep(sources, node_name(os.environ), SystemClock())
        finally:
            for source in sources:
                source.close()

    def choose(self) -> Sweep:
        """Choose the first idle GPU and return the sweep that showed it. Raises `NoGpu`."""
        sweep = self.sweep()
        reasons = []
        for gpu in sweep.gpus:
            blocked = obstacle(sweep.readings, gpu.slot)
            if blocked is None:
                self.slot = gpu.slot
                return sweep
            reasons.append(f"{gpu.slot}: {blocked[1]}")
        library = sweep.find(ReadingId.NVML_INIT)
        if library is not None and library.error is not None:
            raise NoGpu(f"no driver: {library.error.value}{f' ({library.detail})' if library.detail else ''}")
        raise NoGpu("; ".join(reasons) or "the driver knows no GPU")

    def test(
        self,
        tests: Sequence[str | Mapping[str, Value]],
        *,
        slot: str = "",
        peers: Sequence[str] = (),
        cpus: str = "",
        environ: Mapping[str, str] = os.environ,
    ) -> list[NodeReading]:
        """Run tests on a GPU, each with the full number of samples."""
        limits = SelfTestLimits(budget=1e6, deadline=max(10.0, self.left))
        test = GpuSelfTest(limits=limits, library=self.library, root=self.root, environ=environ, cpus=cpus)
        return list(test.read(slot or self.slot, tests, peers))

    def best(self, test: str | Mapping[str, Value], count: int, **more: Any) -> list[float]:
        """Return the best sample of each of several runs. Raises `ValueError` if one has no value."""
        return [figure(reading, "best") for reading in self.test([test] * count, **more)[1:]]


def figure(reading: NodeReading, key: str) -> float:
    """Return a number of a reading. Raises `ValueError` with the reason why there is none."""
    value = reading.value.get(key) if reading.error is None and isinstance(reading.value, dict) else None
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"{reading.name}: {reading.detail or reading.error or f'no {key}'}")
