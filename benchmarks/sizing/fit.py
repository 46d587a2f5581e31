"""Choose the constants of training stacks on a part of the runs, and report the error on the others.

`python -m benchmarks.sizing.fit [STACK ...]` prints, for each stack, the constants found by coordinate descent on the
mean absolute error, from the shipped ones, in rounded steps, so that few digits are fitted.
"""

import sys
from collections.abc import Iterable, Mapping
from statistics import fmean

import msgspec

from benchmarks.sizing.runs import Run, folds, measured
from reconciler.sizing.memory.stacks import Stack, stack_of

STEPS: Mapping[str, Mapping[str, float]] = {
    "fms": {"context": 0.05, "logits": 0.25, "links": 0.1, "ample": 0.2, "reserved": 0.05, "inputs": 0.1},
    "ms-swift": {"logits": 1.0, "uneven": 256.0, "context": 0.1},
    "LitGPT": {"logits": 1.0, "logits_adapted": 1.0, "vectors": 0.5, "vectors_quantized": 0.5},
    "Qwen": {"logits": 0.5, "logits_adapted": 0.5, "context": 0.1, "block": 0.1},
    "fsdp_qlora": {"inputs": 0.1, "block": 0.1},
}
"""What is fitted for each stack, and in which steps; everything else is derived."""

_ROUNDS = 6


def loss(runs: Iterable[Run], stack: Stack) -> float:
    """Return the mean absolute relative error, with equal weight for each method."""
    by_method: dict[bool, list[float]] = {}
    for run in runs:
        if run.counts:
            error = abs(run.error(stack))
            by_method.setdefault(run.training.method.has_adapters, []).append(error)
    return fmean(fmean(errors) for errors in by_method.values())


def fit(runs: list[Run], start: Stack, steps: Mapping[str, float]) -> Stack:
    """Move one constant at a time while the error falls."""
    best, least = start, loss(runs, start)
    for _ in range(_ROUNDS):
        before = least
        for name, step in steps.items():
            for change in (step, -step, 3 * step, -3 * step):
                tried = msgspec.structs.replace(best, **{name: max(0.01, round(getattr(best, name) + change, 3))})
                found = loss(runs, tried)
                if found < least - 1e-5:
                    best, least = tried, found
        if least > before - 1e-5:
            break
    return best


def main(stacks: list[str]) -> int:
    """Fit and test each stack on each of its folds."""
    runs = measured()
    for name in stacks or list(STEPS):
        for fold in folds(runs, name):
            start = stack_of(fold.chosen[0].training.framework)
            found = fit(fold.chosen, start, STEPS[name])
            values = ", ".join(f"{field} {getattr(found, field):g}" for field in STEPS[name])
            print(f"{name}: fitted on {fold.fitted_on}\n  {values}")
            print(f"  error there {loss(fold.chosen, start):.2%} -> {loss(fold.chosen, found):.2%};", end=" ")
            print(f"on the others {loss(fold.held, start):.2%} -> {loss(fold.held, found):.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
