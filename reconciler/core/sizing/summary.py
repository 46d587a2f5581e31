"""What a reviewer is told of a sized job: three lines, and the table of what was weighed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.core.objects import SourceRef

if TYPE_CHECKING:  # every plan imports this module, few size anything
    from reconciler.core.sizing.decision import Candidate, Decision
    from reconciler.core.sizing.question import Question

_MOST_REJECTED = 2  # sentences; the table has them all
_MOST_COUNTS = 4


class CandidateSummary(Struct, frozen=True, kw_only=True):
    """A candidate as it is shown. GiB are of one GPU; None: no engine was asked, `text` says why."""

    gpus: int  # in all
    workers: int
    product: str
    memory_gib: float
    fits: bool
    chosen: bool
    text: str
    peak_gib: float | None = None
    low_gib: float | None = None
    high_gib: float | None = None


class SizingSummary(Struct, frozen=True, kw_only=True):
    """What was read (from `places`), what was chosen, what was rejected, and all that was weighed."""

    read: str
    chosen: str
    rejected: str
    places: tuple[SourceRef, ...] = ()
    candidates: tuple[CandidateSummary, ...] = ()


def summarize(decision: "Decision", *, read: str, places: tuple[SourceRef, ...] = ()) -> SizingSummary:
    """Tell a decision in three lines; `read` and `places` say what the question was made from."""
    everything = (*decision.candidates, *decision.others)
    return SizingSummary(
        read=read,
        chosen=_chosen(decision),
        rejected=_rejected(everything),
        places=places,
        candidates=tuple(_weighed(one, decision.chosen) for one in everything),
    )


def _chosen(decision: "Decision") -> str:
    if decision.chosen is None:
        return f"no recommendation ({decision.reason}): {decision.text}"
    gpu = decision.chosen.gpu
    return f"{decision.text} ({gpu.product}, confidence {decision.confidence})"


def _rejected(candidates: Sequence["Candidate"]) -> str:
    """Name the failed candidates nearest to running: each smaller one says no more than the next larger."""
    failed = [one for one in candidates if not one.fits and one.estimate is not None]
    told = [f"{one.layout.gpus} x {one.gpu.product} {one.text}" for one in reversed(failed[-_MOST_REJECTED:])]
    if len(failed) > len(told):
        told.append(f"{len(failed) - len(told)} smaller")
    divided = [one for one in candidates if not one.fits and one.estimate is None]
    if divided:
        counts = sorted({one.layout.gpus for one in divided})
        shown = ", ".join(map(str, counts[:_MOST_COUNTS])) + (", ..." if len(counts) > _MOST_COUNTS else "")
        told.append(
            f"{shown} GPUs: {divided[0].text}" if len(counts) == 1 else f"{shown} GPUs: the batch does not divide"
        )
    return "; ".join(told)


def _weighed(one: "Candidate", chosen: "Candidate | None") -> CandidateSummary:
    estimate = one.estimate
    return CandidateSummary(
        gpus=one.layout.gpus,
        workers=one.layout.workers,
        product=one.gpu.product,
        memory_gib=one.gpu.memory_gib,
        fits=one.fits,
        chosen=one is chosen,
        text=one.text,
        peak_gib=estimate.peak_gib if estimate else None,
        low_gib=estimate.low_gib if estimate else None,
        high_gib=estimate.high_gib if estimate else None,
    )


def describe_question(question: "Question", taken: Sequence[tuple[str, str]]) -> str:
    """Say what a question was made from; `taken` are names of values that nobody wrote, with their origin."""
    training = question.training
    billions = training.architecture.parameters / 1e9
    rank = f" r {training.lora_rank}" if training.method.has_adapters else ""
    factors = f"{question.batch} x {question.processes}"
    steps = f" x {question.accumulation}" if question.accumulation > 1 else ""
    words = [
        f"{training.architecture.name} ({billions:.3g} B)",
        f"{training.method}{rank}",
        f"{training.sequence} tokens",
        f"batch {factors}{steps} = {question.effective_batch}",
        f"{training.precision}, {training.optimizer}, {training.strategy}",
        "checkpointing" if training.checkpointing else "no checkpointing",
        str(training.attention),
    ]
    by_origin: dict[str, list[str]] = {}
    for name, origin in taken:
        if name in _TELLING:
            by_origin.setdefault(origin, []).append(name.replace("_", " "))
    told = [f"{', '.join(names)} by {origin}" for origin, names in by_origin.items()]
    return ", ".join(words) + (f"; {'; '.join(told)}" if told else "")


_TELLING = frozenset(
    (
        *("model", "method", "sequence", "batch", "processes", "accumulation", "precision", "optimizer"),
        *("checkpointing", "attention", "strategy", "lora_rank"),
    )
)
"""Values that move a peak by much: that nobody wrote them is worth a word."""
