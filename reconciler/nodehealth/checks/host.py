"""The host around the GPUs: the driver's module, services, the device plugin, PCIe topology."""

from reconciler.kube.values import plural
from reconciler.nodehealth.checks.check import (
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.findings import CheckStatus, RepairAction, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadError, ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_SPEC = ThresholdSource.SPEC


def _module(given: CheckInput) -> CheckResult:
    reading = given.sweep.find(ReadingId.SYSFS_NVIDIA_MODULE)
    if reading is not None and reading.error is ReadError.NOT_SUPPORTED:
        cards = given.sweep.find(ReadingId.SYSFS_PCI_GPUS)
        found = len(cards.value) if cards is not None and isinstance(cards.value, list) else 0
        if wanted := given.expected.gpus or found:
            return failed(
                f"the driver's module is not loaded, and there should be {plural(wanted, 'GPU')}"
                f"{given.expected.said_by if given.expected.gpus else ''}"
            )
        raise Unmeasured(CheckStatus.SKIP, "this node has no GPU")
    loaded = given.text(ReadingId.SYSFS_NVIDIA_MODULE)
    if given.sweep.driver and loaded != given.sweep.driver:
        text = f"the module has version {loaded}, the library {given.sweep.driver}: restart the node"
        return warned(text, loaded, action=RepairAction.REBOOT_NODE)
    return passed(f"the driver's module {loaded} is loaded", loaded)


_SWITCHED = ("A100-SXM", "A800-SXM", "H100 80GB HBM3", "H200", "H800", "B200", "B300")
_BOARD = 8  # GPUs of a board with NVSwitches
_FABRIC_SETS_UP = (1, 2)  # NVML_GPU_FABRIC_STATE_NOT_STARTED and _IN_PROGRESS
_RECOVER_IMEX = 5


def _fabric_manager(given: CheckInput) -> CheckResult:
    """Judge by the state of the fabric; the process is only a hint where the fabric is not complete."""
    states = [
        reading.value.get("state")
        for reading in given.sweep.all(ReadingId.NVML_FABRIC)
        if isinstance(reading.value, dict)
    ]
    daemons = given.value(ReadingId.PROCFS_DAEMONS)
    runs = isinstance(daemons, list) and "nv-fabricmanager" in daemons
    if not any(states):
        names = [gpu.product for gpu in given.sweep.gpus if "NVL" not in gpu.product]
        boards = sum(any(word in name for word in _SWITCHED) for name in names)
        if boards < _BOARD or runs or not isinstance(daemons, list) or "kubelet" not in daemons:
            raise Unmeasured(CheckStatus.SKIP, "no GPU is part of a fabric")
        text = f"{boards} GPUs on a board with NVSwitches, and the fabric manager does not run: programs cannot start"
        return failed(text, boards, action=RepairAction.REBOOT_NODE)
    waiting = sum(state in _FABRIC_SETS_UP for state in states)
    if not waiting:
        return passed("the fabric is complete", 0)
    text = "the fabric manager is running" if runs else "the fabric manager is not visible"
    return warned(f"{plural(waiting, 'GPU')} waiting for the fabric, and {text}", waiting)


def _imex(given: CheckInput) -> CheckResult:
    """Warn if the driver asks for it or the domain is not whole; fail if this node is what the domain lacks."""
    asks = [
        reading.slot for reading in given.sweep.all(ReadingId.NVML_RECOVERY_ACTION) if reading.value == _RECOVER_IMEX
    ]
    if asks:
        return warned(f"the driver asks to recover IMEX on {', '.join(asks)}", len(asks))
    daemons = given.value(ReadingId.PROCFS_DAEMONS)
    if not isinstance(daemons, list) or "nvidia-imex" not in daemons:
        if given.expected.imex:
            return failed(f"IMEX does not run, so no job can use memory of other nodes{given.expected.said_by}")
        raise Unmeasured(CheckStatus.SKIP, "IMEX does not run on this node")
    if given.sweep.find(ReadingId.IMEX_DOMAIN) is not None or given.expected.imex_nodes:
        return _imex_domain(given)
    return passed("IMEX runs, and no GPU asks for its recovery", 0)


def _imex_domain(given: CheckInput) -> CheckResult:
    """Judge the domain of this node (`nvidia-imex-ctl`): all of its nodes say the same, but one is to blame."""
    found = given.table(ReadingId.IMEX_DOMAIN)
    nodes = [one for one in found.get("nodes", ()) if isinstance(one, dict)]
    if not nodes:
        raise Unmeasured(CheckStatus.UNKNOWN, "the IMEX domain has no nodes")
    bad = [one for one in nodes if one.get("status") != "READY" or 2 * len(one.get("cut", ())) > len(nodes)]
    ready, wanted = len(nodes) - len(bad), given.expected.imex_nodes or len(nodes)
    text = f"{ready} of {wanted} nodes of the IMEX domain are connected, and it is {found.get('status')}"
    text += given.expected.said_by if given.expected.imex_nodes else ""
    if ready >= wanted and found.get("status") == "UP":
        return passed(text, ready)
    is_ours = any(given.sweep.node in (one.get("name"), one.get("host")) for one in bad)
    named = ", ".join(sorted(f"{one.get('name') or one.get('host')} {one.get('status')}" for one in bad)[:5])
    return outcome(FAIL if is_ours else WARN, f"{text}: {named}" if bad else text, ready)


def _plugin(given: CheckInput) -> CheckResult:
    reading = given.sweep.find(ReadingId.KUBERNETES_ALLOCATABLE_GPUS)
    if reading is None:
        raise Unmeasured(CheckStatus.SKIP, "the number of GPUs that Kubernetes counts here is not known")
    allocatable, found = (
        int(given.number(ReadingId.KUBERNETES_ALLOCATABLE_GPUS)),
        int(given.number(ReadingId.NVML_COUNT)),
    )
    limit = Threshold(value=found, source=_SPEC, citation="GPUs that NVML counts")
    status = PASS if allocatable == found else WARN
    return outcome(status, f"Kubernetes counts {plural(allocatable, 'GPU')}, NVML {found}", allocatable, limit)


_REDIRECTS = 0x0C  # P2P request redirect, P2P completion redirect


def _acs(given: CheckInput) -> CheckResult:
    """Look for bridges that send traffic between GPUs through the processor. Right with virtual machines, else slow."""
    bridges = given.rows(ReadingId.SYSFS_ACS)
    if not bridges:
        raise Unmeasured(CheckStatus.SKIP, "no bridge above a GPU can redirect traffic")
    found = [str(row.get("slot")) for row in bridges if int(as_number(row.get("control")) or 0) & _REDIRECTS]
    if found:
        text = f"traffic between GPUs goes through the processor at {', '.join(found)}: ACS redirects it"
        return warned(text, len(found))
    return passed("no bridge redirects traffic between GPUs", 0)


CHECKS = health_checks(
    "host",
    {
        "driver.module": _module,
        "fabricmanager": _fabric_manager,
        "imex": _imex,
        "plugin.registered": _plugin,
        "pcie.acs": _acs,
    },
)
