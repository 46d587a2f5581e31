"""NVML through the real binding, in a real child process, on a fake library built with the system's compiler."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readers.library import LibrarySource
from reconciler.nodehealth.readings import (
    GpuIdentity,
    NodeReading,
    ReadError,
    ReadingId,
    SourceReadings,
    Sweep,
    make_sweep,
)

FIRST, SECOND = "0000:10:00.0", "0000:11:00.0"
_BUS = SourceReadings(
    readings=(
        NodeReading(name=ReadingId("sysfs.pci_gpus"), value=[{"slot": FIRST}, {"slot": SECOND}]),
        NodeReading(name=ReadingId("procfs.uptime"), value=9000.0),
    )
)


@contextmanager
def source(environ: Mapping[str, str], *, seconds: float = 10.0) -> Iterator[LibrarySource]:
    found = LibrarySource("nvml", environ=environ, call_seconds=seconds)
    try:
        yield found
    finally:
        found.close()


def sweep_of(one: LibrarySource, at: float = 1.0) -> Sweep:
    return make_sweep("node-1", at, one.read(ProbeProfile.LIGHT, SourceReadings()).plus(_BUS))


def read(environ: Mapping[str, str], **settings: str) -> Sweep:
    with source({**environ, **{f"FAKE_{name}": value for name, value in settings.items()}}) as one:
        return sweep_of(one)


def statuses(sweep: Sweep, slot: str, **options: object) -> dict[str, HealthFinding]:
    return {found.check: found for found in judge(sweep, **options) if found.slot == slot}  # type: ignore[arg-type]


def test_a_sound_node(environ: dict[str, str]) -> None:
    """All values come through the binding with their types; every GPU passes."""
    sweep = read(environ, GPUS="8")
    assert [gpu.slot for gpu in sweep.gpus] == [f"0000:{0x10 + index:02x}:00.0" for index in range(8)]
    assert sweep.gpus[3] == GpuIdentity(
        slot="0000:13:00.0", index=3, uuid="GPU-fa4e0000-0000-0000-0000-000000000003", serial="1654000003",
        product="NVIDIA H200",
    )  # fmt: skip
    assert (sweep.vendor, sweep.driver) == ("nvidia", "580.65.06")
    assert all(reading.milliseconds >= 0 for reading in sweep.readings)
    found = judge(sweep, expected=NodeExpectation(gpus=8))
    assert not [one for one in found if one.slot and one.status in {CheckStatus.FAIL, CheckStatus.WARN}]


@pytest.mark.parametrize(
    ("code", "error", "status"),
    [
        (2, ReadError.FAILED, CheckStatus.UNKNOWN),  # a wrong argument is our error, and no pass
        (3, ReadError.NOT_SUPPORTED, CheckStatus.SKIP),
        (4, ReadError.NO_PERMISSION, CheckStatus.SKIP),
        (10, ReadError.DEADLINE, CheckStatus.UNKNOWN),
        (13, ReadError.NOT_SUPPORTED, CheckStatus.SKIP),
        (14, ReadError.CORRUPTED_INFOROM, CheckStatus.UNKNOWN),
        (15, ReadError.GPU_LOST, CheckStatus.UNKNOWN),
        (16, ReadError.RESET_REQUIRED, CheckStatus.UNKNOWN),
        (25, ReadError.NOT_SUPPORTED, CheckStatus.SKIP),
        (999, ReadError.FAILED, CheckStatus.UNKNOWN),
        (12345, ReadError.FAILED, CheckStatus.UNKNOWN),
    ],
)
def test_codes_of_nvml(environ: dict[str, str], code: int, error: ReadError, status: CheckStatus) -> None:
    """A code of one call is an error of one reading: the check that needs it never passes."""
    sweep = read(environ, ERROR_nvmlDeviceGetEnforcedPowerLimit_1=str(code))
    reading = sweep.find(ReadingId("nvml.power_limit"), SECOND)
    assert reading is not None
    assert reading.error is error
    assert str(code) in reading.detail
    found = statuses(sweep, SECOND)
    assert found["power.limit"].status is status
    expected = {15: CheckStatus.FAIL, 16: CheckStatus.FAIL, 10: CheckStatus.UNKNOWN}.get(code, CheckStatus.PASS)
    assert found["gpu.reachable"].status is expected
    assert found["inforom"].status is (CheckStatus.WARN if code == 14 else CheckStatus.PASS)
    assert statuses(sweep, FIRST)["power.limit"].status is CheckStatus.PASS


@pytest.mark.parametrize(
    ("code", "expected", "status"),
    [
        (9, None, CheckStatus.UNKNOWN),
        (9, 8, CheckStatus.FAIL),
        (12, None, CheckStatus.UNKNOWN),
        (18, None, CheckStatus.WARN),
        (999, None, CheckStatus.UNKNOWN),
    ],
)
def test_nvml_cannot_start(environ: dict[str, str], code: int, expected: int | None, status: CheckStatus) -> None:
    """The driver is not loaded, or was upgraded: nothing passes, and no GPU is blamed."""
    sweep = read(environ, ERROR_nvmlInit=str(code))
    found = judge(sweep, expected=NodeExpectation(gpus=expected))
    assert found[0].check == "nvml.init"
    assert found[0].status is status
    of_gpus = [one for one in found if one.check.startswith(("remap", "ecc", "power", "gpu.r"))]
    assert {one.status for one in of_gpus} == {CheckStatus.UNKNOWN}


def test_traffic_is_told_in_bytes_as_far_as_the_driver_counts_it(environ: dict[str, str]) -> None:
    """NVLink counts KiB, PCIe bytes; energy is a function that older drivers lack."""
    sweep = read(environ, VALUE_FIELD138="5", VALUE_FIELD139="1", VALUE_FIELD198="7")
    traffic, energy = sweep.find(ReadingId("nvml.traffic"), FIRST), sweep.find(ReadingId("nvml.energy"), FIRST)
    assert traffic is not None
    assert energy is not None
    assert (traffic.value, energy.error) == ({"nvlink": 6144, "pcie": 7}, ReadError.NOT_SUPPORTED)
    silent = read(environ).find(ReadingId("nvml.traffic"), FIRST)
    assert silent is not None
    assert silent.error is ReadError.NOT_SUPPORTED


def test_a_missing_library(environ: dict[str, str], tmp_path: Path) -> None:
    """Without the library, NVML is unknown; where Git says that there are GPUs, it fails."""
    sweep = read({**environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert judge(sweep, only=["nvml.init"])[0].status is CheckStatus.UNKNOWN
    assert judge(sweep, only=["nvml.init"], expected=NodeExpectation(gpus=8))[0].status is CheckStatus.FAIL


def test_an_old_driver_lacks_functions(environ: dict[str, str], old_library: Path) -> None:
    """A function that is missing is SKIP, never PASS."""
    found = statuses(read({**environ, "LD_LIBRARY_PATH": str(old_library)}), FIRST)
    for check in ("gpu.recovery_action", "ecc.sram", "mem.repair", "fabric.state", "temp.margin", "pcie.errors"):
        assert found[check].status is CheckStatus.SKIP, check
    assert found["temp.core"].status is CheckStatus.PASS
    assert found["remap.failure"].status is CheckStatus.PASS


def test_remapped_rows_with_mig(environ: dict[str, str]) -> None:
    """With MIG on, NVML has no remapped rows: SKIP, also where the fields answer."""
    found = statuses(
        read(environ, VALUE_MIG_0="1", VALUE_MIG_PENDING_0="1", ERROR_nvmlDeviceGetRemappedRows_0="3"), FIRST
    )
    assert {found[f"remap.{name}"].status for name in ("pending", "failure", "count")} == {CheckStatus.SKIP}


def test_a_lost_gpu_keeps_its_slot(environ: dict[str, str]) -> None:
    """A GPU that gives no handle tells no bus id: the slot that is left over on the PCI bus is its own."""
    sweep = read(environ, ERROR_nvmlDeviceGetHandleByIndex_0="15")
    assert [gpu.slot for gpu in sweep.gpus] == [FIRST, SECOND]
    assert sweep.gpus[0].uuid == ""
    found = statuses(sweep, FIRST)
    assert found["gpu.reachable"].status is CheckStatus.FAIL
    assert found["remap.failure"].status is CheckStatus.UNKNOWN
    assert statuses(sweep, SECOND)["gpu.reachable"].status is CheckStatus.PASS


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex_0", "nvmlDeviceGetTemperature_0"])
def test_a_gpu_hangs(environ: dict[str, str], function: str) -> None:
    """UNKNOWN in time, then FAIL after three sweeps; the other GPU is read each time, and the parent lives."""
    history: list[Sweep] = []
    with source({**environ, f"FAKE_HANG_{function}": "1"}, seconds=1.0) as one:
        for number, status in enumerate((CheckStatus.UNKNOWN, CheckStatus.UNKNOWN, CheckStatus.FAIL)):
            start = time.monotonic()
            sweep = sweep_of(one, at=60.0 * number)
            assert time.monotonic() - start < 30
            found = statuses(sweep, FIRST, history=tuple(history))
            assert found["gpu.reachable"].status is status, found["gpu.reachable"].message
            assert CheckStatus.PASS not in {found[name].status for name in ("temp.margin", "power.limit", "throttle")}
            assert statuses(sweep, SECOND)["power.limit"].status is CheckStatus.PASS
            history.append(sweep)


def test_nvml_hangs_at_once(environ: dict[str, str]) -> None:
    """A hang of the whole library is the node's; nothing is known about GPUs."""
    history: list[Sweep] = []
    with source({**environ, "FAKE_HANG_nvmlInit": "1"}, seconds=1.0) as one:
        for number, status in enumerate((CheckStatus.UNKNOWN, CheckStatus.UNKNOWN, CheckStatus.FAIL)):
            sweep = sweep_of(one, at=60.0 * number)
            (found,) = judge(sweep, history=history, only=["nvml.init"])
            assert found.status is status
            history.append(sweep)


