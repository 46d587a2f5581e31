"""Slow GPUs among their peers: far below the median, by robust statistics and by a share that matters.

Half of a cohort that is slow hides itself, so absolute floors and the drift of the whole cohort stand beside this.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

FEWEST_GPUS = 8
FEWEST_NODES = 2
Z_LIMIT = 3.5
RELATIVE_GATE = 0.05
COHORT_DRIFT = 0.03
_MAD_TO_SIGMA = 1.4826
_LEAST_SIGMA = 0.003  # of the median
_FALSE_DISCOVERIES = 0.05


class GpuSample(Struct, frozen=True, kw_only=True):
    """One metric of one GPU: the best of its runs, as `cohort` of equal GPUs under equal conditions measured it.

    The cohort is the GPU model, part number, driver branch, version of the test, PCIe generation and pool.
    """

    node: str
    slot: str
    metric: str
    value: float
    cohort: str = ""
    uuid: str = ""
    larger_is_better: bool = True


class PeerOutlier(Struct, frozen=True, kw_only=True):
    """A GPU that is slower than its peers, with the numbers behind it."""

    node: str
    slot: str
    metric: str
    value: float
    median: float
    z: float
    peers: int

    @property
    def message(self) -> str:
        """The numbers in words."""
        share = 100 * (self.value / self.median - 1)
        return (
            f"{self.metric} is {self.value:,.4g}, {share:+.1f} % of the median {self.median:,.4g} of "
            f"{self.peers} peers (z = {self.z:.1f})"
        )


def best_of(runs: Sequence[float], *, larger_is_better: bool = True) -> float:
    """Return the best run: contention only ever slows a test down."""
    return max(runs) if larger_is_better else min(runs)


def outliers(samples: Iterable[GpuSample]) -> tuple[PeerOutlier, ...]:
    """Return the GPUs that are slower than their cohort, sorted. Small cohorts have absolute floors alone."""
    cohorts: dict[tuple[str, str], list[GpuSample]] = {}
    for sample in samples:
        cohorts.setdefault((sample.metric, sample.cohort), []).append(sample)
    found: list[PeerOutlier] = []
    chances: list[float] = []
    for group in cohorts.values():
        if len(group) < FEWEST_GPUS or len({one.node for one in group}) < FEWEST_NODES:
            continue
        middle = median(one.value for one in group)
        scores = robust_scores([one.value for one in group])
        for one, score in zip(group, scores, strict=True):
            z = score if one.larger_is_better else -score
            chances.append(t5_tail(-z))
            if is_outlier(one.value, middle, z, larger_is_better=one.larger_is_better):
                found.append(_outlier(one, middle, z, len(group)))
    discovered = benjamini_hochberg(chances, _FALSE_DISCOVERIES)
    kept = [one for one in found if t5_tail(-one.z) <= discovered]
    return tuple(sorted(kept, key=lambda one: (one.node, one.slot, one.metric)))


def robust_scores(values: Sequence[float]) -> list[float]:
    """Return the distance of each value from the median, in robust standard deviations."""
    middle = median(values)
    sigma = _MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    sigma = max(sigma, _LEAST_SIGMA * abs(middle)) or 1.0
    return [(value - middle) / sigma for value in values]


def is_outlier(value: float, middle: float, z: float, *, larger_is_better: bool = True) -> bool:
    """Say whether a value is both improbable and slower by a share that matters."""
    is_slower = value < (1 - RELATIVE_GATE) * middle if larger_is_better else value > (1 + RELATIVE_GATE) * middle
    return z < -Z_LIMIT and is_slower


def cohort_drift(samples: Iterable[GpuSample], approved: Mapping[str, float]) -> tuple[str, ...]:
    """Return what whole cohorts lost since their approved medians: a driver, a BIOS or the cooling, never a node."""
    values: dict[str, list[float]] = {}
    for one in samples:
        values.setdefault(f"{one.metric} of {one.cohort}" if one.cohort else one.metric, []).append(one.value)
    notes = []
    for name, known in sorted(approved.items()):
        if known and name in values:
            change = median(values[name]) / known - 1
            if abs(change) > COHORT_DRIFT:
                notes.append(f"the median {name} moved by {100 * change:+.1f} % from the approved {known:,.4g}")
    return tuple(notes)


def t5_tail(t: float) -> float:
    """Return the chance of a value above t under Student's t distribution with 5 degrees of freedom."""
    shrink = 1 / (1 + t * t / 5)
    inner = t / math.sqrt(5) * shrink * (1 + 2 * shrink / 3) + math.atan(t / math.sqrt(5))
    return max(0.0, 0.5 - inner / math.pi)


def benjamini_hochberg(chances: Sequence[float], rate: float) -> float:
    """Return the largest chance that counts as a discovery, so that at most this rate of them is false; else -1."""
    count, limit = len(chances), -1.0
    for rank, chance in enumerate(sorted(chances), 1):
        if chance <= rate * rank / count:
            limit = chance
    return limit


def _outlier(one: GpuSample, middle: float, z: float, peers: int) -> PeerOutlier:
    return PeerOutlier(
        node=one.node, slot=one.slot, metric=one.metric, value=one.value, median=middle, z=z, peers=peers
    )
