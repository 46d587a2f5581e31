"""The child process of one GPU's tests: `python -m reconciler.nodehealth.readers.cuda.child`.

It reads requests and writes answers, one line of JSON each, until its input ends. The first request opens a GPU. An
error of the GPU is an answer, too: the process is expected to die with its GPU, and the parent to outlive it.
"""

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from reconciler.nodehealth.active.plans import STICKY
from reconciler.nodehealth.readers.cuda import measurements
from reconciler.nodehealth.readers.cuda.device import CudaDevice
from reconciler.nodehealth.readers.cuda.driver import (
    LIBRARY,
    CudaDriver,
    CudaError,
    MissingFunction,
    MissingKernel,
    MissingLibrary,
)
from reconciler.nodehealth.readers.cuda.kernels import spin_kernels
from reconciler.nodehealth.readers.cuda.measurements import Budget, Fields

_OF_CODES = {
    46: "busy",  # another process has the GPU for itself
    100: "no_driver",  # no device: hidden, or the driver did not find it
    3: "no_driver",  # not initialised
    803: "driver_mismatch",
    101: "not_supported",  # no such device
    801: "not_supported",
}
"""The `ReadError` of a code of the driver, where it is not `failed`."""

_PARENT_DEATH_SIGNAL, _SIGKILL = 1, 9  # PR_SET_PDEATHSIG of prctl(2), and the signal

Request = dict[str, Any]


class GpuSession:
    """The GPU that is open, and its budget of time."""

    def __init__(self, request: Request) -> None:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        self._driver = CudaDriver(request.get("library", LIBRARY))
        self._root = Path(request.get("root", "/"))
        self._budget = Budget(float(request["seconds"]))
        self.device = CudaDevice(self._driver, request["slot"], self._root)
        self.near = self.device.stay_near(request.get("cpus", ""))

    def opened(self) -> Fields:
        """Return the size of the GPU and the link as it is without load."""
        return {**self.device.facts(), "cpus": self.near, "idleLink": self.device.link()}

    def measure(self, request: Request) -> Fields:
        """Make the measurement that a request names."""
        name = request["test"]
        self.device.use()
        match name:
            case "h2d" | "d2h" | "h2d_pageable" | "d2h_pageable":
                is_pinned = not name.endswith("pageable")
                to_device = name.startswith("h2d")
                return measurements.copies(self.device, self._budget, is_to_device=to_device, is_pinned=is_pinned)
            case "daxpy":
                return measurements.daxpy(self.device, self._budget, request.get("bytes", measurements.MEMORY_BYTES))
            case "peer":
                return self._peer(request["other"])
            case "soak":
                major = self.device.facts()["major"]
                hottest, _ = spin_kernels(major)[-1]
                return measurements.spin(self.device, self._budget, hottest, float(request["seconds"]))
            case _:
                return measurements.spin(self.device, self._budget, name)

    def _peer(self, slot: str) -> Fields:
        other = CudaDevice(self._driver, slot, self._root)
        try:
            return measurements.peer(self.device, other, self._budget)
        finally:
            other.close()


class LowMemory(Exception):
    """Too little memory of the GPU is free for the tests."""


def _open(request: Request) -> tuple[GpuSession, Fields]:
    session = GpuSession(request)
    facts = session.opened()
    if facts["freeBytes"] < measurements.FREE_BYTES:
        free = facts["freeBytes"] / (1 << 30)
        raise LowMemory(f"only {free:.2f} GiB of GPU memory are free, 2.5 are needed")
    return session, facts


def _error(error: Exception) -> Fields:
    """Return an error as a reading has it."""
    match error:
        case CudaError():
            detail = f"{error} ({STICKY[error.code]})" if error.code in STICKY else str(error)
            value = {"code": error.code, "call": error.call}
            return {"error": _OF_CODES.get(error.code, "failed"), "detail": detail, "value": value}
        case MissingLibrary():
            kind = "no_library"
        case MissingFunction() | MissingKernel():
            kind = "not_supported"
        case LowMemory():
            kind = "busy"
        case _:
            kind = "failed"
    return {"error": kind, "detail": str(error)}


def _end_with_parent() -> None:
    """Let the kernel kill this process when its parent dies: nobody else would stop a test that runs."""
    parent = os.getppid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PARENT_DEATH_SIGNAL, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent has ended")


def main() -> None:
    """Answer until the input ends."""
    _end_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is a message, not an answer
    session: GpuSession | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if session is None:
                session, value = _open(request)
            else:
                value = session.measure(request)
            answer: Fields = {"value": value}
        except (CudaError, MissingLibrary, MissingFunction, MissingKernel, LowMemory, ValueError) as error:
            answer = _error(error)
        answers.write(json.dumps(answer, sort_keys=True) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
