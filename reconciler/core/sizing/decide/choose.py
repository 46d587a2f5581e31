"""From a question and what is recorded of other engines to a decision with its reasons."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from reconciler.core.sizing.answers import NO_ANSWERS, Answers, Recommendation
from reconciler.core.sizing.decide.bench import Bench, Estimator, Speed
from reconciler.core.sizing.decide.hearing import Voice, hear
from reconciler.core.sizing.decide.layouts import spread, spreads
from reconciler.core.sizing.decide.remedies import remedies
from reconciler.core.sizing.decide.telling import gpus, is_short, nearest_of, tell_chosen, tell_none, told
from reconciler.core.sizing.decision import Candidate, Decision, Reason
from reconciler.core.sizing.estimate import Confidence
from reconciler.core.sizing.memory import estimate
from reconciler.core.sizing.question import Goal, Question
from reconciler.core.sizing.throughput import tokens_per_second
from reconciler.core.sizing.training import Layout, Precision

_ANALYTIC = ("analytic", "1")
_MEMORY = (Reason.DOES_NOT_FIT, Reason.VETO, Reason.BAND, Reason.PAGED)
_MOST_BATCH = 10_000_000
_MOST_TOKENS = 10_000_000


def decide(
    question: Question,
    answers: Answers = NO_ANSWERS,
    *,
    estimator: Estimator = estimate,
    speed: Speed | None = tokens_per_second,
    every: bool = False,
) -> Decision:
    """Choose the layout for a question, or say why there is none; the same arguments give the same decision.

    `answers` holds what was recorded of other engines, and which of them is configured. Layouts beyond the chosen one
    are weighed only where the goal needs them or `every` asks for the whole table; then it is also told what change of
    the training would fit on fewer GPUs.
    """
    wrong = _invalid(question)
    if wrong:
        return _none(question, (), Reason.INVALID, wrong, Voice())
    voice = hear(question, answers)
    bench = Bench(question, estimator, speed, voice if voice.silence is None else Voice())
    if voice.recommendation is not None:
        return _recommended(bench, voice, voice.recommendation)
    candidates = tuple(_weighed(bench, every=every))
    if voice.silence is not None:
        return _none(question, candidates, voice.silence, voice.text + _physics(question, candidates), voice)
    chosen = _chosen(question, candidates)
    if chosen is None:
        reason, text = tell_none(question, candidates)
        if reason in _MEMORY:
            text += _remedy(question, question.max_gpus + 1, estimator, other_weights=True)
        return _none(question, candidates, reason, text, voice)
    if question.goal is Goal.THROUGHPUT and chosen.tokens_per_s is None and chosen.fits:
        text = f"how fast {question.gpu.product} is, is not known; {tell_chosen(question, candidates, chosen)}"
        return _none(question, candidates, Reason.UNKNOWN_SPEED, text, voice)
    if not chosen.fits:  # the last resort, which the settings allow
        last = replace(chosen, fits=True, confidence=Confidence.LOW)
        candidates = tuple(last if one is chosen else one for one in candidates)
        chosen = last
    asked = max(question.processes, question.requested_gpus or 0)
    more = every and question.goal is not Goal.THROUGHPUT and chosen.layout.gpus > asked
    remedy = _remedy(question, chosen.layout.gpus, estimator, other_weights=False) if more else ""
    return _some(question, candidates, chosen, voice, remedy)


def decide_over(
    questions: Sequence[Question],
    answers: Answers = NO_ANSWERS,
    *,
    estimator: Estimator = estimate,
    speed: Speed | None = tokens_per_second,
    every: bool = False,
) -> Decision:
    """Choose among several cards, one question each: the cheapest that fits, by price and GPUs; others are told.

    A card of which fewer were measured than the layout takes comes last. For throughput the fastest is taken. While an
    engine owes its answer for any of them, the decision is pending.
    """
    if not questions:
        raise ValueError("there is no card to decide over")
    made = [decide(one, answers, estimator=estimator, speed=speed, every=every) for one in questions]
    pending = next((one for one in made if one.is_pending), None)
    found = sorted((one for one in made if one.chosen is not None), key=_rank)
    if pending is not None or not found or len(made) == 1:
        first = pending or (found[0] if found else made[0])
        return first if len(made) == 1 else replace(first, others=_others(one for one in made if one is not first))
    best = found[0]
    text = best.text + told(best, found[1:])
    return replace(best, text=text, others=_others(one for one in made if one is not best))


def _rank(decision: Decision) -> tuple[bool, float, float, int, str]:
    """Order cards: those of which there are enough, the fastest where that is the goal, the cheapest."""
    chosen = decision.chosen
    if chosen is None:
        return (False, 0.0, 0.0, 0, "")
    fast = -(chosen.tokens_per_s or 0.0) if decision.goal is Goal.THROUGHPUT else 0.0
    return (is_short(chosen), fast, chosen.cost, chosen.layout.gpus, chosen.gpu.product)


def _others(decisions: Iterable[Decision]) -> tuple[Candidate, ...]:
    """Return the best layout on each other card, cheapest first; cards on which nothing fits come last."""
    best = [one.chosen or nearest_of(one.candidates) for one in decisions if one.candidates]
    return tuple(sorted(best, key=lambda one: (not one.fits, one.cost, one.layout.gpus, one.gpu.product)))


def _weighed(bench: Bench, *, every: bool) -> Iterable[Candidate]:
    """Weigh the layouts of a question, one a number of GPUs; stop at the first that fits where that is the answer."""
    fastest = bench.question.goal is Goal.THROUGHPUT
    for found in spreads(bench.question):
        if not found.layouts:
            yield bench.refuse(found)
            continue
        weighed = [bench.weigh(layout) for layout in found.layouts]
        best = max(weighed, key=_speed)  # the first of equals: the largest batch
        best = best if best.fits else weighed[-1]
        yield best
        if best.fits and not fastest and not every:
            return


def _speed(candidate: Candidate) -> float:
    return (candidate.tokens_per_s or 0.0) if candidate.fits else -1.0


def _chosen(question: Question, candidates: Sequence[Candidate]) -> Candidate | None:
    fitting = [one for one in candidates if one.fits]
    if fitting and question.goal is Goal.THROUGHPUT:
        return max(fitting, key=lambda one: (_speed(one), -one.cost))
    if not fitting and question.allow_disagreement:
        return next((one for one in candidates if one.reason == Reason.DISAGREE), None)
    return fitting[0] if fitting else None


def _recommended(bench: Bench, voice: Voice, found: Recommendation) -> Decision:
    """Weigh another engine's whole recommendation; what physics refuses stays refused, and both are shown."""
    question = bench.question
    said = f"{voice.called} recommends {gpus(Layout(gpus=found.total, workers=found.workers))}"
    if found.total > question.max_gpus:
        text = f"{said}, more than the {question.max_gpus} that are allowed"
        return _none(question, (), Reason.OVER_LIMIT, text, voice)
    if found.gpus > question.gpus_per_worker:
        text = f"{said}, but a node has {question.gpus_per_worker}"
        return _none(question, (), Reason.OVER_LIMIT, text, voice)
    spreading = spread(question, found.total)
    if not spreading.layouts:
        refused = bench.refuse(spreading)
        return _none(question, (refused,), Reason.INDIVISIBLE, f"{said}, but {spreading.obstacle}", voice)
    layouts = [replace(layout, workers=found.workers) for layout in spreading.layouts]
    weighed = [bench.weigh(layout) for layout in layouts]
    best = max(weighed, key=_speed)
    best = best if best.fits else weighed[-1]
    physics = tuple(_weighed(bench.alone(), every=False))
    if best.fits:
        return _some(question, (best,), best, voice, _alone(_chosen(question, physics), best))
    text = f"{said}, but that {best.text}" + _physics(question, physics)
    others = [one for one in physics if one.layout != best.layout]
    return _none(question, (best, *others), Reason(best.reason), text, voice)


