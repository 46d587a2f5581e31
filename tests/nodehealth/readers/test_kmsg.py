"""The kernel's log: a file, a pipe, and one that hangs."""

import os
import time
from pathlib import Path

import pytest

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.kmsg import KmsgSource
from reconciler.nodehealth.readers.kmsg_copy import copy_kmsg
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, GPU has fallen off the bus."
LINES = f"6,1,1000,-;eth0: link up\n SUBSYSTEM=net\n3,2,2500000,-;{XID}\n3,x,y;NVRM: broken\nNVRM: no head\n"


def lines(source: KmsgSource) -> NodeReading:
    """Return the reading of the lines; beside it is since when the log is whole."""
    return source.read(ProbeProfile.LIGHT, SourceReadings()).readings[0]


def read(path: Path, *, seconds: float = 30.0, proc: Path = Path("/no/proc")) -> NodeReading:
    source = KmsgSource(path, environ=os.environ, seconds=seconds, proc=proc)
    try:
        return lines(source)
    finally:
        source.close()


def test_lines_about_gpus(tmp_path: Path) -> None:
    """Other lines are not kept, nor those without a time."""
    path = tmp_path / "kmsg"
    path.write_text(LINES)
    assert read(path).value == [{"monotonic": 2.5, "text": XID}]


@pytest.mark.parametrize(("first", "since"), [("6,0,0,-;Linux version", 0.0), ("6,812,7000000,-;usb 1-1: new", 7.0)])
def test_since_when_the_log_is_whole(tmp_path: Path, first: str, since: float) -> None:
    """F-081: the kernel counts its records from 0; a copy of the log keeps what is known about it."""
    path, copied = tmp_path / "kmsg", tmp_path / "copy"
    path.write_text(f"{first}\n3,900,8000000,-;{XID}\n")
    copy_kmsg(path, copied)
    for one in (path, copied):
        source = KmsgSource(one, environ=os.environ, proc=tmp_path)
        found = source.read(ProbeProfile.LIGHT, SourceReadings()).readings
        source.close()
        assert [(reading.name, reading.value) for reading in found[1:]] == [(ReadingId.KMSG_SINCE, since)]
        assert [row["text"] for row in found[0].value] == [XID]


def test_a_file_of_another_machine(tmp_path: Path) -> None:
    """Bytes that are no text, and no newline at the end."""
    path = tmp_path / "kmsg"
    path.write_bytes(b"\xff\xfe\x00" + f"\n3,2,1000000,-;{XID} \xff".encode("latin-1"))
    (row,) = read(path).value
    assert row["text"].startswith(XID)


def test_a_missing_or_forbidden_log(tmp_path: Path) -> None:
    """No device is not supported; one that cannot be opened needs more privilege."""
    assert read(tmp_path / "none").error is ReadError.NOT_SUPPORTED
    assert read(tmp_path).error is ReadError.FAILED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_log(tmp_path: Path) -> None:
    """Without the right to read it, the log needs more privilege."""
    path = tmp_path / "kmsg"
    path.touch(mode=0o000)
    assert read(path).error is ReadError.NO_PERMISSION


def test_a_pipe_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """A pipe whose writer stays does not hang the reader."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.write(descriptor, LINES.encode())
        start = time.monotonic()
        assert [row["text"] for row in read(path).value] == [XID]
        assert time.monotonic() - start < 25
    finally:
        os.close(descriptor)


def test_a_reader_that_does_not_answer(tmp_path: Path) -> None:
    """A child that is stopped counts as silent, in time, and the next sweep has another."""
    path = tmp_path / "kmsg"
    path.write_text(LINES)
    source = KmsgSource(path, environ=os.environ, seconds=1.0)
    source.start()
    child = source._child._process
    assert child is not None
    child.send_signal(19)  # SIGSTOP
    reading = lines(source)
    assert reading.error is ReadError.DEADLINE
    slow = KmsgSource(path, environ=os.environ, seconds=20.0)
    reading = lines(slow)
    assert reading.error is None
    source.close()
    slow.close()


GROUP = "0::/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"


def processes(folder: Path, uptime: float = 100.0, **groups: str) -> Path:
    """Write `/proc` with the control groups of processes."""
    folder.mkdir(exist_ok=True)
    (folder / "uptime").write_text(f"{uptime} 1.0")
    for pid, text in groups.items():
        (folder / pid.strip("p")).mkdir()
        (folder / pid.strip("p") / "cgroup").write_text(f"1:name=systemd:/\n{text}\n")
    return folder


def test_an_xid_names_the_group_of_its_process(tmp_path: Path) -> None:
    """F-081: looked up while the process is there, and remembered after it is gone."""
    log, proc = tmp_path / "kmsg", processes(tmp_path / "proc", p1=GROUP, p7="0::/user.slice")
    log.write_text(f"3,2,90000000,-;{XID}\n3,3,91000000,-;{XID.replace('pid=1', 'pid=7')}\n")
    source = KmsgSource(log, environ=os.environ, proc=proc)
    try:
        for _ in range(2):
            reading = lines(source)
            assert [row.get("cgroup") for row in reading.value] == [GROUP, None]
            (proc / "1" / "cgroup").unlink(missing_ok=True)
    finally:
        source.close()


def test_an_old_xid_names_nobody(tmp_path: Path) -> None:
    """Another process may have its id by now."""
    log, proc = tmp_path / "kmsg", processes(tmp_path / "proc", uptime=391.0, p1=GROUP)
    log.write_text(f"3,2,90000000,-;{XID}\n")
    assert "cgroup" not in read(log, proc=proc).value[0]
    (proc / "uptime").write_text("nonsense")
    assert "cgroup" not in read(log, proc=proc).value[0]


def test_the_copy_keeps_groups(tmp_path: Path) -> None:
    """F-081: the container that copies the log sees the processes of the host; the agent beside it does not."""
    log, copied = tmp_path / "kmsg", tmp_path / "copy"
    log.write_text(f"3,2,90000000,-;{XID}\n3,3,91000000,-;NVRM: other\n CGROUP=forged\n")
    copy_kmsg(log, copied, processes(tmp_path / "proc", p1=GROUP))
    first, second = read(copied).value
    assert (first["text"], first["cgroup"]) == (XID, GROUP)
    assert second == {"monotonic": 91.0, "text": "NVRM: other"}
