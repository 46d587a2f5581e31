"""GPUs as the library of their vendor shows them, NVML or AMD SMI, in a child process where each call has a deadline.

A GPU that dies may block a call in the kernel. Its child is left behind, the GPU counts as silent until that child is
gone, and another child reads the other GPUs.
"""

import subprocess
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.calls import NODE
from reconciler.nodehealth.readers.child import ChildHang, ReadingChild, Record, kill
from reconciler.nodehealth.readings import (
    GpuIdentity,
    NodeReading,
    ReadError,
    ReadingId,
    SourceReadings,
    normal_slot,
    placeholder,
)

CALL_SECONDS, SWEEP_SECONDS = 10.0, 30.0
_MAX_GPUS = 256
_WORDS = frozenset(ReadError)
VENDORS = {"nvml": "nvidia", "amdsmi": "amd"}


class _Found(Struct):
    """The records and hangs of a sweep so far."""

    records: list[Record] = field(default_factory=list)
    hangs: dict[int, ChildHang] = field(default_factory=dict)

    def asked(self) -> list[int]:
        """Return the GPUs that need not be asked again."""
        known = {record["gpu"] for record in self.records if record["gpu"] != NODE}
        return sorted(known | set(self.hangs))


class LibrarySource:
    """`nvml` or `amdsmi` of this machine. Not thread-safe."""

    def __init__(
        self,
        name: str,
        *,
        environ: Mapping[str, str],
        call_seconds: float = CALL_SECONDS,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        self.name = name
        self._call_seconds, self._sweep_seconds = call_seconds, sweep_seconds
        self._child = ReadingChild(name, environ)
        self._stuck: dict[int, subprocess.Popen[bytes]] = {}  # by the GPU where each hangs
        self._known: dict[int, Record] = {}  # identities of earlier sweeps, for GPUs that hang now

    def start(self) -> None:
        """Start the child now, so that it loads while the caller does something else."""
        self._child.start()

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Call all functions once. Returns within the deadline of a sweep, whatever hangs."""
        found = _Found()
        deadline = time.monotonic() + self._sweep_seconds
        self._stuck = {gpu: process for gpu, process in self._stuck.items() if process.poll() is None}
        for gpu in self._stuck:
            at = {"gpu": gpu, "call": "init" if gpu == NODE else "handle"}
            found.hangs[gpu] = ChildHang(at, "a call from an earlier sweep is still stuck in the kernel")
        while NODE not in found.hangs and self._ask(found, deadline):
            pass
        return readings_of(self.name, found.records, found.hangs, self._known)

    def close(self) -> None:
        """End the children, without waiting for those that hang."""
        self._child.abandon()
        for process in self._stuck.values():
            kill(process)

    def _ask(self, found: _Found, deadline: float) -> bool:
        """Ask a child for all GPUs that have not answered. Return whether one hung and others are left to ask."""
        request = {"skip": found.asked()}
        try:
            for record in self._child.ask(request, call_seconds=self._call_seconds, deadline=deadline):
                found.records.append(record)
        except ChildHang as hang:
            found.hangs[hang.gpu] = hang
            if (stuck := self._child.abandon()) is not None:
                self._stuck[hang.gpu] = stuck
            return hang.gpu != NODE and time.monotonic() < deadline
        return False


def readings_of(
    name: str,
    records: Sequence[Record],
    hangs: Mapping[int, ChildHang] | None = None,
    known: "dict[int, Record] | None" = None,
) -> SourceReadings:
    """Return what the records of a child say. `known` are identities of earlier sweeps, for GPUs that hang; updated."""
    known = {} if known is None else known
    for record in records:
        if record["name"] == "handle" and isinstance(record.get("value"), dict):
            known[record["gpu"]] = record["value"]
    answered = {record["gpu"] for record in records if record["name"] == "handle" and "error" not in record}
    identities = {gpu: known[gpu] for gpu in answered | set(hangs or ()) if gpu in known}
    slots = _slots(identities)
    count = next((_whole(record.get("value")) for record in reversed(records) if record["name"] == "count"), 0)
    gpus = tuple(_gpu(index, identities.get(index, {}), slots) for index in range(count))
    readings: dict[
        tuple[ReadingId, str], NodeReading
    ] = {}  # those of the node come from each child; the last one counts
    for record in records:
        reading = _reading(name, record, slots)
        readings[reading.name, reading.slot] = reading
    for gpu, hang in (hangs or {}).items():
        slot = "" if gpu == NODE else slots.get(gpu, placeholder(gpu))
        call = ReadingId(f"{name}.{hang.call}")
        readings[call, slot] = NodeReading(name=call, slot=slot, error=ReadError.DEADLINE, detail=hang.detail)
    driver = readings.get((ReadingId.NVML_DRIVER, ""))
    return SourceReadings(
        vendor=VENDORS[name] if gpus else "",
        driver=driver.value if driver is not None and isinstance(driver.value, str) else "",
        gpus=gpus,
        readings=tuple(readings.values()),
    )


def _reading(name: str, record: Record, slots: Mapping[int, str]) -> NodeReading:
    index, word = record["gpu"], record.get("error")
    milliseconds = record.get("ms", 0.0)
    return NodeReading(
        name=ReadingId(f"{name}.{record['name']}"),
        slot="" if index == NODE else slots.get(index, placeholder(index)),
        value=record.get("value"),
        error=ReadError(word) if word in _WORDS else ReadError.FAILED if word else None,
        detail=str(record.get("detail", "")),
        milliseconds=milliseconds if isinstance(milliseconds, float) else 0.0,
    )


def _slots(identities: Mapping[int, Record]) -> dict[int, str]:
    """Return slots by index. A bus id that is odd or repeated would make two GPUs one: that GPU gets a placeholder."""
    slots: dict[int, str] = {}
    for index, identity in sorted(identities.items()):
        slot = normal_slot(str(identity.get("bus", "")))
        slots[index] = slot if slot and slot not in slots.values() else placeholder(index)
    return slots


def _gpu(index: int, identity: Record, slots: Mapping[int, str]) -> GpuIdentity:
    return GpuIdentity(
        slot=slots.get(index, placeholder(index)),
        index=index,
        uuid=str(identity.get("uuid", "")),
        serial=str(identity.get("serial", "")),
        product=str(identity.get("product", "")),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MAX_GPUS else 0
