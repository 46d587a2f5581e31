"""Xids of NVML's events: the real binding in a real process, on the fake library; hangs, lost GPUs, no driver."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.child import kill, python_child
from reconciler.nodehealth.readers.xids import XidSource
from reconciler.nodehealth.readings import NodeReading, ReadError, SourceReadings

FIRST, SECOND = "0000:10:00.0", "0000:11:00.0"


@contextmanager
def listening(
    environ: Mapping[str, str], *, silent: float = 30.0, wake: Callable[[], None] = lambda: None, **settings: str
) -> Iterator[XidSource]:
    faked = {f"FAKE_{name}": value for name, value in settings.items()}
    source = XidSource(environ={**environ, **faked}, wake=wake, silent_seconds=silent)
    try:
        yield source
    finally:
        source.close()


def read(source: XidSource) -> NodeReading:
    (reading,) = source.read(ProbeProfile.LIGHT, SourceReadings()).readings
    return reading


def until(source: XidSource, holds: Callable[[NodeReading], Any], seconds: float = 30.0) -> NodeReading:
    deadline = time.monotonic() + seconds
    while not holds(found := read(source)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def told(reading: NodeReading) -> list[tuple[str, int]]:
    return [(row["slot"], row["code"]) for row in reading.value["xids"]]


def test_events_are_told_at_once_and_kept(environ: dict[str, str]) -> None:
    """Each is told once, with its GPU and time, wakes the agent, and stays in later readings."""
    woken = threading.Event()
    with listening(environ, wake=woken.set, VALUE_XIDS="0:79 1:31", VALUE_WAIT="50") as source:
        first = until(source, lambda reading: len(told(reading)) == 2)
        assert told(first) == [(FIRST, 79), (SECOND, 31)]
        assert (first.error, first.value["watched"]) == (None, [FIRST, SECOND])
        assert woken.is_set()
        assert abs(first.value["xids"][0]["seconds"] - time.time()) < 60
        time.sleep(0.3)
        assert told(read(source)) == told(first)


def test_nothing_yet_is_no_value(environ: dict[str, str]) -> None:
    with listening(environ, VALUE_WAIT="50") as source:
        assert read(source).error is ReadError.FAILED
        assert until(source, lambda reading: reading.error is None).value["xids"] == []


def test_a_wait_that_hangs_is_given_up(environ: dict[str, str]) -> None:
    """What was told stays, and the reading says that nothing more comes; the source goes on in a new process."""
    with listening(environ, silent=1.0, VALUE_XIDS="0:48", HANG_nvmlEventSetWait="1") as source:
        until(source, told)
        hung = until(source, lambda reading: reading.error is ReadError.DEADLINE)
        assert (FIRST, 48) in told(hung)
        started = time.monotonic()
        read(source)
        assert time.monotonic() - started < 5


def test_a_lost_gpu_is_refused_and_the_others_are_watched(environ: dict[str, str]) -> None:
    with listening(environ, VALUE_XIDS="1:63", VALUE_WAIT="50", ERROR_nvmlDeviceRegisterEvents_0="15") as source:
        found = until(source, told)
        assert (found.value["watched"], found.value["refused"]) == ([SECOND], {FIRST: "gpu_lost"})
        assert told(found) == [(SECOND, 63)]


def test_a_gpu_that_is_lost_while_waiting_ends_no_other(environ: dict[str, str]) -> None:
    """The wait fails for all; the error is told until all GPUs are registered again."""
    with listening(environ, VALUE_XIDS="0:79", ERROR_nvmlEventSetWait="15") as source:
        found = until(source, lambda reading: reading.error is ReadError.GPU_LOST)
        assert told(found) == [(FIRST, 79)]


@pytest.mark.parametrize(("setting", "value"), [("VALUE_EVENTS", "0"), ("ERROR_nvmlDeviceRegisterEvents", "3")])
def test_a_gpu_without_events(environ: dict[str, str], setting: str, value: str) -> None:
    with listening({**environ, f"FAKE_{setting}": value}, VALUE_WAIT="50") as source:
        found = until(source, lambda reading: reading.error is None)
        assert found.value["refused"] == dict.fromkeys((FIRST, SECOND), "not_supported")


def test_without_a_driver_and_with_an_old_one(environ: dict[str, str], old_library: Path, tmp_path: Path) -> None:
    with listening({**environ, "LD_LIBRARY_PATH": str(tmp_path)}) as source:
        until(source, lambda reading: reading.error is ReadError.NO_LIBRARY)
    with listening({**environ, "LD_LIBRARY_PATH": str(old_library)}) as source:
        until(source, lambda reading: reading.error is ReadError.NOT_SUPPORTED)


def test_the_process_ends_with_its_reader(environ: dict[str, str]) -> None:
    """An agent that is killed leaves none behind: the next line finds nobody."""
    process = python_child(("reconciler.nodehealth.readers.xid_watch",), {**environ, "FAKE_VALUE_WAIT": "50"})
    assert process.stdout is not None
    try:
        assert b"watched" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 0
    finally:
        kill(process)
