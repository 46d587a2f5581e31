"""The host around the GPUs: the driver's module, services, the device plugin, PCIe topology, storage, the clock."""

from reconciler.core.health.checks.check import (
    CheckInput,
    CheckPrivilege,
    CheckResult,
    CheckScope,
    HealthCheck,
    Unmeasured,
    as_number,
)
from reconciler.core.health.findings import CheckStatus, FindingSeverity, RepairAction, Threshold, ThresholdSource
from reconciler.core.health.policy import CheckMode
from reconciler.core.health.readings import ReadError
from reconciler.core.values import plural

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_SPEC = ThresholdSource.SPEC


def _module(given: CheckInput) -> CheckResult:
    reading = given.sweep.find("sysfs.nvidia_module")
    if reading is not None and reading.error is ReadError.NOT_SUPPORTED:
        cards = given.sweep.find("sysfs.pci_gpus")
        found = len(cards.value) if cards is not None and isinstance(cards.value, list) else 0
        if wanted := given.expected.gpus or found:
            return CheckResult(
                status=FAIL,
                message=f"the driver's module is not loaded, and there should be {plural(wanted, 'GPU')}"
                f"{given.expected.said_by if given.expected.gpus else ''}",
            )
        raise Unmeasured(CheckStatus.SKIP, "this node has no GPU")
    loaded = given.text("sysfs.nvidia_module")
    if given.sweep.driver and loaded != given.sweep.driver:
        text = f"the module has version {loaded}, the library {given.sweep.driver}: restart the node"
        return CheckResult(status=WARN, message=text, observed=loaded, action=RepairAction.REBOOT_NODE)
    return CheckResult(status=PASS, message=f"the driver's module {loaded} is loaded", observed=loaded)


_FABRIC_SETS_UP = (1, 2)
_RECOVER_IMEX = 5


def _fabric_manager(given: CheckInput) -> CheckResult:
    """Judge by the state of the fabric; the process is only a hint where the fabric is not complete."""
    states = [
        reading.value.get("state") for reading in given.sweep.all("nvml.fabric") if isinstance(reading.value, dict)
    ]
    if not any(states):
        raise Unmeasured(CheckStatus.SKIP, "no GPU is part of a fabric")
    waiting = sum(state in _FABRIC_SETS_UP for state in states)
    if not waiting:
        return CheckResult(status=PASS, message="the fabric is complete", observed=0)
    daemons = given.value("procfs.daemons")
    runs = isinstance(daemons, list) and "nv-fabricmanager" in daemons
    text = "the fabric manager is running" if runs else "the fabric manager is not visible"
    return CheckResult(
        status=WARN, message=f"{plural(waiting, 'GPU')} waiting for the fabric, and {text}", observed=waiting
    )


def _imex(given: CheckInput) -> CheckResult:
    """Warn only if the driver asks for it: states of the service alone raised false alarms for weeks."""
    asks = [reading.slot for reading in given.sweep.all("nvml.recovery_action") if reading.value == _RECOVER_IMEX]
    if asks:
        return CheckResult(
            status=WARN, message=f"the driver asks to recover IMEX on {', '.join(asks)}", observed=len(asks)
        )
    daemons = given.value("procfs.daemons")
    if not isinstance(daemons, list) or "nvidia-imex" not in daemons:
        raise Unmeasured(CheckStatus.SKIP, "IMEX does not run on this node")
    return CheckResult(status=PASS, message="IMEX runs, and no GPU asks for its recovery", observed=0)


def _plugin(given: CheckInput) -> CheckResult:
    reading = given.sweep.find("kubernetes.allocatable_gpus")
    if reading is None:
        raise Unmeasured(CheckStatus.SKIP, "the number of GPUs that Kubernetes counts here is not known")
    allocatable, found = int(given.number("kubernetes.allocatable_gpus")), int(given.number("nvml.count"))
    limit = Threshold(value=found, source=_SPEC, citation="GPUs that NVML counts")
    status = PASS if allocatable == found else WARN
    text = f"Kubernetes counts {plural(allocatable, 'GPU')}, NVML {found}"
    return CheckResult(status=status, message=text, observed=allocatable, threshold=limit)


_REDIRECTS = 0x0C  # P2P request redirect, P2P completion redirect


def _acs(given: CheckInput) -> CheckResult:
    """Look for bridges that send traffic between GPUs through the processor. Right with virtual machines, else slow."""
    bridges = given.rows("sysfs.acs")
    if not bridges:
        raise Unmeasured(CheckStatus.SKIP, "no bridge above a GPU can redirect traffic")
    found = [str(row.get("slot")) for row in bridges if int(as_number(row.get("control")) or 0) & _REDIRECTS]
    if found:
        text = f"traffic between GPUs goes through the processor at {', '.join(found)}: ACS redirects it"
        return CheckResult(status=WARN, message=text, observed=len(found))
    return CheckResult(status=PASS, message="no bridge redirects traffic between GPUs", observed=0)


