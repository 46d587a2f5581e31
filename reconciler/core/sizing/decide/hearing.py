"""What the configured engine has to say of a question: chances, a recommendation, or why it is silent."""

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.core.engines import Engine, Outcome
from reconciler.core.sizing.answers import Answer, Answers, Recommendation
from reconciler.core.sizing.decide.layouts import engine_layouts
from reconciler.core.sizing.decision import Reason
from reconciler.core.sizing.question import Question, engine_question


class Voice(Struct, frozen=True, kw_only=True):
    """One engine besides physics. `name` empty: nobody was heard.

    `chances` are by GPUs and samples of one step over all of them. `silence` set: there can be no recommendation,
    for the reason `text`.
    """

    name: str = ""
    version: str = ""
    chances: Mapping[tuple[int, int], float] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    silence: Reason | None = None
    text: str = ""

    @property
    def called(self) -> str:
        """Name and version, for people."""
        return f"{self.name} {self.version}".rstrip()


_NOBODY = Voice()


def hear(question: Question, answers: Answers) -> Voice:
    """Look up what the configured engine answered; ado-autoconf is not asked beyond what its predictor learnt."""
    engine = answers.engine
    if not engine.is_external:
        return _NOBODY
    layouts = () if engine.recommends else engine_layouts(question)
    if not engine.recommends and not layouts:
        return _NOBODY
    answer = answers.answer(engine_question(question))
    if answer is None:
        text = f"{engine.name} was not asked yet: run reconciler size record"
        return Voice(name=engine.name, silence=Reason.PENDING, text=text)
    version = _named(answer.versions)
    voice = Voice(name=engine.name, version=version, recommendation=answer.recommendation)
    if answer.outcome is not Outcome.CHANCES or engine.recommends:
        return _without_chances(voice, answer, engine)
    chances = {(chance.gpus, chance.batch_size): chance.probability for chance in answer.chances}
    lacking = [one.gpus for one in layouts if (one.gpus, one.gpus * one.batch) not in chances]
    if lacking:
        text = f"{voice.called} gave no chance for {lacking[0]} GPUs: run reconciler size record"
        return _silent(voice, Reason.PENDING, text)
    return Voice(name=voice.name, version=version, chances=chances)


def _without_chances(voice: Voice, answer: Answer, engine: Engine) -> Voice:
    match answer.outcome:
        case Outcome.PENDING:
            text = f"{voice.called} has not answered request {answer.request_id} of {answer.submitted_at}"
            return _silent(voice, Reason.PENDING, text)
        case Outcome.REFUSAL if not engine.recommends:  # outside its domain, which is nobody's fault
            return voice
        case Outcome.REFUSAL:
            return _silent(voice, Reason.REFUSED, f"{voice.called} gives no recommendation: {answer.refusal}")
        case Outcome.RECOMMENDATION if engine.recommends:
            return voice
        case _:
            text = answer.error or f"it gave no {'recommendation' if engine.recommends else 'chances'}"
            return _silent(voice, Reason.ENGINE_ERROR, f"{voice.called} failed: {text}")


def _silent(voice: Voice, reason: Reason, text: str) -> Voice:
    return Voice(name=voice.name, version=voice.version, silence=reason, text=text)


def _named(versions: tuple[tuple[str, str], ...]) -> str:
    """Write versions for people: a single one speaks for the engine, several need their names."""
    return ", ".join(version if len(versions) == 1 else f"{name} {version}" for name, version in versions)
