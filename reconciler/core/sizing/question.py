"""What is asked of the engines, and how the answer is chosen among the candidates."""

import hashlib

import msgspec
from msgspec import Struct

from reconciler.core.config import Goal
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.training import Training

__all__ = ["EngineQuestion", "Goal", "Question", "digest", "engine_question"]

_DIGEST_SIGNS = 32
"""128 bits: nobody meets a second question of the same digest, and a reviewer can still compare two."""


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
    allow_disagreement: bool = False  # accept, as a last resort, what another engine expects to fail
    model_version: str = "3.1.0"  # of ado-autoconf's predictor

    @property
    def effective_batch(self) -> int:
        """Samples between two updates of the weights."""
        return self.batch * self.processes * self.accumulation

    @property
    def global_batch(self) -> int:
        """Samples of one step over all GPUs; accumulation is not counted, as ado-autoconf does not."""
        return self.batch * self.processes


class EngineQuestion(Struct, frozen=True, kw_only=True):
    """A question as engines from outside get it: ado-autoconf's inputs, and the bounds of its search."""

    model: str  # ado-autoconf's name, ours where it has none
    method: str
    gpu_model: str
    tokens_per_sample: int
    batch_size: int  # samples of one step over all GPUs
    per_device_batch_size: int
    gradient_accumulation_steps: int = 1
    goal: Goal = Goal.MIN_GPU
    number_gpus: int | None = None  # what the job asks for today, where that matters
    gpus_per_worker: int = 8
    max_gpus: int = 64
    model_version: str = "3.1.0"


def engine_question(question: Question) -> EngineQuestion:
    """Put a question into the words of engines from outside."""
    training, gpu = question.training, question.gpu
    return EngineQuestion(
        model=training.architecture.autoconf or training.architecture.name,
        method=training.method.value,
        gpu_model=gpu.autoconf or gpu.product,
        tokens_per_sample=training.sequence,
        batch_size=question.global_batch,
        per_device_batch_size=question.batch,
        gradient_accumulation_steps=question.accumulation,
        goal=question.goal,
        number_gpus=(question.requested_gpus or question.processes) if question.goal is Goal.AVOID_OOM else None,
        gpus_per_worker=question.gpus_per_worker,
        max_gpus=question.max_gpus,
        model_version=question.model_version,
    )


def digest(question: EngineQuestion) -> str:
    """Name a question: the first 128 bits of SHA-256 over its fields as canonical JSON, in hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(question, order="sorted")).hexdigest()[:_DIGEST_SIGNS]
