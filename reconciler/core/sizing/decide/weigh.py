"""One layout, weighed: physics first, then what another engine says of it."""

from operator import attrgetter

from msgspec import Struct

from reconciler.core.sizing.decision import Candidate, Reason
from reconciler.core.sizing.estimate import Confidence, Estimate
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Layout, Method

LIKELY = 0.5
"""From this chance on the other engine expects the run to fit (ado-autoconf's own threshold)."""
_UNLIKELY = 0.1
_CERTAIN = 0.9
_LONGEST_TRUSTED = 4 * 8192
"""Four times the longest samples that were measured; beyond, only ample headroom is trusted."""
_AMPLE = 0.30
PAGING_PRICE = "about 20 times slower"
"""Measured: granite-3.1-8b on 1 GPU, paged, 215 tokens/s; on 2 GPUs without paging 4,255."""

_ORDER = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


class Verdict(Struct, frozen=True):
    """Whether a layout is taken, why, and how sure that is."""

    fits: bool
    reason: Reason
    confidence: Confidence


def verdict(question: Question, estimate: Estimate, chance: float | None) -> Verdict:
    """Combine the physical estimate with another engine's `chance` that it fits (None: it has no say).

    What cannot be avoided must fit, whatever anybody says. Within the band of `safety` around the card's memory the
    other engine decides; below it may only warn; above it is believed in one case, paging of a full fine-tuning.
    What counts is what the run needs, not what its allocator would keep on an empty card.
    """
    room, need = question.gpu.memory_gib, estimate.need_gib
    if not estimate.floor_gib <= room:
        return _no(Reason.VETO)
    if _is_long(question) and (1 - _AMPLE) * room < need <= room:
        return _no(Reason.UNMEASURED)
    if need * (1 + question.safety) <= room:
        return _roomy(question, estimate, chance)
    if need <= room * (1 + question.safety):
        likely = chance is not None and chance >= LIKELY
        return _yes(question, estimate, Confidence.MEDIUM) if likely else _no(Reason.BAND)
    if chance is not None and chance > _CERTAIN and question.training.method is Method.FULL:
        return Verdict(question.allow_paged, Reason.PAGED, Confidence.LOW)
    return _no(Reason.DOES_NOT_FIT)


def _is_long(question: Question) -> bool:
    return question.training.sequence > _LONGEST_TRUSTED


def _roomy(question: Question, estimate: Estimate, chance: float | None) -> Verdict:
    if chance is not None and chance < _UNLIKELY:
        return _no(Reason.DISAGREE)
    if _is_long(question):
        return _yes(question, estimate, Confidence.LOW)
    agreed = chance is not None and chance >= LIKELY
    if agreed:
        return _yes(question, estimate, Confidence.HIGH)
    # A run may peak anywhere in the band: a card that ends inside of it is a bet, and is said to be one.
    is_bet = estimate.high_gib > question.gpu.memory_gib
    return _yes(question, estimate, Confidence.LOW if is_bet else Confidence.MEDIUM)


def _no(reason: Reason) -> Verdict:
    return Verdict(fits=False, reason=reason, confidence=Confidence.LOW)


def _yes(question: Question, estimate: Estimate, sure: Confidence) -> Verdict:
    """Take a layout, unless it counts on paging that it would need."""
    if estimate.unpaged_gib is not None and not estimate.unpaged_gib * (1 + question.safety) <= question.gpu.memory_gib:
        return Verdict(question.allow_paged, Reason.PAGED, Confidence.LOW)
    return Verdict(fits=True, reason=Reason.OK, confidence=min(sure, estimate.confidence, key=_ORDER.index))


def candidate(question: Question, layout: Layout, estimate: Estimate, chance: float | None, said: str) -> Candidate:
    """Weigh a layout and say so; `said` is the other engine's opinion in words, empty where it has none."""
    found = verdict(question, estimate, chance)
    return Candidate(
        layout=layout,
        gpu=question.gpu,
        fits=found.fits,
        reason=found.reason,
        text=_text(question, estimate, said, found.reason),
        confidence=found.confidence,
        estimate=estimate,
        probability=chance,
    )


def _text(question: Question, estimate: Estimate, said: str, reason: Reason) -> str:
    text = _figures(question, estimate, reason)
    return f"{text}, {_LINKS.get(reason, 'and')} {said}" if said else text


def _figures(question: Question, estimate: Estimate, reason: Reason) -> str:
    of = f"of {question.gpu.memory_gib:.1f} GiB"
    needs = f"needs {estimate.need_gib:.1f} {of}"
    match reason:
        case Reason.OK:
            text = f"{_peak(question, estimate, of)}: {largest(estimate)}"
        case Reason.VETO:
            what = "weights" if question.training.method.has_adapters else "weights and gradients"
            text = f"needs {estimate.floor_gib:.1f} {of} for {what} alone"
        case Reason.UNMEASURED:
            tokens = question.training.sequence
            text = f"{needs}: too close for samples of {tokens} tokens, far beyond what was measured"
        case Reason.DISAGREE:
            text = f"{needs} by physics"
        case Reason.BAND:
            text = f"{needs}: within {question.safety:.0%} of the limit"
        case Reason.PAGED:
            full = max(estimate.unpaged_gib or 0.0, estimate.need_gib)
            text = f"needs {full:.1f} {of}: fits only by paging the optimizer to the host, {PAGING_PRICE}"
        case _:
            text = f"{needs}: {largest(estimate)}"
    return text


def _peak(question: Question, estimate: Estimate, of: str) -> str:
    if estimate.peak_gib > question.gpu.memory_gib:
        return f"needs {estimate.need_gib:.1f} {of} (all of it will be taken: the allocator keeps what it can)"
    needed = f", {estimate.need_gib:.1f} needed" if estimate.need_gib < _ABOUT * estimate.peak_gib else ""
    return f"peak {estimate.peak_gib:.1f} {of} ({estimate.low_gib:.1f} to {estimate.high_gib:.1f}){needed}"


_ABOUT = 0.97
"""From this share of the peak on, telling the need as well would say nothing."""


_LINKS = {Reason.VETO: "though", Reason.DISAGREE: "but", Reason.DOES_NOT_FIT: "though"}


_NAMED_PARTS = 3
_gib = attrgetter("gib")


def largest(estimate: Estimate) -> str:
    """Name the largest parts of a peak."""
    parts = sorted(estimate.parts, key=_gib, reverse=True)[:_NAMED_PARTS]
    return ", ".join(f"{part.name} {part.gib:.1f}" for part in parts)
