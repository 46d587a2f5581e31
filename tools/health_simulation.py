"""Simulate how often healthy GPUs are flagged, and how often slow ones are: `python -m tools.health_simulation`.

Fleets of GPUs whose silicon differs by 0.8 %, and tests with noise of three shapes; `skew` disturbs 2 % of the runs by
4 to 10 %. The tables are those of docs/health.md; a test asserts their bounds with fewer fleets.
"""

import argparse
import math
import random
from collections.abc import Callable, Sequence

from msgspec import Struct

from reconciler.core.health.statistics.drift import ALARM, SLACK
from reconciler.core.health.statistics.peers import Z_LIMIT, make_cohort

SPREAD = 0.008
DISTURBED = 0.02
LONGEST = 20_000
CASES = (
    ("normal", 0.01, 8),
    ("t3", 0.01, 64),
    ("skew", 0.01, 8),
    ("skew", 0.01, 64),
    ("skew", 0.02, 8),
    ("skew", 0.02, 64),
)
Best = Callable[[Sequence[float]], float]


class Rates(Struct, frozen=True, kw_only=True):
    """Shares of healthy GPUs that are flagged, by z alone, with the gate, and with the best of three runs."""

    z_alone: float
    gated: float
    best_of_three: float


def noise(chance: random.Random, kind: str, cv: float) -> float:
    """Return the relative error of one run."""
    if kind == "t3":
        return chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 2) / 3) * cv / math.sqrt(3)
    error = chance.gauss(0, cv)
    return error - chance.uniform(0.04, 0.10) if kind == "skew" and chance.random() < DISTURBED else error


def fleet(chance: random.Random, kind: str, cv: float, gpus: int, slow: Sequence[float] = ()) -> list[list[float]]:
    """Return three runs of each GPU; the first ones are slow by these shares."""
    means = [1 + chance.gauss(0, SPREAD) for _ in range(gpus)]
    means = [mean * (1 - slow[index]) if index < len(slow) else mean for index, mean in enumerate(means)]
    return [[mean * (1 + noise(chance, kind, cv)) for _ in range(3)] for mean in means]


def flags(values: Sequence[float], *, gated: bool = True) -> list[bool]:
    """Return which GPUs are flagged: by the product's own rule, or by z alone."""
    cohort = make_cohort({(f"n{index % 2}", str(index)): value for index, value in enumerate(values)})
    if not gated:
        return [cohort.z(value) < -Z_LIMIT for value in values]
    return [(f"n{index % 2}", str(index)) in cohort.low for index in range(len(values))]


def false_positives(kind: str, cv: float, gpus: int, fleets: int, seed: int = 7) -> Rates:
    """Return how often healthy GPUs are flagged."""
    chance = random.Random(seed)  # noqa: S311 (a simulation)
    alone = gated = best = 0
    for _ in range(fleets):
        runs = fleet(chance, kind, cv, gpus)
        first = [one[0] for one in runs]
        alone += sum(flags(first, gated=False))
        gated += sum(flags(first))
        best += sum(flags([max(one) for one in runs]))
    total = fleets * gpus
    return Rates(z_alone=alone / total, gated=gated / total, best_of_three=best / total)


def power(kind: str, cv: float, gpus: int, drop: float, *, fleets: int, bad: int = 1) -> float:
    """Return how often GPUs that are slow by a share are found, with the best of three runs."""
    chance = random.Random(7)  # noqa: S311 (a simulation)
    found = sum(
        sum(flags([max(one) for one in fleet(chance, kind, cv, gpus, [drop] * bad)])[:bad]) for _ in range(fleets)
    )
    return found / (fleets * bad)


def runs_to_alarm(shift: float, limit: float, tries: int, longest: int, seed: int = 7) -> float:
    """Return the mean runs until the CUSUM alarms after a shift by so many standard deviations; at most `longest`."""
    chance = random.Random(seed)  # noqa: S311 (a simulation)
    total = 0
    for _ in range(tries):
        cusum, runs = 0.0, 0
        while cusum <= limit and runs < longest:
            runs += 1
            cusum = max(0.0, cusum + chance.gauss(shift, 1) - SLACK)
        total += runs
    return total / tries


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=2000)
    fleets = parser.parse_args().fleets
    print("| noise | n | z only, 1 run | z and 5 %, 1 run | best of 3 | power at -5 / -7 / -10 % |")
    print("|---|---|---|---|---|---|")
    for kind, cv, gpus in CASES:
        rates = false_positives(kind, cv, gpus, fleets)
        found = " / ".join(f"{power(kind, cv, gpus, drop, fleets=fleets // 4):.2f}" for drop in (0.05, 0.07, 0.10))
        cells = [f"{rate:.1e}" for rate in (rates.z_alone, rates.gated, rates.best_of_three)]
        print(f"| {kind} {100 * cv:.0f} % | {gpus} | {' | '.join(cells)} | {found} |")
    print("\n| bad GPUs of 16, -10 % | found |")
    print("|---|---|")
    for bad in (1, 4, 6, 7, 8):
        print(f"| {bad} | {power('normal', 0.01, 16, 0.10, fleets=fleets // 4, bad=bad):.2f} |")
    print("\n| CUSUM limit | runs to a false alarm | runs to find 1 / 2 / 3 sigma |")
    print("|---|---|---|")
    for limit in (4.0, 5.0, 8.0, ALARM):
        quiet = runs_to_alarm(0.0, limit, max(10, fleets // 40), LONGEST)
        delays = " / ".join(f"{runs_to_alarm(shift, limit, fleets, 1000):.1f}" for shift in (1.0, 2.0, 3.0))
        print(f"| {limit:.0f} | {quiet:,.0f}{' (truncated)' if quiet > 0.75 * LONGEST else ''} | {delays} |")


if __name__ == "__main__":
    main()
