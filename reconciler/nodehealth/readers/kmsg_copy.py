"""A copy of the kernel's messages about faults, for a process that may not read the kernel's log itself."""

import os
import select
from collections.abc import Iterable
from pathlib import Path

from reconciler.nodehealth.kernel_events import is_kept, thinned
from reconciler.nodehealth.readers.kmsg_calls import GROUP, WholeSince, group_of

_RECORD_BYTES = 8192  # the kernel's longest record
_MAX_COUNT = 2000
_QUIET_SECONDS = 0.2


def copy_kmsg(source: Path, target: Path, proc: Path = Path("/proc")) -> None:
    """Keep the messages of `source` that matter in `target`, until the source ends (a device never does).

    The file is replaced as a whole, so a reader never sees half of it; after a restart it is made again from what the
    kernel still holds. Its first line is the head of the first record since which none is missing. An Xid gets the
    control group of its process, where `proc` is that of the host.
    """
    kept: list[bytes] = []
    whole = WholeSince()
    write_lines(target, whole, kept)
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        rest, is_new = b"", False
        while True:
            if not poll.poll(_QUIET_SECONDS * 1000 if is_new else None):
                write_lines(target, whole, kept)
                is_new = False
                continue
            try:
                chunk = os.read(descriptor, _RECORD_BYTES)
            except BrokenPipeError:  # messages were overwritten before they could be read
                whole.see(None)
                continue
            except BlockingIOError:
                continue
            *lines, rest = (rest + chunk).split(b"\n") if chunk else ([rest, b""])
            for line in lines:
                whole.see(line)
            found = [_with_group(line, proc) for line in lines if is_kept(line)]
            kept = [*kept, *found] if len(kept) + len(found) <= _MAX_COUNT else [*thinned([*kept, *found], _MAX_COUNT)]
            is_new = is_new or bool(found)
            if not chunk:
                write_lines(target, whole, kept)
                return
    finally:
        os.close(descriptor)


def _with_group(line: bytes, proc: Path) -> bytes:
    group = group_of(line, proc)
    return line + b"\n" + GROUP + group.encode() if group else line


def write_lines(target: Path, whole: WholeSince, lines: Iterable[bytes]) -> None:
    """Replace the file, readable for everybody."""
    new = target.with_name(f".{target.name}.new")
    head = [whole.head] if whole.head else []
    new.write_bytes(b"".join(line + b"\n" for line in (*head, *lines)))
    new.chmod(0o644)
    new.replace(target)
