"""Driver and presence: can the GPUs be reached at all? Only these checks fail when a GPU or the driver is gone."""

from collections.abc import Callable

from reconciler.kube.values import plural
from reconciler.nodehealth.checks.check import (
    CheckInput,
    CheckResult,
    Unmeasured,
    failed,
    health_checks,
    meaning,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.checks.counters import in_a_row
from reconciler.nodehealth.findings import CheckStatus, RepairAction
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep

_SILENT = frozenset({ReadError.DEADLINE, ReadError.FAILED})


def _init(given: CheckInput) -> CheckResult:
    reading = given.sweep.find(ReadingId.NVML_INIT)
    if reading is None:
        raise Unmeasured(CheckStatus.UNKNOWN, "nvml.init: not read")
    if reading.error is None:
        return passed(f"NVML works, driver {given.sweep.driver or 'unknown'}")
    if reading.error is ReadError.DRIVER_MISMATCH:
        return warned(
            "the driver was upgraded and the node was not restarted: NVML cannot be used",
            action=RepairAction.REBOOT_NODE,
        )
    if reading.error in {ReadError.NO_LIBRARY, ReadError.NO_DRIVER}:
        if given.expected.gpus:
            return failed(
                f"{meaning(reading)}, and the node should have {plural(given.expected.gpus, 'GPU')}"
                f"{given.expected.said_by}"
            )
        if given.expected.gpus == 0:
            raise Unmeasured(CheckStatus.SKIP, "this node should have no GPU")
    if reading.error in _SILENT:
        return _silent(given, [reading], lambda sweep: _has_error(sweep.find(ReadingId.NVML_INIT), _SILENT))
    raise meaning(reading)


def _count(given: CheckInput) -> CheckResult:
    """Compare what NVML counts with what is expected, else with the PCI bus: a GPU that fell off may be on neither."""
    expected, place = given.expected.gpus, f"expected{given.expected.said_by}"
    threshold = given.expected_limit(expected)
    if expected is None:
        expected, place = len(given.rows(ReadingId.SYSFS_PCI_GPUS)), "on the PCI bus"
    found = int(given.number(ReadingId.NVML_COUNT))
    if found < expected:
        return failed(f"{plural(found, 'GPU')}, {expected} {place}", found, threshold)
    message = plural(found, "GPU") if found == expected else f"{plural(found, 'GPU')}, more than the {expected} {place}"
    return passed(message, found, threshold)


def _reachable(given: CheckInput) -> CheckResult:
    """Judge a GPU by the errors of all its readings: any of them may be the first to tell that it is lost."""
    errors = {reading.error: reading for reading in given.sweep.readings if reading.slot == given.slot}
    if lost := errors.get(ReadError.GPU_LOST):
        return failed(str(meaning(lost)), action=RepairAction.POWER_CYCLE)
    if reset := errors.get(ReadError.RESET_REQUIRED):
        return failed(str(meaning(reset)), action=RepairAction.RESET_GPU)
    handle = given.sweep.find(ReadingId.NVML_HANDLE, given.slot)
    silent = [errors[error] for error in (ReadError.DEADLINE,) if error in errors]
    if handle is not None and handle.error in _SILENT:
        silent.append(handle)
    if silent:
        return _silent(given, silent, lambda sweep: _is_silent(sweep, given.slot))
    given.value(ReadingId.NVML_HANDLE)
    return passed("the GPU answers")


RECOVERY = {
    1: ("reset", CheckStatus.FAIL, RepairAction.RESET_GPU),
    2: ("reboot of the node", CheckStatus.FAIL, RepairAction.REBOOT_NODE),
    3: ("drain of peers", CheckStatus.WARN, RepairAction.OBSERVE),
    4: ("drain and reset", CheckStatus.FAIL, RepairAction.RESET_GPU),
    5: ("recovery of IMEX", CheckStatus.WARN, RepairAction.OBSERVE),
    6: ("reset of the bus", CheckStatus.FAIL, RepairAction.POWER_CYCLE),
    7: ("reboot of the system", CheckStatus.FAIL, RepairAction.REBOOT_NODE),
}
"""Values of NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: what the driver asks for, what we call it, what we recommend."""


def _recovery(given: CheckInput) -> CheckResult:
    code = int(given.number(ReadingId.NVML_RECOVERY_ACTION))
    if code == 0:
        return passed("the driver asks for no recovery action", "none")
    if code not in RECOVERY:
        raise Unmeasured(CheckStatus.UNKNOWN, f"the driver asks for recovery action {code}, which is not known")
    text, status, action = RECOVERY[code]
    return outcome(status, f"the driver asks for a {text}", text, action=action)


def _is_silent(sweep: Sweep, slot: str) -> bool:
    return _has_error(sweep.find(ReadingId.NVML_HANDLE, slot), _SILENT) or any(
        reading.slot == slot and reading.error is ReadError.DEADLINE for reading in sweep.readings
    )


def _has_error(reading: NodeReading | None, errors: frozenset[ReadError]) -> bool:
    return reading is not None and reading.error in errors


def _silent(given: CheckInput, readings: list[NodeReading], is_silent: Callable[[Sweep], bool]) -> CheckResult:
    """Return UNKNOWN until as many sweeps in a row as the limit had no answer, then FAIL."""
    count = in_a_row(given, lambda earlier: is_silent(earlier.sweep))
    text = str(meaning(readings[0]))
    if count >= given.limit("sweeps"):
        return failed(
            f"{text}, {count} sweeps in a row",
            count,
            given.threshold("sweeps"),
            samples=count,
            action=RepairAction.REBOOT_NODE,
        )
    raise Unmeasured(CheckStatus.UNKNOWN, f"{text}, {count} of {given.limit('sweeps'):g} sweeps before it is a failure")


CHECKS = health_checks(
    "driver", {"nvml.init": _init, "gpu.count": _count, "gpu.reachable": _reachable, "gpu.recovery_action": _recovery}
)
