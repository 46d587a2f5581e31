"""NVML as a source of readings: a child process makes the calls, and each has a deadline.

A GPU that dies may block a call in the kernel, where no signal ends it. The child is then left behind and never waited
for, the GPU counts as silent until the child is gone, and another child reads the others.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from reconciler.core.health.findings import ProbeProfile
from reconciler.core.health.readings import GpuIdentity, NodeReading, ReadError
from reconciler.core.health.slots import normal_slot
from reconciler.core.health.sweeps import SourceReadings, placeholder

CALL_SECONDS, SWEEP_SECONDS = 10.0, 30.0
_CHILD = (sys.executable, "-m", "reconciler.adapters.node.nvml_child")
_INIT = -1  # where the index of a GPU stands, for calls about the node
_CHUNK_BYTES = 1 << 16
_MOST_GPUS = 256
_WORDS = frozenset(ReadError)

Record = Mapping[str, Any]


class _Hang(Exception):
    """The child did not answer in time; `gpu` and `call` say where it was."""

    def __init__(self, gpu: int, call: str, detail: str) -> None:
        super().__init__(detail)
        self.gpu, self.call, self.detail = gpu, call, detail


class _Found(Struct):
    """What a sweep has found so far, by index of the GPU."""

    records: list[Record] = field(default_factory=list)
    hangs: dict[int, _Hang] = field(default_factory=dict)
    count: int = 0


class NvmlSource:
    """NVML of this machine. Not thread-safe."""

    name = "nvml"

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        command: Sequence[str] = _CHILD,
        call_seconds: float = CALL_SECONDS,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        self._environ, self._command = dict(environ), tuple(command)
        self._call_seconds, self._sweep_seconds = call_seconds, sweep_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._stuck: dict[int, subprocess.Popen[bytes]] = {}  # by the GPU where each hangs

    def start(self) -> None:
        """Start the child now, so that it loads while the caller does something else."""
        if self._child is None:
            self._child = self._spawn()

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Call all functions once. Returns within the deadline of a sweep, whatever hangs."""
        found = _Found()
        deadline = time.monotonic() + self._sweep_seconds
        self._forget_ended()
        for index in self._stuck:
            found.hangs[index] = _Hang(index, "handle", "a call of an earlier sweep still hangs in the kernel")
        while _INIT not in found.hangs:
            try:
                for record in self._ask(deadline, skip=_seen(found)):
                    found.records.append(record)
                    if record["name"] == "count":
                        found.count = _whole(record.get("value"))
            except _Hang as hang:
                found.hangs[hang.gpu] = hang
                self._abandon(hang.gpu)
                if hang.gpu != _INIT and time.monotonic() < deadline:
                    continue
            break
        return _readings(found)

    def close(self) -> None:
        """End the child, and do not wait for those that hang."""
        for child in (self._child, *self._stuck.values()):
            if child is not None:
                _kill(child)
        self._child = None

    def _ask(self, deadline: float, *, skip: frozenset[int]) -> Iterator[Record]:
        """Yield the records of one request. Raises `_Hang` if one does not come in time, or if the child ends."""
        self.start()
        child = self._child
        at: Record = {"gpu": _INIT, "call": "init"}
        assert child is not None  # noqa: S101 - started above
        assert child.stdin is not None  # noqa: S101 - a pipe
        assert child.stdout is not None  # noqa: S101 - a pipe
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps({"skip": sorted(skip)}).encode() + b"\n")
            child.stdin.flush()
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while True:
                left = min(self._call_seconds, deadline - time.monotonic())
                if left <= 0 or not selector.select(left):
                    raise _Hang(at["gpu"], at["call"], f"{at['call']} did not return")
                chunk = os.read(child.stdout.fileno(), _CHUNK_BYTES)
                if not chunk:
                    raise _Hang(at["gpu"], at["call"], f"the process ended in {at['call']}")
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    record = json.loads(line)
                    if "end" in record:
                        return
                    if "call" in record:
                        at = record
                    else:
                        yield record

    def _spawn(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(path for path in sys.path if path)
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**self._environ, "PYTHONPATH": paths},
            start_new_session=True,
        )

    def _abandon(self, gpu: int) -> None:
        """Kill the child without waiting: in the kernel, it ends when the call returns, or never."""
        child, self._child = self._child, None
        if child is not None:
            _kill(child)
            if child.poll() is None:
                self._stuck[gpu] = child

    def _forget_ended(self) -> None:
        self._stuck = {gpu: child for gpu, child in self._stuck.items() if child.poll() is None}


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        child.kill()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(0.2)  # gone at once, unless it hangs in the kernel


def _seen(found: _Found) -> frozenset[int]:
    """Return the GPUs that need not be asked again."""
    return frozenset({record["gpu"] for record in found.records if record["gpu"] != _INIT} | set(found.hangs))


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MOST_GPUS else 0


def _readings(found: _Found) -> SourceReadings:
    identities = {
        record["gpu"]: record["value"]
        for record in found.records
        if record["name"] == "handle" and isinstance(record.get("value"), dict)
    }
    # a bus id that is repeated or odd would make two GPUs one
    slots: dict[int, str] = {}
    for index, identity in sorted(identities.items()):
        slot = normal_slot(str(identity.get("bus", "")))
        slots[index] = slot if slot and slot not in slots.values() else placeholder(index)
    gpus = tuple(
        GpuIdentity(
            slot=slots.get(index, placeholder(index)),
            index=index,
            uuid=str(identities.get(index, {}).get("uuid", "")),
            serial=str(identities.get(index, {}).get("serial", "")),
            product=str(identities.get(index, {}).get("product", "")),
        )
        for index in range(found.count)
    )
    by_key: dict[tuple[str, str], NodeReading] = {}  # the node's are read again by each child; the last one counts
    for record in found.records:
        reading = _reading(record, slots)
        by_key[reading.name, reading.slot] = reading
    for index, hang in found.hangs.items():
        slot = "" if index == _INIT else slots.get(index, placeholder(index))
        by_key[f"nvml.{hang.call}", slot] = NodeReading(
            name=f"nvml.{hang.call}", slot=slot, error=ReadError.DEADLINE, detail=hang.detail
        )
    driver = by_key.get(("nvml.driver", ""))
    return SourceReadings(
        vendor="nvidia" if gpus else "",
        driver=driver.value if driver is not None and isinstance(driver.value, str) else "",
        gpus=gpus,
        readings=tuple(by_key.values()),
    )


def _reading(record: Record, slots: Mapping[int, str]) -> NodeReading:
    index, word = record["gpu"], record.get("error")
    return NodeReading(
        name=f"nvml.{record['name']}",
        slot="" if index == _INIT else slots.get(index, placeholder(index)),
        value=record.get("value"),
        error=ReadError(word) if word in _WORDS else ReadError.FAILED if word else None,
        detail=str(record.get("detail", "")),
        milliseconds=float(record.get("ms", 0.0)),
    )
