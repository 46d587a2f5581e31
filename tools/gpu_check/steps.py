"""The steps of the run. Each returns figures; one that fails says so in them and hides no other."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec.structs import replace

from reconciler.clock import SystemClock
from reconciler.health.node import node_name, node_sources, peak_table, xid_table
from reconciler.health.probe import take_sweep, write_replay
from reconciler.nodehealth.active.plans import PLANS, obstacle
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import ReadingId, Sweep
from reconciler.sizing.peaks import memory_peak_gbs
from tools.gpu_check.figures import noise, percentile
from tools.gpu_check.machine import Machine, figure

Figures = dict[str, Any]
GIB = 1 << 30
_NOBODY = 65534
_UNDER_LOAD = (
    ReadingId.NVML_CLOCK_SM, ReadingId.NVML_CLOCKS_EVENT_REASONS, ReadingId.NVML_POWER_USAGE,
    ReadingId.NVML_TEMPERATURE, ReadingId.NVML_TEMPERATURE_MARGIN, ReadingId.NVML_MEMORY_TEMPERATURE,
    ReadingId.NVML_PCIE_GENERATION, ReadingId.NVML_PERFORMANCE_STATE, ReadingId.NVML_UTILIZATION,
)  # fmt: skip


def record(machine: Machine) -> Figures:
    """Record every reading of an idle machine, then those of the tests on all idle GPUs, for `probe --replay`."""
    idle = machine.sweep()
    tests = PLANS[ProbeProfile.PREFLIGHT].gpu_tests
    slots = [gpu.slot for gpu in idle.gpus if obstacle(idle.readings, gpu.slot) is None]
    measured = [
        reading
        for slot in slots
        for reading in machine.test(tests, slot=slot, peers=[other for other in slots if other != slot])
    ]
    sweep = replace(idle, readings=idle.readings + tuple(measured))
    (machine.folder / "replay.json").write_bytes(write_replay([idle, sweep]))
    findings = judge(sweep, peaks=peak_table(), xids=xid_table(), profile=ProbeProfile.PREFLIGHT)
    return {
        "gpus": [gpu.product for gpu in idle.gpus],
        "driver": idle.driver,
        "readings": len(sweep.readings),
        "without a value": {f"{row.name} {row.slot}".strip(): str(row.error) for row in sweep.readings if row.error},
        "findings": {f"{row.check} {row.slot}".strip(): f"{row.status}: {row.message}" for row in findings},
    }


def sweep_cost(machine: Machine) -> Figures:
    """Measure time and processor of a light sweep, the slowest readings, and what sweeps cost work on the GPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.process_time()
    sweeps: list[Sweep] = []
    seconds: list[float] = []
    with _sources(machine) as again:
        for _ in range(machine.times(100)):
            began = time.monotonic()
            sweeps.append(again())
            seconds.append(time.monotonic() - began)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time() - start
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    by_name: dict[str, list[float]] = {}
    for reading in (reading for sweep in sweeps for reading in sweep.readings):
        by_name.setdefault(reading.name, []).append(reading.milliseconds)
    middle = {name: round(percentile(values, 0.5), 3) for name, values in by_name.items()}
    soak = {"test": "soak", "seconds": 10 * machine.scale}
    alone = machine.best(soak, 1)[0]
    with _sources(machine) as again, _repeated(again):
        beside = machine.best(soak, 1)[0]
    return {
        "p50 ms": round(1000 * percentile(seconds, 0.5), 1),
        "p99 ms": round(1000 * percentile(seconds, 0.99), 1),
        "first ms": round(1000 * seconds[0], 1),
        "processor ms a sweep": round(1000 * (own + children) / len(seconds), 2),
        "slowest readings, ms": dict(sorted(middle.items(), key=lambda row: -row[1])[:10]),
        "rate of work without sweeps, with sweeps": [alone, beside],
        "part that sweeps cost": round(1 - beside / alone, 5),
    }


