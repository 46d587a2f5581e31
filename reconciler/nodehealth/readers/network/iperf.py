"""iperf3 between two nodes: servers that end after one client, and clients that tell what both sides measured."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from reconciler.nodehealth.readers.port import not_run
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Value
from reconciler.processes import (
    ChildCommand,
    ChildProcess,
    ProcessError,
    installed_program,
    run_program,
    without_credentials,
)

FIRST_PORT = 5200
SECONDS = 5
_MEMORY_BYTES = 1 << 30
_SLACK_SECONDS = 15.0


@contextmanager
def iperf_servers(
    count: int, *, first_port: int = FIRST_PORT, address: str = "", environ: Mapping[str, str] = os.environ
) -> Iterator[tuple[int, ...]]:
    """Run servers on ports from `first_port` on, and end them all when the block ends, however it does."""
    program = installed_program("iperf3", environ)
    ports = tuple(range(first_port, first_port + count))
    running: list[ChildProcess] = []
    try:
        for port in ports:
            argv = (program, "-s", "-p", str(port), *(("-B", address) if address else ()))
            command = ChildCommand(
                name="iperf3",
                argv=argv,
                folder=Path("/"),
                environ=without_credentials(environ),
                memory_bytes=_MEMORY_BYTES,
            )
            running.append(ChildProcess(command, interactive=False))
        yield ports
    finally:
        for child in running:
            child.end()


def iperf_client(
    address: str,
    port: int,
    *,
    streams: int = 8,
    seconds: int = SECONDS,
    source: str = "",
    reverse: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> NodeReading:
    """Send to a server for some seconds; with `reverse` the server sends. Gb/s, of all streams together."""
    argv = ["iperf3", "-c", address, "-p", str(port), "-t", str(seconds), "-P", str(streams), "-J"]
    argv += ["-B", source] if source else []
    argv += ["-R"] if reverse else []
    try:
        found = run_program(argv, seconds=seconds + _SLACK_SECONDS, environ=environ)
    except ProcessError as problem:
        return not_run(ReadingId.NET_IPERF, problem)
    try:
        document = json.loads(found.text)
        problem_text = document.get("error", "")
        sums = document["end"]
        sent, received = sums["sum_sent"], sums["sum_received"]
        value: dict[str, Value] = {
            "address": address,
            "port": port,
            "reverse": reverse,
            "sentGbps": round(sent["bits_per_second"] / 1e9, 4),
            "receivedGbps": round(received["bits_per_second"] / 1e9, 4),
            "retransmits": sent.get("retransmits", 0),
            "seconds": round(sent["seconds"], 3),
        }
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
        problem_text = _error(found.text) or found.message or f"exit code {found.code}"
        return NodeReading(name=ReadingId.NET_IPERF, error=ReadError.FAILED, detail=f"{address}:{port}: {problem_text}")
    if problem_text:
        return NodeReading(name=ReadingId.NET_IPERF, error=ReadError.FAILED, detail=f"{address}:{port}: {problem_text}")
    return NodeReading(name=ReadingId.NET_IPERF, value=value)


def merged(readings: Sequence[NodeReading]) -> NodeReading:
    """Return one reading of several measurements: a list, in which a failed one is its error."""
    rows: list[Value] = [
        reading.value if reading.error is None else {"error": reading.detail or reading.error.value}
        for reading in readings
    ]
    return NodeReading(name=ReadingId.NET_IPERF, value=rows)


def _error(text: str) -> str:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return ""
    return str(document.get("error", "")) if isinstance(document, dict) else ""
