"""The question that sizing answers, and its form for external engines."""

import hashlib

import msgspec
from msgspec import Struct

from reconciler.sizing.config import Goal
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.training import Layout, Training

__all__ = ["EngineQuestion", "Goal", "Question", "digest", "engine_question"]

UNCERTAINTY = 0.15
"""Fraction by which flags of unknown effect widen the range of an estimate, on both sides."""

_DIGEST_LENGTH = 32
"""Hexadecimal digits. 128 bits avoid collisions, and reviewers can still compare two digests."""


class Question(Struct, frozen=True, kw_only=True):
    """A training, the GPU product to run it on, and the limits of the search.

    `batch` (samples per device and step), `processes` and `accumulation` are those of the job; their product (over the
    processes that share samples) is the effective batch that every candidate keeps. `requested_gpus` is what the job
    requests today.
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
    keeps_batch: bool = False  # the batch per device stays: the line states the samples of an update
    exact_gpus: int | None = None  # the degrees of parallelism on the line leave no other number
    is_uncertain: bool = False  # the line has flags whose effect on memory is not known
    is_assumed: bool = False  # the line leaves open, or has what is not modelled, and the answer assumes something
    safety: float = 0.08  # memory to keep free, as a fraction of the estimate
    allow_paged: bool = False  # accept layouts that fit only by paging (about 20 times slower)
    allow_disagreement: bool = False  # accept, as a last resort, a layout that an external engine expects to fail
    model_version: str = "3.1.0"  # of ado-autoconf's predictor
    one_node: bool = False  # the pods of several nodes could not find each other
    total_tokens: float | None = None  # of the whole run, at the full length of samples; None: unknown

    @property
    def margin(self) -> float:
        """Memory to keep free, as a fraction of the estimate: `safety`, and more if flags were not understood."""
        return self.safety + (UNCERTAINTY if self.is_uncertain else 0.0)

    @property
    def doubt(self) -> float:
        """Fraction by which the range is wider on both sides than that of a line that is understood completely."""
        return UNCERTAINTY * (self.is_uncertain + self.is_assumed)

    @property
    def replicas(self) -> int:
        """Groups of GPUs that work on samples of their own."""
        return self.replicas_of(self.processes)

    def replicas_of(self, gpus: int) -> int:
        """Return the groups among so many GPUs."""
        return max(1, gpus // self.training.group)

    @property
    def effective_batch(self) -> int:
        """Samples per update of the weights."""
        return self.batch * self.replicas * self.accumulation

    @property
    def global_batch(self) -> int:
        """Samples per step over all GPUs, without accumulation, as ado-autoconf counts."""
        return self.batch * self.replicas

    def samples(self, layout: Layout) -> int:
        """Return the samples per update of the weights in a layout."""
        return layout.batch * self.replicas_of(layout.gpus) * layout.accumulation


class EngineQuestion(Struct, frozen=True, kw_only=True):
    """A question as external engines see it: the inputs of ado-autoconf, and the limits of the search."""

    model: str  # name in ado-autoconf, or ours if it has none
    method: str
    gpu_model: str
    tokens_per_sample: int
    batch_size: int  # samples per step over all GPUs
    per_device_batch_size: int
    gradient_accumulation_steps: int = 1
    goal: Goal = Goal.MIN_GPU
    number_gpus: int | None = None  # what the job requests today, if the goal depends on it
    gpus_per_worker: int = 8
    max_gpus: int = 64
    model_version: str = "3.1.0"


def engine_question(question: Question) -> EngineQuestion:
    """Return a question as external engines see it."""
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
    """Return the first 128 bits of the SHA-256 of a question's fields as canonical JSON, in hexadecimal."""
    return hashlib.sha256(msgspec.json.encode(question, order="sorted")).hexdigest()[:_DIGEST_LENGTH]