def test_a_crash_of_the_library_is_a_reading(environ: dict[str, str]) -> None:
    """A library that ends its process is unknown, and takes nothing else with it."""
    with source(environ) as one:
        assert sweep_of(one).gpus
        child = one._child._process
        assert child is not None
        child.kill()
        child.wait()
        sweep = sweep_of(one)
        assert judge(sweep, only=["nvml.init"])[0].status is CheckStatus.UNKNOWN
        assert judge(sweep_of(one), only=["nvml.init"])[0].status is CheckStatus.PASS


def test_a_stuck_child_is_not_asked_again(environ: dict[str, str]) -> None:
    """A child that no signal ends is left alone: its GPU counts as silent, and no second one hangs beside it."""
    settings = {"FAKE_HANG_nvmlDeviceGetTemperature_0": "1"}
    with source({**environ, **settings}, seconds=1.0) as one:
        one._child.abandon = lambda: _detach(one)  # type: ignore[method-assign] # the kernel's D state
        sweep_of(one)
        (stuck,) = one._stuck.values()
        start = time.monotonic()
        sweep = sweep_of(one)
        assert time.monotonic() - start < 20
        assert list(one._stuck.values()) == [stuck]
        assert statuses(sweep, FIRST)["gpu.reachable"].status is CheckStatus.UNKNOWN
        assert statuses(sweep, SECOND)["power.limit"].status is CheckStatus.PASS
        del one._child.abandon
        stuck.kill()
        stuck.wait()
        for stream in (stuck.stdin, stuck.stdout):
            assert stream is not None
            stream.close()


def _detach(one: LibrarySource) -> subprocess.Popen[bytes] | None:
    process, one._child._process = one._child._process, None
    return process
