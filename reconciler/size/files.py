"""Size the training jobs of files: files that a user names, or all that the settings of a config repository select."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, InvalidInput
from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.context import Context
from reconciler.index.dependencies import RecordingLookup
from reconciler.index.selection import is_sized
from reconciler.index.sized.apply import Sized, mark_waiting
from reconciler.index.sized.cards import Offered
from reconciler.index.sized.job import SizedJob, SizingContext, size_job
from reconciler.index.sized.splice import edit_source
from reconciler.index.sizing import sizing_context
from reconciler.kinds.kind import Kinds
from reconciler.kinds.training import is_training_kind, training_kind_names
from reconciler.kinds.workloads import CONFIG_MAP
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.repo.config import Cluster
from reconciler.repo.files import selects
from reconciler.repo.port import Repository
from reconciler.size.pages.answer import SizeAnswer
from reconciler.sizing.answers import Answers
from reconciler.sizing.config import Goal, SizingSettings
from reconciler.sizing.decide import decide
from reconciler.sizing.decision import Candidate, Decision
from reconciler.sizing.question import Question, engine_question
from reconciler.sizing.remedies import Situation, find_reach, find_remedies
from reconciler.sizing.summary import SizingSummary
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training_jobs import is_done


class InputFile(Struct, frozen=True, kw_only=True, eq=False):
    """A file that a user names.

    path: as shown in messages.
    inside: path below the root of the config repository; empty if the file is elsewhere.
    siblings: reads the configurations beside the file, which a launch line may name, by file name.
    """

    path: str
    content: bytes
    inside: str = ""
    folder: str = ""
    siblings: Callable[[], Mapping[str, bytes]] = dict


class SizingScope(Struct, frozen=True, kw_only=True, eq=False):
    """The scope of sized files: a config repository, or `settings` for files outside of it."""

    kinds: Kinds
    catalogue: Catalogue
    tables: SizingTables
    settings: SizingSettings
    index: CompiledRevision | None = None
    repository: Repository | None = None

    def has_source(self, file: InputFile) -> bool:
        """Return whether a file is a source of the config repository, so that the repository's settings apply."""
        return self.index is not None and file.inside in self.index.revision.files.sources


class FileJob(Struct, frozen=True, kw_only=True, eq=False):
    """A job of a file, sized for a cluster (None outside a repository); `pending`: the job while it has no answer."""

    job: SizedJob
    cluster: Cluster | None = None
    pending: Sized | None = None


class SizedFile(Struct, frozen=True, kw_only=True, eq=False):
    """The sized jobs of a file, and its problems. `done` counts jobs that were skipped because they are sized."""

    path: str
    raw: bytes
    jobs: tuple[FileJob, ...] = ()
    problems: tuple[Problem, ...] = ()
    done: int = 0

    @property
    def errors(self) -> list[Problem]:
        """Problems of severity error."""
        return [problem for problem in self.problems if problem.severity is Severity.ERROR]

    def edit(self) -> tuple[bytes, tuple[Problem, ...]]:
        """Return the file with the sizes written into it. If several clusters size a job, the first one wins."""
        changes: dict[int, tuple[Document, dict[str, object]]] = {}
        for file_job in self.jobs:
            document, changed = file_job.job.document, file_job.job.sized or file_job.pending
            if changed is not None:
                changes.setdefault(id(document), (document, changed.data))
        source = edit_source(self.raw, tuple(changes.values()))
        return source.content, source.problems


_Targets = Callable[[Document], Iterable[tuple[Cluster | None, SizingContext]]]
"""Returns the clusters that a document is sized for, and what it is sized against in each."""


def standalone_settings(
    tables: SizingTables,
    *,
    gpu: str = "",
    goal: str = Goal.MIN_GPU.value,
    max_gpus: int = 64,
    safety: float = 0.08,
    allow_paged: bool = False,
) -> SizingSettings:
    """Return the settings of files outside any config repository; `ConfigError` for an unknown GPU product."""
    gpus = tables.gpus
    if gpu and gpus.find(gpu) is None:
        near = gpus.closest(gpu)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "use the value of the node label nvidia.com/gpu.product"
        )
        raise ConfigError(f"--gpu: unknown GPU product {gpu!r}", hint=hint)
    return replace(
        SizingSettings(),
        select=replace(SizingSettings().select, every=True),
        goal=Goal(goal),
        max_gpus=max_gpus,
        safety=safety,
        allow_paged=allow_paged,
        default_gpu_model=gpu,
    )


