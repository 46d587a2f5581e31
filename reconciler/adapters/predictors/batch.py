"""Asking many questions: each once, as answers that can be recorded as evidence."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from msgspec import Struct

from reconciler.core.config import Engine
from reconciler.core.plan.masking import redact
from reconciler.core.sizing import answers
from reconciler.core.sizing.answers import NO_ANSWERS, Answer, Answers, Chance, Recommendation
from reconciler.core.sizing.decide.layouts import voiced
from reconciler.core.sizing.question import Asked, Question, asked, digest
from reconciler.errors import PredictorError, PredictorUnavailable
from reconciler.ports import DeferredPredictor, Outcome, Prediction, Predictor

Engaged = TypeVar("Engaged", bound=Predictor)
Got = TypeVar("Got")
_MOST_SILENT = 3  # times in a row, before an engine is given up


class Told(Struct, frozen=True, kw_only=True):
    """An answer; `retryable`: asking again may give a better one, so that this one is not worth keeping."""

    answer: Answer
    retryable: bool = False


class _Item(Struct, kw_only=True):
    """A question once, with the layouts of all who ask it; `request` where it waits for its answer already."""

    asked: Asked
    layouts: dict[tuple[int, int], None]  # in the order in which they came
    request: str = ""
    submitted_at: str = ""
    failure: PredictorError | None = None


def now() -> str:
    """Return the time, as RFC 3339."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ask_all(
    predictor: Predictor,
    questions: Iterable[Question],
    *,
    recorded: Answers = NO_ANSWERS,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
    clock: Callable[[], str] = now,
) -> Iterator[Told]:
    """Yield an answer to each distinct question, in the order of the questions.

    Questions that differ in nothing that the engine sees are asked once. What the engine has no say in (chances of
    layouts outside of what it learnt) is not asked. Of an engine that answers later, all questions are submitted before
    the first answer is awaited, and requests that `recorded` holds as pending are resumed instead. A failure is an
    answer; an interrupt stops the engine. `progress` is called with (done, total).
    """
    items = _distinct(predictor.engine, questions)
    asking = _Asking(predictor, clock)
    try:
        for item in items:
            asking.submit(item, recorded)
        for done, item in enumerate(items):
            progress(done, len(items))
            yield asking.told(item)
        progress(len(items), len(items))
    except KeyboardInterrupt:
        predictor.close()
        raise


def _distinct(engine: Engine, questions: Iterable[Question]) -> list[_Item]:
    items: dict[str, _Item] = {}
    for question in questions:
        layouts = () if engine.recommends else voiced(question)
        if engine.recommends or layouts:
            words = asked(question)
            item = items.setdefault(digest(words), _Item(asked=words, layouts={}))
            item.layouts.update(dict.fromkeys((layout.gpus, layout.gpus * layout.batch) for layout in layouts))
    return list(items.values())


class _Asking:
    """Asks one engine; one that gave no answer a few times in a row is given up, since each time may take minutes."""

    def __init__(self, predictor: Predictor, clock: Callable[[], str]) -> None:
        self._predictor = predictor
        self._clock = clock
        self._silent = 0

    def submit(self, item: _Item, recorded: Answers) -> None:
        """Hand a question to an engine that answers later."""
        if not isinstance(self._predictor, DeferredPredictor):
            return
        known = recorded.heard_by(self._predictor.engine).of(item.asked)
        if known is not None and known.outcome is answers.Outcome.PENDING:
            item.request, item.submitted_at = known.request_id, known.submitted_at
            return
        try:
            item.request = self._patiently(lambda deferred: deferred.submit(item.asked), self._predictor)
        except PredictorError as error:
            item.failure = error
        item.submitted_at = self._clock()

    def told(self, item: _Item) -> Told:
        """Get the answer, or why there is none."""
        try:
            prediction = self._prediction(item)
        except PredictorError as error:
            if error.retryable and item.request:  # what was accepted is not lost
                return Told(answer=_pending(self._predictor.engine, item))
            failed = Answer(
                engine=self._predictor.engine,
                question=item.asked,
                outcome=answers.Outcome.ERROR,
                answered_at=self._clock(),
                error=redact(str(error)),
            )
            return Told(answer=failed, retryable=error.retryable)
        return Told(answer=_answer(item, prediction, self._clock()))

    def _prediction(self, item: _Item) -> Prediction:
        if item.failure is not None:
            raise item.failure
        if isinstance(self._predictor, DeferredPredictor):
            return self._patiently(lambda deferred: deferred.resume(item.asked, item.request), self._predictor)
        return self._patiently(lambda engine: engine.predict(item.asked, tuple(item.layouts)), self._predictor)

    def _patiently(self, ask: Callable[[Engaged], Got], predictor: Engaged) -> Got:
        if self._silent >= _MOST_SILENT:
            raise PredictorUnavailable(f"{predictor.engine.value} gave no answer {_MOST_SILENT} times in a row")
        try:
            got = ask(predictor)
        except PredictorUnavailable:
            self._silent += 1
            raise
        self._silent = 0
        return got


def _answer(item: _Item, prediction: Prediction, at: str) -> Answer:
    """Put a prediction into the words of evidence."""
    engine, words = prediction.engine, item.asked
    answered = partial(Answer, engine=engine, question=words, answered_at=at, versions=prediction.versions)
    match prediction.outcome:
        case Outcome.PENDING:
            return _pending(engine, item)
        case Outcome.OK | Outcome.NO_RECOMMENDATION if not engine.recommends:
            chances = [Chance(gpus=n, batch_size=batch, probability=p) for n, batch, p in prediction.chances]
            return answers.chanced(engine, words, chances, answered_at=at, versions=dict(prediction.versions))
        case Outcome.OK:
            found = Recommendation(gpus=prediction.gpus, workers=prediction.workers)
            return answered(outcome=answers.Outcome.RECOMMENDATION, recommendation=found)
        case _:
            refusal = prediction.text or prediction.outcome.value
            return answered(outcome=answers.Outcome.REFUSAL, refusal=refusal)


def _pending(engine: Engine, item: _Item) -> Answer:
    return Answer(
        engine=engine,
        question=item.asked,
        outcome=answers.Outcome.PENDING,
        request_id=item.request,
        submitted_at=item.submitted_at,
    )
