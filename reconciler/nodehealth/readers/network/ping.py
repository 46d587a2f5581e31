"""Ping by the system's program: packets lost and times, for each address."""

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from reconciler.nodehealth.active.links import PingTarget
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.port import not_run
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings, Value
from reconciler.processes import ProcessError, ProgramOutput, run_program

PACKETS = 10
DEADLINE_SECONDS = 45
_AT_ONCE = 8
# Iputils, and BusyBox with one more word.
_STATISTICS = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received", re.ASCII)
_TIMES = re.compile(r"min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)", re.ASCII)  # BusyBox leaves out `mdev`


class PingSource:
    """Pings to all targets, some at a time. One that does not answer hides no other."""

    name = "network"

    def __init__(
        self,
        targets: Sequence[PingTarget],
        *,
        packets: int = PACKETS,
        seconds: int = DEADLINE_SECONDS,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._targets, self._packets, self._seconds, self._environ = tuple(targets), packets, seconds, environ

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Ping every target, once for all of its packets."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            rows: list[NodeReading | dict[str, Value]] = list(pool.map(self._ping, self._targets))
        failed = [row for row in rows if isinstance(row, NodeReading)]
        if failed and len(failed) == len(rows):
            return SourceReadings(readings=(failed[0],))  # no ping at all: the program is missing or not allowed
        value: list[Value] = [
            {"node": target.node, "address": target.address, "interface": target.interface, "error": row.detail}
            if isinstance(row, NodeReading)
            else row
            for target, row in zip(self._targets, rows, strict=True)
        ]
        return SourceReadings(readings=(NodeReading(name=ReadingId.NET_PING, value=value),))

    def close(self) -> None:
        """Do nothing: every ping has ended."""

    def _ping(self, target: PingTarget) -> NodeReading | dict[str, Value]:
        argv = ["ping", "-n", "-q", "-c", str(self._packets), "-w", str(self._seconds)]
        argv += ["-I", target.source] if target.source else []
        try:
            found = run_program([*argv, target.address], seconds=self._seconds + 5, environ=self._environ)
        except ProcessError as problem:
            return not_run(ReadingId.NET_PING, problem)
        counts = statistics(found)
        if counts is None:
            detail = f"exit code {found.code}{f': {found.message}' if found.message else ''}"
            return NodeReading(name=ReadingId.NET_PING, error=ReadError.FAILED, detail=detail)
        return {"node": target.node, "address": target.address, "interface": target.interface, **counts}


def statistics(found: ProgramOutput) -> dict[str, Value] | None:
    """Return packets and times of the last lines of ping, of iputils or BusyBox; None if it never sent."""
    packets = _STATISTICS.search(found.text)
    if packets is None:
        return None
    counts: dict[str, Value] = {"sent": int(packets[1]), "received": int(packets[2])}
    if times := _TIMES.search(found.text):
        counts |= {name: float(value) for name, value in zip(("minMs", "avgMs", "maxMs"), times.groups(), strict=True)}
    return counts
