"""What the configured external engine says about a question, from its recorded answer."""

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.engines import Engine, Outcome
from reconciler.core.sizing.answers import Answer, Answers, Recommendation
from reconciler.core.sizing.decide.layouts import engine_layouts
from reconciler.core.sizing.decision import DecisionReason
from reconciler.core.sizing.question import Question, engine_question


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
