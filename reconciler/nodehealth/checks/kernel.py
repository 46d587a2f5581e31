"""The kernel's log: Xids of each GPU, GPUs that fell off the bus, and all else that the table of messages knows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.checks.check import (
    DAY,
    HOUR,
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    outcome,
    passed,
)
from reconciler.nodehealth.checks.driver import RECOVERY
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, RepairAction
from reconciler.nodehealth.kernel_events import RELOAD, Told, ended_by, kernel_events, told_by
from reconciler.nodehealth.readings import ReadingId, normal_slot
from reconciler.nodehealth.xids import (
    RECOVERY_CHANGED,
    UNKNOWN_PROGRAM,
    LinkFault,
    XidEvent,
    XidRule,
    bursts,
    link_fault,
    mention,
    parse_xid,
    recovery_of,
    together,
)

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_APP, _INFO = FindingSeverity.APP, FindingSeverity.INFO
_PREEMPTED = 45  # a preemptive cleanup follows another error
_BUS_ID = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?(?![0-9a-fA-F])", re.ASCII)
_FALLEN = "fallen off the bus"
_LINE_LENGTH = 1000  # the kernel writes no longer ones
_MAX_NAMED = 3  # programs and links that a text names

_Weighed = tuple[FindingSeverity, RepairAction, str]


class _KernelLine(Struct, frozen=True):
    """A line of the kernel's log: when it was written, and the control group of the process that it names."""

    seconds: float
    text: str
    cgroup: str


def _lines(given: CheckInput) -> Iterator[_KernelLine]:
    """Yield the lines of this boot, also those that earlier sweeps have read and the kernel has dropped since."""
    given.rows(ReadingId.KMSG_LINES, slot="")
    boot = given.sweep.find(ReadingId.PROCFS_BTIME)
    booted = as_number(boot.value) if boot is not None else None
    for sweep in (*given.earlier(7 * DAY), given.sweep):
        reading = sweep.find(ReadingId.KMSG_LINES)
        for row in reading.value if reading is not None and isinstance(reading.value, list) else ():
            if isinstance(row, dict) and isinstance(row.get("text"), str):
                seconds = _seconds(row, booted)
                if seconds is not None and row.get("boot", sweep.boot_id) == given.sweep.boot_id:
                    yield _KernelLine(seconds, row["text"][:_LINE_LENGTH], str(row.get("cgroup", "")))


def _seconds(row: Mapping[str, Any], booted: float | None) -> float | None:
    """Return when a line was written. A line of the kernel tells its time since the boot, which must be known."""
    since_boot = as_number(row.get("monotonic"))
    if since_boot is None:
        return as_number(row.get("seconds"))
    return None if booted is None else booted + since_boot


def _xid_events(given: CheckInput, resets: list[float]) -> tuple[XidEvent, ...]:
    """Return the Xids of a GPU since its last reset, of the kernel's log and of NVML; add the times of resets.

    NVML tells only what happens while somebody listens: without the log, nothing told is no pass.
    """
    told = _told(given)
    logged: list[XidEvent] = []
    try:
        for line in _lines(given):
            if (event := _event(given, line)) is not None:
                logged.append(event)
            elif RELOAD in line.text:
                resets.append(line.seconds)
    except Unmeasured as unmeasured:
        if not told:
            raise Unmeasured(unmeasured.status, f"{unmeasured}; no NVML event since the agent started") from None
    events = [event for event in together(logged, told) if event.slot == given.slot]
    resets += (event.seconds for event in events if recovery_of(event) == 0)
    last = max(resets, default=0.0)
    return tuple(event for event in sorted(set(events)) if event.seconds > last)


def _missing(given: CheckInput) -> float:
    """Return since when the log is whole, if that is after the boot; 0 if it reaches back to it, or nobody tells."""
    since, booted = given.sweep.find(ReadingId.KMSG_SINCE), given.sweep.find(ReadingId.PROCFS_BTIME)
    seconds = as_number(since.value) if since is not None else None
    return seconds + (as_number(booted.value) or 0.0) if seconds and booted is not None else 0.0


def _nothing(given: CheckInput, message: str, ended: float) -> CheckResult:
    """Return a pass, which ends failures of before `ended`; UNKNOWN if the log does not reach back to then."""
    began = _missing(given)
    if began > ended:
        hours = (given.sweep.taken_at - began) / HOUR
        text = f"the kernel's log begins {hours:.1f} hours ago, and what it said before is not known"
        return outcome(CheckStatus.UNKNOWN, text, since=began)
    return passed(message, 0, since=ended)


def _event(given: CheckInput, line: _KernelLine) -> XidEvent | None:
    return parse_xid(line.text, seconds=line.seconds, boot_id=given.sweep.boot_id, cgroup=line.cgroup)


