"""The tests of a GPU through the real ctypes path, on a fake of the driver's library."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.active.plans import PLANS, sticky_code
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.cuda.device import cpus
from reconciler.nodehealth.readers.selftest import GpuSelfTest, SelfTestLimits, SelfTestSource
from reconciler.nodehealth.readings import GpuIdentity, NodeReading, ReadError, ReadingId, SourceReadings
from tests.nodehealth.readers.compiled import build

SLOT, OTHER = "0000:01:00.0", "0000:02:00.0"
COPIED = 4 * (256 << 20)  # bytes in a sample of copies
Read = Callable[..., dict[str, NodeReading]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("cuda", tmp_path_factory.mktemp("cuda") / "libcuda.so.1")


@pytest.fixture
def read(library: Path, tmp_path: Path) -> Read:
    """Run the tests of one GPU with settings of the fake."""

    def run(
        tests: Sequence[str] = ("h2d",),
        peers: Sequence[str] = (),
        *,
        used: Path = library,
        deadline: float = 30.0,
        budget: float = 5.0,
        **fake: object,
    ) -> dict[str, NodeReading]:
        environ = {**os.environ, **{f"FAKE_CUDA_{name}": str(value) for name, value in fake.items()}}
        limits = SelfTestLimits(budget=budget, deadline=deadline)
        test = GpuSelfTest(limits=limits, library=str(used), root=tmp_path, environ=environ)
        return {reading.name: reading for reading in test.read(SLOT, tests, peers)}

    return run


def _value(reading: NodeReading) -> dict[str, Any]:
    assert reading.error is None, reading.detail
    assert isinstance(reading.value, dict)
    return reading.value


def test_rates_are_bytes_by_time_of_the_best_sample(read: Read) -> None:
    """F-080: three warm-ups do not count; three samples do, of which the best and the median are told."""
    found = read(("h2d", "d2h", "daxpy"), MS_h2d="1,1,1,80,40,50", MS_d2h="1,1,1,20", MS_daxpy="1,1,1,30,15,20")
    assert _value(found[ReadingId("cuda.h2d")])["samples"] == [round(COPIED / ms / 1e6, 4) for ms in (80, 40, 50)]
    assert _value(found[ReadingId("cuda.h2d")])["best"] == pytest.approx(COPIED / 40 / 1e6, rel=1e-5)
    assert _value(found[ReadingId("cuda.h2d")])["median"] == pytest.approx(COPIED / 50 / 1e6, rel=1e-5)
    assert _value(found[ReadingId("cuda.d2h")])["best"] == pytest.approx(COPIED / 20 / 1e6, rel=1e-5)
    daxpy = _value(found[ReadingId("cuda.daxpy")])
    assert daxpy["best"] == pytest.approx(20 * 24 * (1 << 30) / 8 / 15 / 1e6, rel=1e-5)
    assert daxpy["bytes"] == 1 << 30
    assert daxpy["mismatches"] == 0
    assert daxpy["launches"] == 6 * 20


def test_vectors_are_four_times_the_cache(read: Read) -> None:
    assert _value(read(("daxpy",), L2=300 << 20)["cuda.daxpy"])["bytes"] == 1200 << 20


@pytest.mark.parametrize(("major", "names", "unit"), [(9, ("fp64", "bf16"), "tensor"), (7, ("fp64", "fp32"), "vector")])
def test_sums_of_another_program_are_those_that_are_due(
    read: Read, major: int, names: tuple[str, ...], unit: str
) -> None:
    """F-084: the fake adds step by step what the kernel adds; the closed form agrees to the last bit."""
    found = read(names, MAJOR=major)
    for name in names:
        value = _value(found[f"cuda.{name}"])
        assert (value["unit"], value["mismatches"], value["wrongSms"], value["smsAlone"]) == (unit, 0, [], 4)
        assert value["clockMhz"] == pytest.approx(1980, rel=1e-3)
        assert value["slowestPart"] == 1


def test_a_kernel_for_another_architecture_is_not_supported(read: Read) -> None:
    assert read(("bf16",), MAJOR=7)["cuda.bf16"].error is ReadError.NOT_SUPPORTED


def test_one_wrong_bit_shows_with_its_multiprocessor(read: Read) -> None:
    value = _value(read(("fp64",), WRONG_BLOCK=2)["cuda.fp64"])
    assert value["mismatches"] >= 1
    assert value["wrongSms"] == [2]
    assert _value(read(("daxpy",), WRONG=7)["cuda.daxpy"])["mismatches"] == 7


def test_a_slow_multiprocessor_shows(read: Read) -> None:
    value = _value(read(("bf16",), SLOW_SM=1)["cuda.bf16"])
    assert value["slowestSm"] == 1
    assert value["slowestPart"] == pytest.approx(1 / 1.1, rel=1e-3)


@pytest.mark.parametrize(
    ("fail", "name"),
    [
        ("cuDevicePrimaryCtxRetain=214", "cuda.device"),
        ("cuMemcpyHtoDAsync_v2@3=719", "cuda.h2d"),
        ("cuEventSynchronize@2=999", "cuda.h2d"),
    ],
)
def test_a_sticky_error_is_the_evidence_and_ends_the_tests(read: Read, fail: str, name: str) -> None:
    found = read(("h2d", "daxpy"), FAIL=fail)
    code = int(fail.partition("=")[2])
    assert found[name].error is ReadError.FAILED
    assert sticky_code(found[name]) == code
    assert str(code) in found[name].detail
    later = found[ReadingId("cuda.daxpy")]
    assert later.error is ReadError.FAILED
    assert later.detail.startswith("not run: ")
    assert sticky_code(later) == 0  # only the call that met it is evidence


def test_an_error_that_does_not_last_leaves_the_other_tests(read: Read) -> None:
    found = read(("h2d", "d2h"), FAIL="cuMemHostAlloc=2")
    assert found[ReadingId("cuda.h2d")].error is ReadError.FAILED
    assert found[ReadingId("cuda.d2h")].error is ReadError.FAILED
    assert "cuMemHostAlloc: 2" in found[ReadingId("cuda.d2h")].detail
    assert _value(read(("h2d", "fp64"), FAIL="cuMemHostAlloc=2")["cuda.fp64"])["mismatches"] == 0


def test_one_broken_gpu_does_not_hide_another(library: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "FAKE_CUDA_FAIL": "cuDevicePrimaryCtxRetain=214", "FAKE_CUDA_FAIL_SLOT": SLOT}
    test = GpuSelfTest(library=str(library), root=tmp_path, environ=environ)
    assert [reading.error for reading in test.read(SLOT, ("h2d",))] == [ReadError.FAILED, ReadError.FAILED]
    assert [reading.error for reading in test.read(OTHER, ("h2d",))] == [None, None]


def test_a_hang_ends_in_time(read: Read, tmp_path: Path) -> None:
    log = tmp_path / "log"
    start = time.monotonic()
    found = read(("h2d", "d2h", "daxpy"), HANG="cuMemcpyDtoHAsync_v2", LOG=log, deadline=5.0)
    assert time.monotonic() - start < 20
    assert found[ReadingId("cuda.h2d")].error is None
    assert found[ReadingId("cuda.d2h")].error is ReadError.DEADLINE
    assert found[ReadingId("cuda.daxpy")].detail.startswith("not run: the test of a GPU did not answer within")
    pid = int(log.read_text().split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_test_ends_with_its_parent(library: Path, tmp_path: Path) -> None:
    """A parent that is killed cannot end its child: the kernel does, also in the middle of a test."""
    log = tmp_path / "log"
    code = (
        "import sys; from reconciler.nodehealth.readers.selftest import GpuSelfTest\n"
        f"[*GpuSelfTest(library={str(library)!r}).read({SLOT!r}, [{{'test': 'soak', 'seconds': 60}}])]"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "FAKE_CUDA_LOG": str(log)})
    try:
        _wait(lambda: log.exists() and "cuLaunchKernel" in log.read_text(), "no test runs")
        pid = int(log.read_text().split()[0])
        assert pid != parent.pid
        os.kill(pid, 0)
    finally:
        parent.kill()
        parent.wait()
    _wait(
        lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2], "it lives"
    )


def _wait(condition: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


def test_the_budget_limits_the_samples(read: Read) -> None:
    assert len(_value(read(budget=0.0)["cuda.h2d"])["samples"]) == 1


def test_a_library_without_a_function_is_not_supported(read: Read, tmp_path: Path) -> None:
    old = build("cuda", tmp_path / "old.so", "-DWITHOUT_EVENTS")
    found = read(("h2d",), used=old)["cuda.h2d"]
    assert found.error is ReadError.NOT_SUPPORTED
    assert found.detail == "the driver has no cuEventElapsedTime"


def test_no_library_no_device_no_memory(read: Read, tmp_path: Path) -> None:
    assert read(used=tmp_path / "none.so")["cuda.device"].error is ReadError.NO_LIBRARY
    assert read(used=tmp_path / "none.so")["cuda.h2d"].error is ReadError.NO_LIBRARY
    assert read(GPUS=0)["cuda.device"].error is ReadError.NO_DRIVER
    busy = read(FREE_MIB=2559)
    assert {name: reading.error for name, reading in busy.items()} == dict.fromkeys(busy, ReadError.BUSY)
    assert "2.5" in busy["cuda.h2d"].detail
    assert read(FREE_MIB=2560)["cuda.h2d"].error is None
    assert read(FAIL="cuDevicePrimaryCtxRetain=46")["cuda.h2d"].error is ReadError.BUSY


def test_copies_between_gpus(read: Read) -> None:
    found = read((), (OTHER,), MS_peer="1,1,1,4,5,6")["cuda.peer"]
    assert _value(found)[OTHER]["best"] == pytest.approx(COPIED / 4 / 1e6, rel=1e-5)
    assert _value(found)[OTHER]["direct"] is True
    assert _value(read((), (OTHER,), NO_PEER=1)["cuda.peer"])[OTHER]["direct"] is False
    broken = read((), (OTHER,), FAIL="cuMemcpyPeerAsync=719")["cuda.peer"]
    assert (broken.error, sticky_code(broken)) == (ReadError.FAILED, 719)


def test_a_time_of_zero_is_no_rate(read: Read) -> None:
    assert read(MS_h2d="0")["cuda.h2d"].error is ReadError.FAILED
    assert read(MS_h2d="nan")["cuda.h2d"].error is ReadError.FAILED


def test_only_reading_and_measuring_functions_are_called(read: Read, tmp_path: Path) -> None:
    """No clock, limit or mode is set: the functions that could are never called, and everything allocated is freed."""
    log = tmp_path / "log"
    read(("h2d", "d2h", "daxpy", "fp64", "bf16"), (OTHER,), LOG=log)
    called = [line.split()[1] for line in log.read_text().splitlines()]
    assert not {name for name in called if "Set" in name} - {"cuCtxSetCurrent", "cuMemsetD32Async"}
    assert called.count("cuMemAlloc_v2") == called.count("cuMemFree_v2")
    assert called.count("cuMemHostAlloc") == called.count("cuMemFreeHost")
    assert called.count("cuEventCreate") == called.count("cuEventDestroy_v2")


def test_the_link_is_read_while_copies_run(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/pci0000:00/0000:00:01.0" / SLOT
    folder.mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices" / SLOT).symlink_to(folder)
    for place, generation, width in ((folder, "32.0 GT/s PCIe", "16"), (folder.parent, "16.0 GT/s PCIe", "8")):
        (place / "max_link_speed").write_text(f"{generation}\n")
        (place / "max_link_width").write_text(f"{width}\n")
    (folder / "current_link_speed").write_text("2.5 GT/s PCIe\n")
    (folder / "current_link_width").write_text("8\n")
    (folder / "local_cpulist").write_text(f"{min(os.sched_getaffinity(0))}\n")
    found = read()
    limits = {"generation": 1, "width": 8, "maxGeneration": 4, "maxWidth": 8}
    assert _value(found[ReadingId("cuda.h2d")])["link"] == limits
    assert _value(found[ReadingId("cuda.device")])["idleLink"] == limits
    assert _value(found[ReadingId("cuda.device")])["cpus"] == str(min(os.sched_getaffinity(0)))
    (folder / "current_link_width").write_text("255\n")  # what virtual machines may write
    (folder / "local_cpulist").write_text("100000\n")
    found = read()
    assert "width" not in _value(found[ReadingId("cuda.h2d")])["link"]
    assert _value(found[ReadingId("cuda.device")])["cpus"] == ""


def test_lists_of_cpus() -> None:
    assert cpus("0-3,8") == {0, 1, 2, 3, 8}
    with pytest.raises(ValueError, match="invalid literal"):
        cpus("")


def test_a_source_tests_idle_gpus_only(library: Path, tmp_path: Path) -> None:
    """Profile preflight tests each idle GPU; one in use, or with MIG on, or not known to be idle, is not touched."""
    log = tmp_path / "log"
    slots = [f"0000:0{number}:00.0" for number in range(1, 5)]
    busy: list[dict[str, Any]] = [{"pid": 7, "memory": None}]
    before = SourceReadings(
        gpus=tuple(GpuIdentity(slot=slot) for slot in slots),
        readings=(
            NodeReading(name=ReadingId("nvml.processes"), slot=slots[0], value=[]),
            NodeReading(name=ReadingId("nvml.processes"), slot=slots[1], value=busy),
            NodeReading(name=ReadingId("nvml.processes"), slot=slots[2], value=[]),
            NodeReading(name=ReadingId("nvml.mig_mode"), slot=slots[2], value={"current": 1, "pending": 1}),
        ),
    )
    environ = {**os.environ, "FAKE_CUDA_LOG": str(log)}
    plans = {**PLANS, ProbeProfile.DEEP: replace(PLANS[ProbeProfile.DEEP], soak_seconds=0.1)}
    source = SelfTestSource(library=str(library), root=tmp_path, environ=environ, plans=plans)
    found = source.read(ProbeProfile.PREFLIGHT, before).readings
    errors = {reading.slot: reading.error for reading in found if reading.name == "cuda.daxpy"}
    assert errors == dict(zip(slots, (None, ReadError.BUSY, ReadError.NOT_SUPPORTED, ReadError.FAILED), strict=True))
    assert len({line.split()[0] for line in log.read_text().splitlines()}) == 1  # one process, for the idle GPU
    assert not [reading for reading in found if reading.name == "cuda.peer"]
    assert source.read(ProbeProfile.LIGHT, before).readings == ()
    deep = source.read(ProbeProfile.DEEP, before).readings
    assert {reading.slot for reading in deep if reading.name == "cuda.peer"} == set(slots[1:])  # no peer is idle
    soaks = {reading.slot: reading for reading in deep if reading.name == "cuda.soak"}
    assert [reading.error for reading in soaks.values()] == list(errors.values())
    soak = _value(soaks[slots[0]])
    assert soak["mismatches"] == 0
    assert soak["count"] >= 1
    source.close()


def test_a_request_has_parameters(library: Path, tmp_path: Path) -> None:
    """Larger vectors, other processors, memory that is not pinned: for people who measure, not for checks."""
    cpu = str(min(os.sched_getaffinity(0)))
    test = GpuSelfTest(library=str(library), root=tmp_path, cpus=cpu)
    found = {
        reading.name: reading for reading in test.read(SLOT, ({"test": "daxpy", "bytes": 4 << 30}, "d2h_pageable"))
    }
    assert _value(found[ReadingId("cuda.device")])["cpus"] == cpu
    assert _value(found[ReadingId("cuda.daxpy")])["bytes"] == 4 << 30
    assert _value(found[ReadingId("cuda.d2h_pageable")])["best"] > 0
