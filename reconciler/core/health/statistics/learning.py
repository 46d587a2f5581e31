"""Thresholds that follow what healthy GPUs measure: proposals for a policy, in small steps, and never below a floor."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

MOST_CHANGE = 0.02
"""How far a threshold may move in one week, as a share of the specified value."""

QUANTILE = 0.005
MARGIN = 0.01
_CEILING = 0.95  # of the median
_FEWEST = 200
_FALSE_RATE = 0.20
_FEWEST_CASES = 5
_LEAST_CHANGE = 0.001


class AcceptedRun(Struct, frozen=True, kw_only=True):
    """One measurement of a GPU that was healthy and not flagged, as a share of the specified value."""

    gpu: str
    value: float


class LearnedThreshold(Struct, frozen=True, kw_only=True):
    """A threshold that is proposed: old and new, the GPUs whose verdict changes, and what it was learned from."""

    check: str
    limit: str
    old: float
    new: float
    changing: tuple[str, ...]
    gpus: int
    window: str

    @property
    def message(self) -> str:
        """The proposal in words."""
        return (
            f"{self.check}.{self.limit}: {self.old:.3f} -> {self.new:.3f}, learned from {self.gpus} GPUs; "
            f"{len(self.changing)} of them change their verdict"
        )

    def over(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the spec of a HealthPolicy with this threshold."""
        checks = {**spec.get("checks", {})}
        rule = {**checks.get(self.check, {})}
        limits = {**rule.get("limits", {}), self.limit: self.new}
        checks[self.check] = {**rule, "limits": limits, "source": f"learned: {self.gpus} GPUs, {self.window}"}
        return {**spec, "checks": checks}


def learn(
    check: str, limit: str, runs: Sequence[AcceptedRun], *, current: float, floor: float
) -> LearnedThreshold | None:
    """Return a better threshold; None if there are too few runs, or nothing to change.

    Slightly below what nearly all healthy GPUs reach, at most two points from the present one, and within the floor of
    the vendor and 95 % of the median.
    """
    if len(runs) < _FEWEST:
        return None
    values = sorted(one.value for one in runs)
    wanted = values[int(QUANTILE * len(values))] - MARGIN
    wanted = min(max(wanted, current - MOST_CHANGE), current + MOST_CHANGE)
    wanted = round(max(floor, min(wanted, _CEILING * median(values))), 3)
    if abs(wanted - current) < _LEAST_CHANGE:
        return None
    worst: dict[str, float] = {}
    for one in runs:
        worst[one.gpu] = min(one.value, worst.get(one.gpu, one.value))
    changing = tuple(sorted(gpu for gpu, value in worst.items() if (value < wanted) is not (value < current)))
    digest = sha256(msgspec.json.encode([[one.gpu, one.value] for one in runs])).hexdigest()
    return LearnedThreshold(
        check=check,
        limit=limit,
        old=current,
        new=wanted,
        changing=changing,
        gpus=len(worst),
        window=f"sha256:{digest[:16]}",
    )


def should_demote(cases: int, false: int) -> bool:
    """Say whether a check goes back to shadow: failures that two deep passes refuted are too many."""
    return cases >= _FEWEST_CASES and false > _FALSE_RATE * cases
