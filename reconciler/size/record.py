"""Ask external sizing engines, and record their answers as evidence."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import InvalidInput
from reconciler.index.build import CompiledRevision
from reconciler.kube.problems import Problem, Severity
from reconciler.repo.config import Cluster
from reconciler.size.files import SizedFile
from reconciler.sizing.answers import Answer, Answers, Reply, write_answers
from reconciler.sizing.decide import decide
from reconciler.sizing.engine_registry import Outcome
from reconciler.sizing.question import Question, digest, engine_question

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
    """Return whether a failure would replace an answer."""
    before = known.answer(answer.question)
    has_result = before is not None and before.outcome not in {Outcome.ERROR, Outcome.PENDING}
    return has_result and answer.outcome is Outcome.ERROR


class Pruned(Struct, frozen=True, kw_only=True):
    """The evidence file of one cluster, and what it holds without the answers that are `removed`."""

    path: str
    content: bytes
    removed: tuple[Answer, ...]
    kept: int


def prune(index: CompiledRevision, files: Sequence[SizedFile]) -> list[Pruned]:
    """Return the evidence files that change.

    files: the jobs that the settings select, also those that are already sized.

    An answer stays if the engine of its cluster is asked its question for one of them. Raises `InvalidInput` if a
    source has errors that may hide a question.
    """
    _require_readable(index, files)
    wanted = {
        (name, digest(engine_question(question))) for name, asked in questions_of(files).items() for question in asked
    }
    found: list[Pruned] = []
    for cluster in index.clusters:
        answers = index.context.evidence.answers.get(cluster.name, Answers())
        engine = cluster.sizing.engine.name
        kept = {
            key: answer
            for key, answer in answers.recorded.items()
            if key[0] == engine and (cluster.name, answer.digest) in wanted
        }
        removed = tuple(answer for key, answer in sorted(answers.recorded.items()) if key not in kept)
        if removed:
            content = write_answers(replace(answers, recorded=kept), cluster.name)
            path = f"{index.context.config.evidence}/{cluster.name}/sizing.yaml"
            found.append(Pruned(path=path, content=content, removed=removed, kept=len(kept)))
    return found


def _require_readable(index: CompiledRevision, files: Sequence[SizedFile]) -> None:
    """Raise the errors of all sources, but for those of jobs whose questions are known nevertheless."""
    jobs = (file_job.job for file in files for file_job in file.jobs)
    known = {problem for job in jobs if job.questions for problem in job.problems}
    errors: list[Problem] = [
        problem
        for record in index.records.values()
        for problem in record.findings.problems
        if problem.severity is Severity.ERROR and problem not in known
    ]
    if errors:
        raise InvalidInput(errors, hint="correct them first: what these files ask for is unknown")
