"""A copy of the kernel's messages about GPUs, for a process that may not read the kernel's log itself."""

import os
import select
from collections import deque
from pathlib import Path

from reconciler.nodehealth.readers.kmsg_calls import GROUP, WORDS, group_of

_RECORD_BYTES = 8192  # the kernel's longest record
_MAX_COUNT = 2000
_QUIET_SECONDS = 0.2


def copy_kmsg(source: Path, target: Path, proc: Path = Path("/proc")) -> None:
    """Keep the newest messages of `source` about GPUs in `target`, until the source ends (a device never does).

    The file is replaced as a whole, so a reader never sees half of it; after a restart it is made again from what the
    kernel still holds. An Xid gets the control group of its process, where `proc` is that of the host.
    """
    kept: deque[bytes] = deque(maxlen=_MAX_COUNT)
    write_lines(target, kept)
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        rest, is_new = b"", False
        while True:
            if not poll.poll(_QUIET_SECONDS * 1000 if is_new else None):
                write_lines(target, kept)
                is_new = False
                continue
            try:
                chunk = os.read(descriptor, _RECORD_BYTES)
            except BrokenPipeError:  # messages were overwritten before they could be read
                continue
            except BlockingIOError:
                continue
            *lines, rest = (rest + chunk).split(b"\n") if chunk else ([rest, b""])
            found = [_with_group(line, proc) for line in lines if any(word in line for word in WORDS)]
            kept.extend(found)
            is_new = is_new or bool(found)
            if not chunk:
                write_lines(target, kept)
                return
    finally:
        os.close(descriptor)


def _with_group(line: bytes, proc: Path) -> bytes:
    group = group_of(line, proc)
    return line + b"\n" + GROUP + group.encode() if group else line


def write_lines(target: Path, lines: "deque[bytes]") -> None:
    """Replace the file, readable for everybody."""
    new = target.with_name(f".{target.name}.new")
    new.write_bytes(b"".join(line + b"\n" for line in lines))
    new.chmod(0o644)
    new.replace(target)
