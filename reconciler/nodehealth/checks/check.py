"""A check: one row with its function, which gets a `CheckInput` and returns a `CheckResult`.

A value that cannot be read raises `Unmeasured` inside the function, which becomes UNKNOWN or SKIP: a check cannot
take a missing value for a good one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from pkgutil import get_data
from typing import Any

import msgspec
from msgspec import Struct, field, structs
from msgspec.structs import replace

from reconciler.nodehealth.findings import (
    CheckStatus,
    FindingSeverity,
    ProbeProfile,
    RepairAction,
    Threshold,
    ThresholdSource,
)
from reconciler.nodehealth.policy import CheckMode, Lane, NodeExpectation
from reconciler.nodehealth.readings import GpuIdentity, NodeReading, ReadError, ReadingId, Sweep
from reconciler.nodehealth.xids import NO_XIDS, XidTable
from reconciler.sizing.peaks import NO_PEAKS, PeakTable

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


class CheckScope(StrEnum):
    """The subject of a check: each GPU by itself, or the node."""

    GPU = "gpu"
    NODE = "node"


class CheckPrivilege(StrEnum):
    """The privilege of a reading: a container with the driver's libraries, root in it, or access to the host."""

    USER = "user"
    ROOT = "root"
    HOST = "host"


class CheckResult(Struct, frozen=True, kw_only=True):
    """The result of a check on one GPU or the node. `severity` and `action` are those of the row unless given.

    `scale` is what the limits of the check are parts of; 0: they are in its unit. since: of a log, when what passed
    began anew, or since when the log is whole. codes: all Xids that count, whatever their severity.
    """

    status: CheckStatus
    message: str
    observed: float | str | None = None
    threshold: Threshold | None = None
    severity: FindingSeverity | None = None
    action: RepairAction | None = None
    samples: int = 1
    scale: float = 0.0
    since: float = 0.0
    codes: tuple[int, ...] = ()


def outcome(
    status: CheckStatus,
    message: str,
    observed: float | str | None = None,
    threshold: Threshold | None = None,
    **more: Any,
) -> CheckResult:
    """Return a result; `more` are its further fields."""
    return CheckResult(status=status, message=message, observed=observed, threshold=threshold, **more)


passed, warned, failed = (partial(outcome, one) for one in (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL))


