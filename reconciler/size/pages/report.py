"""The JSON output of `reconciler size`, as `schemas/gpureconciler.io/v1alpha1/sizereport.json` defines it."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from reconciler.size.pages.answer import SizeAnswer, instruction
from reconciler.sizing.decision import Candidate, Estimate
from reconciler.sizing.remedies import Reach, Remedies, Remedy

_DIGITS = 3


class RecommendationReport(Struct, frozen=True, kw_only=True):
    """The size that is chosen: `gpus` on each of `workers` nodes."""

    workers: int
    gpus: int


class CandidateReport(Struct, frozen=True, kw_only=True):
    """A layout that was evaluated: `gpus` of all workers; GiB are per GPU, null without an estimate.

    `need_gib` decides whether it `fits`. `low_gib` to `high_gib` is the range of `peak_gib`, whose `parts` are by name.
    """

    gpus: int
    workers: int
    gpus_per_worker: int
    product: str
    memory_gib: float
    batch: int
    accumulation: int
    peak_gib: float | None
    low_gib: float | None
    high_gib: float | None
    need_gib: float | None
    host_gib: float | None  # of one node, for what is offloaded
    parts: dict[str, float]
    confidence: str | None
    fits: bool
    reason: str
    text: str
    probability: float | None
    tokens_per_s: float | None  # of all GPUs together; null if it is unknown
    tokens_per_s_low: float | None  # nine of ten measured runs were in the range
    tokens_per_s_high: float | None
    cost_per_hour: float  # of all GPUs, in `currency`; without one relative to an A100 with 80 GB
    cost_per_million_tokens: float | None
    currency: str


class ReachReport(Struct, frozen=True, kw_only=True):
    """The largest `batch` per GPU and the longest `sequence` that fit, one at a time; 0 if nothing does.

    With the `safe` values, even the upper end of the estimate's range fits.
    """

    gpus: int
    batch: int
    safe_batch: int
    sequence: int
    safe_sequence: int


class SettingReport(Struct, frozen=True, kw_only=True):
    """A setting to change: of the `launcher`, of the `framework`, or in the file of `deepspeed`."""

    owner: str
    name: str
    value: str


class RemedyReport(Struct, frozen=True, kw_only=True):
    """Changes that save memory. `cost` is that of a trained token, relative to the job as it is; null if unknown.

    `keeps_training` is false if other weights are trained. `refusal` says why the framework cannot do it, or that the
    line could then not be sized.
    """

    changes: list[str]
    text: str
    keeps_training: bool
    need_before_gib: float | None
    cost: float | None
    settings: list[SettingReport]
    instruction: str
    refusal: str
    result: CandidateReport


class RemediesReport(Struct, frozen=True, kw_only=True):
    """Remedies for a training that does not fit: those that are `enough`, cheapest first, and the others."""

    enough: list[RemedyReport]
    not_enough: list[RemedyReport]
    refused: list[RemedyReport]


class LengthReport(Struct, frozen=True, kw_only=True):
    """The number of GPUs for samples of some tokens; null if no number of them fits."""

    sequence: int
    gpus: int | None


class SizeReport(Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """The answer to one question. `candidates` are all layouts that were tried, `others` those on other products.

    `requested` is the layout with the number of GPUs that was asked about; null if none was. `question` shows the
    values that were used, and is not part of the interface.
    """

    api_version: Literal["gpureconciler.io/v1alpha1"] = "gpureconciler.io/v1alpha1"
    kind: Literal["SizeReport"] = "SizeReport"
    job: str
    question: dict[str, Any]
    can_recommend: bool
    recommendation: RecommendationReport | None
    goal: str
    reason: str
    text: str
    confidence: str
    engines: dict[str, str]
    chosen: CandidateReport | None
    candidates: list[CandidateReport]
    others: list[CandidateReport]
    read: str
    assumed: list[str]
    by_length: list[LengthReport]
    places: list[str]
    requested: CandidateReport | None
    reach: ReachReport | None
    remedies: RemediesReport | None


def size_report(answer: SizeAnswer) -> SizeReport:
    """Return the answer to one question as values for JSON."""
    decision, note = answer.decision, answer.note
    chosen, requested = decision.chosen, answer.requested
    layout = None if chosen is None else chosen.layout
    return SizeReport(
        job=answer.name,
        question=msgspec.to_builtins(answer.question),
        can_recommend=chosen is not None,
        recommendation=None
        if layout is None
        else RecommendationReport(workers=layout.workers, gpus=layout.gpus_per_worker),
        goal=decision.goal,
        reason=decision.reason,
        text=decision.text,
        confidence=decision.confidence,
        engines=dict(decision.engines),
        chosen=None if chosen is None else _candidate(chosen),
        candidates=[_candidate(candidate) for candidate in decision.candidates],
        others=[_candidate(candidate) for candidate in decision.others],
        read=note.read,
        assumed=list(answer.assumed),
        by_length=[LengthReport(sequence=length, gpus=gpus) for length, gpus in answer.by_length],
        places=[str(place) for place in note.places],
        requested=None if requested is None else _candidate(requested),
        reach=None if answer.reach is None else _reach(answer.reach),
        remedies=None if answer.remedies is None else _remedies(answer, answer.remedies),
    )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a report. All keys are always written."""
    ((root,), shapes) = msgspec.json.schema_components([SizeReport], ref_template="#/$defs/{name}")
    strict = {name: _strict(shape) for name, shape in sorted(shapes.items())}
    name = root["$ref"].rpartition("/")[2]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:gpureconciler:v1alpha1:sizereport",
        **strict.pop(name),
        "$defs": strict,
    }


