"""Find recorded answers of sizing engines that no job asks for."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.size.files import SizedFile
from reconciler.app.size.record import questions_of
from reconciler.core.problems import Problem, Severity
from reconciler.core.sizing.answers import Answer, Answers, write_answers
from reconciler.core.sizing.question import digest, engine_question
from reconciler.errors import InvalidInput
from reconciler.index.build import CompiledRevision


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
