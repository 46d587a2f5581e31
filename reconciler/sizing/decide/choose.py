"""Choose a layout: from a question and the recorded answers of external engines to a decision."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from reconciler.sizing.answers import NO_ANSWERS, Answers, Recommendation
from reconciler.sizing.decide.evaluate import NO_OPINION, EngineOpinion, Estimator, Evaluator, Speed, engine_opinion
from reconciler.sizing.decide.explain import (
    closest_candidate,
    cost_basis,
    explain_alternatives,
    explain_chosen,
    explain_rejection,
    explain_stranded,
    format_gpus,
    is_short,
)
from reconciler.sizing.decide.layouts import all_layout_options, layout_options
from reconciler.sizing.decision import Candidate, Confidence, Decision, DecisionReason
from reconciler.sizing.memory import estimate
from reconciler.sizing.question import Goal, Question
from reconciler.sizing.throughput.forecast import throughput
from reconciler.sizing.training import Layout, Precision

_ANALYTIC = ("analytic", "1")
_Rank = Callable[[Candidate], tuple[bool, float, float, int, str]]
_MAX_BATCH = 10_000_000
_MAX_TOKENS = 10_000_000


def decide(
    question: Question,
    answers: Answers = NO_ANSWERS,
    *,
    estimator: Estimator = estimate,
    speed: Speed | None = throughput,
    every: bool = False,
) -> Decision:
    """Choose the layout for a question, or explain why there is none. Pure: equal arguments give equal decisions.

    `answers` are the recorded answers of external engines, and which engine is configured. Layouts after the chosen one
    are evaluated only if the goal needs them, or for `every`.
    """
    error = _validate(question)
    if error:
        return _no_decision(question, (), DecisionReason.INVALID, error, NO_OPINION)
    opinion = engine_opinion(question, answers)
    evaluator = Evaluator(question, estimator, speed, opinion if opinion.blocked is None else NO_OPINION)
    if opinion.recommendation is not None:
        return _decide_recommended(evaluator, opinion, opinion.recommendation)
    candidates = tuple(_evaluate_all(evaluator, every=every))
    if opinion.blocked is not None:
        text = opinion.text + _memory_model_choice(question, candidates)
        return _no_decision(question, candidates, opinion.blocked, text, opinion)
    chosen = _choose(question, candidates)
    if chosen is None:
        reason, text = explain_rejection(question, candidates)
        return _no_decision(question, candidates, reason, text, opinion)
    if question.goal is Goal.THROUGHPUT and chosen.tokens_per_s is None and chosen.fits:
        text = f"the speed of {question.gpu.product} is unknown; {explain_chosen(question, candidates, chosen)}"
        return _no_decision(question, candidates, DecisionReason.UNKNOWN_SPEED, text, opinion)
    if not chosen.fits:  # the last resort, which the settings allow
        accepted = replace(chosen, fits=True, confidence=Confidence.LOW)
        candidates = tuple(accepted if candidate is chosen else candidate for candidate in candidates)
        chosen = accepted
    return _decision(question, candidates, chosen, opinion, "")


def decide_cheapest(
    questions: Sequence[Question],
    answers: Answers = NO_ANSWERS,
    *,
    estimator: Estimator = estimate,
    speed: Speed | None = throughput,
) -> Decision:
    """Choose among GPU products, one question each: the cheapest by the token, or for throughput the fastest.

    If the speed of a product is unknown, the cost of an hour decides. A product of which the cluster has fewer GPUs
    than the layout takes comes last. The decision is pending while an engine has not answered for any of them.
    """
    if not questions:
        raise ValueError("no GPU product to choose from")
    decisions = [decide(question, answers, estimator=estimator, speed=speed) for question in questions]
    if len(decisions) == 1:
        return decisions[0]
    pending = next((decision for decision in decisions if decision.is_pending), None)
    chosen = [decision.chosen for decision in decisions if decision.chosen is not None]
    rank = _ranks(chosen, questions[0].goal)
    fitting = sorted(
        (decision for decision in decisions if decision.chosen is not None),
        key=lambda decision: rank(decision.chosen) if decision.chosen is not None else (),
    )
    best = pending or (fitting[0] if fitting else decisions[0])
    others = _best_of_others((decision for decision in decisions if decision is not best), rank)
    if pending is not None or not fitting:
        return replace(best, others=others)
    text = best.text + explain_alternatives(best, fitting[1:]) + explain_stranded(best, others)
    return replace(best, text=text, others=others)


def _ranks(chosen: Iterable[Candidate], goal: Goal) -> _Rank:
    """Return the order of GPU products: those that are available, the fastest if that is the goal, the cheapest."""
    price_of = cost_basis(chosen).price

    def rank(one: Candidate) -> tuple[bool, float, float, int, str]:
        slowness = -(one.tokens_per_s or 0.0) if goal is Goal.THROUGHPUT else 0.0
        return (is_short(one), slowness, price_of(one), one.layout.gpus, one.gpu.product)

    return rank


def _best_of_others(decisions: Iterable[Decision], rank: _Rank) -> tuple[Candidate, ...]:
    """Return the best layout on each other GPU product, cheapest first; products on which nothing fits come last."""
    listed = tuple(decisions)
    fitting = sorted((decision.chosen for decision in listed if decision.chosen is not None), key=rank)
    closest = (closest_candidate(one.candidates) for one in listed if one.chosen is None and one.candidates)
    return (*fitting, *sorted(closest, key=lambda one: (one.cost.per_hour, one.layout.gpus, one.gpu.product)))


def _evaluate_all(evaluator: Evaluator, *, every: bool) -> Iterator[Candidate]:
    """Yield the best candidate for each number of GPUs, up to the first that fits unless the goal needs all."""
    for options in all_layout_options(evaluator.question):
        if not options.layouts:
            yield evaluator.reject(options)
            continue
        best = _best(evaluator, options.layouts)
        yield best
        if best.fits and evaluator.question.goal is not Goal.THROUGHPUT and not every:
            return


def _best(evaluator: Evaluator, layouts: Iterable[Layout]) -> Candidate:
    """Return the fastest candidate that fits (of equals the largest batch), else the one that needs least."""
    candidates = [evaluator.evaluate(layout) for layout in layouts]
    best = max(candidates, key=_speed_of)
    return best if best.fits else candidates[-1]


def _speed_of(candidate: Candidate) -> float:
    return (candidate.tokens_per_s or 0.0) if candidate.fits else -1.0


def _choose(question: Question, candidates: Sequence[Candidate]) -> Candidate | None:
    fitting = [candidate for candidate in candidates if candidate.fits]
    if fitting and question.goal is Goal.THROUGHPUT:
        return max(fitting, key=lambda one: (_speed_of(one), -one.cost.per_hour))
    if not fitting and question.allow_disagreement:
        return next((one for one in candidates if one.reason == DecisionReason.DISAGREE), None)
    return fitting[0] if fitting else None


def _decide_recommended(evaluator: Evaluator, opinion: EngineOpinion, recommended: Recommendation) -> Decision:
    """Evaluate the recommendation of an external engine. What the memory model rejects stays rejected."""
    question = evaluator.question
    layout = Layout(gpus=recommended.total, workers=recommended.workers)
    prefix = f"{opinion.label} recommends {format_gpus(layout)}"
    if recommended.total > question.max_gpus:
        text = f"{prefix}, more than the limit of {question.max_gpus}"
        return _no_decision(question, (), DecisionReason.OVER_LIMIT, text, opinion)
    if recommended.gpus > question.gpus_per_worker:
        text = f"{prefix}, but a node has {question.gpus_per_worker}"
        return _no_decision(question, (), DecisionReason.OVER_LIMIT, text, opinion)
    options = layout_options(question, recommended.total)
    if not options.layouts:
        text = f"{prefix}, but {options.obstacle}"
        return _no_decision(question, (evaluator.reject(options),), DecisionReason.INDIVISIBLE, text, opinion)
    best = _best(evaluator, [replace(layout, workers=recommended.workers) for layout in options.layouts])
    own = tuple(_evaluate_all(evaluator.without_opinion(), every=False))
    if best.fits:
        own_choice, difference = _choose(question, own), ""
        if own_choice is not None and own_choice.layout.gpus != best.layout.gpus:
            difference = f"; the memory model alone chooses {format_gpus(own_choice.layout)}"
        return _decision(question, (best,), best, opinion, difference)
    text = f"{prefix}, but it {best.text}" + _memory_model_choice(question, own)
    others = [candidate for candidate in own if candidate.layout != best.layout]
    return _no_decision(question, (best, *others), DecisionReason(best.reason), text, opinion)


def _memory_model_choice(question: Question, candidates: Sequence[Candidate]) -> str:
    """Return the choice without an external engine."""
    chosen = _choose(question, candidates)
    if chosen is None:
        return ""
    return f"; the memory model alone chooses {explain_chosen(question, (chosen,), chosen)}"


def _validate(question: Question) -> str:
    """Return why the numbers of a question are invalid; empty if they are valid."""
    training, gpu = question.training, question.gpu
    for name, value, most in (
        ("batch", question.batch, _MAX_BATCH),
        ("number of processes", question.processes, _MAX_BATCH),
        ("accumulation", question.accumulation, _MAX_BATCH),
        ("effective batch", question.effective_batch, _MAX_BATCH),
        ("sample length", training.sequence, _MAX_TOKENS),
        ("number of requested GPUs", question.requested_gpus or 1, _MAX_BATCH),
        ("maximum number of GPUs", question.max_gpus, _MAX_BATCH),
        ("number of GPUs per worker", question.gpus_per_worker, _MAX_BATCH),
    ):
        if not 1 <= value <= most:
            return f"{name} must be between 1 and {most}, not {value}"
    if not gpu.memory_gib > 0:  # also true for NaN
        return f"the memory of {gpu.product} is unknown"
    is_bf16 = training.precision in {Precision.BF16, Precision.BF16_MIXED}
    return f"{gpu.product} does not support bf16: train in fp16, or on a newer GPU" if is_bf16 and not gpu.bf16 else ""


def _engines(opinion: EngineOpinion) -> tuple[tuple[str, str], ...]:
    return (_ANALYTIC, (opinion.name, opinion.version)) if opinion.name else (_ANALYTIC,)


def _decision(
    question: Question, candidates: tuple[Candidate, ...], chosen: Candidate, opinion: EngineOpinion, suffix: str
) -> Decision:
    return Decision(
        goal=question.goal,
        chosen=chosen,
        reason=chosen.reason,
        text=explain_chosen(question, candidates, chosen) + suffix,
        confidence=chosen.confidence,
        candidates=candidates,
        engines=_engines(opinion),
        total_tokens=question.total_tokens,
    )


def _no_decision(
    question: Question, candidates: tuple[Candidate, ...], reason: DecisionReason, text: str, opinion: EngineOpinion
) -> Decision:
    return Decision(
        goal=question.goal,
        chosen=None,
        reason=reason,
        text=text,
        confidence=Confidence.LOW,
        candidates=candidates,
        engines=_engines(opinion),
        total_tokens=question.total_tokens,
    )