def _told(given: CheckInput) -> list[XidEvent]:
    """Return the Xids of this GPU in this boot that NVML has told, with and without the kernel's log."""
    found = []
    for sweep in (*given.earlier(7 * DAY), given.sweep):
        reading = sweep.find(ReadingId.NVML_XIDS)
        rows = reading.value.get("xids") if reading is not None and isinstance(reading.value, dict) else None
        for row in rows if isinstance(rows, list) else ():
            code, seconds = (
                as_number(row.get(name)) if isinstance(row, dict) else None for name in ("code", "seconds")
            )
            if code is not None and seconds is not None and row.get("slot") == given.slot:
                found.append(XidEvent(seconds=seconds, slot=given.slot, code=int(code), boot_id=given.sweep.boot_id))
    return found


def _xids(given: CheckInput) -> CheckResult:
    resets: list[float] = []
    events = _xid_events(given, resets)
    recent = given.sweep.taken_at - given.limit("hours") * HOUR
    weighed: list[_Weighed] = []
    codes: set[int] = set()
    for burst in bursts(events):
        severity, action, text = _weigh_burst(given, burst, events)
        if severity not in {_APP, _INFO} or burst[-1].seconds >= recent:
            weighed.append((severity, action, text))
            codes |= {event.code for event in burst}
    if not weighed or {severity for severity, _, _ in weighed} == {_INFO}:
        notes = "; ".join(dict.fromkeys(text for _, _, text in weighed))[:500]
        found = _nothing(given, notes or "no Xid since the last boot or reset", max(resets, default=0.0))
        return replace(found, observed=len(events))
    severity, action, _ = max(weighed, key=lambda one: one[0].weight)
    return outcome(
        FAIL if severity is FindingSeverity.FATAL else WARN,
        "; ".join(dict.fromkeys(text for each, _, text in weighed if each is severity))[:500],
        len(events),
        severity=severity,
        action=action,
        samples=len(events),
        codes=tuple(sorted(codes)),
    )


def _weigh_burst(given: CheckInput, burst: tuple[XidEvent, ...], events: tuple[XidEvent, ...]) -> _Weighed:
    """Return what a burst means: the recovery action that the driver asks for wins over its codes."""
    codes = sorted({event.code for event in burst})
    counts = (f"{code} x{number}" if (number := _count(burst, code)) > 1 else f"{code}" for code in codes)
    text = f"Xid {', '.join(counts)}"
    if asked := _asked(given, burst):
        return (*asked, text)
    known = [_weigh(given, code, burst, events) for code in codes if code != RECOVERY_CHANGED]
    known = [one for one in known if one[2] != str(_PREEMPTED)] or known
    if not known:
        before = next((RECOVERY[said][0] for event in burst if (said := recovery_of(event)) in RECOVERY), "")
        told = f"the driver asked for a {before} and asks for nothing now" if before else "the new action is not told"
        return FindingSeverity.DEGRADED, RepairAction.OBSERVE, f"{text}: {told}"
    severity, action, _ = max(known, key=lambda one: one[0].weight)
    names = [*(given.xids.rule(code).name for code in codes), *(fault.text for fault in _faults(burst)[:_MAX_NAMED])]
    text += f" ({'; '.join(dict.fromkeys(name for name in names if name))})" if any(names) else ""
    text += _by_whom(burst)
    if severity is FindingSeverity.FATAL and _now(given) == 0:
        return FindingSeverity.DEGRADED, RepairAction.OBSERVE, f"{text}; the driver asks for no recovery"
    return severity, action, text


def _count(events: tuple[XidEvent, ...], code: int) -> int:
    return sum(event.code == code for event in events)


def _asked(given: CheckInput, burst: tuple[XidEvent, ...]) -> tuple[FindingSeverity, RepairAction] | None:
    """Return what the driver asks for: now, or with this burst."""
    said = [action for event in burst if (action := recovery_of(event)) is not None]
    asked = _now(given)
    if asked is None and said:
        asked = said[-1]
    if not asked:
        return None
    if asked not in RECOVERY:
        return FindingSeverity.DEGRADED, RepairAction.CONTACT_SUPPORT
    _, status, repair = RECOVERY[asked]
    return FindingSeverity.FATAL if status is FAIL else FindingSeverity.DEGRADED, repair


def _now(given: CheckInput) -> int | None:
    try:
        return int(given.number(ReadingId.NVML_RECOVERY_ACTION))
    except Unmeasured:
        return None


def _faults(burst: tuple[XidEvent, ...], code: int | None = None) -> list[LinkFault]:
    """Return what the Xids of a burst, or those with a code, say about links; the gravest first."""
    found = [fault for event in burst if code in (None, event.code) and (fault := link_fault(event)) is not None]
    return sorted(found, key=lambda fault: -fault.severity.weight)


def _by_whom(burst: tuple[XidEvent, ...]) -> str:
    """Name the programs and pods that ran, as far as anybody knows."""
    who = dict.fromkeys(_runner(event) for event in burst if event.workload)
    return f"; {', '.join([*who][:_MAX_NAMED])}" if who else ""


