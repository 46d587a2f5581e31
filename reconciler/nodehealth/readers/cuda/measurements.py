"""The measurements of one GPU: copies over PCI Express, memory traffic, arithmetic, copies between GPUs.

Each returns a value for JSON, with the best and the median of its samples: GB/s, or 10^12 operations a second (spin).
They share a budget of time: when it is used up, no further sample is taken, but one is always taken.
"""

import ctypes
import math
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_double, c_float, c_uint32, c_uint64, c_void_p
from typing import Any

from reconciler.nodehealth.readers.cuda.device import CudaDevice, median
from reconciler.nodehealth.readers.cuda.driver import MissingKernel
from reconciler.nodehealth.readers.cuda.kernels import (
    MEMORY_PTX,
    RECORD_BYTES,
    SCALE,
    SPIN_THREADS,
    THREADS,
    SpinKernel,
    spin_kernels,
)

COPY_BYTES = 256 << 20
MEMORY_BYTES = 1 << 30
"""The least size of each of the two vectors; with a large cache, four times the cache."""
FREE_BYTES = 5 << 29
"""2.5 GiB, below which a GPU is not tested."""
SAMPLES = 3
WARM_UPS = 3
LAUNCHES = 20
_BLOCKS_PER_SM = 8
_MAX_SAMPLE = 0.3  # seconds of a sample of a spin kernel
_REPEATS = 4  # copies in a sample

Fields = dict[str, Any]


