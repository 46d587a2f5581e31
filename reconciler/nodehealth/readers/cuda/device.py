"""One opened GPU: memory, kernels, and the time of what it is asked to do."""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_float, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from reconciler.nodehealth.readers.cuda.driver import CudaDriver, CudaError

_ATTRIBUTES = {"sms": 16, "memoryClockKhz": 36, "busBits": 37, "l2Bytes": 38, "major": 75, "minor": 76}
"""Numbers of `CUdevice_attribute`."""
_PORTABLE = 1  # of cuMemHostAlloc
_PEER_IS_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED


class CudaDevice:
    """A GPU by its slot, with its primary context as the current one. `root` is where sysfs is found."""

    def __init__(self, driver: CudaDriver, slot: str, root: Path = Path("/")) -> None:
        self.driver = driver
        self.slot = slot
        self.folder = root / "sys/bus/pci/devices" / slot
        self.number = driver.integer("cuDeviceGetByPCIBusId", slot.encode())
        self.context = driver.handle("cuDevicePrimaryCtxRetain", self.number)
        self.use()

    def use(self) -> None:
        """Make this GPU the one that calls are about."""
        self.driver.call("cuCtxSetCurrent", self.context)

    def close(self) -> None:
        """Give back the context; a GPU in error refuses, and the end of the process frees it then."""
        with suppress(CudaError):
            self.driver.call("cuDevicePrimaryCtxRelease_v2", self.number)

    def facts(self) -> dict[str, int]:
        """Return the size of the GPU: multiprocessors, cache, memory, clocks."""
        number = {
            name: self.driver.integer("cuDeviceGetAttribute", attribute, self.number)
            for name, attribute in _ATTRIBUTES.items()
        }
        free, total = c_size_t(), c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        driver = c_int()
        self.driver.call("cuDriverGetVersion", ctypes.byref(driver))
        return {**number, "freeBytes": free.value, "totalBytes": total.value, "cudaVersion": driver.value}

    @contextmanager
    def memory(self, size: int) -> Iterator[int]:
        """Allocate memory of the GPU."""
        address = c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), size)
        try:
            yield address.value
        finally:
            with suppress(CudaError):  # an error of the GPU has been reported by the call that met it
                self.driver.call("cuMemFree_v2", address.value)

    @contextmanager
    def pinned(self, size: int) -> Iterator[c_void_p]:
        """Allocate pinned memory of the host, on the NUMA node of the CPU that this process runs on."""
        address = self.driver.handle("cuMemHostAlloc", size, _PORTABLE)
        try:
            yield address
        finally:
            with suppress(CudaError):  # a GPU in error refuses: see `close`
                self.driver.call("cuMemFreeHost", address)

    def compile(self, ptx: str) -> c_void_p:
        """Compile a text of kernels; the module stays loaded until the process ends."""
        return self.driver.handle("cuModuleLoadDataEx", ptx.encode("ascii"), 0, None, None)

    def kernel(self, module: c_void_p, name: str) -> c_void_p:
        """Return a kernel of a module."""
        return self.driver.handle("cuModuleGetFunction", module, name.encode("ascii"))

    def launch(self, kernel: c_void_p, blocks: int, threads: int, *arguments: Any) -> None:
        """Queue a kernel."""
        self.driver.launch(kernel, blocks, threads, arguments)

    def copy_in(self, device: int, host: Any, size: int) -> None:
        """Queue a copy from the host."""
        self.driver.call("cuMemcpyHtoDAsync_v2", device, host, size, None)

    def copy_out(self, host: Any, device: int, size: int) -> None:
        """Queue a copy to the host."""
        self.driver.call("cuMemcpyDtoHAsync_v2", host, device, size, None)

    def clear(self, device: int, size: int) -> None:
        """Queue zeros."""
        self.driver.call("cuMemsetD32Async", device, 0, size // 4, None)

    def finish(self) -> None:
        """Wait until everything that was queued is done."""
        self.driver.call("cuCtxSynchronize")

    def read(self, device: int, size: int) -> bytes:
        """Copy memory of the GPU and wait for it."""
        buffer = ctypes.create_string_buffer(size)
        self.copy_out(ctypes.cast(buffer, c_void_p), device, size)
        self.finish()
        return buffer.raw

    def reaches(self, other: "CudaDevice") -> bool:
        """Return whether this GPU may access the memory of another, and allow it."""
        if not self.driver.integer("cuDeviceCanAccessPeer", self.number, other.number):
            return False
        self.use()
        try:
            self.driver.call("cuCtxEnablePeerAccess", other.context, 0)
        except CudaError as error:
            if error.code != _PEER_IS_ENABLED:
                raise
        return True

    def copy_to(self, other: "CudaDevice", target: int, source: int, size: int) -> None:
        """Queue a copy to another GPU."""
        self.driver.call("cuMemcpyPeerAsync", target, other.context, source, self.context, size, None)

    def seconds(self, work: Callable[[], None], meanwhile: Callable[[], None] | None = None) -> float:
        """Return the time between two events around queued work; `meanwhile` is done while the GPU is busy."""
        start, end = (self.driver.handle("cuEventCreate", 0) for _ in range(2))
        try:
            self.driver.call("cuEventRecord", start, None)
            work()
            self.driver.call("cuEventRecord", end, None)
            if meanwhile is not None:
                meanwhile()
            self.driver.call("cuEventSynchronize", end)
            elapsed = c_float()
            self.driver.call("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
        finally:
            for event in (start, end):
                with suppress(CudaError):  # as above
                    self.driver.call("cuEventDestroy_v2", event)
        if not elapsed.value > 0:
            raise ValueError(f"the GPU measured {elapsed.value} ms")
        return elapsed.value / 1000

    def stay_near(self, wanted: str = "") -> str:
        """Move this process to the CPUs of the GPU's NUMA node and return them; empty if unknown or not allowed.

        `wanted` names other CPUs, as `0-3,8`.
        """
        try:
            text = wanted or (self.folder / "local_cpulist").read_text().strip()
            near = cpus(text) & os.sched_getaffinity(0)
            os.sched_setaffinity(0, near)
        except (OSError, ValueError):  # no sysfs, or no CPU of that node is ours
            return ""
        return text

    def link(self) -> dict[str, int]:
        """Return generation and width of the PCI Express link as sysfs tells them now, and the most they can be.

        The most is limited by the port that the GPU is plugged into, one folder up.
        """
        found = {}
        for name, current, most in (
            ("generation", "current_link_speed", "max_link_speed"),
            ("width", "current_link_width", "max_link_width"),
        ):
            value = _of_link(name, self.folder / current)
            limits = [_of_link(name, place / most) for place in (self.folder, self.folder.resolve().parent)]
            if value:
                found[name] = value
            if known := [limit for limit in limits if limit]:
                found[f"max{name.capitalize()}"] = min(known)
        return found


_SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""Generations by GT/s of a lane."""
_MAX_LANES = 32  # PCIe defines no wider link


def _of_link(name: str, path: Path) -> int:
    """Return a generation or a width; 0 if it is unknown. Virtual machines write 0 or 255 lanes, or `Unknown`."""
    try:
        text = path.read_text().split()[0]
    except (OSError, IndexError):
        return 0
    if name == "generation":
        return _SPEEDS.get(text if "." in text else f"{text}.0", 0)
    return int(text) if text.isdecimal() and int(text) <= _MAX_LANES else 0


def cpus(text: str) -> set[int]:
    """Return the numbers of a list such as `0-3,8`."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
