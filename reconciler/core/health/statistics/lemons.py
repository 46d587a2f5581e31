"""Nodes that fail again and again, far more often than others: decayed counts and a Gamma-Poisson estimate."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

HALF_LIFE_DAYS = 14.0
BASE_RATE = 0.0022
"""GPU failures of a node with 8 GPUs in a day, as of the training of Llama 3."""

RATIO = 5.0
CERTAINTY = 0.95
FEWEST_EVENTS = 3
FEWEST_KINDS = 2
_PRIOR_DAYS = 30.0
_DAY = 86400.0
_STEPS = 500
_TINY = 1e-300


class LemonKind(StrEnum):
    """What counts against a node."""

    FATAL = "fatal"
    PREFLIGHT = "preflight"
    REMEDIATION = "remediation"
    JOB_DIED = "job-died"  # while others of the same job survived elsewhere
    EXCLUDED = "excluded"  # by users


class LemonEvent(Struct, frozen=True, kw_only=True):
    """One event of a node. `workload` tells one bad image, which fails everywhere, from one bad node."""

    node: str
    kind: LemonKind
    at: float
    workload: str = ""


class LemonNode(Struct, frozen=True, kw_only=True):
    """A node that should be retired or sent in, with the evidence."""

    node: str
    chance: float
    rate: float
    fleet_rate: float
    counts: Mapping[str, int]

    @property
    def message(self) -> str:
        """The evidence in words."""
        table = ", ".join(f"{count} x {kind}" for kind, count in sorted(self.counts.items()))
        ratio = self.rate / self.fleet_rate if self.fleet_rate else math.inf
        return f"{table}; {ratio:.1f} times as often as others (chance {100 * self.chance:.1f} %)"


def find_lemons(events: Iterable[LemonEvent], exposure_days: Mapping[str, float], now: float) -> tuple[LemonNode, ...]:
    """Return the lemons, the worst first. `exposure_days` are the days that each node was in use, decayed alike."""
    by_node: dict[str, list[LemonEvent]] = {}
    for event in _of_nodes(events):
        by_node.setdefault(event.node, []).append(event)
    weights = {node: sum(_weight(one.at, now) for one in found) for node, found in by_node.items()}
    total = sum(exposure_days.values())
    fleet_rate = (sum(weights.values()) + BASE_RATE * _PRIOR_DAYS) / (total + _PRIOR_DAYS)
    lemons = []
    for node, found in by_node.items():
        counts: dict[str, int] = {}
        for one in found:
            counts[one.kind] = counts.get(one.kind, 0) + 1
        others = _rate_without(weights, exposure_days, node)
        shape = weights[node] + others * _PRIOR_DAYS
        days = exposure_days.get(node, 0.0) + _PRIOR_DAYS
        chance = gamma_above(RATIO * others, shape, days)
        if chance > CERTAINTY and len(found) >= FEWEST_EVENTS and len(counts) >= FEWEST_KINDS:
            lemons.append(
                LemonNode(node=node, chance=chance, rate=shape / days, fleet_rate=others or fleet_rate, counts=counts)
            )
    return tuple(sorted(lemons, key=lambda one: (-one.chance, one.node)))


def _of_nodes(events: Iterable[LemonEvent]) -> list[LemonEvent]:
    """Return the events without those of workloads that died on several nodes: they die everywhere."""
    listed = list(events)
    places: dict[str, set[str]] = {}
    for one in listed:
        if one.kind is LemonKind.JOB_DIED and one.workload:
            places.setdefault(one.workload, set()).add(one.node)
    return [one for one in listed if len(places.get(one.workload, ())) <= 1 or one.kind is not LemonKind.JOB_DIED]


def _rate_without(weights: Mapping[str, float], exposure: Mapping[str, float], node: str) -> float:
    """Return the rate of all other nodes: a lemon must not raise the rate that it is compared with."""
    events = sum(weights.values()) - weights[node]
    days = sum(exposure.values()) - exposure.get(node, 0.0)
    return (events + BASE_RATE * _PRIOR_DAYS) / (days + _PRIOR_DAYS)


def _weight(at: float, now: float) -> float:
    return float(0.5 ** (max(0.0, now - at) / _DAY / HALF_LIFE_DAYS))


def gamma_above(limit: float, shape: float, rate: float) -> float:
    """Return the chance that a Gamma(shape, rate) value is above a limit: the upper regularized incomplete gamma."""
    x = limit * rate
    if x <= 0:
        return 1.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        for step in range(1, _STEPS):
            term *= x / (shape + step)
            total += term
        return min(1.0, max(0.0, 1 - scale * total))
    b, c = x + 1 - shape, 1 / _TINY
    d = 1 / b
    fraction = d
    for step in range(1, _STEPS):
        factor = -step * (step - shape)
        b += 2
        d = 1 / (factor * d + b or _TINY)
        c = b + factor / c or _TINY
        fraction *= d * c
    return min(1.0, max(0.0, scale * fraction))
