"""Xids: the table of codes, the pods behind events, and the links that NVLink Xids name."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.nodehealth.findings import FindingSeverity, RepairAction
from reconciler.nodehealth.readings import normal_slot


class XidRepeat(Struct, frozen=True, kw_only=True, rename="camel"):
    """The repetition from which a code weighs more: events on one slot within hours, of at least so many workloads."""

    count: int
    hours: float
    workloads: int = 1
    severity: FindingSeverity
    action: RepairAction = RepairAction.RUN_DIAG


class XidRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """The meaning of one code. `bucket` is the immediate action of NVIDIA's catalogue."""

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

    def escalated(self, severities: Mapping[str, FindingSeverity]) -> "XidTable":
        """Return the table with the severities of a policy where those are graver."""
        rules = [(self.rule(int(code)), severity) for code, severity in severities.items() if code.isdigit()]
        grave = {rule.code: replace(rule, severity=one) for rule, one in rules if one.weight > rule.severity.weight}
        return self.replaced(grave) if grave else self


NO_XIDS = XidTable()


class _XidFile(Struct, frozen=True):
    xids: tuple[XidRule, ...]


def read_xids(content: bytes) -> XidTable:
    """Read `data/xids.json`."""
    return XidTable(rules={rule.code: rule for rule in msgspec.json.decode(content, type=_XidFile).xids})


_POD = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])", re.ASCII
)
_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])", re.ASCII)  # the id that a runtime gives a container
_MENTION = re.compile(
    r"pod/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})(?: container/[0-9a-f]{12})?", re.ASCII
)


def workload_of(cgroup: str) -> tuple[str, str]:
    """Return the UID of the pod and the id of the container in `/proc/PID/cgroup`; empty where it names none.

    The path differs by driver (`cgroupfs` or systemd), runtime and version of cgroups, the two ids do not. The last
    ones count: a cluster in a container has those of the outer one before them. UIDs of static pods have no dashes.
    """
    pods = list(_POD.finditer(cgroup))
    if not pods:
        return "", ""
    last = pods[-1]
    line = cgroup[last.end() :].partition("\n")[0]
    container = _CONTAINER.search(line)
    return last[1].replace("_", "-"), container[1] if container else ""


def mention(pod: str, container: str) -> str:
    """Return how a text names a pod that only its UID is known of."""
    return f"pod/{pod}{f' container/{container[:12]}' if container else ''}"


