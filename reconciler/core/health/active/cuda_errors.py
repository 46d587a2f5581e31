"""Errors of the CUDA driver that are evidence: after them a process cannot use its GPU any more."""

from reconciler.core.health.readings import NodeReading

UNCORRECTABLE_ECC = 214
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
"""What happened, by code (`CUresult`). The kernels of the tests cause none of it on a healthy GPU."""


def sticky_code(reading: NodeReading) -> int:
    """Return the code of an error after which the GPU cannot be used by its process; 0 if it is none."""
    code = reading.value.get("code") if reading.error is not None and isinstance(reading.value, dict) else None
    return code if isinstance(code, int) and code in STICKY else 0
