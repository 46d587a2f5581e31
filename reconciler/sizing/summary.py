"""The summary of a sized job for reviewers: what was read, chosen and rejected, and the table of candidates."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.kube.values import plural
from reconciler.sizing.decision import Candidate, Decision
from reconciler.sizing.question import Question
from reconciler.sizing.training import Training

_MAX_REJECTED = 2
_MAX_COUNTS = 4


class CandidateSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """A candidate as displayed. GiB are per GPU, None if there is no estimate; `text` is the reason."""

    gpus: int  # in total
    workers: int
    product: str
    memory_gib: float
    fits: bool
    chosen: bool
    text: str
    peak_gib: float | None = None
    low_gib: float | None = None
    high_gib: float | None = None
    tokens_per_s: float | None = None  # of all GPUs; None: unknown, or it does not fit
    cost_per_million_tokens: float | None = None
    currency: str = ""  # empty: relative to an A100 with 80 GB


class SizingSummary(Struct, frozen=True, kw_only=True):
    """The facts that were read (from `places`), the choice, the rejections, and all candidates."""

    read: str
    chosen: str
    rejected: str
    places: tuple[SourceRef, ...] = ()
    candidates: tuple[CandidateSummary, ...] = ()


def summarize(decision: Decision, *, read: str, places: tuple[SourceRef, ...] = ()) -> SizingSummary:
    """Summarize a decision. `read` describes its question, `places` are where its values were read."""
    candidates = (*decision.candidates, *decision.others)
    return SizingSummary(
        read=read,
        chosen=_chosen(decision),
        rejected=_rejected(candidates),
        places=places,
        candidates=tuple(_summarize_candidate(candidate, decision.chosen) for candidate in candidates),
    )


def _chosen(decision: Decision) -> str:
    if decision.chosen is None:
        return f"no recommendation ({decision.reason}): {decision.text}"
    gpu, run = decision.chosen.gpu, decision.run
    length = "" if run is None else f"; whole run: {run}"
    return f"{decision.text}{length} ({gpu.product}, confidence {decision.confidence})"


def _rejected(candidates: Sequence[Candidate]) -> str:
    """Return the rejected candidates that are closest to running, and numbers of GPUs that cannot keep the batch."""
    rejected = [one for one in candidates if not one.fits and one.estimate is not None]
    parts = [f"{one.layout.gpus} x {one.gpu.product} {one.text}" for one in reversed(rejected[-_MAX_REJECTED:])]
    if len(rejected) > len(parts):
        parts.append(f"{len(rejected) - len(parts)} smaller")
    indivisible = [one for one in candidates if not one.fits and one.estimate is None]
    counts = sorted({one.layout.gpus for one in indivisible})
    if len(counts) == 1:
        parts.append(f"{plural(counts[0], 'GPU')}: {indivisible[0].text}")
    elif counts:
        shown = ", ".join(map(str, counts[:_MAX_COUNTS])) + (", ..." if len(counts) > _MAX_COUNTS else "")
        parts.append(f"{shown} GPUs: the batch does not divide")
    return "; ".join(parts)


def _summarize_candidate(candidate: Candidate, chosen: Candidate | None) -> CandidateSummary:
    estimate, cost = candidate.estimate, candidate.cost.per_million_tokens
    return CandidateSummary(
        gpus=candidate.layout.gpus,
        workers=candidate.layout.workers,
        product=candidate.gpu.product,
        memory_gib=candidate.gpu.memory_gib,
        fits=candidate.fits,
        chosen=candidate is chosen,
        text=candidate.text,
        peak_gib=estimate.peak_gib if estimate else None,
        low_gib=estimate.low_gib if estimate else None,
        high_gib=estimate.high_gib if estimate else None,
        tokens_per_s=candidate.tokens_per_s and round(candidate.tokens_per_s, 1),
        cost_per_million_tokens=cost and round(cost, 4),
        currency=candidate.cost.currency,
    )


def describe_question(question: Question, defaults: Sequence[tuple[str, str]]) -> str:
    """Return the values of a question. `defaults` are (name, origin) of the values that are not set."""
    training = question.training
    billions = training.architecture.parameters / 1e9
    rank = f" r {training.lora_rank}" if training.method.has_adapters else ""
    factors = f"{question.batch} x {question.replicas}"
    steps = f" x {question.accumulation}" if question.accumulation > 1 else ""
    words = [
        f"{training.architecture.name} ({billions:.3g} B)",
        f"{training.method}{rank}",
        *([str(training.objective)] if training.objective != "sft" else []),
        *(f"{companion.role} model {companion.architecture.name}" for companion in training.companions),
        f"{training.sequence} tokens",
        f"batch {factors}{steps} = {question.effective_batch}",
        f"{training.precision}, {training.optimizer}, {training.strategy}",
        "checkpointing" if training.checkpointing else "no checkpointing",
        str(training.attention),
        *_degrees(training),
    ]
    by_origin: dict[str, list[str]] = {}
    for name, origin in defaults:
        if name in _SHOWN_DEFAULTS:
            by_origin.setdefault(origin, []).append(name.replace("_", " "))
    origins = [f"{', '.join(names)}: {origin}" for origin, names in by_origin.items()]
    return ", ".join(words) + (f"; defaults: {'; '.join(origins)}" if origins else "")


def _degrees(training: Training) -> list[str]:
    """Return the degrees by which GPUs share a sample, its experts and the shards."""
    degrees = {"tensor": training.tensor, "pipeline": training.pipeline, "context": training.context}
    degrees |= {"expert": training.expert, "replicas": training.replicas}
    return [f"{name} {degree}" for name, degree in degrees.items() if degree > 1]


_SHOWN_DEFAULTS = frozenset(
    (
        *("model", "method", "sequence", "batch", "processes", "accumulation", "precision", "optimizer"),
        *("checkpointing", "attention", "strategy", "lora_rank"),
    )
)
"""Values with a large effect on the peak."""