def _runner(event: XidEvent) -> str:
    program = event.program if event.program != UNKNOWN_PROGRAM else ""
    where = mention(event.pod, event.container) if event.pod else ""
    return " of ".join(part for part in (program, where) if part)


def _weigh(given: CheckInput, code: int, burst: tuple[XidEvent, ...], events: tuple[XidEvent, ...]) -> _Weighed:
    rule = given.xids.rule(code)
    if _repeats(given, rule, events) and rule.repeat is not None:
        return rule.repeat.severity, rule.repeat.action, str(code)
    if faults := _faults(burst, code):
        return faults[0].severity, faults[0].action, str(code)
    if rule.with_pending_remap is not None and _is_remap_pending(given):
        return rule.with_pending_remap, RepairAction.RESET_GPU, str(code)
    return rule.severity, rule.action, str(code)


def _repeats(given: CheckInput, rule: XidRule, events: tuple[XidEvent, ...]) -> bool:
    """Say whether a code repeats enough: one bad program alone does not condemn a GPU, nor do harmless registers."""
    if rule.repeat is None:
        return False
    start = given.sweep.taken_at - rule.repeat.hours * HOUR
    same = [event for event in events if event.code == rule.code and event.seconds >= start and not _is_harmless(event)]
    workloads = {_workload(event, same) for event in same} - {""} or {""}  # an unknown one may be any of the others
    return len(same) >= rule.repeat.count and len(workloads) >= rule.repeat.workloads


def _workload(event: XidEvent, others: Sequence[XidEvent]) -> str:
    """Return the workload: threads of one process have different names, of which the first counts."""
    same = (one for one in others if one.pid == event.pid and abs(one.seconds - event.seconds) < HOUR)
    return event.workload if event.pod or not event.pid else next(same).workload


def _is_harmless(event: XidEvent) -> bool:
    fault = link_fault(event)
    return fault is not None and fault.severity is _INFO


def _is_remap_pending(given: CheckInput) -> bool:
    try:
        return given.field(ReadingId.NVML_REMAPPED_ROWS, "pending") > 0
    except Unmeasured:
        return False


_ANNOUNCED = re.compile(r"The NVIDIA GPU (\S+)", re.ASCII)


def _fallen_off(given: CheckInput) -> CheckResult:
    """Look for GPUs that fell off the bus: the kernel may say so without an Xid, and in three messages."""
    gone, named = set[str](), ""
    for line in _lines(given):
        announced = _ANNOUNCED.search(line.text)
        named = normal_slot(announced[1]) if announced else named
        if _FALLEN in line.text:
            match = _BUS_ID.search(line.text)
            gone.add((normal_slot(match[0]) if match else named) or "a GPU that is not named")
    if gone:
        return failed(f"fell off the bus: {', '.join(sorted(gone))}", len(gone))
    return _nothing(given, "no GPU fell off the bus since the boot", 0.0)


def _told_events(given: CheckInput, check: str) -> CheckResult:
    """Judge the messages that the table has for one check. A later message may end them."""
    found: dict[Told, list[float]] = {}
    ended = 0.0
    for line in _lines(given):
        over = [told for told in found if ended_by(told, line.text) or (check == _DRIVER and RELOAD in line.text)]
        if over:
            found = {told: times for told, times in found.items() if told not in over}
            ended = line.seconds
        told = told_by(line.text)
        if told is not None and told.check == check:
            found.setdefault(told, []).append(line.seconds)
    now = given.sweep.taken_at
    counted = {
        told: sum(not told.event.hours or now - at <= told.event.hours * HOUR for at in times)
        for told, times in found.items()
    }
    faults = sorted(
        (told for told, count in counted.items() if count >= told.event.messages),
        key=lambda told: -FindingSeverity(told.event.severity).weight,
    )
    if not faults:
        return _nothing(given, "the kernel's log tells of no such fault", ended)
    worst = faults[0].event
    texts = (f"{told.event.what}{f': {told.subject}' if told.subject else ''}" for told in faults[:_MAX_NAMED])
    more = f" and {len(faults) - _MAX_NAMED} more" if len(faults) > _MAX_NAMED else ""
    return outcome(
        FAIL if worst.severity == FindingSeverity.FATAL else WARN,
        f"{'; '.join(dict.fromkeys(texts))}{more}",
        sum(counted.values()),
        severity=FindingSeverity(worst.severity),
        action=RepairAction(worst.action),
        samples=sum(counted.values()),
    )


_DRIVER = "kmsg.driver"
CHECKS = health_checks(
    "kernel",
    {
        "gpu.xid": _xids,
        "kmsg.fallen_off": _fallen_off,
        **{check: partial(_told_events, check=check) for check in kernel_events()},
    },
)