def _strict(shape: dict[str, Any]) -> dict[str, Any]:
    properties = {
        name: {key: value for key, value in inner.items() if key != "default"}
        for name, inner in shape["properties"].items()
    }
    return {**shape, "properties": properties, "required": list(properties), "additionalProperties": False}


def _candidate(candidate: Candidate) -> CandidateReport:
    layout, estimate, speed, cost = candidate.layout, candidate.estimate, candidate.speed, candidate.cost
    return CandidateReport(
        gpus=layout.gpus,
        workers=layout.workers,
        gpus_per_worker=layout.gpus_per_worker,
        product=candidate.gpu.product,
        memory_gib=round(candidate.gpu.memory_gib, _DIGITS),
        batch=layout.batch,
        accumulation=layout.accumulation,
        peak_gib=_gib(estimate, "peak_gib"),
        low_gib=_gib(estimate, "low_gib"),
        high_gib=_gib(estimate, "high_gib"),
        need_gib=_gib(estimate, "need_gib"),
        host_gib=_gib(estimate, "host_gib"),
        parts={part.name: round(part.gib, _DIGITS) for part in estimate.parts} if estimate else {},
        confidence=estimate.confidence if estimate else None,
        fits=candidate.fits,
        reason=candidate.reason,
        text=candidate.text,
        probability=candidate.probability,
        tokens_per_s=None if speed is None else round(speed.tokens_per_s, 1),
        tokens_per_s_low=None if speed is None else round(speed.low, 1),
        tokens_per_s_high=None if speed is None else round(speed.high, 1),
        cost_per_hour=round(cost.per_hour, _DIGITS),
        cost_per_million_tokens=None
        if cost.per_million_tokens is None
        else round(cost.per_million_tokens, 2 * _DIGITS),
        currency=cost.currency,
    )


def _gib(estimate: Estimate | None, name: str) -> float | None:
    return None if estimate is None else round(getattr(estimate, name), _DIGITS)


def _reach(reach: Reach) -> ReachReport:
    return ReachReport(
        gpus=reach.layout.gpus,
        batch=reach.batch,
        safe_batch=reach.safe_batch,
        sequence=reach.sequence,
        safe_sequence=reach.safe_sequence,
    )


def _remedies(answer: SizeAnswer, remedies: Remedies) -> RemediesReport:
    def listed(found: tuple[Remedy, ...]) -> list[RemedyReport]:
        return [_remedy(answer, remedy) for remedy in found]

    return RemediesReport(
        enough=listed(remedies.enough), not_enough=listed(remedies.not_enough), refused=listed(remedies.refused)
    )


def _remedy(answer: SizeAnswer, remedy: Remedy) -> RemedyReport:
    return RemedyReport(
        changes=[str(kind) for kind in remedy.kinds],
        text=remedy.text,
        keeps_training=remedy.keeps_training,
        need_before_gib=_gib(remedy.before.estimate, "need_gib"),
        cost=None if remedy.cost is None else round(remedy.cost, _DIGITS),
        settings=[SettingReport(owner=edit.owner, name=edit.name, value=edit.value) for edit in remedy.edits],
        instruction=instruction(answer, remedy),
        refusal=remedy.refusal,
        result=_candidate(remedy.after),
    )
