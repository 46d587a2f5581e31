"""The newest values that heavy runs measured on each GPU, for limits of policies and for learning them."""

import math
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.health.checks.check import as_number
from reconciler.core.health.findings import CheckStatus, HealthFinding

NEWEST = 3
_MEASURED = (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL)
_SAME_SCALE = 0.01


class GpuSeries(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of one check on one GPU since its device, driver or test changed last.

    newest: the last three values, newest last. limit: the agent's warning, in the unit of the values. scale: the whole
    that the limits of the check are parts of.
    """

    newest: tuple[float, ...] = ()
    runs: int = 0
    limit: float = 0.0
    scale: float = 0.0
    rule: int = 1


Measured = Mapping[str, Mapping[str, GpuSeries]]
"""Series by id of the check, then by slot."""


def followed(before: Measured, findings: Iterable[HealthFinding], checks: Collection[str]) -> Measured:
    """Return the series after a heavy run; `checks` are those whose values are kept."""
    after = {check: dict(slots) for check, slots in before.items()}
    for one in findings:
        value = as_number(one.observed)
        if one.check in checks and one.slot and one.profile.weight and one.status in _MEASURED and value is not None:
            slots = after.setdefault(one.check, {})
            slots[one.slot] = _after(slots.get(one.slot), one, value)
    return {check: dict(sorted(slots.items())) for check, slots in sorted(after.items())}


def without_slots(measured: Measured, gone: Collection[str]) -> Measured:
    """Return the series without those of GPUs that were replaced."""
    if not gone:
        return measured
    kept = {check: {slot: one for slot, one in slots.items() if slot not in gone} for check, slots in measured.items()}
    return {check: slots for check, slots in kept.items() if slots}


def _after(before: GpuSeries | None, finding: HealthFinding, value: float) -> GpuSeries:
    series = before if before is not None and _is_same_test(before, finding) else GpuSeries(rule=finding.rule)
    return replace(
        series,
        newest=(*series.newest, significant(value))[-NEWEST:],
        runs=series.runs + 1,
        scale=significant(finding.scale),
        limit=series.limit if finding.status is CheckStatus.FAIL else _limit(finding),
    )


def _limit(finding: HealthFinding) -> float:
    """Return the limit of a warning by which the agent judged; 0 without one."""
    limit = as_number(finding.threshold.value) if finding.threshold is not None else None
    return significant(limit or 0.0)


def _is_same_test(before: GpuSeries, finding: HealthFinding) -> bool:
    """Say whether values compare: the same version of the test, and a link or memory that is as fast as before."""
    return before.rule == finding.rule and math.isclose(before.scale, finding.scale, rel_tol=_SAME_SCALE)


def significant(value: float) -> float:
    """Return a value with four digits: more is noise, and takes room in a report."""
    return float(f"{value:.4g}")
