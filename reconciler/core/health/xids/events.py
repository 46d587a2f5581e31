"""Xids as events: from lines of the kernel's log and from NVML, without what was told twice, since the last reset."""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from reconciler.core.health.slots import normal_slot
from reconciler.core.health.xids.workloads import workload_of

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<slot>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)\): "
    r"(?P<code>[0-9]{1,5})(?=[,\s]|$)(?P<rest>.*)",
    re.ASCII,
)
_PROCESS = re.compile(
    r", pid='?(?P<pid>[0-9]{1,10}|<unknown>)'?(?:, name=(?P<name>[^,]{0,256}))?(?P<rest>.*)", re.ASCII
)
_MOST_TEXT = 200  # characters of a message that a finding may quote
UNKNOWN_PROGRAM = "<unknown>"
RECOVERY_CHANGED = 154
"""The code of a changed recovery action; its text wins over all other codes of a burst."""


class XidEvent(Struct, frozen=True, kw_only=True, order=True):
    """One Xid. `seconds` is since the epoch. `pod` is a UID, `container` an id; both are empty where nobody knows."""

    seconds: float
    slot: str
    code: int
    boot_id: str = ""
    pid: str = ""
    program: str = ""
    pod: str = ""
    container: str = ""
    text: str = ""

    @property
    def workload(self) -> str:
        """What ran: the pod if it is known, else the name of the program; empty if neither is."""
        return self.pod or ("" if self.program == UNKNOWN_PROGRAM else self.program)


_CHANGED = re.compile(r"changed from 0x[0-9a-f]+ \([^)]*\) to 0x([0-9a-f]+)", re.ASCII | re.IGNORECASE)


def recovery_of(event: XidEvent) -> int | None:
    """Return the recovery action that an event of a changed action tells; None if its text tells none."""
    found = _CHANGED.search(event.text) if event.code == RECOVERY_CHANGED else None
    return int(found[1], 16) if found else None


def since_reset(events: Iterable[XidEvent]) -> tuple[XidEvent, ...]:
    """Return distinct events in order, after the last reset: the last change of the action to none."""
    distinct = sorted(set(events))
    last = max((event.seconds for event in distinct if recovery_of(event) == 0), default=0.0)
    return tuple(event for event in distinct if event.seconds > last)


BURST_SECONDS = 180.0


def bursts(events: Iterable[XidEvent]) -> Iterator[tuple[XidEvent, ...]]:
    """Yield events that are less than three minutes apart together: one fault often writes several codes."""
    burst: list[XidEvent] = []
    for event in sorted(events):
        if burst and event.seconds - burst[-1].seconds >= BURST_SECONDS:
            yield tuple(burst)
            burst = []
        burst.append(event)
    if burst:
        yield tuple(burst)


SAME_SECONDS = 10.0
"""How far the times of one Xid may be apart in the kernel's log and in an event of NVML."""


def together(logged: Iterable[XidEvent], told: Iterable[XidEvent]) -> tuple[XidEvent, ...]:
    """Return the Xids of the kernel's log, which say more, and those of NVML that the log does not have."""
    first = tuple(logged)
    return first + tuple(event for event in told if not _is_logged(event, first))


def _is_logged(event: XidEvent, logged: Sequence[XidEvent]) -> bool:
    return any(
        (one.slot, one.code) == (event.slot, event.code) and abs(one.seconds - event.seconds) <= SAME_SECONDS
        for one in logged
    )


def parse_xid(line: str, *, seconds: float = 0.0, boot_id: str = "", cgroup: str = "") -> XidEvent | None:
    """Return the event that a line of the kernel's log holds; None if it holds none. `cgroup`: of its process."""
    found = _XID.search(line)
    slot = normal_slot(found["slot"]) if found else ""
    if found is None or not slot:
        return None
    process = _PROCESS.match(found["rest"])
    rest = process["rest"] if process else found["rest"]
    pod, container = workload_of(cgroup)
    return XidEvent(
        seconds=seconds,
        slot=slot,
        code=int(found["code"]),
        boot_id=boot_id,
        pid=(process["pid"] if process else "").replace("<unknown>", ""),
        program=((process["name"] or "") if process else "").strip(),
        pod=pod,
        container=container,
        text=" ".join(rest.lstrip(", ").split())[:_MOST_TEXT],
    )
