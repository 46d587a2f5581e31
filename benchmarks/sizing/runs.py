"""The measured runs, with what the prediction says of each."""

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks.sizing.run_table import parse_run
from reconciler.sizing.decision import Estimate
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate
from reconciler.sizing.memory.stacks import Stack, stack_of
from reconciler.sizing.training import Layout, Training
from tests.sizing.tables import TABLES

_DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "sizing"
ROWS = _DATA / "gpu_memory_rows.csv"
PUBLISHED = _DATA / "gpu_memory_published.csv"

_SOURCES = (
    "LLMFineTuningBench",
    "fms-acceleration",
    "ms-swift",
    "fsdp_qlora",
    "resource-tables",
    "litgpt",
    "Qwen",
    "Megatron-LM",
    "torchtitan",
    "torchtune",
)
_FRAMEWORKS = {"fms-hf-tuning": "fms", "litgpt": "LitGPT"}

_SUBTRACTS = frozenset({"fms-acceleration"})
"""Sources that subtract what the GPU used before the run (`scripts/benchmarks/benchmark.py`)."""

_DRIVER = 0.6
"""GiB that the driver uses on an idle GPU that counts it in its total."""

_PYTORCH = {"context": 0.1, "links": 0.0, "across": 0.0, "reserved": 0.0}
_METERS: dict[str, dict[str, Any]] = {
    "litgpt": {"live": True, **_PYTORCH},
    "resource-tables": {"live": True, **_PYTORCH},
    "torchtune": {"live": True, **_PYTORCH},
    "fsdp_qlora": _PYTORCH,
}
"""What a source's figures leave out, as constants of a stack: PyTorch's counters say nothing of CUDA's context, and its
live tensors nothing of cached blocks."""

_CHUNKS = 8
_CODE: dict[str, dict[str, Any]] = {
    "torchtune": dict.fromkeys(("logits", "logits_live", "logits_adapted"), 2 + 12 / _CHUNKS)
}
"""What a framework's code says without a measurement: torchtune's loss makes copies of one of eight parts of the logits
at a time (`modules/loss/ce_chunked_output_loss.py`)."""


class Run(NamedTuple):
    """One measured run.

    `peak` is what NVML would report, None if the run ran out of memory. `saturated`: the GPU was full, so do not
    compare it.
    """

    row: dict[str, str]
    training: Training
    layout: Layout
    gpu: Gpu
    peak: float | None
    saturated: bool
    stack: str
    source: str

    @property
    def model(self) -> str:
        """The model's canonical name."""
        return self.training.architecture.name

    @property
    def group(self) -> str:
        """Stack, method and source: what is averaged together."""
        return f"{self.stack} {self.training.method.value} ({self.source})"

    @property
    def stack_of_others(self) -> Stack:
        """The constants for a framework that nobody measured, for figures of this source's kind.

        They are those of Hugging Face, and what the code says: whether PEFT prepares a 4-bit base, and a loss in parts.
        """
        code = {"upcast": stack_of(self.training.framework).upcast, **_CODE.get(self.stack, {})}
        return replace(stack_of(""), **code, **_METERS.get(self.source, {}))

    @property
    def counts(self) -> bool:
        """Whether its peak is compared: measured, and not limited by the GPU."""
        return self.peak is not None and not self.saturated

    def predict(self, stack: Stack | None = None) -> Estimate:
        """Predict it, with other constants than those of its framework where they are given."""
        return estimate(self.training, self.layout, self.gpu, stack)

    def error(self, stack: Stack | None = None) -> float:
        """Return the relative error of the predicted peak."""
        assert self.peak is not None  # noqa: S101 - callers filter by `counts`
        return self.predict(stack).peak_gib / self.peak - 1


def measured(*paths: Path) -> list[Run]:
    """Read the runs that were measured, by default all; estimates that vendors publish are left out."""
    rows = []
    for path in paths or (ROWS, PUBLISHED):
        with path.open(newline="") as file:
            rows += [row for row in csv.DictReader(file) if row["kind"] != "vendor-estimate"]
    return [_run(row) for row in rows]


class Fold(NamedTuple):
    """A part of a stack's runs that constants are fitted on, and the rest, that they are tested on."""

    stack: str
    fitted_on: str
    chosen: list[Run]
    held: list[Run]


def folds(runs: Iterable[Run], stack: str) -> list[Fold]:
    """Return the folds of a stack, both ways: by source, or if there is one only, by every second model."""
    mine = [run for run in runs if run.stack == stack and run.counts]
    sources = sorted({run.source for run in mine})
    if len(sources) > 1:
        parts = [(name, [run for run in mine if run.source == name]) for name in sources]
    else:
        halves = (half(mine, remainder) for remainder in (0, 1))
        parts = [(", ".join(sorted({run.model for run in part})), part) for part in halves]
    return [Fold(stack, name, part, [run for run in mine if run not in part]) for name, part in parts]


def half(runs: Iterable[Run], remainder: int) -> list[Run]:
    """Return the runs of every second model, by number of runs."""
    listed = list(runs)
    counts = Counter(run.model for run in listed)
    order = sorted(counts, key=lambda model: (-counts[model], model))
    return [run for run in listed if run.model in order[remainder::2]]


def _run(row: dict[str, str]) -> Run:
    read = parse_run(row, TABLES)
    if isinstance(read, str):
        raise TypeError(f"row {row['id']}: {read}")
    training, layout, gpu = read
    first = row["framework"].split()[0]
    source = next((name for name in _SOURCES if name.lower() in row["source"].lower()), first)
    before = _DRIVER if source in _SUBTRACTS and gpu.memory_gib % 8 == 0 else 0.0
    return Run(
        row=row,
        training=training,
        layout=layout,
        gpu=gpu,
        peak=float(row["peak_gib"]) + before if row["outcome"] == "ok" else None,
        saturated=row["saturated"] == "yes",
        stack=_FRAMEWORKS.get(first, first),
        source=source,
    )