class Budget:
    """Seconds that a GPU may be tested. `has_more` is False once they are used up."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def has_more(self) -> bool:
        """True if there is time for another sample."""
        return time.monotonic() < self._end


def copies(device: CudaDevice, budget: Budget, *, is_to_device: bool, is_pinned: bool = True) -> Fields:
    """Measure copies in one direction, and look at the link while they run. Checks use pinned memory of the host."""
    link: dict[str, int] = {}
    with device.pinned(COPY_BYTES) if is_pinned else pageable(COPY_BYTES) as host, device.memory(COPY_BYTES) as memory:

        def once() -> None:
            for _ in range(_REPEATS):
                if is_to_device:
                    device.copy_in(memory, host, COPY_BYTES)
                else:
                    device.copy_out(host, memory, COPY_BYTES)

        def sample() -> float:
            return _REPEATS * COPY_BYTES / device.seconds(once, lambda: link.update(device.link())) / 1e9

        device.clear(memory, COPY_BYTES)
        return {**_samples(sample, budget), "bytes": COPY_BYTES, "link": link}


@contextmanager
def pageable(size: int) -> Iterator[c_void_p]:
    """Allocate memory of the host that is not pinned, for contrast."""
    buffer = ctypes.create_string_buffer(size)
    yield ctypes.cast(buffer, c_void_p)


def daxpy(device: CudaDevice, budget: Budget, least_bytes: int = MEMORY_BYTES) -> Fields:
    """Measure the memory bandwidth of y = 3x + y, and count the elements of y that are wrong in the end."""
    facts = device.facts()
    size = -(-max(least_bytes, 4 * facts["l2Bytes"]) // 4096) * 4096
    count, blocks = size // 8, facts["sms"] * _BLOCKS_PER_SM
    launched = 0
    module, compile_ms = _compiled(device, MEMORY_PTX)
    fill, kernel, check = (device.kernel(module, name) for name in ("fill", "daxpy", "count_wrong"))
    with device.memory(size) as x, device.memory(size) as y, device.memory(8) as counter:
        device.launch(fill, blocks, THREADS, c_uint64(x), c_uint64(y), c_uint64(count))

        def once() -> None:
            nonlocal launched
            for _ in range(LAUNCHES):
                device.launch(kernel, blocks, THREADS, c_double(SCALE), c_uint64(x), c_uint64(y), c_uint64(count // 2))
            launched += LAUNCHES

        measured = _samples(lambda: LAUNCHES * 3 * size / device.seconds(once) / 1e9, budget)
        device.clear(counter, 8)
        total = c_double(SCALE * launched)
        device.launch(check, blocks, THREADS, total, c_uint64(y), c_uint64(count), c_uint64(counter))
        (wrong,) = struct.unpack("<Q", device.read(counter, 8))
    return {**measured, "bytes": size, "launches": launched, "mismatches": wrong, "compileMs": round(compile_ms, 3)}


def spin(device: CudaDevice, budget: Budget, name: str, soak_seconds: float = 0.0) -> Fields:
    """Measure a spin kernel: its rate, the clock, the slowest multiprocessor, and the sums that are wrong.

    With `soak_seconds` it takes samples for that long, and tells the first and the last ones only.
    """
    facts = device.facts()
    kernel = dict(spin_kernels(facts["major"])).get(name)
    if kernel is None:
        raise MissingKernel(f"no kernel for {name} on compute capability {facts['major']}.{facts['minor']}")
    blocks = facts["sms"]
    threads = blocks * SPIN_THREADS
    module, compile_ms = _compiled(device, kernel.ptx)
    compiled = device.kernel(module, kernel.name)
    left, right = _operand(kernel, kernel.left), _operand(kernel, kernel.right)
    wrong: set[int] = set()
    mismatches = 0
    sums_bytes, records_bytes = threads * kernel.value_bytes, blocks * RECORD_BYTES
    with device.memory(sums_bytes) as sums, device.memory(records_bytes) as records:

        def once(launches: int) -> float:
            def launch() -> None:
                for _ in range(launches):
                    arguments = (c_uint64(sums), c_uint64(records), c_uint32(kernel.steps), left, right)
                    device.launch(compiled, blocks, SPIN_THREADS, *arguments)

            return device.seconds(launch)

        launches = max(1, min(LAUNCHES, int(_MAX_SAMPLE / once(1))))
        operations = kernel.operations * threads * kernel.steps * launches
        rows: list[tuple[int, ...]] = []

        def sample() -> float:
            nonlocal mismatches
            rate = operations / once(launches) / 1e12
            rows[:] = struct.iter_unpack("<4Q", device.read(records, records_bytes))
            bad = wrong_sums(device.read(sums, sums_bytes), kernel)
            mismatches += len(bad)
            wrong.update(rows[position // SPIN_THREADS][0] for position in bad)
            return rate

        measured = _soak(sample, soak_seconds) if soak_seconds else _samples(sample, budget)
    return {
        **measured,
        "unit": kernel.unit,
        "launches": launches,
        "mismatches": mismatches,
        "wrongSms": sorted(wrong),
        "compileMs": round(compile_ms, 3),
        **multiprocessors(rows, kernel.operations * SPIN_THREADS * kernel.steps),
    }


def peer(device: CudaDevice, other: CudaDevice, budget: Budget) -> Fields:
    """Measure copies to another GPU. `direct` is False if they pass through the host."""
    is_direct = device.reaches(other)
    other.use()
    with other.memory(COPY_BYTES) as target:
        device.use()
        with device.memory(COPY_BYTES) as source:
            device.clear(source, COPY_BYTES)

            def once() -> None:
                for _ in range(_REPEATS):
                    device.copy_to(other, target, source, COPY_BYTES)

            measured = _samples(lambda: _REPEATS * COPY_BYTES / device.seconds(once) / 1e9, budget)
    return {**measured, "bytes": COPY_BYTES, "direct": is_direct}


def wrong_sums(raw: bytes, kernel: SpinKernel) -> list[int]:
    """Return the positions of sums that differ from what is due, bit by bit."""
    due = struct.pack("<d" if kernel.value == "f64" else "<f", kernel.due(kernel.steps))
    if raw == due * (len(raw) // len(due)):
        return []
    return [place // len(due) for place in range(0, len(raw), len(due)) if raw[place : place + len(due)] != due]


def multiprocessors(rows: Sequence[tuple[int, ...]], operations: int) -> Fields:
    """Return clock, operations per clock, and how the slowest multiprocessor compares with the median.

    `rows` are the records of the blocks; `operations` is the work of one. Multiprocessors that ran more than one block
    are left out, unless none ran only one.
    """
    blocks: dict[int, list[tuple[int, ...]]] = {}
    for row in rows:
        blocks.setdefault(row[0], []).append(row)
    alone = {unit: mine[0] for unit, mine in blocks.items() if len(mine) == 1}
    cycles = {unit: row[1] for unit, row in alone.items() if row[1] > 0}
    if not cycles:
        return {"sms": len(blocks), "smsAlone": 0}
    middle = median(list(cycles.values()))
    slowest = max(cycles, key=lambda unit: (cycles[unit], unit))
    clocks = [row[1] / (row[3] - row[2]) * 1000 for row in alone.values() if row[3] > row[2]]
    found: Fields = {
        "sms": len(blocks),
        "smsAlone": len(cycles),
        "flopPerClock": round(operations / middle, 3),
        "slowestSm": slowest,
        "slowestPart": round(middle / cycles[slowest], 5),
    }
    if clocks:
        found["clockMhz"] = round(median(clocks), 1)
    return found


def _compiled(device: CudaDevice, ptx: str) -> tuple[c_void_p, float]:
    """Compile a text of kernels; return the module, and the milliseconds that it took."""
    start = time.monotonic()
    module = device.compile(ptx)
    return module, (time.monotonic() - start) * 1000


def _samples(sample: Callable[[], float], budget: Budget) -> Fields:
    """Warm up, then take samples: at most three of each, and at least one sample."""
    for _ in range(WARM_UPS):
        if not budget.has_more:
            break
        sample()
    values: list[float] = []
    while len(values) < SAMPLES and (not values or budget.has_more):
        value = sample()
        if not math.isfinite(value):
            raise ValueError("a rate is not a number")
        values.append(round(value, 4))
    return {"best": max(values), "median": round(median(values), 4), "samples": values}


def _soak(sample: Callable[[], float], seconds: float) -> Fields:
    """Take samples for some time. The last ones show whether heat or power slowed the GPU down."""
    time_left = Budget(seconds)
    values = [round(sample(), 4)]
    while time_left.has_more:
        values.append(round(sample(), 4))
    first, last = values[:SAMPLES], values[-SAMPLES:]
    return {
        "best": max(values),
        "median": round(median(values), 4),
        "first": round(median(first), 4),
        "last": round(median(last), 4),
        "samples": last,
        "count": len(values),
    }


def _operand(kernel: SpinKernel, value: float) -> Any:
    if kernel.operand == "f64":
        return c_double(value)
    return c_float(value) if kernel.operand == "f32" else ctypes.c_uint32(int(value))