def size_file(scope: SizingScope, file: InputFile, *, again: bool = True) -> SizedFile:
    """Size all training jobs of a file. `again`: also jobs with the label that marks them as sized."""
    if scope.index is None or not scope.has_source(file):
        return _size(scope, file.path, file.content, _standalone_targets(scope, file), again=again)
    targets = _with_gpu(_repository_targets(scope.index.context, selected=False), scope.settings.default_gpu_model)
    return _size(scope, file.inside, file.content, targets, again=again)


def size_selected(scope: SizingScope, *, again: bool = False) -> list[SizedFile]:
    """Size the jobs that the settings of the config repository select; returns the files that have any."""
    index, repository = scope.index, scope.repository
    if index is None or repository is None:
        raise ConfigError("not in a config repository", hint="name a file, or a repository with --repo DIR")
    targets = _repository_targets(index.context, selected=True, again=again)
    sources = index.revision.files.sources
    files = [
        _size(scope, path, raw, targets, again=again, named=False)
        for path, raw in read_files(repository, sources, [*sources])
    ]
    return [file for file in files if file.jobs]


def require_jobs(kinds: Kinds, files: Sequence[SizedFile]) -> None:
    """Raise `InvalidInput` with the errors of all files, and `ConfigError` if there is no training job in them."""
    errors = [problem for file in files for problem in file.errors]
    if errors:
        raise InvalidInput(errors, where="in these files")
    if not any(file.jobs for file in files):
        paths = ", ".join(file.path for file in files)
        raise ConfigError(
            f"{paths}: no training job found", hint=f"supported kinds: {', '.join(training_kind_names(kinds))}"
        )


def edited_files(files: Iterable[SizedFile]) -> dict[str, bytes]:
    """Return the new contents of the files that change, by path. Raises `InvalidInput` if any file has errors."""
    edits = [(file, *file.edit()) for file in files]
    problems = [problem for file, _, found in edits for problem in (*file.problems, *found)]
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    return {file.path: content for file, content, _ in edits if content != file.raw}


def answers_of(scope: SizingScope, file: SizedFile, gpus: int | None = None) -> list[SizeAnswer]:
    """Return the answer for each job of a file; `gpus` is a number of GPUs to check as well."""
    return [_answer(scope, file_job, gpus) for file_job in file.jobs if file_job.job.decision is not None]


def _answer(scope: SizingScope, file_job: FileJob, gpus: int | None) -> SizeAnswer:
    job = file_job.job
    decision = job.decision
    if decision is None or job.summary is None or job.situation is None:
        raise TypeError(f"{job.document.source} has no decision")
    situation, summary = job.situation, job.summary
    if file_job.cluster is None:  # no evidence says what there is
        situation = replace(situation, offered=tuple(scope.tables.gpus))
    where = f" on {file_job.cluster.name}" if file_job.cluster else ""
    name = f"{job.document.key}{where}  {job.document.source}"
    return complete_answer(job.questions, decision, lambda _: summary(), situation, name=name, gpus=gpus)


def complete_answer(
    questions: Sequence[Question],
    decision: Decision,
    note: Callable[[Question], SizingSummary],
    situation: Situation,
    *,
    name: str = "",
    gpus: int | None = None,
) -> SizeAnswer:
    """Return the answer to the question that was decided, one of several; `gpus` is a number to check as well."""
    product = decision.chosen.gpu if decision.chosen else questions[0].gpu
    question = next(question for question in questions if question.gpu == product)
    asked = question if gpus is None else _with_gpus(question, gpus)
    answer = SizeAnswer(
        question=question,
        decision=decision,
        note=note(question),
        name=name,
        requested=None if gpus is None else _requested(asked, decision, gpus),
    )
    return completed(answer, situation, asked)


def _with_gpus(question: Question, gpus: int) -> Question:
    """Return the question for exactly this number of GPUs, with the same effective batch.

    If the batch cannot be divided, every GPU gets the batch of the job, which makes the effective batch another one.
    """
    same_batch = replace(question, requested_gpus=gpus, max_gpus=gpus, goal=Goal.AVOID_OOM)
    return (
        same_batch
        if question.effective_batch % question.replicas_of(gpus) == 0
        else replace(same_batch, processes=gpus)
    )


def _requested(question: Question, decision: Decision, gpus: int) -> Candidate | None:
    """Return the layout for a number of GPUs: one that the decision considered, else that of `_with_gpus`."""
    considered = [
        one for one in decision.candidates if one.layout.gpus == gpus and one.gpu.product == question.gpu.product
    ]
    if considered:
        return next((one for one in considered if one.fits), considered[0])
    return next(iter(decide(question).candidates), None)


