"""Programs that measure, run for real or as scripts: output, exit codes, time limits; ping and iperf3 on loopback."""

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest

from reconciler.nodehealth.active.links import PingTarget
from reconciler.nodehealth.findings import CheckStatus, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readers.diagnostics import DiagnosticsSource, read_diag
from reconciler.nodehealth.readers.network.iperf import iperf_client, iperf_servers, merged
from reconciler.nodehealth.readers.network.ping import PingSource, statistics
from reconciler.nodehealth.readings import GpuIdentity, NodeReading, ReadError, ReadingId, SourceReadings, Sweep
from reconciler.processes import ProgramOutput


def _script(folder: Path, name: str, text: str) -> dict[str, str]:
    """Install a program by this name; return an environment that finds it."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_dcgmi_is_asked_for_a_level_and_its_output_kept(tmp_path: Path) -> None:
    """F-083: the JSON may come after other lines, and be longer than a pipe holds."""
    document = {"DCGM GPU Diagnostic": {"test_categories": [], "filler": "x" * 300_000}}
    (tmp_path / "out.json").write_text(json.dumps(document))
    environ = _script(
        tmp_path, "dcgmi", f'echo "$@" > {tmp_path}/args; echo "Successfully started."; cat {tmp_path}/out.json'
    )
    reading = read_diag(2, environ=environ)
    assert (tmp_path / "args").read_text() == "diag -j -r 2\n"
    assert isinstance(reading.value, dict)
    assert (reading.name, reading.value["exitCode"], reading.value["output"]) == ("dcgm.level2", 0, document)


def test_a_program_that_fails_hangs_or_is_missing(tmp_path: Path) -> None:
    failed = read_diag(1, environ=_script(tmp_path, "dcgmi", "echo 'Error: unable to connect' >&2; exit 212"))
    assert failed.error is ReadError.FAILED
    assert failed.detail == "exit code 212, no JSON: Error: unable to connect"
    both = read_diag(1, environ=_script(tmp_path, "dcgmi", "echo '{\"a\": 1}'; exit 3"))
    assert isinstance(both.value, dict)
    assert both.value["exitCode"] == 3
    start = time.monotonic()
    late = read_diag(1, environ=_script(tmp_path, "dcgmi", "sleep 60 & wait"), seconds=0.5)
    assert late.error is ReadError.DEADLINE
    assert time.monotonic() - start < 10
    missing = read_diag(1, environ={"PATH": "/nowhere"})
    assert (missing.error, missing.detail) == (ReadError.NOT_SUPPORTED, "dcgmi is not installed")


def test_diagnostics_run_only_while_all_gpus_are_idle(tmp_path: Path) -> None:
    environ = _script(tmp_path, "dcgmi", f"touch {tmp_path}/ran; echo '{{}}'")
    gpus = tuple(GpuIdentity(slot=f"0000:0{number}:00.0") for number in (1, 2))
    rows = [NodeReading(name=ReadingId("nvml.processes"), slot=gpu.slot, value=[]) for gpu in gpus]
    source = DiagnosticsSource(environ={**environ, "PATH": f"{tmp_path}{os.pathsep}/bin"})
    idle = SourceReadings(gpus=gpus, readings=tuple(rows))
    busy = SourceReadings(
        gpus=gpus,
        readings=(rows[0], NodeReading(name=ReadingId("nvml.processes"), slot=gpus[1].slot, value=[{"pid": 1}])),
    )
    assert source.read(ProbeProfile.PREFLIGHT, idle).readings == ()
    assert [reading.error for reading in source.read(ProbeProfile.DEEP, busy).readings] == [ReadError.BUSY]
    assert not (tmp_path / "ran").exists()
    found = source.read(ProbeProfile.DEEP, idle).readings
    assert [reading.name for reading in found] == ["dcgm.level3"]
    assert (tmp_path / "ran").exists()
    assert source.read(ProbeProfile.RMA, idle).readings[0].name == "dcgm.level4"
    source.close()


@pytest.mark.skipif(shutil.which("ping") is None, reason="left out: ping is not installed")
def test_ping_on_loopback() -> None:
    """F-085: a real ping; an address that does not answer fails with that address, and the others are told as well."""
    targets = (
        PingTarget(node="self", address="127.0.0.1", interface="lo", source="127.0.0.1"),
        PingTarget(node="void", address="240.0.0.1", interface="net1"),
    )
    readings = PingSource(targets, packets=2, seconds=2).read(ProbeProfile.LIGHT, SourceReadings()).readings
    (reading,) = readings
    assert isinstance(reading.value, list)
    answer = reading.value[0]
    assert isinstance(answer, dict)
    assert (answer["sent"], answer["received"]) == (2, 2)
    (finding,) = judge(Sweep(node="n", taken_at=1, readings=readings), only=("net.ping",))
    assert finding.status in (CheckStatus.FAIL, CheckStatus.UNKNOWN)  # lost, or refused by this machine's network
    assert "240.0.0.1 (void net1)" in finding.message


def test_lines_of_ping() -> None:
    """F-085: iputils and BusyBox count in other words."""
    iputils = "2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1022ms\n"
    busybox = "10 packets transmitted, 9 packets received, 10% packet loss\nround-trip min/avg/max = 0.1/0.2/0.3 ms\n"
    assert statistics(ProgramOutput(code=1, text=iputils)) == {"sent": 2, "received": 0}
    assert statistics(ProgramOutput(code=0, text=busybox)) == {
        "sent": 10,
        "received": 9,
        "minMs": 0.1,
        "avgMs": 0.2,
        "maxMs": 0.3,
    }
    assert statistics(ProgramOutput(code=2, text="")) is None


def test_without_ping_nothing_is_known(tmp_path: Path) -> None:
    target = PingTarget(node="b", address="127.0.0.1")
    (reading,) = (
        PingSource((target,), environ={"PATH": str(tmp_path)}).read(ProbeProfile.LIGHT, SourceReadings()).readings
    )
    assert (reading.error, reading.detail) == (ReadError.NOT_SUPPORTED, "ping is not installed")


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="left out: iperf3 is not installed")
def test_iperf_on_loopback() -> None:
    """F-086: servers on two ports, one client each, both directions; all servers end with the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        first = free.getsockname()[1]
    with iperf_servers(2, first_port=first, address="127.0.0.1") as ports:
        assert ports == (first, first + 1)
        for port in ports:
            _wait_for(port)
        forth = iperf_client("127.0.0.1", ports[0], streams=2, seconds=1)
        back = iperf_client("127.0.0.1", ports[1], streams=1, seconds=1, reverse=True)
    assert forth.error is None, forth.detail
    assert isinstance(forth.value, dict)
    assert isinstance(forth.value["receivedGbps"], float)
    assert forth.value["receivedGbps"] > 0
    closed = iperf_client("127.0.0.1", ports[0], seconds=1)
    assert closed.error is ReadError.FAILED
    assert "refused" in closed.detail
    (finding,) = judge(Sweep(node="n", taken_at=1, readings=(merged([forth, back]),)), only=("net.iperf",))
    assert finding.status is CheckStatus.PASS
    (finding,) = judge(Sweep(node="n", taken_at=1, readings=(merged([forth, closed]),)), only=("net.iperf",))
    assert finding.status is CheckStatus.UNKNOWN


def _wait_for(port: int) -> None:
    """Wait until a port listens, without connecting: a server of iperf3 takes every connection for a client."""
    deadline = time.monotonic() + 10
    while f":{port:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.02)