def link(machine: Machine) -> Figures:
    """Measure generation and width idle and under load, copies both ways, pageable memory, the other NUMA nodes."""
    device, loaded = machine.test(["h2d"])
    idle = device.value.get("idleLink") if isinstance(device.value, dict) else None
    busy = loaded.value.get("link") if isinstance(loaded.value, dict) else None
    found: Figures = {"idle": idle, "under load": busy}
    for name in ("h2d", "d2h"):
        found[f"{name}, pinned"] = noise(machine.best(name, machine.times(10)))
        found[f"{name}, pageable"] = noise(machine.best(f"{name}_pageable", 2))
    own = device.value.get("cpus") if isinstance(device.value, dict) else ""
    for path in sorted((machine.root / "sys/devices/system/node").glob("node[0-9]*/cpulist")):
        cpus = path.read_text().strip()
        if cpus and cpus != own:
            found[f"h2d from {path.parent.name}"] = machine.best("h2d", 2, cpus=cpus)
    return found


def memory(machine: Machine) -> Figures:
    """Measure vectors of 1, 4 and 16 GiB, and which peak they come close to: the data sheet's or the formula's."""
    sweep = machine.sweep()
    (device,) = machine.test([])
    found: Figures = {}
    for gib in (1, 4, 16):
        if figure(device, "freeBytes") > 2.2 * gib * GIB:
            readings = machine.test([{"test": "daxpy", "bytes": gib * GIB}] * machine.times(5))[1:]
            found[f"{gib} GiB"] = {
                **noise([figure(reading, "best") for reading in readings]),
                "wrong": sum(figure(reading, "mismatches") for reading in readings),
            }
    best = max(row["mean"] for row in found.values())
    product = next((gpu.product for gpu in sweep.gpus if gpu.slot == machine.slot), "")
    known = peak_table().gpu(product)
    clock, bits = (
        sweep.find(name, machine.slot) for name in (ReadingId.NVML_CLOCK_MEMORY_MAX, ReadingId.NVML_MEMORY_BUS_WIDTH)
    )
    if known is not None:
        found["data sheet GB/s, part reached"] = [known.bandwidth_gbs, round(best / known.bandwidth_gbs, 4)]
    if clock is not None and bits is not None and isinstance(clock.value, int) and isinstance(bits.value, int):
        peak = memory_peak_gbs(clock.value, bits.value)
        found["clock and bus GB/s, part reached"] = [peak, round(best / peak, 4)]
    return found


def arithmetic(machine: Machine) -> Figures:
    """Run the spin kernels: rate, multiprocessors, time to compile, and whether results are the same in every run."""
    found: Figures = {}
    for name in ("fp64", "bf16", "fp32"):
        readings = machine.test([name] * machine.times(20))[1:]
        first = readings[0]
        if first.error is not None or not isinstance(first.value, dict):
            found[name] = first.detail or str(first.error)
            continue
        found[name] = {
            **noise([figure(reading, "best") for reading in readings]),
            "wrong": sum(figure(reading, "mismatches") for reading in readings),
            "slowest multiprocessor": noise([figure(reading, "slowestPart") for reading in readings]),
            **{
                key: first.value.get(key)
                for key in ("unit", "clockMhz", "flopPerClock", "sms", "smsAlone", "compileMs")
            },
        }
    return found


def soak(machine: Machine) -> Figures:
    """Watch a minute of load and the time after it: clocks, power, temperature, reasons to throttle."""
    rows: list[Figures] = []
    start = time.monotonic()
    load: list[float] = []

    def work() -> None:
        (reading,) = machine.test([{"test": "soak", "seconds": 60 * machine.scale}])[1:]
        load.extend((figure(reading, "first"), figure(reading, "last"), figure(reading, "mismatches")))

    worker = threading.Thread(target=work)
    with _sources(machine) as again:
        worker.start()
        cool = 30 * machine.scale
        ended: float | None = None
        while ended is None or time.monotonic() - ended < cool:
            sweep = again()
            read = ((name.value.removeprefix("nvml."), sweep.find(name, machine.slot)) for name in _UNDER_LOAD)
            row = {name: found.value for name, found in read if found is not None}
            rows.append({"second": round(time.monotonic() - start, 1), "loaded": worker.is_alive(), **row})
            if not worker.is_alive() and ended is None:
                ended = time.monotonic()
            time.sleep(2 * machine.scale)
    if not load:
        raise ValueError("the load did not run")
    return {"rate first, last": load[:2], "wrong": load[2], "series": rows}


