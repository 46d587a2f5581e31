"""Answers of engines outside, kept as evidence: `SizingAnswers` in `evidence/<cluster>/sizing.yaml`.

`reconciler size --record` writes them, people review them, plans replay them. A question is found by its digest, so an
answer to another question is never taken for one to this.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.config import Engine, Goal
from reconciler.core.documents import Document
from reconciler.core.documents.writer import write
from reconciler.core.objects import FieldPath, format_path
from reconciler.core.problems import Problem
from reconciler.core.sizing.question import Asked, digest

KIND = "SizingAnswers"
_HEAD = (
    b"# Written by `reconciler size --record`: what sizing engines answered. Review it as any other change.\n"
    b"# A question is named by the digest of its fields: change neither by hand, ask again instead.\n"
)


class Chance(Struct, frozen=True, kw_only=True, order=True):
    """How likely a run on `gpus` with `batch_size` samples a step (over all of them) is to fit: from 0 to 1."""

    gpus: int
    batch_size: int
    probability: float


class Recommendation(Struct, frozen=True, kw_only=True):
    """A whole answer: `gpus` of each of `workers` nodes."""

    gpus: int
    workers: int

    @property
    def total(self) -> int:
        """GPUs of all workers."""
        return self.gpus * self.workers


class Outcome(StrEnum):
    """What became of a question."""

    CHANCES = "chances"
    RECOMMENDATION = "recommendation"
    REFUSAL = "refusal"  # the engine answered: no recommendation
    ERROR = "error"  # the engine failed
    PENDING = "pending"  # the engine took the question and has not answered


class Answer(Struct, frozen=True, kw_only=True):
    """One engine's answer to one question; what `outcome` names is set, and nothing else.

    `refusal` and `error` say why. `answered_at` and `submitted_at` are RFC 3339; `versions` are (package, version).
    """

    engine: Engine
    question: Asked
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
        """The digest of the question."""
        return digest(self.question)


class Answers(Struct, frozen=True, kw_only=True):
    """All answers that are recorded for a cluster, as `engine` is configured to be heard."""

    engine: Engine = Engine.ANALYTIC
    recorded: Mapping[tuple[Engine, str], Answer] = field(default_factory=dict)

    def of(self, question: Asked) -> Answer | None:
        """Return what the configured engine answered to a question; None where it was never asked."""
        return self.recorded.get((self.engine, digest(question)))

    def heard_by(self, engine: Engine) -> "Answers":
        """Return the same answers where another engine is configured."""
        return Answers(engine=engine, recorded=self.recorded)

    def with_answers(self, answers: Iterable[Answer]) -> "Answers":
        """Return these answers, with newer ones in the place of those to the same questions."""
        recorded = {**self.recorded, **{(answer.engine, answer.digest): answer for answer in answers}}
        return Answers(engine=self.engine, recorded=recorded)


NO_ANSWERS = Answers()
"""Nobody but physics is heard."""


# --- from an engine's chances -------------------------------------------------------------------------------------


def chanced(
    engine: Engine, question: Asked, chances: Iterable[Chance], *, answered_at: str, versions: Mapping[str, str]
) -> Answer:
    """Keep an engine's chances; one that is no number from 0 to 1 makes the whole answer an error."""
    found = tuple(sorted(replace(chance, probability=round(chance.probability, _DIGITS)) for chance in chances))
    known: dict[str, Any] = {"engine": engine, "question": question, "answered_at": answered_at}
    known["versions"] = tuple(sorted(versions.items()))
    for chance in found:
        if not 0 <= chance.probability <= 1:  # also false for NaN
            message = f"a chance of {chance.probability} for {chance.gpus} GPUs is no probability"
            return Answer(**known, outcome=Outcome.ERROR, error=message)
    return Answer(**known, outcome=Outcome.CHANCES, chances=found)


_DIGITS = 6


# --- the file -------------------------------------------------------------------------------------------------------

