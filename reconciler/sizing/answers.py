"""Recorded answers of external sizing engines: the kind `SizingAnswers`.

`reconciler size record` writes `evidence/<cluster>/sizing.yaml`, people review it, plans read it.
Answers are found by the digest of their question, so an answer to a different question is never used.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.kube.problems import Problem, Violation
from reconciler.kube.values import plural
from reconciler.kube.violations import foreign_cluster
from reconciler.kube.yaml import Document
from reconciler.kube.yaml.writer import write
from reconciler.sizing.config import Goal
from reconciler.sizing.engine_registry import ANALYTIC, ENGINES, Engine, Outcome
from reconciler.sizing.question import EngineQuestion, digest

KIND = "SizingAnswers"
_HEADER = (
    b"# Written by `reconciler size record`. Review changes like any other.\n"
    b"# Do not edit questions or digests by hand; record the answers again instead.\n"
)


class Chance(Struct, frozen=True, kw_only=True, order=True):
    """The probability, 0 to 1, that a run on `gpus` with `batch_size` samples per step (over all GPUs) fits."""

    gpus: int
    batch_size: int
    probability: float


class Recommendation(Struct, frozen=True, kw_only=True):
    """A complete answer: `gpus` on each of `workers` nodes."""

    gpus: int
    workers: int

    @property
    def total(self) -> int:
        """GPUs of all workers."""
        return self.gpus * self.workers


class Answer(Struct, frozen=True, kw_only=True):
    """The answer of one engine to one question. Only the field that `outcome` names is set.

    `refusal` and `error` give the reason. `answered_at` and `submitted_at` are RFC 3339; `versions` are pairs of
    package and version.
    """

    engine: Engine
    question: EngineQuestion
    outcome: Outcome
    answered_at: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    chances: tuple[Chance, ...] = ()
    recommendation: Recommendation | None = None
    refusal: str = ""
    error: str = ""
    request_id: str = ""
    submitted_at: str = ""

    @property
    def digest(self) -> str:
        """Digest of the question."""
        return digest(self.question)

    @property
    def key(self) -> tuple[str, str]:
        """Name of the engine and digest of the question."""
        return self.engine.name, self.digest


class Reply(Struct, frozen=True, kw_only=True):
    """An answer to one question. If it is `retryable`, a later call may give a better one: it is not recorded."""

    answer: Answer
    retryable: bool = False


class Answers(Struct, frozen=True, kw_only=True):
    """All recorded answers for a cluster, by `Answer.key`, and the engine whose answers count."""

    engine: Engine = ANALYTIC
    recorded: Mapping[tuple[str, str], Answer] = field(default_factory=dict)

    def answer(self, question: EngineQuestion) -> Answer | None:
        """Return the engine's answer to a question; None if none is recorded."""
        return self.recorded.get((self.engine.name, digest(question)))

    def for_engine(self, engine: Engine) -> "Answers":
        """Return the same answers for another engine."""
        return replace(self, engine=engine)

    def with_answers(self, answers: Iterable[Answer]) -> "Answers":
        """Return these answers with `answers` added; they replace answers to the same questions."""
        return replace(self, recorded={**self.recorded, **{answer.key: answer for answer in answers}})


NO_ANSWERS = Answers()
"""The built-in model alone."""

_DIGITS = 6


def chances_answer(
    engine: Engine,
    question: EngineQuestion,
    chances: Iterable[Chance],
    *,
    answered_at: str,
    versions: Mapping[str, str],
) -> Answer:
    """Return an answer with an engine's probabilities; an ERROR if one of them is not between 0 and 1."""
    rounded = tuple(sorted(replace(chance, probability=round(chance.probability, _DIGITS)) for chance in chances))
    answer = Answer(
        engine=engine,
        question=question,
        outcome=Outcome.CHANCES,
        answered_at=answered_at,
        versions=tuple(sorted(versions.items())),
        chances=rounded,
    )
    for chance in rounded:
        if not 0 <= chance.probability <= 1:  # also false for NaN
            message = f"probability {chance.probability} for {plural(chance.gpus, 'GPU')} is not between 0 and 1"
            return replace(answer, outcome=Outcome.ERROR, chances=(), error=message)
    return answer


# --- the file -------------------------------------------------------------------------------------------------------

