"""Predicted and measured tokens per second: `python -m benchmarks.sizing.speeds [--fit]`.

Prints errors by source, and by what makes a run hard to predict. `--fit` fits the rates again, without each source and
on all runs, and prints the errors on the source that was left out.
"""

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp, log, sqrt
from statistics import fmean, median
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.sizing.run_table import parse_run
from benchmarks.sizing.runs import PUBLISHED, ROWS
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.throughput.cost import Throughput
from reconciler.sizing.throughput.forecast import RATES, Rates, throughput
from reconciler.sizing.training import Layout, Training
from tests.sizing.tables import TABLES

SPEEDS = ROWS.with_name("gpu_speed_rows.csv")
FITTED = ("decline", "layer", "expert", "dequantized", "link", "bus", "unit", "overlap", "host")
"""What `--fit` fits. The fractions of the peak are those of the largest runs; the others name their source."""

_SOURCES = {
    "Kavier": "LLMFineTuningBench",
    "fms-acceleration": "fms-acceleration",
    "fsdp_qlora": "fsdp_qlora",
    "QwenLM": "Qwen",
    "torchtitan": "torchtitan",
    "Automodel": "NeMo AutoModel",
}
_SEVERAL = 6
_WORST = 1.0  # logarithm from which on an error counts no more in a fit: runs that page although they need not


class SpeedRun(NamedTuple):
    """One run with its measured tokens per second."""

    id: str
    training: Training
    layout: Layout
    gpu: Gpu
    measured: float
    source: str

    def predict(self, rates: Rates = RATES) -> Throughput:
        """Predict it."""
        found = throughput(self.training, self.layout, self.gpu, rates)
        assert found is not None, self.id  # noqa: S101 - every measured run has a prediction
        return found

    def error(self, rates: Rates = RATES) -> float:
        """Return the logarithm of the prediction over the measurement."""
        return log(self.predict(rates).tokens_per_s / self.measured)

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the predicted range."""
        found = self.predict()
        return found.low <= self.measured <= found.high

    @property
    def kind(self) -> str:
        """Method, and what makes it hard to predict."""
        uncertainties = self.predict().uncertainties
        return "; ".join((self.training.method.value, *uncertainties))


def measured_speeds() -> list[SpeedRun]:
    """Read all runs with a measured speed."""
    found = []
    for path in (ROWS, PUBLISHED, SPEEDS):
        with path.open(newline="") as file:
            found += [_run(row) for row in csv.DictReader(file) if row["tokens_per_s"]]
    return found


def _run(row: dict[str, str]) -> SpeedRun:
    read = parse_run(row, TABLES)
    if isinstance(read, str):
        raise TypeError(f"row {row['id']}: {read}")
    source = next(name for key, name in _SOURCES.items() if key.lower() in row["source"].lower())
    return SpeedRun(row["id"], *read, float(row["tokens_per_s"]), source)


def grouped(runs: Iterable[SpeedRun], key: Callable[[SpeedRun], str]) -> dict[str, list[SpeedRun]]:
    """Return the runs by group, the largest first."""
    found: dict[str, list[SpeedRun]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def figures(runs: Sequence[SpeedRun]) -> tuple[str, ...]:
    """Return the number of runs, median, mean and worst factor between prediction and measurement, bias, in range."""
    errors = [run.error() for run in runs]
    sizes = [abs(error) for error in errors]
    return (
        str(len(runs)),
        f"{exp(median(sizes)):.2f}",
        f"{exp(fmean(sizes)):.2f}",
        f"{exp(max(sizes)):.2f}",
        f"{exp(fmean(errors)) - 1:+.0%}",
        f"{fmean(run.inside for run in runs):.0%}",
    )


FIGURES = ("runs", "median factor", "mean factor", "worst factor", "bias", "in the range")


def rows(runs: Sequence[SpeedRun]) -> Iterator[tuple[str, ...]]:
    """Yield the figures by source, then by kind of run if there are several, then of all."""
    for name, group in grouped(runs, lambda run: run.source).items():
        yield (name, *figures(group))
    for name, group in grouped(runs, lambda run: run.kind).items():
        if len(group) >= _SEVERAL:
            yield (name, *figures(group))
    yield ("**all**", *figures(runs))


def fit(runs: Sequence[SpeedRun], start: Rates = RATES) -> Rates:
    """Move one rate at a time, in shrinking steps, while the mean error falls; each kind of run weighs the same."""
    counts = Counter(run.kind for run in runs)
    weights = [1 / sqrt(counts[run.kind]) for run in runs]

    def loss(rates: Rates) -> float:
        errors = (min(abs(run.error(rates)), _WORST) for run in runs)
        return sum(weight * error for weight, error in zip(weights, errors, strict=True))

    best, least, step = start, loss(start), 1.25
    while step > 1.05:
        moved = False
        for name in FITTED:
            for factor in (step, 1 / step):
                value = getattr(best, name) * factor
                tried = replace(best, **{name: max(1.0, value) if name == "overlap" else value})
                found = loss(tried)
                if found < least * (1 - 1e-4):
                    best, least, moved = tried, found, True
        step = step if moved else sqrt(step)
    return best


class HeldOut(NamedTuple):
    """Rates that were fitted without a source, and the errors on it: logarithms of factors."""

    source: str
    rates: Rates
    errors: list[float]


def held_out(runs: Sequence[SpeedRun]) -> Iterator[HeldOut]:
    """Fit the rates without each source, and yield the errors on it."""
    for source, held in grouped(runs, lambda run: run.source).items():
        found = fit([run for run in runs if run.source != source])
        yield HeldOut(source, found, [run.error(found) for run in held])


def main(arguments: list[str]) -> int:
    """Print the tables."""
    runs = measured_speeds()
    for row in rows(runs):
        print(" | ".join(row))
    for one in held_out(runs) if "--fit" in arguments else ():
        sizes = [abs(error) for error in one.errors]
        print(f"without {one.source}: {', '.join(f'{name} {getattr(one.rates, name):.3g}' for name in FITTED)}")
        print(f"  median factor there {exp(median(sizes)):.2f}, mean {exp(fmean(sizes)):.2f}")
    if "--fit" in arguments:
        found = fit(runs)
        print(f"on all: {', '.join(f'{name} {getattr(found, name):.3g}' for name in FITTED)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