def _size(
    scope: SizingScope, path: str, raw: bytes, targets: _Targets, *, again: bool, named: bool = True
) -> SizedFile:
    catalogue = scope.catalogue if scope.index is None else scope.index.context.catalogue
    reading = read(path, raw)
    problems = list(reading.problems)
    jobs: list[FileJob] = []
    done = 0
    for document in reading.documents:
        if not is_training_kind(scope.kinds, document):
            continue
        invalid = catalogue.validate(document)
        problems += invalid
        if any(problem.severity is Severity.ERROR for problem in invalid):
            continue
        for cluster, surrounding in targets(document):
            if is_done(document, surrounding.settings) and not again:
                done += 1
                continue
            job = size_job(document, surrounding, named=named)
            if job is not None:
                jobs.append(FileJob(job=job, cluster=cluster, pending=_pending(job, surrounding)))
                problems += job.problems
    return SizedFile(path=path, raw=raw, jobs=tuple(jobs), problems=tuple(dict.fromkeys(problems)), done=done)


def _pending(job: SizedJob, surrounding: SizingContext) -> Sized | None:
    """Label a job whose question was submitted with the id of the request; None if nothing was submitted."""
    if not job.waits:
        return None
    answers = [surrounding.answers.answer(engine_question(question)) for question in job.questions]
    request = next((answer.request_id for answer in answers if answer is not None and answer.request_id), "")
    return mark_waiting(job.document, request, surrounding.settings) if request else None


def _repository_targets(context: Context, *, selected: bool, again: bool = False) -> _Targets:
    """Size for the clusters of a config repository; `selected`: only jobs that the settings select."""

    def targets(document: Document) -> Iterator[tuple[Cluster | None, SizingContext]]:
        labels = document.metadata.get("labels")
        for cluster in context.clusters:
            if selects(cluster, document.source.path, labels) and (
                not selected or is_sized(context.kinds, document, cluster, again=again)
            ):
                yield cluster, sizing_context(document, RecordingLookup(context, cluster, set()))

    return targets


def _with_gpu(targets: _Targets, product: str) -> _Targets:
    """Use a GPU product for jobs that name none, whatever the cluster has (empty: leave them as they are)."""
    if not product:
        return targets

    def with_gpu(document: Document) -> Iterator[tuple[Cluster | None, SizingContext]]:
        for cluster, surrounding in targets(document):
            settings = replace(surrounding.settings, default_gpu_model=product)
            yield cluster, replace(surrounding, settings=settings, offered=Offered())

    return with_gpu


def _standalone_targets(scope: SizingScope, file: InputFile) -> _Targets:
    """Size without a repository: a launch line may name the configurations beside the file, and nothing else."""

    def targets(document: Document) -> Iterator[tuple[Cluster | None, SizingContext]]:
        settings, siblings = scope.settings, file.siblings()
        yield (
            None,
            SizingContext(
                tables=scope.tables,
                kinds=scope.kinds,
                settings=settings,
                answers=Answers(),
                paths=tuple(siblings),
                file=lambda path: siblings.get(path) or siblings.get(path.removeprefix(f"{file.folder}/")),
                config_map=partial(config_map_in, (file.content, *siblings.values()), document.key.namespace),
            ),
        )

    return targets


def config_map_in(files: Iterable[bytes], namespace: str, name: str) -> Mapping[str, Any] | None:
    """Return a ConfigMap that one of the files holds."""
    for raw in files:
        for document in read("", raw).documents if name.encode() in raw else ():
            key = document.key
            if (key.group, key.kind) == CONFIG_MAP and key.name == name and key.namespace == namespace:
                return document.data
    return None


def completed(answer: SizeAnswer, situation: Situation, asked: Question | None = None) -> SizeAnswer:
    """Return the answer with its reach, and with remedies if what was asked does not fit.

    asked: the question with the number of GPUs that the user named; None: that of the answer.
    """
    question, decision = asked or answer.question, answer.decision
    subject = answer.requested or decision.chosen
    if subject is not None and subject.estimate is not None:
        answer = replace(answer, reach=find_reach(replace(question, gpu=subject.gpu), subject.layout))
    if (subject is not None and subject.fits) or decision.is_pending:
        return answer
    rejected = decision.candidates if answer.requested is None else (answer.requested,)
    return replace(answer, remedies=find_remedies(question, rejected, situation), framework=situation.framework)
