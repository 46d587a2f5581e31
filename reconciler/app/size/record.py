"""Ask external sizing engines, and record their answers as evidence."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from reconciler.app.size.files import SizedFile
from reconciler.core.config import Cluster
from reconciler.core.engines import Outcome
from reconciler.core.sizing.answers import Answer, Answers, write_answers
from reconciler.core.sizing.decide import decide
from reconciler.core.sizing.question import Question
from reconciler.index.build import CompiledRevision


class Reply(Protocol):
    """The reply of an engine to one question; `retryable`: asking again may give a better answer."""

    @property
    def answer(self) -> Answer:
        """The answer, or the failure."""
        ...

    @property
    def retryable(self) -> bool:
        """Whether the answer is not worth recording."""
        ...


AskEngine = Callable[[Cluster, Sequence[Question], Answers], Iterable[Reply]]
"""Asks the engine of a cluster; the recorded answers hold requests to resume."""


class Recorded(Struct, frozen=True, kw_only=True):
    """The result for one cluster: the evidence file, the number of questions and of pending answers, the failures."""

    path: str
    asked: int
    pending: int = 0
    failures: tuple[str, ...] = ()


def questions_of(files: Iterable[SizedFile]) -> dict[str, tuple[Question, ...]]:
    """Return the distinct questions of all jobs by cluster, for clusters with an external engine."""
    questions: dict[str, list[Question]] = {}
    for file in files:
        for file_job in file.jobs:
            cluster = file_job.cluster
            if cluster is not None and cluster.sizing.engine.is_external:
                questions.setdefault(cluster.name, []).extend(file_job.job.questions)
    return {name: tuple(dict.fromkeys(asked)) for name, asked in questions.items()}


def record(
    index: CompiledRevision,
    files: Sequence[SizedFile],
    *,
    ask: AskEngine,
    write: Callable[[str, bytes], None],
    again: bool = False,
) -> list[Recorded]:
    """Ask what has no recorded answer (`again`: everything), and write `sizing.yaml` of each cluster.

    A permanent failure is recorded too, so that reviewers see why a job is pending; the next run retries it. It never
    replaces an answer. A temporary failure (a timeout, a busy server) is not recorded.
    """
    results: list[Recorded] = []
    for name, questions in questions_of(files).items():
        cluster = next(cluster for cluster in index.clusters if cluster.name == name)
        known = index.context.evidence.answers.get(name, Answers()).for_engine(cluster.sizing.engine)
        pending = [question for question in questions if again or decide(question, known).is_pending]
        replies = list(ask(cluster, pending, known))
        answers = [reply.answer for reply in replies if not reply.retryable and not _is_worse(reply.answer, known)]
        path = f"{index.context.config.evidence}/{name}/sizing.yaml"
        if answers:
            write(path, write_answers(known.with_answers(answers), name))
        results.append(
            Recorded(
                path=path,
                asked=len(replies),
                pending=sum(reply.answer.outcome is Outcome.PENDING for reply in replies),
                failures=tuple(reply.answer.error for reply in replies if reply.answer.outcome is Outcome.ERROR),
            )
        )
    return results


def _is_worse(answer: Answer, known: Answers) -> bool:
    """Whether a failure would replace an answer."""
    before = known.answer(answer.question)
    settled = before is not None and before.outcome not in {Outcome.ERROR, Outcome.PENDING}
    return settled and answer.outcome is Outcome.ERROR