def _numa(given: CheckInput) -> CheckResult:
    cards = given.rows("sysfs.pci_gpus")
    nodes = given.number("sysfs.numa_nodes")
    if not cards or nodes <= 1:
        raise Unmeasured(CheckStatus.SKIP, "this node has one NUMA node or no GPU")
    lost = [str(row.get("slot")) for row in cards if str(row.get("numa")) == "-1"]
    if lost:
        text = f"the firmware does not report the NUMA node of {', '.join(lost)}"
        return CheckResult(status=WARN, message=text, observed=len(lost))
    return CheckResult(status=PASS, message="every GPU has a NUMA node", observed=0)


_SLOW = ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NVLS_DISABLE")


def _nccl(given: CheckInput) -> CheckResult:
    text = given.value("etc.nccl")
    if not isinstance(text, str):
        raise Unmeasured(CheckStatus.UNKNOWN, "etc.nccl: not a text")
    settings = dict(
        line.split("=", 1) for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#")
    )
    found = [name for name, value in settings.items() if name.strip() in _SLOW and value.strip() not in {"", "0"}]
    if found:
        said = ", ".join(sorted(name.strip() for name in found))
        return CheckResult(status=WARN, message=f"/etc/nccl.conf slows NCCL down: {said}", observed=said)
    return CheckResult(status=PASS, message="/etc/nccl.conf disables nothing", observed="")


def _disk(given: CheckInput) -> CheckResult:
    rows = given.rows("statfs.usage")
    found: list[tuple[float, str]] = []
    for row in rows:
        free, total = as_number(row.get("free")), as_number(row.get("total"))
        if free is not None and total:
            found.append((free / total * 100, str(row.get("path"))))
    if not found:
        raise Unmeasured(CheckStatus.UNKNOWN, "statfs.usage: no file system")
    percent, path = min(found)
    status = WARN if percent < given.limit("freePercent") else PASS
    text = f"{percent:.0f} % of {path} is free"
    return CheckResult(
        status=status, message=text, observed=round(percent, 1), threshold=given.threshold("freePercent")
    )


def _clock(given: CheckInput) -> CheckResult:
    offset = abs(given.field("clock.adjtimex", "offset"))
    limit = given.threshold("seconds")
    if not given.field("clock.adjtimex", "synchronized"):
        return CheckResult(status=WARN, message="the clock is not synchronized", observed=offset, threshold=limit)
    status = WARN if offset > given.limit("seconds") else PASS
    return CheckResult(status=status, message=f"{offset:.6f} s off", observed=offset, threshold=limit)


def _node(**values: object) -> HealthCheck:
    return HealthCheck(scope=CheckScope.NODE, **values)  # type: ignore[arg-type]


CHECKS = (
    _node(
        id="driver.module",
        title="The driver's module is loaded, in the version of the library",
        judge=_module,
        reads=("sysfs.nvidia_module", "sysfs.pci_gpus"),
        severity=FindingSeverity.FATAL,
        action=RepairAction.REBOOT_NODE,
    ),
    _node(
        id="fabricmanager",
        title="No GPU waits for the fabric manager",
        judge=_fabric_manager,
        reads=("nvml.fabric", "procfs.daemons"),
        unit="GPUs",
    ),
    _node(
        id="imex",
        title="No GPU asks for a recovery of IMEX",
        judge=_imex,
        reads=("nvml.recovery_action", "procfs.daemons"),
        unit="GPUs",
    ),
    _node(
        id="plugin.registered",
        title="Kubernetes counts the GPUs that NVML counts",
        judge=_plugin,
        reads=("kubernetes.allocatable_gpus", "nvml.count"),
        unit="GPUs",
    ),
    _node(
        id="pcie.acs",
        title="No bridge sends traffic between GPUs through the processor",
        judge=_acs,
        reads=("sysfs.acs",),
        vendor="",
        mode=CheckMode.PROPOSE,
        privilege=CheckPrivilege.ROOT,
        unit="bridges",
    ),
    _node(
        id="numa",
        title="Every GPU has a NUMA node",
        judge=_numa,
        reads=("sysfs.pci_gpus", "sysfs.numa_nodes"),
        vendor="",
        severity=FindingSeverity.INFO,
        unit="GPUs",
    ),
    _node(
        id="nccl.env",
        title="/etc/nccl.conf disables no transport",
        judge=_nccl,
        reads=("etc.nccl",),
        vendor="",
        severity=FindingSeverity.INFO,
    ),
    _node(
        id="disk.space",
        title="File systems and shared memory have free space",
        judge=_disk,
        reads=("statfs.usage",),
        vendor="",
        limits={"freePercent": Threshold(value=10, source=_SPEC, citation="eviction threshold of the kubelet")},
        unit="%",
    ),
    _node(
        id="clock.skew",
        title="The clock is synchronized",
        judge=_clock,
        reads=("clock.adjtimex",),
        vendor="",
        limits={"seconds": Threshold(value=0.5, source=_SPEC)},
        severity=FindingSeverity.INFO,
        unit="s",
    ),
)
