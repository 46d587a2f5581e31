"""Evaluate layouts: the built-in memory model first, then the opinion of an external engine."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.sizing.answers import Answer, Answers, Recommendation
from reconciler.sizing.decide.explain import explain_candidate
from reconciler.sizing.decide.layouts import LayoutOptions, engine_layouts
from reconciler.sizing.decision import Candidate, Confidence, DecisionReason, Estimate
from reconciler.sizing.engine_registry import Engine, Outcome
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate
from reconciler.sizing.question import Question, engine_question
from reconciler.sizing.throughput.cost import Throughput
from reconciler.sizing.throughput.forecast import throughput
from reconciler.sizing.training import Layout, Method, Training


class EngineOpinion(Struct, frozen=True, kw_only=True):
    """The opinion of one external engine. An empty `name` means that no engine has one.

    `chances` are probabilities by GPUs and samples per step over all of them. If `blocked` is set, there can be no
    recommendation, for the reason `text`.
    """

    name: str = ""
    version: str = ""
    chances: Mapping[tuple[int, int], float] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    blocked: DecisionReason | None = None
    text: str = ""

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}".rstrip()


NO_OPINION = EngineOpinion()


def engine_opinion(question: Question, answers: Answers) -> EngineOpinion:
    """Look up the recorded answer of the configured engine. Outside of its domain, ado-autoconf has no opinion."""
    engine = answers.engine
    if not engine.is_external:
        return NO_OPINION
    layouts = () if engine.recommends else engine_layouts(question)
    if not engine.recommends and not layouts:
        return NO_OPINION
    answer = answers.answer(engine_question(question))
    if answer is None:
        text = f"no answer of {engine.name} is recorded; run reconciler size record"
        return EngineOpinion(name=engine.name, blocked=DecisionReason.PENDING, text=text)
    opinion = EngineOpinion(name=engine.name, version=_format_versions(answer.versions))
    if answer.outcome is not Outcome.CHANCES or engine.recommends:
        return _without_chances(opinion, answer, engine)
    chances = {(chance.gpus, chance.batch_size): chance.probability for chance in answer.chances}
    missing = [layout.gpus for layout in layouts if (layout.gpus, layout.gpus * layout.batch) not in chances]
    if missing:
        plural = "s" if missing[0] > 1 else ""
        text = f"the answer of {opinion.label} does not cover {missing[0]} GPU{plural}; run reconciler size record"
        return replace(opinion, blocked=DecisionReason.PENDING, text=text)
    return replace(opinion, chances=chances)


def _without_chances(opinion: EngineOpinion, answer: Answer, engine: Engine) -> EngineOpinion:
    match answer.outcome:
        case Outcome.PENDING:
            text = f"{opinion.label} has not answered request {answer.request_id} of {answer.submitted_at}"
            return replace(opinion, blocked=DecisionReason.PENDING, text=text)
        case Outcome.REFUSAL if not engine.recommends:  # outside of its domain
            return opinion
        case Outcome.REFUSAL:
            text = f"{opinion.label} gives no recommendation: {answer.refusal}"
            return replace(opinion, blocked=DecisionReason.REFUSED, text=text)
        case Outcome.RECOMMENDATION if engine.recommends:
            return replace(opinion, recommendation=answer.recommendation)
        case _:
            reason = answer.error or f"the answer has no {'recommendation' if engine.recommends else 'chances'}"
            return replace(opinion, blocked=DecisionReason.ENGINE_ERROR, text=f"{opinion.label} failed: {reason}")


def _format_versions(versions: tuple[tuple[str, str], ...]) -> str:
    """Return a single version alone, several with their names."""
    return ", ".join(version if len(versions) == 1 else f"{name} {version}" for name, version in versions)


Estimator = Callable[[Training, Layout, Gpu], Estimate]
"""Predicts the peak memory of one GPU."""

Speed = Callable[[Training, Layout, Gpu], Throughput | None]
"""Predicts the tokens per second of all GPUs together; None if the speed is unknown."""

LIKELY = 0.5
"""From this probability on, an external engine expects the run to fit (ado-autoconf's own threshold)."""
_UNLIKELY = 0.1
_CERTAIN = 0.9
_MAX_TRUSTED_TOKENS = 4 * 8192
"""Four times the longest measured samples. Above, a layout is accepted only with `_AMPLE` free memory."""
_AMPLE = 0.30
_CONFIDENCE_ORDER = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


class Assessment(Struct, frozen=True):
    """The verdict on a layout, with its reason and reliability."""

    fits: bool
    reason: DecisionReason
    confidence: Confidence


def assess(question: Question, estimate: Estimate, chance: float | None) -> Assessment:
    """Combine the memory estimate with an external engine's probability that the run fits (None: no opinion).

    What cannot be avoided must fit in any case. Within `safety` of the GPU's memory the external engine decides; below,
    it can only warn; above, it is believed in one case, a full fine-tuning that pages. The need counts, not the blocks
    that the allocator would cache on an empty GPU.
    """
    memory, need = question.gpu.memory_gib, estimate.need_gib
    obstacle = _obstacle(question, estimate)
    if obstacle is not None:
        return _reject(obstacle)
    if need * (1 + question.margin) <= memory:
        return _assess_fitting(question, estimate, chance)
    if need <= memory * (1 + question.margin):
        is_likely = chance is not None and chance >= LIKELY
        return _accept(question, estimate, Confidence.MEDIUM) if is_likely else _reject(DecisionReason.BAND)
    if chance is not None and chance > _CERTAIN and question.training.method is Method.FULL:
        return Assessment(question.allow_paged, DecisionReason.PAGED, Confidence.LOW)
    return _reject(DecisionReason.DOES_NOT_FIT)


def _obstacle(question: Question, estimate: Estimate) -> DecisionReason | None:
    """Return the reason why no engine is heard."""
    memory = question.gpu.memory_gib
    if not estimate.floor_gib <= memory:
        return DecisionReason.VETO
    if question.gpu.host_gib and estimate.host_gib > question.gpu.host_gib:
        return DecisionReason.HOST_MEMORY
    is_close = (1 - _AMPLE) * memory < estimate.need_gib <= memory
    return DecisionReason.UNMEASURED if is_close and _is_long(question) else None


def _is_long(question: Question) -> bool:
    return question.training.sequence > _MAX_TRUSTED_TOKENS


def _assess_fitting(question: Question, estimate: Estimate, chance: float | None) -> Assessment:
    if chance is not None and chance < _UNLIKELY:
        return _reject(DecisionReason.DISAGREE)
    if _is_long(question):
        return _accept(question, estimate, Confidence.LOW)
    if chance is not None and chance >= LIKELY:
        return _accept(question, estimate, Confidence.HIGH)
    # The peak may be anywhere in the predicted range, so a GPU whose memory ends within it is a risk.
    is_risky = estimate.high_gib > question.gpu.memory_gib
    return _accept(question, estimate, Confidence.LOW if is_risky else Confidence.MEDIUM)


def _reject(reason: DecisionReason) -> Assessment:
    return Assessment(fits=False, reason=reason, confidence=Confidence.LOW)


def _accept(question: Question, estimate: Estimate, confidence: Confidence) -> Assessment:
    """Accept a layout, unless it relies on paging."""
    if estimate.unpaged_gib is not None and not estimate.unpaged_gib * (1 + question.margin) <= question.gpu.memory_gib:
        return Assessment(question.allow_paged, DecisionReason.PAGED, Confidence.LOW)
    lowest = min(confidence, estimate.confidence, key=_CONFIDENCE_ORDER.index)
    return Assessment(fits=True, reason=DecisionReason.OK, confidence=lowest)


class Evaluator:
    """Evaluates the layouts of one question in order, fewest GPUs and largest batches first.

    ado-autoconf sometimes gives more GPUs a lower probability than fewer. More GPUs and smaller batches never need more
    memory each. A layout therefore has at least the probability of every earlier one that needs no less; and if the
    memory model alone accepted one of those, a low probability of the later layout is ignored.
    """

    def __init__(
        self,
        question: Question,
        estimator: Estimator = estimate,
        speed: Speed | None = throughput,
        opinion: EngineOpinion = NO_OPINION,
    ) -> None:
        self.question = question
        self._estimator, self._speed, self._opinion = estimator, speed, opinion
        self._estimates: dict[Layout, Estimate] = {}
        self._rated: list[tuple[Layout, float]] = []
        self._unrated: list[Layout] = []  # accepted by the memory model alone

    def evaluate(self, layout: Layout) -> Candidate:
        """Evaluate one layout, and predict its speed if it fits."""
        estimate, (chance, opinion) = self._estimate(layout), self._chance(layout)
        result = assess(self.question, estimate, chance)
        if chance is not None and result.reason != DecisionReason.VETO:
            self._rated.append((layout, chance))
        if chance is None and result.fits and self._opinion.chances:
            self._unrated.append(layout)
        speed = None
        if result.fits and self._speed is not None:
            speed = self._speed(_as_run(self.question.training, layout), layout, self.question.gpu)
        if result.fits and self.question.one_node and layout.workers > 1:
            result = _reject(DecisionReason.ONE_NODE)
        return Candidate(
            layout=layout,
            gpu=self.question.gpu,
            fits=result.fits,
            reason=result.reason,
            text=explain_candidate(self.question, estimate, opinion, result.reason),
            confidence=result.confidence,
            estimate=estimate,
            probability=chance if self._opinion.recommendation is None else None,
            speed=speed,
        )

    def without_opinion(self) -> "Evaluator":
        """Return an evaluator that uses the memory model alone. It shares the estimates."""
        evaluator = Evaluator(self.question, self._estimator, self._speed, NO_OPINION)
        evaluator._estimates = self._estimates
        return evaluator

    def reject(self, options: LayoutOptions) -> Candidate:
        """Return the candidate of a number of GPUs without any layout."""
        question = self.question
        layout = Layout(
            gpus=options.gpus, workers=options.workers, batch=question.batch, accumulation=question.accumulation
        )
        reason = DecisionReason.INDIVISIBLE
        return Candidate(layout=layout, gpu=question.gpu, fits=False, reason=reason, text=options.obstacle)

    def _estimate(self, layout: Layout) -> Estimate:
        known = self._estimates.get(layout)
        if known is None:
            known = self._estimator(_as_run(self.question.training, layout), layout, self.question.gpu)
            known = self._estimates[layout] = _widen(known, self.question.doubt)
        return known

    def _chance(self, layout: Layout) -> tuple[float | None, str]:
        """Return the external engine's probability and its opinion in words. A recommendation counts as certain."""
        opinion = self._opinion
        if opinion.recommendation is not None:
            return 1.0, f"{opinion.label} recommends it"
        if not opinion.chances:
            return None, ""
        own = opinion.chances.get((layout.gpus, layout.gpus * layout.batch))
        earlier = [chance for other, chance in self._rated if _needs_no_more(layout, other)]
        chance = max([*earlier, *([] if own is None else [own])], default=None)
        if chance is None or (chance < LIKELY and any(_needs_no_more(layout, other) for other in self._unrated)):
            return None, ""
        return chance, f"{opinion.label} gives it a probability of {chance:.0%}"


def _as_run(training: Training, layout: Layout) -> Training:
    """Return the training as it runs with a layout."""
    if training.checkpoints_shards and layout.gpus == 1:
        return replace(training, checkpointing=False)
    return training


def _widen(estimate: Estimate, doubt: float) -> Estimate:
    """Widen the range of an estimate whose line was not understood completely."""
    if not doubt:
        return estimate
    low, high = estimate.low_gib * (1 - doubt), estimate.high_gib * (1 + doubt)
    return replace(estimate, low_gib=low, high_gib=high, confidence=Confidence.LOW)


def _needs_no_more(layout: Layout, other: Layout) -> bool:
    """Return whether a layout cannot need more memory per GPU than the other one."""
    return other.gpus <= layout.gpus and other.batch >= layout.batch
