"""Explain candidates and decisions in words."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from msgspec import Struct

from reconciler.kube.values import plural
from reconciler.sizing.decision import Candidate, Decision, DecisionReason, Estimate
from reconciler.sizing.question import Goal, Question
from reconciler.sizing.training import Layout

PAGING_COST = "about 20 times slower"
"""Measured: granite-3.1-8b on 1 GPU with paging, 215 tokens/s; on 2 GPUs without, 4,255."""

_NEED_IS_PEAK = 0.97
"""From this fraction of the peak on, the need is not shown as well."""

_MAX_PARTS = 3
_gib = attrgetter("gib")
_CONJUNCTIONS = {
    DecisionReason.VETO: "although",
    DecisionReason.DISAGREE: "but",
    DecisionReason.DOES_NOT_FIT: "although",
}
_BY_RELEVANCE = (
    DecisionReason.ONE_NODE,
    DecisionReason.PAGED,
    DecisionReason.DISAGREE,
    DecisionReason.BAND,
    DecisionReason.UNMEASURED,
    DecisionReason.HOST_MEMORY,
    DecisionReason.DOES_NOT_FIT,
    DecisionReason.VETO,
    DecisionReason.INDIVISIBLE,
)
"""Reasons of rejection, by how close to running a candidate with that reason is."""


def explain_candidate(question: Question, estimate: Estimate, opinion: str, reason: DecisionReason) -> str:
    """Return the figures and the reason of one candidate; `opinion` is that of an external engine, or empty."""
    of = f"of {question.gpu.memory_gib:.1f} GiB"
    need = f"needs {estimate.need_gib:.1f} {of}"
    match reason:
        case DecisionReason.OK:
            text = f"{_peak(question, estimate, of)}: {_largest_parts(estimate)}"
        case DecisionReason.ONE_NODE:
            text = f"{_peak(question, estimate, of)}, on several nodes, whose pods have no rendezvous address"
        case DecisionReason.VETO:
            what = "weights" if question.training.method.has_adapters else "weights and gradients"
            text = f"needs {estimate.floor_gib:.1f} {of} for {what} alone"
        case DecisionReason.HOST_MEMORY:
            text = (
                f"needs {estimate.host_gib:.1f} of {question.gpu.host_gib} GiB of a node's memory for what is offloaded"
            )
        case DecisionReason.UNMEASURED:
            tokens = question.training.sequence
            text = f"{need}: too close to the limit for samples of {tokens} tokens, much longer than any measured run"
        case DecisionReason.DISAGREE:
            text = f"{need} by the memory model"
        case DecisionReason.BAND:
            text = f"{need}: within {question.margin:.0%} of the limit"
        case DecisionReason.PAGED:
            full = max(estimate.unpaged_gib or 0.0, estimate.need_gib)
            text = f"needs {full:.1f} {of}: fits only by paging the optimizer to the host, {PAGING_COST}"
        case _:
            text = f"{need}: {_largest_parts(estimate)}"
    return f"{text}, {_CONJUNCTIONS.get(reason, 'and')} {opinion}" if opinion else text


def _peak(question: Question, estimate: Estimate, of: str) -> str:
    if estimate.peak_gib > question.gpu.memory_gib:
        return f"needs {estimate.need_gib:.1f} {of} (the allocator will use all of it for its cache)"
    need = f", {estimate.need_gib:.1f} needed" if estimate.need_gib < _NEED_IS_PEAK * estimate.peak_gib else ""
    return f"peak {estimate.peak_gib:.1f} {of} ({estimate.low_gib:.1f} to {estimate.high_gib:.1f}){need}"


def _largest_parts(estimate: Estimate) -> str:
    parts = sorted(estimate.parts, key=_gib, reverse=True)[:_MAX_PARTS]
    return ", ".join(f"{part.name} {part.gib:.1f}" for part in parts)


def explain_chosen(question: Question, candidates: Sequence[Candidate], chosen: Candidate) -> str:
    """Describe the choice: GPUs, memory, and how the effective batch is kept."""
    parts = [f"{format_gpus(chosen.layout)}: {chosen.text}", _batch_change(question, chosen.layout)]
    if question.goal is Goal.AVOID_OOM:
        parts.append(_compare_with_request(question, candidates, chosen))
    if question.goal is Goal.THROUGHPUT:
        parts.append(_speed(candidates, chosen))
    return "; ".join(part for part in parts if part)


def format_gpus(layout: Layout) -> str:
    """Return the number of GPUs, and of workers if there are several."""
    count = plural(layout.gpus, "GPU")
    return count if layout.workers == 1 else f"{count} ({layout.workers} workers x {layout.gpus_per_worker})"


def _batch_change(question: Question, layout: Layout) -> str:
    """Return the factors that keep the effective batch, in words; empty if they do not change."""
    if (layout.gpus, layout.batch, layout.accumulation) == (question.processes, question.batch, question.accumulation):
        return ""
    steps = f" x {layout.accumulation} steps" if layout.accumulation > 1 else ""
    replicas = question.replicas_of(layout.gpus)
    each = "GPU" if replicas == layout.gpus else f"replica of {question.training.group} GPUs"
    product = f"{plural(layout.batch, 'sample')} per {each} x {replicas}{steps}"
    return f"{product} keep the effective batch of {question.effective_batch}"


def _compare_with_request(question: Question, candidates: Sequence[Candidate], chosen: Candidate) -> str:
    requested = question.requested_gpus or question.processes
    if chosen.layout.gpus == requested:
        return "the requested number"
    first = next((candidate for candidate in candidates if candidate.layout.gpus == requested), None)
    return f"instead of {requested}" + (f", which {first.text}" if first is not None and first is not chosen else "")


def _speed(candidates: Sequence[Candidate], chosen: Candidate) -> str:
    if chosen.speed is None:
        return ""
    text = str(chosen.speed)
    similar = [
        candidate
        for candidate in candidates
        if candidate.fits
        and candidate.cost.per_hour < chosen.cost.per_hour
        and candidate.speed is not None
        and candidate.speed.high >= chosen.speed.tokens_per_s
    ]
    if not similar:
        return text
    cheapest = min(similar, key=lambda candidate: candidate.cost.per_hour)
    return f"{text}; {format_gpus(cheapest.layout)} may be as fast ({cheapest.tokens_per_s:,.0f} tokens/s)"


def explain_rejection(question: Question, candidates: Sequence[Candidate]) -> tuple[DecisionReason, str]:
    """Return why nothing was chosen: the reason of the candidate that was closest to running."""
    closest = closest_candidate(candidates)
    reason = DecisionReason(closest.reason)
    product = question.gpu.product
    if reason is DecisionReason.INDIVISIBLE:
        return reason, f"no number of GPUs up to {question.max_gpus} keeps the effective batch: {closest.text}"
    gpus = format_gpus(closest.layout)
    return reason, f"no layout of up to {question.max_gpus} x {product} fits; the closest, {gpus}, {closest.text}"


def closest_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the rejected candidate that is closest to running; of several with the same reason, the largest.

    Those on several nodes all have enough memory, so that of them the smallest counts.
    """

    def distance(candidate: Candidate) -> tuple[int, int]:
        reason, gpus = DecisionReason(candidate.reason), candidate.layout.gpus
        return _BY_RELEVANCE.index(reason), gpus if reason is DecisionReason.ONE_NODE else -gpus

    return min(candidates, key=distance)


