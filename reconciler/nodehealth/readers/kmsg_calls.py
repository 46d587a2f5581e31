"""Lines of the kernel's log that tell of faults. Runs in a child process: a driver may hold the log for long."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler.nodehealth.kernel_events import is_kept, thinned

GROUP = b" CGROUP="
"""The prefix of a line with the control group of the message before it; the kernel adds facts to messages this way."""

_PID = re.compile(rb"NVRM: Xid .{1,60}?pid='?([0-9]{1,10})\b")  # the driver names the process that caused an error
_POD = "pod"
_YOUNG_SECONDS = 300.0  # the id of a process may have been given to another one by then
_MAX_LENGTH = 1000


def group_of(line: bytes, proc: Path) -> str:
    """Return the line of `/proc/PID/cgroup` that names a pod; empty for an old message, and where nobody can tell."""
    head = line.partition(b";")[0].split(b",")
    found = _PID.search(line)
    if found is None or len(head) < 3 or not head[2].isdigit():  # noqa: PLR2004 - priority, sequence, time
        return ""
    try:
        uptime = float((proc / "uptime").read_text("ascii").split()[0])
        if uptime - int(head[2][:18]) / 1e6 > _YOUNG_SECONDS:
            return ""
        text = (proc / found[1].decode() / "cgroup").read_text("utf-8", "replace")
    except (OSError, ValueError, IndexError):
        return ""
    return next((one[:_MAX_LENGTH] for one in text.splitlines() if _POD in one), "")


_RECORD_BYTES = 8192  # the kernel's longest record
_MAX_LINES = 5000
_known: dict[bytes, bytes] = {}  # control groups by message, for when their processes are gone


def sweep(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the lines of `path` that matter with their times since the boot, and since when none is missing."""
    yield {"call": "lines", "gpu": -1}
    whole = WholeSince()
    try:
        kept = _kept(records(request["path"]), Path(request["proc"]), whole)
    except OSError as error:
        word = {errno.ENOENT: "not_supported", errno.EACCES: "no_permission", errno.EPERM: "no_permission"}
        detail = f"{request['path']}: {error.strerror}"
        yield {"name": "lines", "gpu": -1, "error": word.get(error.errno or 0, "failed"), "detail": detail}
    else:
        rows = (_row(line) for line in thinned(kept, _MAX_LINES))
        yield {"name": "lines", "gpu": -1, "value": [row for row in rows if row is not None]}
        yield {"name": "since", "gpu": -1, "value": whole.seconds}


class WholeSince:
    """The time since which no record of a log is missing. `head` is that of its first record."""

    def __init__(self) -> None:
        self.head, self.seconds = b"", 0.0

    def see(self, record: bytes | None) -> None:
        """Look at the next record; None for some that were lost."""
        if record is None:
            self.head = b""
        elif not self.head and (fields := _fields(record)):
            self.head = b",".join(fields) + b";"
            self.seconds = int(fields[2][:18]) / 1e6 if fields[1].strip(b"0") else 0.0


def _kept(found: Iterable[bytes | None], proc: Path, whole: WholeSince) -> list[bytes]:
    """Return the records that matter, with the control group of the process that each names, where it is known."""
    kept: list[bytes] = []
    is_ours = False
    for record in found:
        whole.see(record)
        if record is not None and record.startswith(GROUP):
            kept[-1:] = [kept[-1].partition(b"\n")[0] + b"\n" + record] if is_ours else kept[-1:]
            continue
        is_ours = record is not None and bool(_fields(record)) and is_kept(record)
        if record is not None and is_ours:
            group = _known.get(record) or group_of(record, proc).encode()
            kept.append(record + (b"\n" + GROUP + group if group else b""))
    groups = {line.partition(b"\n")[0]: line.partition(GROUP)[2] for line in kept if GROUP in line}
    _known.clear()
    _known.update(groups)
    return kept


def records(path: str) -> Iterator[bytes | None]:
    """Yield the records that are there now; None where some were lost. A device gives one a read, a file lines."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    rest = b""
    try:
        while True:
            try:
                chunk = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:  # all records are read
                break
            except BrokenPipeError:  # records were overwritten before they could be read: the next ones are there
                yield None
                continue
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
        yield rest
    finally:
        os.close(descriptor)


def _fields(record: bytes) -> list[bytes]:
    """Return priority, sequence and microseconds before the text of a record; nothing for what is none."""
    fields = record.partition(b";")[0].split(b",")
    is_head = len(fields) >= 3 and fields[1].isdigit() and fields[2].isdigit()  # noqa: PLR2004 - as many are told
    return fields if is_head and b";" in record else []


def _row(line: bytes) -> dict[str, Any] | None:
    """Return a record as time and text, in which the kernel has escaped newlines."""
    record, _, group = line.partition(b"\n")
    fields = _fields(record)
    if not fields:
        return None
    said = record.partition(b";")[2].replace(b"\\x0a", b"\n").decode("utf-8", "replace")[:_MAX_LENGTH]
    found = {"cgroup": group[len(GROUP) :].decode("utf-8", "replace")} if group else {}
    return {"monotonic": int(fields[2][:18]) / 1e6, "text": said, **found}
