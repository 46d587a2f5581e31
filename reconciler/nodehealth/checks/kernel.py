"""The kernel's log: Xids of each GPU, and GPUs that fell off the bus."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.nodehealth.checks.check import (
    DAY,
    HOUR,
    CheckInput,
    CheckPrivilege,
    CheckResult,
    CheckScope,
    HealthCheck,
    Unmeasured,
    as_number,
)
from reconciler.nodehealth.checks.driver import RECOVERY
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, RepairAction, Threshold, ThresholdSource
from reconciler.nodehealth.policy import Lane
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
    since_reset,
    together,
)

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_APP, _INFO = FindingSeverity.APP, FindingSeverity.INFO
_WEIGHT = {_INFO: 0, _APP: 1, FindingSeverity.DEGRADED: 2, FindingSeverity.FATAL: 3}
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


def _xid_events(given: CheckInput) -> tuple[XidEvent, ...]:
    """Return the Xids of a GPU since its last reset, of the kernel's log and of NVML.

    NVML tells only what happens while somebody listens: without the log, nothing told is no pass.
    """
    told = _told(given)
    try:
        logged = [event for line in _lines(given) if (event := _event(given, line)) is not None]
    except Unmeasured as unmeasured:
        if not told:
            raise Unmeasured(unmeasured.status, f"{unmeasured}; no NVML event since the agent started") from None
        logged = []
    events = (event for event in together(logged, told) if event.slot == given.slot)
    return since_reset(events)


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
    events = _xid_events(given)
    recent = given.sweep.taken_at - given.limit("hours") * HOUR
    weighed: list[_Weighed] = []
    for burst in bursts(events):
        severity, action, text = _weigh_burst(given, burst, events)
        if severity not in {_APP, _INFO} or burst[-1].seconds >= recent:
            weighed.append((severity, action, text))
    if not weighed:
        return CheckResult(status=PASS, message="no Xid since the last boot or reset", observed=0)
    severity, action, _ = max(weighed, key=lambda one: _WEIGHT[one[0]])
    text = "; ".join(dict.fromkeys(text for each, _, text in weighed if each is severity))[:500]
    status = FAIL if severity is FindingSeverity.FATAL else PASS if severity is _INFO else WARN
    return CheckResult(
        status=status, message=text, observed=len(events), severity=severity, action=action, samples=len(events)
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
        return (
            FindingSeverity.DEGRADED,
            RepairAction.OBSERVE,
            f"{text}: the recovery action changed; the new one is not given",
        )
    severity, action, _ = max(known, key=lambda one: _WEIGHT[one[0]])
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
    return sorted(found, key=lambda fault: -_WEIGHT[fault.severity])


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
    workloads = {event.workload for event in same} - {""} or {""}  # an unknown one may be any of the others
    return len(same) >= rule.repeat.count and len(workloads) >= rule.repeat.workloads


def _is_harmless(event: XidEvent) -> bool:
    fault = link_fault(event)
    return fault is not None and fault.severity is _INFO


def _is_remap_pending(given: CheckInput) -> bool:
    try:
        return given.field(ReadingId.NVML_REMAPPED_ROWS, "pending") > 0
    except Unmeasured:
        return False


def _fallen_off(given: CheckInput) -> CheckResult:
    """Look for GPUs that fell off the bus: the kernel may say so without an Xid."""
    told = (_BUS_ID.search(line.text) for line in _lines(given) if _FALLEN in line.text)
    gone = sorted({slot for match in told if match and (slot := normal_slot(match[0]))})
    if gone:
        text = f"fell off the bus: {', '.join(gone)}"
        return CheckResult(status=FAIL, message=text, observed=len(gone))
    return CheckResult(status=PASS, message="no GPU fell off the bus since the boot", observed=0)


CHECKS = (
    HealthCheck(
        id="gpu.xid",
        title="No Xid that matters since the last boot or reset",
        judge=_xids,
        reads=(
            ReadingId.KMSG_LINES,
            ReadingId.PROCFS_BTIME,
            ReadingId.NVML_XIDS,
            ReadingId.NVML_RECOVERY_ACTION,
            ReadingId.NVML_REMAPPED_ROWS,
        ),
        limits={"hours": Threshold(value=24, source=ThresholdSource.SPEC, citation="for codes that blame a program")},
        severity=FindingSeverity.FATAL,
        action=RepairAction.RESET_GPU,
        lane=Lane.FAST,
        privilege=CheckPrivilege.HOST,
        window=7 * DAY,
        unit="events",
    ),
    HealthCheck(
        id="kmsg.fallen_off",
        title="No GPU fell off the bus",
        judge=_fallen_off,
        reads=(ReadingId.KMSG_LINES, ReadingId.PROCFS_BTIME),
        scope=CheckScope.NODE,
        severity=FindingSeverity.FATAL,
        action=RepairAction.POWER_CYCLE,
        lane=Lane.FAST,
        privilege=CheckPrivilege.HOST,
        window=7 * DAY,
        unit="GPUs",
    ),
)