def mentioned(text: str) -> set[str]:
    """Return the UIDs of the pods that a text names."""
    return {found[1] for found in _MENTION.finditer(text)}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of pods in the place of their UIDs, as far as they are known."""
    return _MENTION.sub(lambda found: names.get(found[1]) or found[0], text)


_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<slot>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
    r"(?: GPU-I:[0-9]+)?(?: GPU-CI:[0-9]+)?\): "
    r"(?P<code>[0-9]{1,5})(?=[,\s]|$)(?P<rest>.*)",
    re.ASCII,
)
_PROCESS = re.compile(
    r", pid='?(?P<pid>[0-9]{1,10}|<unknown>)'?(?:, name=(?P<name>[^,]{0,256}))?(?P<rest>.*)", re.ASCII
)
_MAX_TEXT = 200  # characters of a message that a finding may quote
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
        """The workload: the pod if it is known, else the name of the program; empty if neither is."""
        return self.pod or ("" if self.program == UNKNOWN_PROGRAM else self.program)


_CHANGED = re.compile(r"changed from 0x[0-9a-f]+ \([^)]*\) to 0x([0-9a-f]+)", re.ASCII | re.IGNORECASE)


def recovery_of(event: XidEvent) -> int | None:
    """Return the recovery action that an event of a changed action tells; None if its text tells none."""
    found = _CHANGED.search(event.text) if event.code == RECOVERY_CHANGED else None
    return int(found[1], 16) if found else None


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


def together(logged: Iterable[XidEvent], told: Iterable[XidEvent]) -> tuple[XidEvent, ...]:
    """Return the Xids of the kernel's log, which say more, and those of NVML that the log does not have.

    Their clocks differ, so as many of one code on one slot as the log has are the same; the newest are others.
    """
    first = tuple(dict.fromkeys(logged))
    known = Counter((one.slot, one.code) for one in first)
    more: list[XidEvent] = []
    for event in sorted(set(told)):
        known[event.slot, event.code] -= 1
        if known[event.slot, event.code] < 0:
            more.append(event)
    return (*first, *more)


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
        text=" ".join(rest.lstrip(", ").split())[:_MAX_TEXT],
    )


NVLINK, NVLINK5 = 74, range(144, 151)  # Xids of links: up to Hopper, and since Blackwell
_REGISTERS = re.compile(r"link (-?\d{1,3}) ?\(([0-9a-fx, ]{3,120})\)", re.ASCII | re.IGNORECASE)
_NVLINK5 = re.compile(
    r"(?P<unit>\w{1,40})(?:/\w{1,40})?\s+(?P<how>(?:Link )?Fatal|Non-?fatal)\s+XC ?\d\s+i ?(?P<injected>\d)\s+"
    r"Link\s+(?P<link>-?\d{1,3})(?:\s+[(\[](?P<info>0x[0-9a-f]{1,16})(?:\s+(?P<status>0x[0-9a-f]{1,16}))?)?",
    re.ASCII | re.IGNORECASE,
)
_INFO, _DEGRADED, _FATAL = FindingSeverity.INFO, FindingSeverity.DEGRADED, FindingSeverity.FATAL
_DIAG, _OBSERVE, _SUPPORT = RepairAction.RUN_DIAG, RepairAction.OBSERVE, RepairAction.CONTACT_SUPPORT


class LinkFault(Struct, frozen=True, kw_only=True):
    """The statement of one Xid about a link."""

    link: int
    what: str
    severity: FindingSeverity
    action: RepairAction

    @property
    def text(self) -> str:
        """The fault in words."""
        return f"link {self.link}: {self.what}" if self.link >= 0 else self.what


class _Meaning(Struct, frozen=True):
    """The meaning of bits of one register. Registers count from 1, as in the catalogue."""

    register: int
    bits: tuple[int, ...]
    what: str
    severity: FindingSeverity
    action: RepairAction


_ECC = "an ECC or parity error of the hardware"
_MEANINGS = (  # the first that holds is the gravest
    _Meaning(1, (4, 5), _ECC, _DEGRADED, _DIAG),
    _Meaning(3, (0, 1, 2, 6), _ECC, _DEGRADED, _DIAG),
    _Meaning(5, (18, 19, 21, 22, 24, 25, 27, 28), _ECC, _DEGRADED, _DIAG),
    _Meaning(1, (8, 9, 12, 16, 17, 24, 28), "perhaps a loose connection: check and reseat it", _DEGRADED, _DIAG),
    _Meaning(1, (21, 22), "a marginal signal: check the connection", _DEGRADED, _DIAG),
    _Meaning(3, (16, 19), "an error that matters if it repeats", _DEGRADED, _OBSERVE),
    _Meaning(1, (27, 29), "an error that matters if it repeats", _DEGRADED, _OBSERVE),
    _Meaning(3, (17, 18), "an error that matters if it repeats", _DEGRADED, _OBSERVE),
    _Meaning(4, (18,), "a consequence of another error; the fabric needs a reset", _DEGRADED, RepairAction.RESET_GPU),
    _Meaning(1, (1, 20), "a consequence of another error", _DEGRADED, _SUPPORT),
    _Meaning(4, (16, 17), "a consequence of another error", _DEGRADED, _SUPPORT),
    _Meaning(5, (20, 23, 26, 29), "many corrected errors, none uncorrected", _INFO, _OBSERVE),
    _Meaning(1, (0, 23, 30), "nothing that matters", _INFO, RepairAction.NONE),
)
_READ = (1, 3, 4, 5)
"""The registers that say something."""


def link_fault(event: XidEvent) -> LinkFault | None:
    """Return what an Xid of NVLink says about a link; None for other codes, and for a text that cannot be read."""
    if event.code == NVLINK:
        return _of_registers(event.text)
    return _of_sub_code(event.text) if event.code in NVLINK5 else None


def _of_registers(text: str) -> LinkFault | None:
    found = _REGISTERS.search(text)
    if found is None:
        return None
    try:
        registers = [int(part, 16) for part in found[2].split(",")]
    except ValueError:
        return None
    link, values = int(found[1]), {number: value for number, value in enumerate(registers, 1) if number in _READ}
    for one in _MEANINGS:
        if any(values.get(one.register, 0) >> bit & 1 for bit in one.bits) and not _unknown(values, one):
            return LinkFault(link=link, what=one.what, severity=one.severity, action=one.action)
    return LinkFault(link=link, what="unexpected registers", severity=_DEGRADED, action=_SUPPORT)


def _unknown(values: dict[int, int], meaning: _Meaning) -> bool:
    """Say whether harmless bits come with bits that the catalogue does not name: then they are not harmless."""
    known = dict.fromkeys(_READ, 0)
    for one in _MEANINGS:
        known[one.register] |= sum(1 << bit for bit in one.bits)
    return meaning.severity is _INFO and any(value & ~known[number] for number, value in values.items())


_REASONS = {
    **dict.fromkeys((2, 4, 10), "a marginal signal"),
    **dict.fromkeys((42, 43), "cable, transceiver, temperature or seating"),
    **dict.fromkeys((15, 16, 17, 18, 22), "software or a user, if nobody meant it"),
    **dict.fromkeys((21, *range(32, 38)), "the other end of the link"),
    38: "software or a user; no reset is needed",
    40: "the host; no reset is needed",
}
"""The causes of a link that went down, by bits 20 to 25 of `IntrInfo` (NVIDIA's decode table of Xids 144 to 150)."""

_UNHARMED = (38, 40)
_RESTARTS = {"RLW_REMAP": 0x3F, "RLW_SRC_TRACK": 0x0C}  # bits of the status that stop a program
_LOST = ((0x7FF, 0x4C2), (0xFF, 0x86))  # RLW_RXPIPE that lost packets, before and since R575: mask, value


def _of_sub_code(text: str) -> LinkFault | None:
    """Decode as NVIDIA's table does: what is not fatal is mostly ignored, and a reset is not always the answer."""
    found = _NVLINK5.search(text)
    if found is None:
        return None
    unit, is_fatal = found["unit"], not found["how"].lower().startswith("non")
    info, status = (int(found[name] or "0", 16) for name in ("info", "status"))
    severity, action = (_FATAL, RepairAction.RESET_GPU) if is_fatal else (_INFO, _OBSERVE)
    reason = _REASONS.get(info >> 20 & 0x3F, "") if unit.startswith("NETIR_LINK") else ""
    if is_fatal and reason and info >> 20 & 0x3F in _UNHARMED:
        severity, action = _DEGRADED, _OBSERVE
    elif not is_fatal and status & _RESTARTS.get(unit, 0):
        severity, action = FindingSeverity.APP, RepairAction.RESTART_APP
    elif unit == "RLW_RXPIPE" and status & 7 and any(info & mask == value for mask, value in _LOST):
        severity, action = _FATAL, RepairAction.RESET_GPU
    told = f", IntrInfo {found['info']}" if found["info"] else ""
    injected = ", injected" if found["injected"] != "0" else ""
    return LinkFault(
        link=int(found["link"]),
        what=f"{unit} {'fatal' if is_fatal else 'not fatal'}{injected}{told}{f': {reason}' if reason else ''}",
        severity=severity,
        action=action,
    )
