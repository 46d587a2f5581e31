"""Xids: errors that NVIDIA's driver writes to the kernel's log, as events, and what the table says about a code."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct, field

from reconciler.core.health.findings import FindingSeverity, RepairAction
from reconciler.core.health.slots import normal_slot

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<slot>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)\): "
    r"(?P<code>[0-9]{1,5})(?=[,\s]|$)(?P<rest>.*)",
    re.ASCII,
)
_PROCESS = re.compile(
    r", pid='?(?P<pid>[0-9]{1,10}|<unknown>)'?(?:, name=(?P<name>[^,]{0,256}))?(?P<rest>.*)", re.ASCII
)
_MOST_TEXT = 200  # characters of a message that a finding may quote
RECOVERY_CHANGED = 154
"""The code of a changed recovery action; its text wins over all other codes of a burst."""


class XidEvent(Struct, frozen=True, kw_only=True, order=True):
    """One Xid. `seconds` is since the epoch; `workload` is the pod if it is known, else the name of the program."""

    seconds: float
    slot: str
    code: int
    boot_id: str = ""
    pid: str = ""
    workload: str = ""
    text: str = ""


class XidRepeat(Struct, frozen=True, kw_only=True, rename="camel"):
    """When a code means more: that many events on one slot within hours, of at least so many workloads."""

    count: int
    hours: float
    workloads: int = 1
    severity: FindingSeverity
    action: RepairAction = RepairAction.RUN_DIAG


class XidRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one code means. `bucket` is the immediate action of NVIDIA's catalogue."""

    code: int
    bucket: str
    severity: FindingSeverity
    action: RepairAction = RepairAction.NONE
    name: str = ""
    repeat: XidRepeat | None = None
    with_pending_remap: FindingSeverity | None = None  # the severity while a row remap is pending
    note: str = ""


class XidTable(Struct, frozen=True, kw_only=True):
    """The rules by code. A code without a rule is degraded, for a person to look at."""

    rules: Mapping[int, XidRule] = field(default_factory=dict)

    def rule(self, code: int) -> XidRule:
        """Return the rule of a code."""
        return self.rules.get(code) or XidRule(
            code=code, bucket="UNKNOWN", severity=FindingSeverity.DEGRADED, action=RepairAction.CONTACT_SUPPORT
        )

    def replaced(self, rules: Mapping[int, XidRule]) -> "XidTable":
        """Return the table with other rules for some codes, as a policy has them."""
        return XidTable(rules={**self.rules, **rules})


NO_XIDS = XidTable()
_CHANGED = re.compile(r"changed from 0x[0-9a-f]+ \([^)]*\) to 0x([0-9a-f]+)", re.ASCII | re.IGNORECASE)


def recovery_of(event: XidEvent) -> int | None:
    """Return the recovery action that an event of a changed action tells; None if its text tells none."""
    found = _CHANGED.search(event.text) if event.code == RECOVERY_CHANGED else None
    return int(found[1], 16) if found else None


def since_reset(events: Iterable[XidEvent], reset: float = 0.0) -> tuple[XidEvent, ...]:
    """Return distinct events in order, after the last reset: a known one, or the last change of the action to none."""
    distinct = sorted(set(events))
    resets = [event.seconds for event in distinct if recovery_of(event) == 0]
    last = max((reset, *resets))
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


class _XidFile(Struct, frozen=True):
    xids: tuple[XidRule, ...]


def read_xids(content: bytes) -> XidTable:
    """Read `data/xids.json`."""
    return XidTable(rules={rule.code: rule for rule in msgspec.json.decode(content, type=_XidFile).xids})


def parse_xid(line: str, *, seconds: float = 0.0, boot_id: str = "") -> XidEvent | None:
    """Return the event that a line of the kernel's log holds; None if it holds none."""
    found = _XID.search(line)
    slot = normal_slot(found["slot"]) if found else ""
    if found is None or not slot:
        return None
    process = _PROCESS.match(found["rest"])
    rest = process["rest"] if process else found["rest"]
    return XidEvent(
        seconds=seconds,
        slot=slot,
        code=int(found["code"]),
        boot_id=boot_id,
        pid=(process["pid"] if process else "").replace("<unknown>", ""),
        workload=((process["name"] or "") if process else "").strip(),
        text=" ".join(rest.lstrip(", ").split())[:_MOST_TEXT],
    )