_QUESTION_KEYS = (
    ("model", "model"),
    ("method", "method"),
    ("gpuModel", "gpu_model"),
    ("tokensPerSample", "tokens_per_sample"),
    ("batchSize", "batch_size"),
    ("perDeviceBatchSize", "per_device_batch_size"),
    ("gradientAccumulationSteps", "gradient_accumulation_steps"),
    ("goal", "goal"),
    ("numberGpus", "number_gpus"),
    ("gpusPerWorker", "gpus_per_worker"),
    ("maxGpus", "max_gpus"),
    ("modelVersion", "model_version"),
)
"""Key in YAML and field of `EngineQuestion`."""


def parse_answers(document: Document, cluster: str) -> tuple[Answers | None, tuple[Problem, ...]]:
    """Parse a document that its JSON Schema has accepted. `cluster` is the name of its folder."""
    spec = document.data["spec"]
    answers = [_parse_answer(entry) for entry in spec.get("answers", ())]
    problems = document.problems(_violations(spec, answers, cluster))
    if problems:
        return None, problems
    return Answers(recorded={answer.key: answer for answer in answers}), ()


def _parse_answer(entry: Mapping[str, Any]) -> Answer:
    question, recommendation = entry["question"], entry.get("recommendation")
    pending = entry.get("pending", {})
    return Answer(
        engine=ENGINES[entry["engine"]],
        question=EngineQuestion(
            **{name: question[key] for key, name in _QUESTION_KEYS if key in question and key != "goal"},
            goal=Goal(question.get("goal", Goal.MIN_GPU)),
        ),
        outcome=next(outcome for outcome in Outcome if outcome.value in entry),
        answered_at=entry.get("answeredAt", ""),
        versions=tuple(sorted(entry.get("versions", {}).items())),
        chances=tuple(
            Chance(gpus=chance["gpus"], batch_size=chance["batchSize"], probability=float(chance["probability"]))
            for chance in entry.get("chances", ())
        ),
        recommendation=Recommendation(gpus=recommendation["gpus"], workers=recommendation["workers"])
        if recommendation is not None
        else None,
        refusal=entry.get("refusal", ""),
        error=entry.get("error", ""),
        request_id=pending.get("requestId", ""),
        submitted_at=pending.get("submittedAt", ""),
    )


def _violations(spec: Mapping[str, Any], answers: Iterable[Answer], cluster: str) -> Iterator[Violation]:
    yield from foreign_cluster(spec, cluster)
    seen: set[tuple[str, str]] = set()
    for index, answer in enumerate(answers):
        at = ("spec", "answers", index)
        written = spec["answers"][index]["digest"]
        if written != answer.digest:
            message = f"is {written}, but the digest of the question is {answer.digest}"
            hint = "undo the edit of the question or the digest, or record again: reconciler size record"
            yield Violation(rule="evidence.sizing-digest", path=(*at, "digest"), message=message, hint=hint)
        if answer.key in seen:
            message = f"duplicate answer of engine {answer.engine.name} to the same question"
            yield Violation(rule="evidence.sizing-duplicate", path=at, message=message, hint="remove one of them")
        seen.add(answer.key)


def write_answers(answers: Answers, cluster: str) -> bytes:
    """Write the evidence file. Equal answers give equal bytes."""
    spec = {"cluster": cluster, "answers": [_entry(answers.recorded[key]) for key in sorted(answers.recorded)]}
    return _HEADER + write({"apiVersion": "gpureconciler.io/v1alpha1", "kind": KIND, "spec": spec})


def _entry(answer: Answer) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "engine": answer.engine.name,
        "digest": answer.digest,
        "question": {
            key: str(value) if key == "goal" else value
            for key, name in _QUESTION_KEYS
            if (value := getattr(answer.question, name)) is not None
        },
    }
    if answer.answered_at:
        entry["answeredAt"] = answer.answered_at
    if answer.versions:
        entry["versions"] = dict(answer.versions)
    return entry | {answer.outcome.value: _content(answer)}


def _content(answer: Answer) -> Any:
    """Return the value that an entry holds under the name of its outcome."""
    match answer.outcome:
        case Outcome.CHANCES:
            return [
                {"gpus": chance.gpus, "batchSize": chance.batch_size, "probability": chance.probability}
                for chance in sorted(answer.chances)
            ]
        case Outcome.RECOMMENDATION:
            given = answer.recommendation
            return {} if given is None else {"gpus": given.gpus, "workers": given.workers}
        case Outcome.REFUSAL:
            return answer.refusal
        case Outcome.ERROR:
            return answer.error
        case Outcome.PENDING:
            return {"requestId": answer.request_id, "submittedAt": answer.submitted_at}
