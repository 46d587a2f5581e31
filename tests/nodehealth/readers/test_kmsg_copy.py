"""The copy of kernel messages that another container reads: bounded, whole at any time, made again after a restart."""

import os
import threading
from pathlib import Path

from reconciler.nodehealth.readers import kmsg_copy
from reconciler.nodehealth.readers.kmsg_calls import WholeSince
from reconciler.nodehealth.readers.kmsg_copy import copy_kmsg, write_lines
from tests.cluster.server import wait_until

XID = b"3,1,5000000,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."
HEAD = b"6,2,5000001,-;\n"  # since when nothing is missing
NOISE = b"6,2,5000001,-;usb 1-1: new device"


def test_messages_about_gpus_are_copied_as_they_come(tmp_path: Path) -> None:
    source, target = tmp_path / "kmsg", tmp_path / "gpu"
    os.mkfifo(source)
    thread = threading.Thread(target=copy_kmsg, args=(source, target), daemon=True)
    writer_ready = threading.Event()

    def write() -> None:
        with source.open("wb", buffering=0) as pipe:
            pipe.write(NOISE + b"\n" + XID + b"\n")
            writer_ready.wait(20)
            pipe.write(NOISE + b"\n" + XID.replace(b"79", b"94"))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    thread.start()
    wait_until(lambda: target.exists() and target.read_bytes() == HEAD + XID + b"\n", "the first message")
    writer_ready.set()
    thread.join(20)
    assert not thread.is_alive()
    assert target.read_bytes() == HEAD + XID + b"\n" + XID.replace(b"79", b"94") + b"\n"
    assert oct(target.stat().st_mode & 0o777) == "0o644"


def test_the_copy_is_bounded_and_made_again(tmp_path: Path) -> None:
    source, target = tmp_path / "kmsg", tmp_path / "gpu"
    write_lines(target, WholeSince(), [b"old"])
    most = kmsg_copy._MAX_COUNT
    source.write_bytes(b"".join(b"3,%d,1,-;NVRM: something\n" % number for number in range(most + 10)))
    copy_kmsg(source, target)
    lines = target.read_bytes().splitlines()
    assert len(lines) == 1 + most
    assert lines[-1].startswith(b"3,%d," % (most + 9))
    assert not list(tmp_path.glob(".*"))
