"""Size a training without a job: evaluate 1, 2, 4 … GPUs with the same batch per GPU until it fits."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.core.sizing.decide import decide, format_gpus
from reconciler.core.sizing.decision import Candidate, Decision
from reconciler.core.sizing.question import Goal, Question
from reconciler.core.sizing.run_table import parse_run
from reconciler.core.sizing.tables import SizingTables
from reconciler.core.sizing.training import Architecture

_MORE = 2  # larger numbers of GPUs to evaluate after the first that fits, to show how much memory they leave free


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits of the sweep, as in `Question`."""

    gpus_per_worker: int = 8
    max_gpus: int = 64
    safety: float = 0.08
    allow_paged: bool = False


class GpuSweep(Struct, frozen=True, kw_only=True):
    """The decision, its question, and the candidate with the number of GPUs that the user asked about.

    `asked` is the question with that number, or that of the decision.
    """

    decision: Decision
    question: Question
    requested: Candidate | None
    asked: Question


def gpu_sweep(
    row: Mapping[str, str],
    bounds: Bounds,
    tables: SizingTables,
    *,
    gpus: int | None = None,
    architecture: Architecture | None = None,
) -> GpuSweep | str:
    """Evaluate powers of two (and `gpus`), each with the batch per GPU of `row`; return a message if it is invalid.

    `row` has the columns of a table of runs (`run_table.parse_run`). Sharding may depend on the number of GPUs, so each
    number is parsed as its own run. `architecture` is that of a model which is not in the table.
    """
    decisions: list[tuple[Question, Decision]] = []
    for count in _counts(bounds, gpus):
        nodes = -(-count // bounds.gpus_per_worker)
        run = parse_run({**row, "gpus": str(count), "nodes": str(nodes)}, tables, architecture)
        if isinstance(run, str):
            return run
        training, layout, gpu = run
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
        fitting = sum(1 for _, decision in decisions if decision.chosen is not None)
        if fitting > _MORE and (gpus is None or count >= gpus):
            break
    return _merge(decisions, gpus)


def _counts(bounds: Bounds, gpus: int | None) -> Iterator[int]:
    powers = (1 << exponent for exponent in range(bounds.max_gpus.bit_length()))
    yield from sorted({*(power for power in powers if power <= bounds.max_gpus), *([gpus] if gpus else [])})


def _merge(decisions: list[tuple[Question, Decision]], gpus: int | None) -> GpuSweep:
    """Return the first decision that fits, with the candidates of all."""
    candidates = tuple(decision.candidates[0] for _, decision in decisions if decision.candidates)
    question, best = next((pair for pair in decisions if pair[1].chosen is not None), decisions[-1])
    chosen = None
    if best.chosen is not None:
        layout = best.chosen.layout
        chosen = next(candidate for candidate in candidates if candidate.layout == layout)
    decision = Decision(
        goal=Goal.MIN_GPU,
        chosen=chosen,
        reason=best.reason,
        text=f"{format_gpus(chosen.layout)}: {chosen.text}" if chosen is not None else best.text,
        confidence=best.confidence,
        candidates=candidates,
        engines=best.engines,
    )
    requested = next((candidate for candidate in candidates if candidate.layout.gpus == gpus), None)
    asked = next((one for one, _ in decisions if requested is not None and one.processes == gpus), question)
    return GpuSweep(decision=decision, question=question, requested=requested, asked=asked)
