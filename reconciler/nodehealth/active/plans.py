"""The plan of each profile: tests besides the light sweep, their limits of time, and the GPUs that may be tested."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep

UNCORRECTABLE_ECC = 214  # CUDA_ERROR_ECC_UNCORRECTABLE
STICKY = {
    UNCORRECTABLE_ECC: "an uncorrectable memory error",
    700: "an illegal address",
    702: "a kernel that did not finish",
    710: "a device-side assertion",
    714: "a hardware stack error",
    715: "an illegal instruction",
    716: "a misaligned address",
    717: "an invalid address space",
    718: "an invalid program counter",
    719: "a failed launch",
    999: "an unknown error",
}
"""The meaning of codes (`CUresult`). The kernels of the tests cause none of it on a healthy GPU."""


def sticky_code(reading: NodeReading) -> int:
    """Return the code of an error after which the GPU cannot be used by its process; 0 if it is none."""
    code = reading.value.get("code") if reading.error is not None and isinstance(reading.value, dict) else None
    return code if isinstance(code, int) and code in STICKY else 0


_ALL = ("h2d", "d2h", "daxpy", "fp64", "bf16", "fp32")


class ProfilePlan(Struct, frozen=True, kw_only=True):
    """A profile. `gpu_tests` run on each GPU, one GPU after the other, within `budget` seconds of samples each.

    `soak_seconds` of arithmetic come on top. A GPU that does not answer is given up after `deadline` seconds more.
    `diag_level` is that of `dcgmi diag`; 0 is none. `purpose` and `duration` are for people.
    """

    profile: ProbeProfile
    purpose: str
    duration: str
    gpu_tests: tuple[str, ...] = ()
    has_peers: bool = False
    soak_seconds: float = 0.0
    budget: float = 5.0
    deadline: float = 30.0
    diag_level: int = 0


_LONG = {"gpu_tests": _ALL, "has_peers": True, "soak_seconds": 120.0, "budget": 20.0, "deadline": 90.0}
_RETURN, _PROOF = (
    "an idle or cordoned node, before it returns to service",
    "evidence for a replacement; started by a person",
)
_AFTER = "after a job: the same tests, and what the counters say since it started"
_ROWS: tuple[tuple[ProbeProfile, str, str, dict[str, Any]], ...] = (
    (ProbeProfile.LIGHT, "what the driver and the kernel report; no GPU time", "< 1 s", {}),
    (ProbeProfile.PREFLIGHT, "before a job, on its own GPUs", "5 to 20 s", {"gpu_tests": _ALL}),
    (ProbeProfile.POSTFLIGHT, _AFTER, "5 to 20 s", {"gpu_tests": _ALL}),
    (ProbeProfile.DEEP, _RETURN, "2 to 30 min", {**_LONG, "diag_level": 3}),
    (ProbeProfile.RMA, "evidence for a replacement; started by a person", "1 to 2 h", {**_LONG, "diag_level": 4}),
)
PLANS = {
    profile: ProfilePlan(profile=profile, purpose=purpose, duration=duration, **more)
    for profile, purpose, duration, more in _ROWS
}


def obstacles(sweep: Sweep | None) -> Iterator[tuple[ReadError, str]]:
    """Yield why the GPUs of a node must not be tested now, by its last sweep."""
    if sweep is None:
        yield ReadError.FAILED, "no sweep has finished yet"
        return
    for gpu in sweep.gpus:
        if (found := obstacle(sweep.readings, gpu.slot)) is not None:
            yield found


def obstacle(readings: Sequence[NodeReading], slot: str) -> tuple[ReadError, str] | None:
    """Return why a GPU must not be tested now: in use, MIG on, or not known to be idle. None: it may be tested."""
    found = {reading.name: reading for reading in readings if reading.slot == slot}
    mig = found.get(ReadingId.NVML_MIG_MODE)
    if mig is not None and isinstance(mig.value, dict) and mig.value.get("current") == 1:
        return ReadError.NOT_SUPPORTED, "MIG is on"
    processes = found.get(ReadingId.NVML_PROCESSES)
    if processes is None or processes.error is not None or not isinstance(processes.value, list):
        detail = "nvml.processes was not read" if processes is None else processes.detail or str(processes.error)
        return ReadError.FAILED, f"not tested: the GPU may be in use ({detail})"
    if processes.value:
        pids = ", ".join(str(row.get("pid")) for row in processes.value if isinstance(row, dict))
        return ReadError.BUSY, f"in use by process {pids}"
    return None