def explain_alternatives(best: Decision, others: Sequence[Decision]) -> str:
    """Return what the other GPU products would cost, by the trained token if all speeds are known."""
    chosen = best.chosen
    found = [decision.chosen for decision in others if decision.chosen is not None]
    if chosen is None or not found:
        return ""
    compared = cost_basis([chosen, *found])
    listed = ", ".join(
        f"{one.layout.gpus} x {one.gpu.product} ({compared.price(one) / compared.price(chosen):.2g} times "
        f"{compared.what}{_shortage(one)})"
        for one in found
    )
    return f"; alternatives: {listed}"


class CostBasis(Struct, frozen=True):
    """The measure by which candidates are compared: a token or an hour, in money or in hours of an A100."""

    by_token: bool
    in_money: bool

    @property
    def what(self) -> str:
        """The subject of the comparison, for a sentence."""
        return "the cost of a token" if self.by_token else "the price of an hour"

    def price(self, candidate: Candidate) -> float:
        """Return the cost of a candidate."""
        cost = candidate.cost if self.in_money else candidate.relative_cost
        return (cost.per_million_tokens or 0.0) if self.by_token else cost.per_hour


def cost_basis(candidates: Iterable[Candidate]) -> CostBasis:
    """Compare by the token if all speeds are known, and in money if the repository has all prices."""
    listed = tuple(candidates)
    return CostBasis(
        by_token=all(one.speed is not None for one in listed), in_money=all(one.gpu.currency for one in listed)
    )


def explain_stranded(best: Decision, others: Iterable[Candidate]) -> str:
    """Return the layouts on several nodes of other products that would cost less, if the pods could find each other."""
    chosen = best.chosen
    stranded = [one for one in others if one.reason == DecisionReason.ONE_NODE]
    if chosen is None or not stranded:
        return ""
    compared = cost_basis([chosen, *stranded])
    listed = ", ".join(
        f"{one.layout.gpus} x {one.gpu.product} on {one.layout.workers} nodes "
        f"({compared.price(one) / compared.price(chosen):.2g} times {compared.what})"
        for one in stranded
    )
    return f"; only with a rendezvous address: {listed}"


def _shortage(candidate: Candidate) -> str:
    return f", but the cluster has only {candidate.gpu.in_all}" if is_short(candidate) else ""


def is_short(candidate: Candidate) -> bool:
    """Return whether the cluster has fewer GPUs of the product than the candidate takes, as far as measured."""
    return 0 < candidate.gpu.in_all < candidate.layout.gpus
