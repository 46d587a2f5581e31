"""Predictions for many questions, each asked once, as answers that can be recorded as evidence."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from msgspec import Struct

from reconciler.errors import PredictorError, PredictorUnavailable
from reconciler.kube.secrets import mask_text
from reconciler.sizing.answers import NO_ANSWERS, Answer, Answers, Chance, Recommendation, Reply, chances_answer
from reconciler.sizing.decide.layouts import engine_layouts
from reconciler.sizing.engine_registry import Engine, Outcome
from reconciler.sizing.engines.port import DeferredPredictor, Prediction, Predictor
from reconciler.sizing.question import EngineQuestion, Question, digest, engine_question

AnyPredictor = TypeVar("AnyPredictor", bound=Predictor)
Returned = TypeVar("Returned")
_MAX_FAILURES = 3  # consecutive calls without an answer, each of which may take minutes


class _PendingQuestion(Struct, kw_only=True):
    """A distinct question with the layouts of everyone who asks it. `request`: the id it was submitted under."""

    question: EngineQuestion
    layouts: dict[tuple[int, int], None]  # an ordered set
    request: str = ""
    submitted_at: str = ""
    failure: PredictorError | None = None


def current_time() -> str:
    """Return the current time as RFC 3339."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def predict_all(
    predictor: Predictor,
    questions: Iterable[Question],
    *,
    recorded: Answers = NO_ANSWERS,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
    clock: Callable[[], str] = current_time,
) -> Iterator[Reply]:
    """Yield an answer to each distinct question, in the order of the questions.

    Questions that look the same to the engine are asked once; questions that it cannot answer are skipped. A deferred
    engine gets all questions before the first answer is awaited; requests that are pending in `recorded` are resumed.
    A failure is an answer; an interrupt stops the engine. `progress` is called with (done, total).
    """
    pending = _distinct(predictor.engine, questions)
    batch = _Batch(predictor, clock)
    try:
        for item in pending:
            batch.submit(item, recorded)
        for done, item in enumerate(pending):
            progress(done, len(pending))
            yield batch.answer(item)
        progress(len(pending), len(pending))
    except KeyboardInterrupt:
        predictor.close()
        raise


def _distinct(engine: Engine, questions: Iterable[Question]) -> list[_PendingQuestion]:
    pending: dict[str, _PendingQuestion] = {}
    for question in questions:
        layouts = () if engine.recommends else engine_layouts(question)
        if engine.recommends or layouts:
            reduced = engine_question(question)
            item = pending.setdefault(digest(reduced), _PendingQuestion(question=reduced, layouts={}))
            item.layouts.update(dict.fromkeys((layout.gpus, layout.gpus * layout.batch) for layout in layouts))
    return list(pending.values())


class _Batch:
    """Calls one engine, and stops calling it after a few consecutive calls without an answer."""

    def __init__(self, predictor: Predictor, clock: Callable[[], str]) -> None:
        self._predictor = predictor
        self._clock = clock
        self._failures = 0

    def submit(self, item: _PendingQuestion, recorded: Answers) -> None:
        """Submit a question to a deferred engine; do nothing for any other."""
        if not isinstance(self._predictor, DeferredPredictor):
            return
        known = recorded.for_engine(self._predictor.engine).answer(item.question)
        if known is not None and known.outcome is Outcome.PENDING:
            item.request, item.submitted_at = known.request_id, known.submitted_at
            return
        try:
            item.request = self._call(lambda engine: engine.submit(item.question), self._predictor)
        except PredictorError as error:
            item.failure = error
        item.submitted_at = self._clock()

    def answer(self, item: _PendingQuestion) -> Reply:
        """Return the answer, or the reason why there is none."""
        try:
            prediction = self._predict(item)
        except PredictorError as error:
            if error.retryable and item.request:  # an accepted request is kept
                return Reply(answer=_pending_answer(self._predictor.engine, item))
            failed = Answer(
                engine=self._predictor.engine,
                question=item.question,
                outcome=Outcome.ERROR,
                answered_at=self._clock(),
                error=mask_text(str(error)),
            )
            return Reply(answer=failed, retryable=error.retryable)
        return Reply(answer=_to_answer(item, prediction, self._clock()))

    def _predict(self, item: _PendingQuestion) -> Prediction:
        if item.failure is not None:
            raise item.failure
        if isinstance(self._predictor, DeferredPredictor):
            return self._call(lambda engine: engine.resume(item.question, item.request), self._predictor)
        return self._call(lambda engine: engine.predict(item.question, tuple(item.layouts)), self._predictor)

    def _call(self, call: Callable[[AnyPredictor], Returned], predictor: AnyPredictor) -> Returned:
        if self._failures >= _MAX_FAILURES:
            raise PredictorUnavailable(f"{predictor.engine.name} did not answer {_MAX_FAILURES} times in a row")
        try:
            returned = call(predictor)
        except PredictorUnavailable:
            self._failures += 1
            raise
        self._failures = 0
        return returned


def _to_answer(item: _PendingQuestion, prediction: Prediction, answered_at: str) -> Answer:
    """Convert a prediction to an answer."""
    engine, question = prediction.engine, item.question
    answer = partial(Answer, engine=engine, question=question, answered_at=answered_at, versions=prediction.versions)
    match prediction.outcome:
        case Outcome.PENDING:
            return _pending_answer(engine, item)
        case Outcome.RECOMMENDATION | Outcome.REFUSAL if prediction.chances and not engine.recommends:
            chances = [Chance(gpus=n, batch_size=batch, probability=p) for n, batch, p in prediction.chances]
            return chances_answer(
                engine, question, chances, answered_at=answered_at, versions=dict(prediction.versions)
            )
        case Outcome.RECOMMENDATION:
            recommendation = Recommendation(gpus=prediction.gpus, workers=prediction.workers)
            return answer(outcome=Outcome.RECOMMENDATION, recommendation=recommendation)
        case _:
            refusal = prediction.text or "no reason given"
            return answer(outcome=Outcome.REFUSAL, refusal=refusal)


def _pending_answer(engine: Engine, item: _PendingQuestion) -> Answer:
    return Answer(
        engine=engine,
        question=item.question,
        outcome=Outcome.PENDING,
        request_id=item.request,
        submitted_at=item.submitted_at,
    )
