"""The kernel's log as a source of readings."""

import time
from collections.abc import Mapping
from pathlib import Path

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.child import ChildHang, ReadingChild
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings

_SECONDS = 10.0
_WORDS = frozenset(ReadError)


class KmsgSource:
    """`/dev/kmsg`, or a file or pipe with the same lines. Not thread-safe."""

    name = "kmsg"

    def __init__(
        self, path: Path, *, environ: Mapping[str, str], proc: Path = Path("/proc"), seconds: float = _SECONDS
    ) -> None:
        self._request = {"path": str(path), "proc": str(proc)}
        self._seconds = seconds
        self._child = ReadingChild("kmsg", environ)

    def start(self) -> None:
        """Start the child now, so that it loads while the caller does something else."""
        self._child.start()

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Return the lines that matter and that the kernel still holds, and since when none is missing."""
        failed = NodeReading(name=ReadingId.KMSG_LINES, error=ReadError.FAILED, detail="no answer")
        found: dict[str, NodeReading] = {}
        deadline = time.monotonic() + self._seconds
        try:
            for record in self._child.ask(self._request, call_seconds=self._seconds, deadline=deadline):
                word, name = record.get("error"), str(record["name"])
                found[name] = NodeReading(
                    name=ReadingId.KMSG_SINCE if name == "since" else ReadingId.KMSG_LINES,
                    value=record.get("value"),
                    error=ReadError(word) if word in _WORDS else ReadError.FAILED if word else None,
                    detail=str(record.get("detail", "")),
                )
        except ChildHang as hang:
            self._child.abandon()
            failed = NodeReading(name=ReadingId.KMSG_LINES, error=ReadError.DEADLINE, detail=hang.detail)
            found = {}
        return SourceReadings(readings=tuple(found.values()) or (failed,))

    def close(self) -> None:
        """End the child."""
        self._child.abandon()
