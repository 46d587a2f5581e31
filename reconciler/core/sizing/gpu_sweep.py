"""A question without a job: a model and a batch a GPU, on one GPU, two, four … until it fits."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.decide import decide
from reconciler.core.sizing.decide.telling import gpus as gpus_of
from reconciler.core.sizing.decision import Candidate, Decision
from reconciler.core.sizing.question import Goal, Question
from reconciler.core.sizing.rows import training_of_row

_FURTHER = 2  # rungs beyond the first that fits: what more GPUs would leave free


class Bounds(Struct, frozen=True, kw_only=True):
    """How far to look; as in `Question`."""

    gpus_per_worker: int = 8
    max_gpus: int = 64
    safety: float = 0.08
    allow_paged: bool = False


class GpuSweep(Struct, frozen=True, kw_only=True):
    """The decision, the question that it answers best, and the user's own number of GPUs, judged."""

    decision: Decision
    question: Question
    requested: Candidate | None


def gpu_sweep(
    row: Mapping[str, str], bounds: Bounds, *, gpus: int | None = None, architecture: Architecture | None = None
) -> GpuSweep | str:
    """Weigh powers of two of GPUs (and `gpus`), each with the batch a GPU that `row` says; a string says what is wrong.

    `row` has the columns of a table of runs (`rows.training_of_row`); how a run is sharded may depend on the number of
    GPUs, so each rung is a row of its own. `architecture` stands for a model that no table knows.
    """
    decisions: list[tuple[Question, Decision]] = []
    for count in _counts(bounds, gpus):
        nodes = -(-count // bounds.gpus_per_worker)
        read = training_of_row({**row, "gpus": str(count), "nodes": str(nodes)}, architecture)
        if isinstance(read, str):
            return read
        training, layout, gpu = read
        question = Question(
            training=training,
            gpu=gpu,
            batch=layout.batch,
            processes=count,
            accumulation=layout.accumulation,
            requested_gpus=count,
            goal=Goal.AVOID_OOM,
            gpus_per_worker=bounds.gpus_per_worker,
            max_gpus=count,
            safety=bounds.safety,
            allow_paged=bounds.allow_paged,
        )
        decisions.append((question, decide(question)))
        if _is_enough([decision for _, decision in decisions], count, gpus):
            break
    return _joined(decisions, gpus)


def _counts(bounds: Bounds, gpus: int | None) -> Iterator[int]:
    powers = (1 << exponent for exponent in range(bounds.max_gpus.bit_length()))
    yield from sorted({*(power for power in powers if power <= bounds.max_gpus), *([gpus] if gpus else [])})


def _is_enough(decisions: list[Decision], count: int, gpus: int | None) -> bool:
    """Whether the answer, a little beyond it, and the user's own number are among what was weighed."""
    fitting = sum(1 for decision in decisions if decision.chosen is not None)
    return fitting > _FURTHER and (gpus is None or count >= gpus)


def _joined(decisions: list[tuple[Question, Decision]], gpus: int | None) -> GpuSweep:
    candidates = tuple(decision.candidates[0] for _, decision in decisions if decision.candidates)
    question, best = next((pair for pair in decisions if pair[1].chosen is not None), decisions[-1])
    chosen = None if best.chosen is None else next(one for one in candidates if one.layout == best.chosen.layout)
    decision = Decision(
        goal=Goal.MIN_GPU,
        chosen=chosen,
        reason=best.reason,
        text=f"{gpus_of(chosen.layout)}: {chosen.text}" if chosen is not None else best.text,
        confidence=best.confidence,
        candidates=candidates,
        engines=best.engines,
    )
    requested = next((one for one in candidates if one.layout.gpus == gpus), None)
    return GpuSweep(decision=decision, question=question, requested=requested)
