"""The measured runs, with what the prediction says of each."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from reconciler.core.sizing.decision import Estimate
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.memory import estimate
from reconciler.core.sizing.memory.stacks import Stack
from reconciler.core.sizing.run_table import parse_run
from reconciler.core.sizing.training import Layout, Training
from tests.core.sizing.tables import TABLES

ROWS = Path(__file__).resolve().parents[2] / "tests" / "data" / "sizing" / "gpu_memory_rows.csv"

FOREIGN = ("LitGPT", "Qwen", "torchtune")


class Run(NamedTuple):
    """One measured run. `peak` is None if it ran out of memory. `saturated`: the GPU was full, so do not compare it."""

    row: dict[str, str]
    training: Training
    layout: Layout
    gpu: Gpu
    peak: float | None
    saturated: bool
    stack: str

    @property
    def model(self) -> str:
        """The model's canonical name."""
        return self.training.architecture.name

    @property
    def group(self) -> str:
        """Stack and method: what is averaged together."""
        method = self.training.method.value
        return f"{self.stack} {method if self.stack != 'Qwen' or method != 'gptq-lora' else 'qlora'}"

    @property
    def counts(self) -> bool:
        """Whether its peak is compared: measured, and not limited by the GPU."""
        return self.peak is not None and not self.saturated

    def predict(self, stack: Stack | None = None) -> Estimate:
        """Predict it, with other constants than those of its framework where they are given."""
        return estimate(self.training, self.layout, self.gpu, stack)

    def error(self, predict: Callable[["Run"], float]) -> float:
        """Return the relative error of a prediction in GiB."""
        assert self.peak is not None  # noqa: S101 - callers filter by `counts`
        return predict(self) / self.peak - 1


def measured(path: Path = ROWS) -> list[Run]:
    """Read the runs that were measured; estimates that vendors publish are left out."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] != "vendor-estimate"]
    return [_run(row) for row in rows]


def half(runs: Iterable[Run], remainder: int) -> list[Run]:
    """Return the runs of every second model of each stack, by number of runs: 0 to fit on, 1 to test on."""
    listed = list(runs)
    chosen = set()
    for stack in {run.stack for run in listed}:
        counts = Counter(run.model for run in listed if run.stack == stack)
        order = sorted(counts, key=lambda model: (-counts[model], model))
        chosen |= {(stack, model) for model in order[remainder::2]}
    return [run for run in listed if (run.stack, run.model) in chosen]


def _run(row: dict[str, str]) -> Run:
    read = parse_run(row, TABLES)
    if isinstance(read, str):
        raise TypeError(f"row {row['id']}: {read}")
    training, layout, gpu = read
    first = row["framework"].split()[0]
    return Run(
        row=row,
        training=training,
        layout=layout,
        gpu=gpu,
        peak=float(row["peak_gib"]) if row["peak_gib"] else None,
        saturated=row["saturated"] == "yes",
        stack="fms" if first == "fms-hf-tuning" else first,
    )
