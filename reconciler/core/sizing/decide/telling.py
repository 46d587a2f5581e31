"""A decision in words."""

from collections.abc import Sequence

from reconciler.core.sizing.decision import Candidate, Decision, Reason
from reconciler.core.sizing.question import Goal, Question
from reconciler.core.sizing.training import Layout

_NEARNESS = {
    reason: rank
    for rank, reason in enumerate(
        (
            Reason.PAGED,
            Reason.DISAGREE,
            Reason.BAND,
            Reason.UNMEASURED,
            Reason.DOES_NOT_FIT,
            Reason.VETO,
            Reason.INDIVISIBLE,
        )
    )
}
"""Which reason tells most where several candidates failed: that of the one that was nearest to running."""


def tell_chosen(question: Question, candidates: Sequence[Candidate], chosen: Candidate) -> str:
    """Say what was chosen: GPUs, memory, and what becomes of the batch."""
    parts = [f"{gpus(chosen.layout)}: {chosen.text}"]
    changed = _batch(question, chosen.layout)
    if changed:
        parts.append(changed)
    if question.goal is Goal.AVOID_OOM:
        parts.append(_kept(question, candidates, chosen))
    if question.goal is Goal.THROUGHPUT:
        parts.append(_fast(candidates, chosen))
    return "; ".join(part for part in parts if part)


def gpus(layout: Layout) -> str:
    """Count the GPUs of a layout, and its nodes where there are several."""
    count = f"{layout.gpus} GPU" + ("s" if layout.gpus > 1 else "")
    return count if layout.workers == 1 else f"{count} ({layout.workers} workers x {layout.gpus_per_worker})"


def _batch(question: Question, layout: Layout) -> str:
    """Say how the effective batch is kept where its factors change."""
    if (layout.gpus, layout.batch, layout.accumulation) == (
        question.processes,
        question.batch,
        question.accumulation,
    ):
        return ""
    steps = f" x {layout.accumulation} steps" if layout.accumulation > 1 else ""
    samples = "sample" if layout.batch == 1 else "samples"
    return f"{layout.batch} {samples} a GPU x {layout.gpus}{steps} keep the effective batch {question.effective_batch}"


def _kept(question: Question, candidates: Sequence[Candidate], chosen: Candidate) -> str:
    asked = question.requested_gpus or question.processes
    if chosen.layout.gpus == asked:
        return "the number that the job asks for"
    first = next((one for one in candidates if one.layout.gpus == asked), None)
    return f"instead of {asked}" + (f", which {first.text}" if first is not None and first is not chosen else "")


def _fast(candidates: Sequence[Candidate], chosen: Candidate) -> str:
    if chosen.tokens_per_s is None:
        return ""
    error = chosen.speed_error or 0.0
    text = f"{chosen.tokens_per_s:,.0f} tokens/s, give or take {error:.0%}"
    near = [
        one
        for one in candidates
        if one.fits and one.cost < chosen.cost and (one.tokens_per_s or 0) >= chosen.tokens_per_s * (1 - error)
    ]
    if not near:
        return text
    cheapest = min(near, key=lambda one: one.cost)
    return f"{text}; {gpus(cheapest.layout)} may be as fast ({cheapest.tokens_per_s:,.0f})"


def tell_none(question: Question, candidates: Sequence[Candidate]) -> tuple[Reason, str]:
    """Say why nothing was chosen, by the candidate that was nearest to running."""
    nearest = nearest_of(candidates)
    reason = Reason(nearest.reason)
    card = question.gpu.product
    if reason is Reason.INDIVISIBLE:
        return reason, f"no number of GPUs up to {question.max_gpus} keeps the batch: {nearest.text}"
    return reason, f"nothing up to {question.max_gpus} x {card} will do: {gpus(nearest.layout)}: {nearest.text}"


def nearest_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that was nearest to running; of several with that reason the largest."""
    return min(candidates, key=lambda one: (_NEARNESS[Reason(one.reason)], -one.layout.gpus))


def told(best: Decision, others: Sequence[Decision]) -> str:
    """Say what the other cards would cost beside the best."""
    chosen = best.chosen
    found = [one.chosen for one in others if one.chosen is not None]
    if chosen is None or not found:
        return ""
    listed = ", ".join(f"{one.layout.gpus} x {one.gpu.product} ({_price(one, chosen)})" for one in found)
    return f"; weighed against {listed}"


def _price(one: Candidate, chosen: Candidate) -> str:
    short = f", but only {one.gpu.in_all} are there" if is_short(one) else ""
    return f"{one.cost / chosen.cost:.2g} times the price{short}"


def is_short(candidate: Candidate) -> bool:
    """Whether fewer GPUs of the card were measured than the candidate takes."""
    return 0 < candidate.gpu.in_all < candidate.layout.gpus
