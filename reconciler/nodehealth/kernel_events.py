"""Messages of the kernel that tell of a fault: one table for drivers of GPUs, switches and networks, and the host.

Xids have a table of their own. This module needs nothing else, because the process that reads the log is small.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pkgutil import get_data
from typing import NamedTuple


class KernelEvent(NamedTuple):
    """One row. `pattern` names its subject in the group `at`; `hours` is how long a message counts, 0 until a restart.

    messages: about one subject, that make a fault. ends: a later message about it after which nothing counts.
    """

    pattern: str
    what: str
    severity: str
    action: str
    source: str
    hours: float = 0.0
    messages: int = 1
    ends: str = ""


@cache
def kernel_events() -> Mapping[str, tuple[tuple[str, ...], tuple[KernelEvent, ...]]]:
    """Return the table by check: words of which a message has one, and rows, of which the first that fits counts."""
    table = json.loads(get_data("reconciler", "data/kernel_events.json") or b"")["checks"]
    return {one["check"]: (tuple(one["words"]), tuple(KernelEvent(**row) for row in one["events"])) for one in table}


ALWAYS = ("NVRM", "fallen off the bus", "amdgpu")
"""The words of messages about GPUs, which are kept whatever they say."""

RELOAD = "NVRM: loading NVIDIA UNIX"
"""The driver of the GPUs was loaded: what its last run left is over."""


@cache
def words() -> tuple[bytes, ...]:
    """Return the words of messages that may tell of a fault."""
    found = [word for known, _ in kernel_events().values() for word in known]
    return tuple(dict.fromkeys(word.encode() for word in (*ALWAYS, *found)))


class Told(NamedTuple):
    """The check, row and subject of a message."""

    check: str
    event: KernelEvent
    subject: str


_SLOT = r"(?P<at>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("<slot>", _SLOT), re.ASCII | re.DOTALL | re.IGNORECASE)


def told_by(text: str) -> Told | None:
    """Return what a message tells of; None for one that tells of no fault."""
    for check, (known, rows) in kernel_events().items():
        if any(word in text for word in known):
            for row in rows:
                if found := _compiled(row.pattern).search(text):
                    return Told(check, row, found.groupdict().get("at") or "")
    return None


def ended_by(told: Told, text: str) -> bool:
    """Say whether a message tells that an event of this subject is over."""
    return bool(told.event.ends) and told.subject in text and bool(_compiled(told.event.ends).search(text))


def is_kept(line: bytes) -> bool:
    """Say whether a message is about a GPU, tells of a fault, or ends one."""
    if not any(word in line for word in words()):
        return False
    text = line.decode("utf-8", "replace")
    return any(word in text for word in ALWAYS) or told_by(text) is not None or bool(_compiled(_ends()).search(text))


@cache
def _ends() -> str:
    return "|".join(sorted({row.ends for _, rows in kernel_events().values() for row in rows if row.ends}))


_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)", re.ASCII)
_FIRST, _LAST = 2, 20  # messages of one kind that stay in a flood


def thinned(lines: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Yield at most so many messages: those that tell of nothing leave first, then repetitions, then the oldest."""
    kept, kinds = list(lines), dict[object, list[int]]()
    for place, line in enumerate(kept):
        text = line.decode("utf-8", "replace")
        xid = _XID.search(text)
        told = None if xid else told_by(text)
        kind = xid.groups() if xid else (told.event.pattern, told.subject) if told else RELOAD if RELOAD in text else ""
        kinds.setdefault(kind, []).append(place)
    events = [one for kind, all_ in kinds.items() if kind for one in (*all_[:_FIRST], *all_[_FIRST:][-_LAST:])]
    room = max(most - len(events), 0)
    others = kinds.get("", [])
    return (kept[place] for place in sorted([*events, *others[len(others) - min(room, len(others)) :]])[-most:])
