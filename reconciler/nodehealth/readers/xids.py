"""Xids as NVML tells them, without the kernel's log: a process waits for events, a thread takes them."""

import json
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.child import kill, python_child
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings, normal_slot

SILENT_SECONDS = 30.0
"""A wait takes five seconds at most, so a process that says nothing for this long hangs."""

_MAX_COUNT = 1000
_WORDS = frozenset(ReadError)


class _Watched(Struct, frozen=True, kw_only=True):
    """The last message of the process. `heard` is the time of its last line."""

    heard: float
    slots: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    error: ReadError | None = ReadError.FAILED
    detail: str = "no answer yet"


class XidSource:
    """The Xids of this machine since the source was started. `wake` is called with every new one."""

    name = "nvml"

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        wake: Callable[[], None] = lambda: None,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._environ, self._wake, self._silent = dict(environ), wake, silent_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stuck: subprocess.Popen[bytes] | None = None
        self._found: deque[dict[str, Any]] = deque(maxlen=_MAX_COUNT)
        self._watched = _Watched(heard=time.monotonic())

    def start(self) -> None:
        """Start to watch; again, if the process that did so has ended."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._stuck is not None and self._stuck.poll() is None:
            return  # it hangs in the kernel, as another would
        self._watched = _Watched(heard=time.monotonic())
        self._process = python_child(("reconciler.nodehealth.readers.xid_watch",), self._environ)
        threading.Thread(target=self._listen, args=(self._process,), name="xids", daemon=True).start()

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Return all Xids so far, and which GPUs are watched. Never waits."""
        self.start()
        watched = self._watched
        if time.monotonic() - watched.heard > self._silent:
            self._give_up()
            watched = replace(watched, error=ReadError.DEADLINE, detail="the wait for events did not return")
        value = {"xids": list(self._found), "watched": list(watched.slots), "refused": dict(watched.refused)}
        reading = NodeReading(name=ReadingId.NVML_XIDS, value=value, error=watched.error, detail=watched.detail)
        return SourceReadings(readings=(reading,))

    def close(self) -> None:
        """End the process, without waiting for one that hangs."""
        for process in (self._process, self._stuck):
            if process is not None:
                kill(process)
        self._process = None

    def _give_up(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            kill(process)
            self._stuck = process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - a pipe
        try:
            for line in process.stdout:
                if process is self._process:
                    self._take(json.loads(line))
        except ValueError:  # its pipe was closed, or it wrote half a line
            return

    def _take(self, line: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if "code" in line:
            slot = normal_slot(str(line["slot"]))
            self._found.append({"slot": slot, "code": line["code"], "seconds": line["seconds"]})
            self._watched = replace(self._watched, heard=now)
            self._wake()
        elif "watched" in line:
            refused = {normal_slot(slot) or slot: str(word) for slot, word in line["refused"].items()}
            slots = tuple(normal_slot(slot) for slot in line["watched"])
            self._watched = _Watched(heard=now, slots=slots, refused=refused, error=None, detail="")
        elif "error" in line:
            word = str(line["error"])
            error = ReadError(word) if word in _WORDS else ReadError.FAILED
            self._watched = _Watched(heard=now + _MAX_PAUSE, error=error, detail=str(line.get("detail", "")))
        else:
            self._watched = replace(self._watched, heard=now)


_MAX_PAUSE = 60.0  # after an error nothing is said until all begins anew