class Unmeasured(Exception):
    """A value could not be read or used; `status` is UNKNOWN or SKIP, never a pass."""

    def __init__(self, status: CheckStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


_MEANING = {
    ReadError.NOT_SUPPORTED: (CheckStatus.SKIP, "not supported by this GPU, mode or driver"),
    ReadError.NO_PERMISSION: (CheckStatus.SKIP, "needs more privileges"),
    ReadError.BUSY: (CheckStatus.SKIP, "the GPU is in use"),
    ReadError.NO_LIBRARY: (CheckStatus.UNKNOWN, "the library is missing"),
    ReadError.NO_DRIVER: (CheckStatus.UNKNOWN, "the driver is not loaded"),
    ReadError.DRIVER_MISMATCH: (CheckStatus.UNKNOWN, "the driver was upgraded and the node was not restarted"),
    ReadError.GPU_LOST: (CheckStatus.UNKNOWN, "the GPU is lost"),
    ReadError.RESET_REQUIRED: (CheckStatus.UNKNOWN, "the GPU needs a reset"),
    ReadError.CORRUPTED_INFOROM: (CheckStatus.UNKNOWN, "the InfoROM is corrupted"),
    ReadError.DEADLINE: (CheckStatus.UNKNOWN, "the call did not return in time"),
    ReadError.FAILED: (CheckStatus.UNKNOWN, "the call failed"),
}


def meaning(reading: NodeReading) -> Unmeasured:
    """Return what the error of a reading means."""
    status, text = _MEANING[reading.error or ReadError.FAILED]
    return Unmeasured(status, f"{reading.name}: {text}{f' ({reading.detail})' if reading.detail else ''}")


def as_number(value: object) -> float | None:
    """Return a finite number, or None for anything else; booleans are not numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None


_LIBRARIES = {"nvml": ReadingId.NVML_INIT, "amdsmi": ReadingId.AMDSMI_INIT}


class CheckInput(Struct, frozen=True, kw_only=True):
    """The input of a check. `history` are earlier sweeps of this node, oldest first; `slot` is empty for the node."""

    sweep: Sweep
    slot: str = ""
    limits: Mapping[str, Threshold] = field(default_factory=dict)
    history: Sequence[Sweep] = ()
    expected: NodeExpectation = NodeExpectation()
    xids: XidTable = NO_XIDS
    peaks: PeakTable = NO_PEAKS

    @property
    def gpu(self) -> GpuIdentity:
        """The GPU that is judged."""
        return next((gpu for gpu in self.sweep.gpus if gpu.slot == self.slot), GpuIdentity(slot=self.slot))

    def threshold(self, name: str) -> Threshold:
        """Return a limit with its source."""
        return self.limits[name]

    def limit(self, name: str) -> float:
        """Return a limit as a number. A policy that wrote something else gets UNKNOWN, not a default."""
        number = as_number(self.limits[name].value)
        if number is None:
            raise Unmeasured(CheckStatus.UNKNOWN, f"the threshold {name} is not a number")
        return number

    def expected_limit(self, value: float | None) -> Threshold | None:
        """Return a number that somebody expects as a limit, with who does; None for none."""
        if value is None:
            return None
        return Threshold(value=value, source=ThresholdSource.POLICY, citation=self.expected.origin)

    def value(self, name: ReadingId, slot: str | None = None) -> Any:
        """Return a value of this slot (or another). Raises `Unmeasured` if there is none."""
        reading = self.sweep.find(name, self.slot if slot is None else slot)
        if reading is None:
            library = self.sweep.find(_LIBRARIES[name.source]) if name.source in _LIBRARIES else None
            if library is not None and library.error is not None:
                raise meaning(library)
            raise Unmeasured(CheckStatus.UNKNOWN, f"{name}: not read")
        if reading.error is not None:
            raise meaning(reading)
        return reading.value

    def number(self, name: ReadingId, slot: str | None = None) -> float:
        """Return a value that is a finite number."""
        return self._number(name, self.value(name, slot))

    def field(self, name: ReadingId, key: str, slot: str | None = None) -> float:
        """Return a number inside a value."""
        return self._number(f"{name}.{key}", self.table(name, slot).get(key))

    def maybe(self, name: ReadingId, key: str = "") -> float | None:
        """Return a number, or one inside a value; None if it is missing."""
        try:
            return self.field(name, key) if key else self.number(name)
        except Unmeasured:
            return None

    @property
    def is_mig(self) -> bool:
        """True if the GPU is in MIG mode."""
        return self.maybe(ReadingId.NVML_MIG_MODE, "current") == 1

    def table(self, name: ReadingId, slot: str | None = None) -> Mapping[str, Any]:
        """Return a value that has named parts."""
        value = self.value(name, slot)
        if not isinstance(value, dict):
            raise Unmeasured(CheckStatus.UNKNOWN, f"{name}: not a table")
        return value

    def rows(self, name: ReadingId, slot: str | None = None) -> list[dict[str, Any]]:
        """Return a value that is a list of tables."""
        value = self.value(name, slot)
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise Unmeasured(CheckStatus.UNKNOWN, f"{name}: not a list of tables")
        return value

    def text(self, name: ReadingId, slot: str | None = None) -> str:
        """Return a value that is text and not empty."""
        value = self.value(name, slot)
        if not isinstance(value, str) or not value.strip():
            raise Unmeasured(CheckStatus.UNKNOWN, f"{name}: not a text")
        return value

    def earlier(self, seconds: float, *, any_boot: bool = False) -> Sequence[Sweep]:
        """Return the earlier sweeps of this boot, or of any, within a time before this one, oldest first.

        Sweeps of another device in this slot, or from the future, do not count.
        """
        now, uuid = self.sweep.taken_at, self.gpu.uuid
        return [
            sweep
            for sweep in self.history
            if now - seconds <= sweep.taken_at < now
            and (any_boot or sweep.boot_id == self.sweep.boot_id)
            and (not self.slot or not uuid or uuid in {gpu.uuid for gpu in sweep.gpus if gpu.slot == self.slot} | {""})
        ]

    def at(self, sweep: Sweep) -> "CheckInput":
        """Return the same input with another sweep, without history."""
        return replace(self, sweep=sweep, history=())

    def _number(self, name: str, value: object) -> float:
        number = as_number(value)
        if number is None:
            raise Unmeasured(CheckStatus.UNKNOWN, f"{name}: not a number")
        return number


class CheckRow(Struct, frozen=True, kw_only=True):
    """A row of the catalogue. Documentation, policy schema, metrics and alerts are made from it.

    `reads` names the readings; `window` is how many seconds of earlier sweeps the check looks at; `vendor` is empty for
    a check of every node. `is_recorded`: reports keep its values, so that limits of a policy can judge them. `is_log`:
    it judges what a log still says, so that silence ends no failure of the same boot.
    """

    id: str
    title: str
    reads: tuple[ReadingId, ...]
    scope: CheckScope = CheckScope.GPU
    profile: ProbeProfile = ProbeProfile.LIGHT
    unit: str = ""
    limits: Mapping[str, Threshold] = field(default_factory=dict)
    severity: FindingSeverity = FindingSeverity.DEGRADED
    action: RepairAction = RepairAction.OBSERVE
    lane: Lane = Lane.REVIEWED
    mode: CheckMode = CheckMode.ENFORCE
    privilege: CheckPrivilege = CheckPrivilege.USER
    vendor: str = "nvidia"
    window: float = 0.0
    rule: int = 1
    is_recorded: bool = False
    is_log: bool = False


class HealthCheck(CheckRow, frozen=True, kw_only=True):
    """A row with the function that judges."""

    judge: Callable[[CheckInput], CheckResult]


@cache
def _table() -> Mapping[str, Mapping[str, tuple[CheckRow, ...]]]:
    content = get_data("reconciler", "data/health_checks.json") or b""
    return msgspec.json.decode(content, type=dict[str, dict[str, tuple[CheckRow, ...]]])


def health_checks(family: str, judges: Mapping[str, Callable[[CheckInput], CheckResult]]) -> tuple[HealthCheck, ...]:
    """Return the rows of a family in `data/health_checks.json`, each with its function."""
    rows = _table()["families"][family]
    return tuple(HealthCheck(judge=judges[row.id], **(structs.asdict(row) | {"limits": _whole(row)})) for row in rows)


def _whole(row: CheckRow) -> Mapping[str, Threshold]:
    """Return the limits of a row; whole numbers are written as such."""
    return {
        name: replace(one, value=int(one.value)) if isinstance(one.value, float) and one.value.is_integer() else one
        for name, one in row.limits.items()
    }
