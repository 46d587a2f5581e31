"""What other estimators of training memory said of the measured runs: their recorded answers.

`record_peers` asked the packages, so that a report needs none of them. They know full training alone: runs with
adapters have no answer.
"""

import csv
from pathlib import Path
from typing import NamedTuple

from benchmarks.sizing.runs import Run

ANSWERS = Path(__file__).resolve().parents[2] / "tests" / "data" / "sizing" / "peer_answers.csv"
"""A row for each run, by its `id`, and a column for each estimator, by name and version: GiB of one GPU."""

HOW = {
    "accelerate": "`estimate_training_usage()` of `accelerate estimate-memory`, with the model's parameters in fp32 "
    "and the precision of the run; the largest of its four figures, as the command prints it",
    "DeepSpeed": "`estimate_zero3_model_states_mem_needs()`, or `estimate_zero2_…` where stage 1 or 2 shards the run, "
    "with the model's parameters, its largest layer, and the GPUs that share its states; without offloading",
    "llm-analysis": "`LLMAnalysis.training()` with the model's shape (a gated feed-forward block as one of two "
    "matrices, as in its own configurations), the stage of ZeRO, recomputation and attention of the run, and states in "
    "2 bytes where the run has them",
}
"""How each package was asked."""


class Peer(NamedTuple):
    """An estimator, and its answers by the id of the run."""

    name: str
    version: str
    answers: dict[str, float]

    def predict(self, run: Run) -> float | None:
        """Return GiB of one GPU; None where it cannot tell."""
        return self.answers.get(run.row["id"])


def peers() -> list[Peer]:
    """Return the estimators whose answers are recorded."""
    with ANSWERS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for column in list(rows[0])[1:]:
        name, version = column.rsplit(" ", 1)
        found.append(Peer(name, version, {row["id"]: float(row[column]) for row in rows if row[column]}))
    return found
