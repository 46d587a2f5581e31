"""How a GPU is set up: persistence, InfoROM, versions, MIG, processes outside pods. Nothing is ever changed."""

from reconciler.core.health.checks.check import (
    MINUTE,
    CheckInput,
    CheckPrivilege,
    CheckResult,
    CheckScope,
    HealthCheck,
    Unmeasured,
    as_number,
)
from reconciler.core.health.checks.counters import lasting
from reconciler.core.health.findings import CheckStatus, FindingSeverity, RepairAction, Threshold, ThresholdSource
from reconciler.core.health.policy import CheckMode
from reconciler.core.health.readings import ReadError

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL


def _persistence(given: CheckInput) -> CheckResult:
    if given.number("nvml.persistence"):
        return CheckResult(status=PASS, message="persistence mode is on", observed="on")
    text = "persistence mode is off: the driver may unload between jobs, and counters start again"
    return CheckResult(status=WARN, message=text, observed="off")


def _inforom(given: CheckInput) -> CheckResult:
    """Warn if any call says that the InfoROM is corrupted: the check of the image is not supported everywhere."""
    for reading in given.sweep.readings:
        if reading.slot == given.slot and reading.error is ReadError.CORRUPTED_INFOROM:
            return CheckResult(status=WARN, message=f"the InfoROM is corrupted ({reading.name})", observed="corrupted")
    given.value("nvml.inforom")
    return CheckResult(status=PASS, message="the InfoROM is valid", observed="valid")


def _versions(given: CheckInput) -> CheckResult:
    driver = given.text("nvml.driver")
    if driver in given.expected.denied_drivers:
        text = f"driver {driver} is denied{given.expected.said_by}"
        return CheckResult(status=FAIL, message=text, observed=driver)
    if given.expected.drivers and driver not in given.expected.drivers:
        text = f"driver {driver} is not one of {', '.join(given.expected.drivers)}{given.expected.said_by}"
        return CheckResult(status=WARN, message=text, observed=driver)
    for name, part in (("nvml.vbios", "VBIOS"), ("nvml.gsp_firmware", "GSP firmware")):
        for product in sorted({gpu.product for gpu in given.sweep.gpus}):
            readings = (given.sweep.find(name, gpu.slot) for gpu in given.sweep.gpus if gpu.product == product)
            found = {str(reading.value) for reading in readings if reading is not None and reading.error is None}
            if len(found) > 1:
                text = f"GPUs of {product or 'one model'} have different versions of {part}: {', '.join(sorted(found))}"
                return CheckResult(status=WARN, message=text, observed=driver)
    return CheckResult(status=PASS, message=f"driver {driver}, and the same firmware on all GPUs", observed=driver)


def _mig(given: CheckInput) -> CheckResult:
    current, pending = (int(given.field("nvml.mig_mode", key)) for key in ("current", "pending"))
    said = "on" if current else "off"
    if current != pending:
        return CheckResult(status=WARN, message=f"MIG is {said} until the next reset", observed=said)
    if given.expected.mig is not None and bool(current) != given.expected.mig:
        wanted = "on" if given.expected.mig else "off"
        text = f"MIG is {said}, and should be {wanted}{given.expected.said_by}"
        return CheckResult(status=WARN, message=text, observed=said)
    return CheckResult(status=PASS, message=f"MIG is {said}", observed=said)


_GIB = 1 << 30


def _orphans(given: CheckInput) -> CheckResult:
    """Look for processes that hold memory of a GPU and belong to no pod. Needs the process ids of the host."""
    given.rows("nvml.processes")
    daemons = given.value("procfs.daemons", slot="")
    if not isinstance(daemons, list) or "kubelet" not in daemons:
        raise Unmeasured(CheckStatus.SKIP, "no kubelet runs here, or its processes cannot be seen")
    found = _orphan_pids(given)
    if found is None:
        raise Unmeasured(CheckStatus.SKIP, "the processes of this GPU cannot be seen")
    if not found:
        return CheckResult(status=PASS, message="no process outside pods holds memory", observed=0)
    pids = ", ".join(str(pid) for pid in sorted(found))
    if lasting(given, given.limit("minutes") * MINUTE, lambda each: bool(found & (_orphan_pids(each) or set()))):
        text = f"processes {pids} hold memory of the GPU and belong to no pod"
        return CheckResult(status=WARN, message=text, observed=len(found), threshold=given.threshold("minutes"))
    return CheckResult(status=PASS, message=f"processes {pids} belong to no pod, but not for long", observed=len(found))


def _orphan_pids(given: CheckInput) -> set[int] | None:
    """Return the processes with over a GiB that no pod owns; None if one of them cannot be seen."""
    groups = given.table("procfs.cgroups", slot="")
    found: set[int] = set()
    for row in given.rows("nvml.processes"):
        pid, memory = as_number(row.get("pid")), as_number(row.get("memory"))
        if pid is None or memory is None or memory <= _GIB:
            continue
        group = groups.get(str(int(pid)))
        if not isinstance(group, str):
            return None
        if "kubepods" not in group:
            found.add(int(pid))
    return found


CHECKS = (
    HealthCheck(
        id="persistence",
        title="Persistence mode is on",
        judge=_persistence,
        reads=("nvml.persistence",),
        severity=FindingSeverity.INFO,
        unit="mode",
    ),
    HealthCheck(
        id="inforom",
        title="The InfoROM is valid",
        judge=_inforom,
        reads=("nvml.inforom",),
        action=RepairAction.CONTACT_SUPPORT,
    ),
    HealthCheck(
        id="versions.uniform",
        title="One allowed driver, one firmware for GPUs of one model",
        judge=_versions,
        reads=("nvml.driver", "nvml.vbios", "nvml.gsp_firmware"),
        scope=CheckScope.NODE,
        mode=CheckMode.PROPOSE,
    ),
    HealthCheck(
        id="mig.mode",
        title="MIG is as declared",
        judge=_mig,
        reads=("nvml.mig_mode",),
        severity=FindingSeverity.INFO,
        mode=CheckMode.PROPOSE,
        unit="mode",
    ),
    HealthCheck(
        id="procs.orphan",
        title="No process outside pods holds memory of the GPU",
        judge=_orphans,
        reads=("nvml.processes", "procfs.daemons", "procfs.cgroups"),
        limits={"minutes": Threshold(value=5, source=ThresholdSource.SPEC)},
        mode=CheckMode.PROPOSE,
        privilege=CheckPrivilege.HOST,
        window=5 * MINUTE,
        unit="processes",
    ),
)