def _alone(physics: Candidate | None, best: Candidate) -> str:
    """Tell what physics would take, where that is another number than was recommended."""
    differs = physics is not None and physics.layout.gpus != best.layout.gpus
    return f"; physics alone takes {gpus(physics.layout)}" if physics is not None and differs else ""


def _remedy(question: Question, most: int, estimator: Estimator, *, other_weights: bool) -> str:
    """Tell the first change of the training that would fit on fewer than `most` GPUs."""
    for words, changed in remedies(question, other_weights=other_weights):
        chosen = _chosen(changed, tuple(_weighed(Bench(changed, estimator, None, Voice()), every=False)))
        if chosen is not None and chosen.layout.gpus < most:
            return f"; with {words} {gpus(chosen.layout)} would do"
    return ""


def _physics(question: Question, candidates: Sequence[Candidate]) -> str:
    """Tell what would have been chosen if nobody else were asked."""
    chosen = _chosen(question, candidates)
    return "" if chosen is None else f"; by physics alone {tell_chosen(question, (chosen,), chosen)}"


def _invalid(question: Question) -> str:
    training = question.training
    batch = question.effective_batch
    for name, value, most in (
        ("batch", question.batch, _MOST_BATCH),
        ("number of processes", question.processes, _MOST_BATCH),
        ("accumulation", question.accumulation, _MOST_BATCH),
        ("effective batch", batch, _MOST_BATCH),
        ("sample length", training.sequence, _MOST_TOKENS),
        ("number of requested GPUs", question.requested_gpus or 1, _MOST_BATCH),
        ("limit of GPUs", question.max_gpus, _MOST_BATCH),
        ("GPUs of a worker", question.gpus_per_worker, _MOST_BATCH),
    ):
        if not 1 <= value <= most:
            return f"a {name} of {value} is not between 1 and {most}"
    gpu, wide = question.gpu, training.precision in {Precision.BF16, Precision.BF16_MIXED}
    if not gpu.memory_gib > 0:  # NaN as well
        return f"{gpu.product} has no memory"
    return f"{gpu.product} has no bf16: train in fp16, or on a newer card" if wide and not gpu.bf16 else ""


def _engines(voice: Voice) -> tuple[tuple[str, str], ...]:
    return (_ANALYTIC, (voice.name, voice.version)) if voice.name else (_ANALYTIC,)


def _some(
    question: Question, candidates: tuple[Candidate, ...], chosen: Candidate, voice: Voice, remedy: str = ""
) -> Decision:
    return Decision(
        goal=question.goal,
        chosen=chosen,
        reason=chosen.reason,
        text=tell_chosen(question, candidates, chosen) + remedy,
        confidence=chosen.confidence,
        candidates=candidates,
        engines=_engines(voice),
    )


def _none(question: Question, candidates: tuple[Candidate, ...], reason: Reason, text: str, voice: Voice) -> Decision:
    return Decision(
        goal=question.goal,
        chosen=None,
        reason=reason,
        text=text,
        confidence=Confidence.LOW,
        candidates=candidates,
        engines=_engines(voice),
    )
