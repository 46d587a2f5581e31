"""Lines of the kernel's log that are about GPUs. Runs in a child process: a driver may hold the log for long."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

WORDS = (b"NVRM", b"fallen off the bus", b"amdgpu")
"""The words of messages about GPUs."""

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
_known: dict[tuple[float, str], str] = {}  # control groups by message, for when their processes are gone


def sweep(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one record for each line of `path` that is about GPUs: its time since the boot, and its text."""
    yield {"call": "lines", "gpu": -1}
    try:
        lines = _lines(_read(request["path"]), Path(request["proc"]))
    except OSError as error:
        word = {errno.ENOENT: "not_supported", errno.EACCES: "no_permission", errno.EPERM: "no_permission"}
        detail = f"{request['path']}: {error.strerror}"
        yield {"name": "lines", "gpu": -1, "error": word.get(error.errno or 0, "failed"), "detail": detail}
    else:
        yield {"name": "lines", "gpu": -1, "value": lines[-_MAX_LINES:]}


def _lines(records: Iterable[bytes], proc: Path) -> list[dict[str, Any]]:
    """Return the messages about GPUs, with the control group of the process that each names, where it is known."""
    lines: list[dict[str, Any]] = []
    is_ours = False
    for record in records:
        if record.startswith(GROUP):
            if is_ours:
                lines[-1]["cgroup"] = record[len(GROUP) :].decode("utf-8", "replace")
            continue
        line = _line(record)
        is_ours = line is not None
        if line is None:
            continue
        lines.append(line)
        key = (line["monotonic"], line["text"])
        if group := _known.get(key) or group_of(record, proc):
            _known[key] = line["cgroup"] = group
    for key in _known.keys() - {(line["monotonic"], line["text"]) for line in lines}:
        del _known[key]
    return lines


def _read(path: str) -> Iterator[bytes]:
    """Yield the records that are there now: a device gives one a read, a file or a pipe gives lines."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    rest = b""
    try:
        while True:
            try:
                chunk = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:  # all records are read
                break
            except BrokenPipeError:  # records were overwritten before they could be read: the next ones are there
                continue
            if not chunk:
                break
            *records, rest = (rest + chunk).split(b"\n")
            yield from records
        yield rest
    finally:
        os.close(descriptor)


def _line(record: bytes) -> dict[str, Any] | None:
    """Return `prio,sequence,microseconds,flags;text` as time and text; None for all that is not about GPUs."""
    if not any(word in record for word in WORDS):
        return None
    head, _, text = record.partition(b";")
    fields = head.split(b",")
    if len(fields) < 3 or not fields[2].isdigit():  # noqa: PLR2004 - priority, sequence, time
        return None
    said = text.decode("utf-8", "replace")[:1000]
    return {"monotonic": int(fields[2][:18]) / 1e6, "text": said}
