"""Findings: what a check says about a node or one of its GPUs, and how two findings of one check combine."""

from enum import StrEnum

from msgspec import Struct


class CheckStatus(StrEnum):
    """The result of a check. UNKNOWN: it could not measure. SKIP: it does not apply here. Neither is a pass."""

    PASS = "PASS"  # noqa: S105 (a status)
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    SKIP = "SKIP"


class FindingSeverity(StrEnum):
    """The severity of a WARN or FAIL. APP blames the program that ran; FATAL means that the GPU cannot be used."""

    APP = "app"
    INFO = "info"
    DEGRADED = "degraded"
    FATAL = "fatal"

    @property
    def weight(self) -> int:
        """The order of severities."""
        return {"info": 0, "app": 1, "degraded": 2, "fatal": 3}[self.value]


class RepairAction(StrEnum):
    """The repair that a finding recommends. Nothing here is ever done without a rule or a merge."""

    NONE = "none"
    OBSERVE = "observe"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    POWER_CYCLE = "power_cycle"
    RUN_DIAG = "run_diag"
    CONTACT_SUPPORT = "contact_support"


class ThresholdSource(StrEnum):
    """The origin of a threshold."""

    VENDOR = "vendor"
    SPEC = "spec"
    MEASURED = "measured"
    LEARNED = "learned"
    POLICY = "policy"


class ProbeProfile(StrEnum):
    """The depth of a run of checks, from light to heavy. Only an equal or heavier pass clears a failure."""

    LIGHT = "light"
    PREFLIGHT = "preflight"
    POSTFLIGHT = "postflight"
    DEEP = "deep"
    RMA = "rma"

    @property
    def weight(self) -> int:
        """The order of profiles. Preflight and postflight run the same tests and weigh the same."""
        return {"light": 0, "preflight": 1, "postflight": 1, "deep": 2, "rma": 3}[self.value]


class Threshold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limit that an observed value was compared with, and its source, with a citation where there is one."""

    value: float | str
    source: ThresholdSource
    citation: str = ""


class HealthFinding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The statement of one check. `slot` is the PCI bus id of a GPU; empty for the whole node.

    `observed` has the unit `unit`; `samples` counts the measurements behind it; `rule` is the version of the check;
    `scale` is what its limits are parts of, 0 for limits in `unit`.
    """

    check: str
    status: CheckStatus
    message: str
    slot: str = ""
    uuid: str = ""
    severity: FindingSeverity = FindingSeverity.INFO
    action: RepairAction = RepairAction.NONE
    observed: float | str | None = None
    unit: str = ""
    threshold: Threshold | None = None
    profile: ProbeProfile = ProbeProfile.LIGHT
    rule: int = 1
    samples: int = 1
    scale: float = 0.0
    since: float = 0.0  # seconds since the epoch when this status began, where somebody keeps history
    codes: tuple[int, ...] = ()  # the Xids behind it

    @property
    def key(self) -> tuple[str, str]:
        """The identity of a finding on its node: check and slot."""
        return self.check, self.slot


def clears(passed: HealthFinding, failed: HealthFinding) -> bool:
    """Say whether a pass ends a failure: the same check and slot, by an equal or heavier profile."""
    return (
        passed.status is CheckStatus.PASS
        and passed.key == failed.key
        and passed.profile.weight >= failed.profile.weight
    )