_ASKED = (
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


def parse_answers(document: Document, cluster: str) -> tuple[Answers | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    entries = spec.get("answers", ())
    answers = [_answer(entry) for entry in entries]
    problems = tuple(_problems(document, spec, answers, cluster))
    if problems:
        return None, problems
    return Answers(recorded={(answer.engine, answer.digest): answer for answer in answers}), ()


def _answer(entry: Mapping[str, Any]) -> Answer:
    question, found = entry["question"], entry.get("recommendation")
    pending = entry.get("pending", {})
    return Answer(
        engine=Engine(entry["engine"]),
        question=Asked(
            **{name: question[key] for key, name in _ASKED if key in question and key != "goal"},
            goal=Goal(question.get("goal", Goal.MIN_GPU)),
        ),
        outcome=next(outcome for outcome in Outcome if outcome.value in entry),
        answered_at=entry.get("answeredAt", ""),
        versions=tuple(sorted(entry.get("versions", {}).items())),
        chances=tuple(
            Chance(gpus=one["gpus"], batch_size=one["batchSize"], probability=float(one["probability"]))
            for one in entry.get("chances", ())
        ),
        recommendation=None if found is None else Recommendation(gpus=found["gpus"], workers=found["workers"]),
        refusal=entry.get("refusal", ""),
        error=entry.get("error", ""),
        request_id=pending.get("requestId", ""),
        submitted_at=pending.get("submittedAt", ""),
    )


def _problems(
    document: Document, spec: Mapping[str, Any], answers: Iterable[Answer], cluster: str
) -> Iterator[Problem]:
    def problem(rule: str, path: FieldPath, message: str, hint: str) -> Problem:
        return Problem(rule=rule, place=document.at(path), field=format_path(path), message=message, hint=hint)

    if spec.get("cluster", cluster) != cluster:
        message = f"names cluster {spec['cluster']!r}, but lies in the folder of {cluster!r}"
        yield problem("evidence.cluster", ("spec", "cluster"), message, "move the file or correct the name")
    seen: set[tuple[Engine, str]] = set()
    for index, answer in enumerate(answers):
        at: FieldPath = ("spec", "answers", index)
        written = spec["answers"][index]["digest"]
        if written != answer.digest:
            message = f"is {written}, but that of its question is {answer.digest}"
            hint = "somebody edited the question or its digest; undo that, or ask again: reconciler size --record"
            yield problem("evidence.sizing-digest", (*at, "digest"), message, hint)
        if (answer.engine, answer.digest) in seen:
            message = f"a second answer of {answer.engine.value} to the same question"
            yield problem("evidence.sizing-duplicate", at, message, "keep one of them")
        seen.add((answer.engine, answer.digest))


def write_answers(answers: Answers, cluster: str) -> bytes:
    """Write the evidence file: the same answers give the same bytes."""
    spec = {"cluster": cluster, "answers": [_entry(answers.recorded[key]) for key in sorted(answers.recorded)]}
    return _HEAD + write({"apiVersion": "gpureconciler.io/v1alpha1", "kind": KIND, "spec": spec})


def _entry(answer: Answer) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "engine": answer.engine.value,
        "digest": answer.digest,
        "question": {
            key: str(value) if key == "goal" else value
            for key, name in _ASKED
            if (value := getattr(answer.question, name)) is not None
        },
    }
    if answer.answered_at:
        entry["answeredAt"] = answer.answered_at
    if answer.versions:
        entry["versions"] = dict(answer.versions)
    return entry | {answer.outcome.value: _said(answer)}


def _said(answer: Answer) -> Any:
    match answer.outcome:
        case Outcome.CHANCES:
            return [
                {"gpus": one.gpus, "batchSize": one.batch_size, "probability": one.probability}
                for one in sorted(answer.chances)
            ]
        case Outcome.RECOMMENDATION:
            found = answer.recommendation
            return {} if found is None else {"gpus": found.gpus, "workers": found.workers}
        case Outcome.REFUSAL:
            return answer.refusal
        case Outcome.ERROR:
            return answer.error
        case Outcome.PENDING:
            return {"requestId": answer.request_id, "submittedAt": answer.submitted_at}
