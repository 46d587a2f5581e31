"""What is asked of the engines, and how the answer is chosen among the candidates."""

from enum import StrEnum

from msgspec import Struct

from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.training import Training


class Goal(StrEnum):
    """What is sought among the layouts that fit."""

    MIN_GPU = "min-gpu"  # the fewest GPUs; the effective batch stays
    AVOID_OOM = "avoid-oom"  # the requested number if it fits, else the next power of two; the batch per device stays
    THROUGHPUT = "throughput"  # the most tokens a second


class Question(Struct, frozen=True, kw_only=True):
    """A training, the card it shall run on, and the bounds of the search.

    `batch` (samples a device and step), `processes` and `accumulation` are as the job wrote them: their product is the
    effective batch that every candidate keeps. `requested_gpus` is what the job's resources ask for today.
    """

    training: Training
    gpu: Gpu
    batch: int
    processes: int = 1
    accumulation: int = 1
    requested_gpus: int | None = None
    goal: Goal = Goal.MIN_GPU
    gpus_per_worker: int = 8
    max_gpus: int = 64
    safety: float = 0.08  # share of the estimate that must stay free
    allow_paged: bool = False  # accept what fits only by paging (about 20 times slower)
    model_version: str = "3.1.0"  # of ado-autoconf's predictor

    @property
    def effective_batch(self) -> int:
        """Samples between two updates of the weights."""
        return self.batch * self.processes * self.accumulation
