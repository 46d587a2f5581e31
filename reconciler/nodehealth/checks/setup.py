"""The setup of a GPU: InfoROM, versions, processes outside pods. Nothing is ever changed."""

from reconciler.nodehealth.checks.check import (
    MINUTE,
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    passed,
    warned,
)
from reconciler.nodehealth.checks.counters import lasting
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.readings import ReadError, ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL


def _inforom(given: CheckInput) -> CheckResult:
    """Warn if any call says that the InfoROM is corrupted: the check of the image is not supported everywhere."""
    for reading in given.sweep.readings:
        if reading.slot == given.slot and reading.error is ReadError.CORRUPTED_INFOROM:
            return warned(f"the InfoROM is corrupted ({reading.name})", "corrupted")
    given.value(ReadingId.NVML_INFOROM)
    return passed("the InfoROM is valid", "valid")


def _versions(given: CheckInput) -> CheckResult:
    driver = given.text(ReadingId.NVML_DRIVER)
    if driver in given.expected.denied_drivers:
        return failed(f"driver {driver} is denied{given.expected.said_by}", driver)
    if given.expected.drivers and driver not in given.expected.drivers:
        text = f"driver {driver} is not one of {', '.join(given.expected.drivers)}{given.expected.said_by}"
        return warned(text, driver)
    for name, part in ((ReadingId.NVML_VBIOS, "VBIOS"), (ReadingId.NVML_GSP_FIRMWARE, "GSP firmware")):
        for product in sorted({gpu.product for gpu in given.sweep.gpus}):
            readings = (given.sweep.find(name, gpu.slot) for gpu in given.sweep.gpus if gpu.product == product)
            found = {str(reading.value) for reading in readings if reading is not None and reading.error is None}
            if len(found) > 1:
                text = f"GPUs of {product or 'one model'} have different versions of {part}: {', '.join(sorted(found))}"
                return warned(text, driver)
    return passed(f"driver {driver}, and the same firmware on all GPUs", driver)


_GIB = 1 << 30


def _orphans(given: CheckInput) -> CheckResult:
    """Look for processes that hold memory of a GPU and belong to no pod. Needs the process ids of the host."""
    given.rows(ReadingId.NVML_PROCESSES)
    daemons = given.value(ReadingId.PROCFS_DAEMONS, slot="")
    if not isinstance(daemons, list) or "kubelet" not in daemons:
        raise Unmeasured(CheckStatus.SKIP, "no kubelet runs here, or its processes cannot be seen")
    found = _orphan_pids(given)
    if found is None:
        raise Unmeasured(CheckStatus.SKIP, "the processes of this GPU cannot be seen")
    if not found:
        return passed("no process outside pods holds memory", 0)
    pids = ", ".join(str(pid) for pid in sorted(found))
    if lasting(given, given.limit("minutes") * MINUTE, lambda each: bool(found & (_orphan_pids(each) or set()))):
        text = f"processes {pids} hold memory of the GPU and belong to no pod"
        return warned(text, len(found), given.threshold("minutes"))
    return passed(f"processes {pids} belong to no pod, but not for long", len(found))


def _orphan_pids(given: CheckInput) -> set[int] | None:
    """Return the processes with over a GiB that no pod owns; None if one of them cannot be seen."""
    groups = given.table(ReadingId.PROCFS_CGROUPS, slot="")
    found: set[int] = set()
    for row in given.rows(ReadingId.NVML_PROCESSES):
        pid, memory = as_number(row.get("pid")), as_number(row.get("memory"))
        if pid is None or memory is None or memory <= _GIB:
            continue
        group = groups.get(str(int(pid)))
        if not isinstance(group, str):
            return None
        if "kubepods" not in group:
            found.add(int(pid))
    return found


CHECKS = health_checks("setup", {"inforom": _inforom, "versions.uniform": _versions, "procs.orphan": _orphans})
