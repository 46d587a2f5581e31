"""The kernel's log: Xids of each GPU, and GPUs that fell off the bus."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.health.checks.check import (
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
from reconciler.core.health.checks.driver import RECOVERY
from reconciler.core.health.findings import CheckStatus, FindingSeverity, RepairAction, Threshold, ThresholdSource
from reconciler.core.health.policy import Lane
from reconciler.core.health.slots import normal_slot
from reconciler.core.health.xid import RECOVERY_CHANGED, XidEvent, XidRule, bursts, parse_xid, recovery_of, since_reset

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_APP, _INFO = FindingSeverity.APP, FindingSeverity.INFO
_WEIGHT = {_INFO: 0, _APP: 1, FindingSeverity.DEGRADED: 2, FindingSeverity.FATAL: 3}
_PREEMPTED = 45
_BUS_ID = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?(?![0-9a-fA-F])", re.ASCII)
_FALLEN = "fallen off the bus"
_LINE_LENGTH = 1000  # the kernel writes no longer ones

_Weighed = tuple[FindingSeverity, RepairAction, str]


def _lines(given: CheckInput) -> Iterator[tuple[float, str]]:
    """Yield the lines of this boot, also those that earlier sweeps have read and the kernel has dropped since."""
    given.rows("kmsg.lines", slot="")
    boot = given.sweep.find("procfs.btime")
    booted = as_number(boot.value) if boot is not None else None
    for sweep in (*given.earlier(7 * DAY), given.sweep):
        reading = sweep.find("kmsg.lines")
        for row in reading.value if reading is not None and isinstance(reading.value, list) else ():
            if isinstance(row, dict) and isinstance(row.get("text"), str):
                seconds = _seconds(row, booted)
                if seconds is not None and row.get("boot", sweep.boot_id) == given.sweep.boot_id:
                    yield seconds, row["text"][:_LINE_LENGTH]


def _seconds(row: Mapping[str, Any], booted: float | None) -> float | None:
    """Return when a line was written. A line of the kernel tells its time since the boot, which must be known."""
    since_boot = as_number(row.get("monotonic"))
    if since_boot is None:
        return as_number(row.get("seconds"))
    return None if booted is None else booted + since_boot


def _xid_events(given: CheckInput) -> tuple[XidEvent, ...]:
    found = (parse_xid(text, seconds=seconds, boot_id=given.sweep.boot_id) for seconds, text in _lines(given))
    events = (event for event in found if event is not None and event.slot == given.slot)
    return since_reset(events, given.expected.resets.get(given.slot, 0.0))


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
    known = [_weigh(given, code, events) for code in codes if code != RECOVERY_CHANGED]
    known = [one for one in known if one[2] != str(_PREEMPTED)] or known
    if not known:
        return (
            FindingSeverity.DEGRADED,
            RepairAction.OBSERVE,
            f"{text}: the recovery action changed; the new one is not given",
        )
    severity, action, _ = max(known, key=lambda one: _WEIGHT[one[0]])
    names = [given.xids.rule(code).name for code in codes]
    text += f" ({'; '.join(dict.fromkeys(name for name in names if name))})" if any(names) else ""
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
        return int(given.number("nvml.recovery_action"))
    except Unmeasured:
        return None


def _weigh(given: CheckInput, code: int, events: tuple[XidEvent, ...]) -> _Weighed:
    rule = given.xids.rule(code)
    if _repeats(given, rule, events) and rule.repeat is not None:
        return rule.repeat.severity, rule.repeat.action, str(code)
    if rule.with_pending_remap is not None and _is_remap_pending(given):
        return rule.with_pending_remap, RepairAction.RESET_GPU, str(code)
    return rule.severity, rule.action, str(code)


def _repeats(given: CheckInput, rule: XidRule, events: tuple[XidEvent, ...]) -> bool:
    """Say whether a code repeats enough: one bad program alone does not condemn a GPU."""
    if rule.repeat is None:
        return False
    start = given.sweep.taken_at - rule.repeat.hours * HOUR
    same = [event for event in events if event.code == rule.code and event.seconds >= start]
    return len(same) >= rule.repeat.count and len({event.workload for event in same}) >= rule.repeat.workloads


def _is_remap_pending(given: CheckInput) -> bool:
    try:
        return given.field("nvml.remapped_rows", "pending") > 0
    except Unmeasured:
        return False


def _fallen_off(given: CheckInput) -> CheckResult:
    """Look for GPUs that fell off the bus: the kernel may say so without an Xid."""
    found = {
        slot: seconds
        for seconds, text in _lines(given)
        if _FALLEN in text and (match := _BUS_ID.search(text)) and (slot := normal_slot(match[0]))
    }
    gone = sorted(slot for slot, seconds in found.items() if seconds > given.expected.resets.get(slot, 0.0))
    if gone:
        text = f"fell off the bus: {', '.join(gone)}"
        return CheckResult(status=FAIL, message=text, observed=len(gone))
    return CheckResult(status=PASS, message="no GPU fell off the bus since the boot", observed=0)


CHECKS = (
    HealthCheck(
        id="gpu.xid",
        title="No Xid that matters since the last boot or reset",
        judge=_xids,
        reads=("kmsg.lines", "nvml.recovery_action", "nvml.remapped_rows"),
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
        reads=("kmsg.lines",),
        scope=CheckScope.NODE,
        severity=FindingSeverity.FATAL,
        action=RepairAction.POWER_CYCLE,
        lane=Lane.FAST,
        privilege=CheckPrivilege.HOST,
        window=7 * DAY,
        unit="GPUs",
    ),
)