def repeated(machine: Machine) -> Figures:
    """Repeat each measurement for its noise: the input of the statistics that compare GPUs."""
    return {
        name: noise(machine.best(name, machine.times(50)))
        for name in ("h2d", "d2h", "daxpy", "fp64", "bf16")
        if machine.left > 0
    }


def refused(machine: Machine) -> Figures:
    """Try what must be refused: a GPU in use, a hidden GPU; and what a user without rights can read."""
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    hidden = machine.test(["h2d"], environ=environ)[0]
    with _load(machine):
        found = _until(machine, lambda sweep: obstacle(sweep.readings, machine.slot) is not None)
    return {
        "hidden by CUDA_VISIBLE_DEVICES": f"{hidden.error}: {hidden.detail}",
        "in use": obstacle(found.readings, machine.slot),
        "as another user": _unprivileged(),
    }


def killed(machine: Machine) -> Figures:
    """Kill a test, which leaves no process on the GPU."""
    with _load(machine) as child:
        _until(machine, lambda sweep: obstacle(sweep.readings, machine.slot) is not None)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    start = time.monotonic()
    sweep = _until(machine, lambda sweep: obstacle(sweep.readings, machine.slot) is None)
    return {"left": obstacle(sweep.readings, machine.slot), "seconds until idle": round(time.monotonic() - start, 2)}


STEPS: tuple[tuple[str, Callable[[Machine], Figures]], ...] = (
    ("record", record),
    ("sweep cost", sweep_cost),
    ("link", link),
    ("memory", memory),
    ("arithmetic", arithmetic),
    ("noise", repeated),
    ("refused", refused),
    ("killed", killed),
    ("soak", soak),
)


@contextmanager
def _sources(machine: Machine) -> Iterator[Callable[[], Sweep]]:
    """Keep the sources of a light sweep open, as the agent does."""
    sources = node_sources(os.environ, root=machine.root)
    try:
        yield lambda: take_sweep(sources, node_name(os.environ), SystemClock())
    finally:
        for source in sources:
            source.close()


@contextmanager
def _repeated(again: Callable[[], Sweep]) -> Iterator[None]:
    """Sweep all the time while the block runs."""
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            again()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def _load(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """Use the GPU from another process while the block runs."""
    code = (
        "import sys, pathlib; from tools.gpu_check.machine import Machine; "
        "Machine(pathlib.Path(), library=sys.argv[1], root=pathlib.Path(sys.argv[2]), slot=sys.argv[3])"
        ".test([{'test': 'soak', 'seconds': 60}])"
    )
    argv = (sys.executable, "-c", code, machine.library, str(machine.root), machine.slot)
    child = subprocess.Popen(argv, start_new_session=True)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        child.wait()


def _until(machine: Machine, wanted: Callable[[Sweep], bool], seconds: float = 20.0) -> Sweep:
    """Sweep until something shows, or the time is over; return the last sweep."""
    deadline = time.monotonic() + seconds * max(machine.scale, 0.2)
    while True:
        sweep = machine.sweep()
        if wanted(sweep) or time.monotonic() > deadline:
            return sweep
        time.sleep(0.2)


def _unprivileged() -> object:
    """Return which readings another user cannot make; only root can find out."""
    if os.geteuid() != 0:
        return "not tried: this run is not by root"
    argv = (sys.executable, "-m", "reconciler", "probe", "-o", "json")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            argv, user=_NOBODY, group=_NOBODY, extra_groups=[], env=environ, capture_output=True, text=True, check=False
        )
    except OSError as problem:
        return f"not tried: another user cannot run this Python: {problem}"
    return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-300:]}"
