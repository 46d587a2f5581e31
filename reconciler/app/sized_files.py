"""Files with training jobs, sized outside of a plan: for an answer on a laptop, to be edited, or to ask engines."""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from reconciler.core.config import Cluster
from reconciler.core.documents import Document, read
from reconciler.core.problems import Problem, Severity
from reconciler.core.schemas import Catalogue
from reconciler.core.sized.apply import waiting
from reconciler.core.sized.inplace import edit_source
from reconciler.core.sized.sized import Sized
from reconciler.core.sized.sizing import SizedJob, Surroundings, size_job
from reconciler.core.sizing.question import Question, asked
from reconciler.core.training import is_done, is_training_kind
from reconciler.index.context import Context
from reconciler.index.sizing import is_sized, surroundings
from reconciler.revision.layout import selects


class Found(Struct, frozen=True, kw_only=True, eq=False):
    """A job of a file, sized for a cluster (None: for none in particular); `waiting`: marked, for it was asked."""

    job: SizedJob
    cluster: Cluster | None = None
    waiting: Sized | None = None


class SizedFile(Struct, frozen=True, kw_only=True, eq=False):
    """What a file holds: its jobs, and all that is wrong with it. `done` counts jobs that were sized before."""

    path: str
    raw: bytes
    jobs: tuple[Found, ...] = ()
    problems: tuple[Problem, ...] = ()
    done: int = 0

    def edited(self) -> tuple[bytes, tuple[Problem, ...]]:
        """Return the file with the numbers in it; of a job that several clusters size, the first counts."""
        changes: dict[int, tuple[Document, dict[str, object]]] = {}
        for found in self.jobs:
            changed = found.job.sized or found.waiting
            if changed is not None:
                changes.setdefault(id(found.job.document), (found.job.document, changed.data))
        source = edit_source(self.raw, tuple(changes.values()))
        return source.content, source.problems


Around = Callable[[Document], Iterable[tuple[Cluster | None, Surroundings]]]
"""Says for which clusters a document is sized, and against what."""


def size_file(
    path: str, raw: bytes, around: Around, catalogue: Catalogue, *, again: bool, named: bool = True
) -> SizedFile:
    """Size the training jobs of a file. `again`: those as well that carry the done label already."""
    reading = read(path, raw)
    problems = list(reading.problems)
    jobs: list[Found] = []
    done = 0
    for document in reading.documents:
        if not is_training_kind(document):
            continue
        wrong = catalogue.validate(document)
        problems += wrong
        if any(problem.severity is Severity.ERROR for problem in wrong):
            continue
        for cluster, surrounding in around(document):
            if is_done(document, surrounding.settings) and not again:
                done += 1
                continue
            job = size_job(document, surrounding, named=named)
            if job is not None:
                jobs.append(Found(job=job, cluster=cluster, waiting=_waiting(job, surrounding)))
                problems += job.problems
    return SizedFile(path=path, raw=raw, jobs=tuple(jobs), problems=tuple(dict.fromkeys(problems)), done=done)


def _waiting(job: SizedJob, around: Surroundings) -> Sized | None:
    """Mark a job whose question was sent and is not answered; None where there is no request."""
    if not job.waits:
        return None
    answers = [around.answers.of(asked(question)) for question in job.questions]
    sent = next((answer.request_id for answer in answers if answer is not None and answer.request_id), "")
    return waiting(job.document, sent, around.settings) if sent else None


def within(context: Context, *, chosen: bool, again: bool = False) -> Around:
    """Size documents as a config repository says; `chosen`: those that its settings choose, `again`: done ones too."""

    def around(document: Document) -> Iterator[tuple[Cluster | None, Surroundings]]:
        labels = document.metadata.get("labels")
        for cluster in context.clusters:
            taken = selects(cluster, document.source.path, labels)
            if taken and (not chosen or is_sized(document, cluster, again=again)):
                yield cluster, surroundings(context, document, cluster)

    return around


def questions_of(files: Iterable[SizedFile]) -> dict[str, tuple[Question, ...]]:
    """Return what the jobs ask, each question once, by cluster: only of clusters with an engine outside."""
    found: dict[str, list[Question]] = {}
    for file in files:
        for one in file.jobs:
            if one.cluster is not None and one.cluster.sizing.engine.is_external:
                found.setdefault(one.cluster.name, []).extend(one.job.questions)
    return {cluster: tuple(dict.fromkeys(questions)) for cluster, questions in found.items()}
