"""One job document through sizing: launch line, question, decision, and the numbers in its place."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import SizingSettings, Unanswered
from reconciler.core.documents import Document
from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.training import training_job
from reconciler.core.launch import Diagnostic, Launch, ParsedLaunch, Span, find_launch_line, parse_launch, resolve_file
from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin
from reconciler.core.sized.apply import apply_decision, refused
from reconciler.core.sized.sized import Sized
from reconciler.core.sizing.answers import Answers
from reconciler.core.sizing.decide import decide_cheapest
from reconciler.core.sizing.decision import Decision, DecisionReason
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.job_questions import JobQuestions, build_questions
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.resolve import OFFERED
from reconciler.core.sizing.summary import SizingSummary, describe_question, summarize
from reconciler.core.sizing.tables import SizingTables
from reconciler.core.training import (
    Container,
    TrainingJob,
    allows_product,
    is_done,
    is_watched,
    named_product,
    requested_gpus,
    word_place,
)

Files = Callable[[str], bytes | None]
"""Gives the bytes of a file of the repository by its path; None where there is none."""

_READ_FACTS = ("model", "method", "batch", "sequence", "processes", "accumulation")  # whose places a reviewer is shown


class SizingContext(Struct, frozen=True, kw_only=True):
    """What a job is sized against. `paths` are the configurations that launch lines may name, `file` gives their bytes.

    `offered` are the cards that the job's queue or the cluster offers; `answers` what other engines said; `evidence`
    are the places of both.
    """

    settings: SizingSettings
    kinds: Kinds
    tables: SizingTables
    answers: Answers
    offered: tuple[Gpu, ...] = ()
    evidence: tuple[Origin, ...] = ()
    paths: tuple[str, ...] = ()
    file: Files


class SizedJob(Struct, frozen=True, kw_only=True, eq=False):
    """What became of a job. `sized` None: it is held back, for the `problems`, or because it `waits` (a warning)."""

    document: Document
    sized: Sized | None = None
    told: Callable[[], SizingSummary] | None = None
    decision: Decision | None = None
    questions: tuple[Question, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether another engine owes its answer."""
        return self.decision is not None and self.decision.is_pending


def size_job(document: Document, around: SizingContext, *, named: bool = False) -> SizedJob | None:
    """Size one document that its schema has accepted and `is_selected` has chosen, or a person has `named`.

    None: nothing asks for it by name (all jobs are sized), and it trains nothing that we know of.
    """
    files = _Files(document.source.path, around)
    parsed = training_job(around.kinds, document, lambda container: _launches(container, files))
    watched = named or is_watched(document, around.settings)
    if parsed.intent is None:
        return SizedJob(document=document, problems=parsed.problems) if watched else None
    job = parsed.intent
    done = is_done(document, around.settings)
    found = parse_launch(job.command, job.args, dict(job.env), files.named, sized=done)
    if not watched and not _names_model(found):
        return None
    if found.launch is None or found.diagnostics:
        return SizedJob(document=document, problems=tuple(_problems(job, found.diagnostics)))
    asking = ask_of(job, found.launch, around, files)
    if asking.diagnostics:
        return SizedJob(document=document, problems=tuple(_problems(job, asking.diagnostics)))
    return _decided(job, found.launch, asking, around)


def _names_model(found: ParsedLaunch) -> bool:
    """Whether a line says which language model it trains: any Python script may look like a launch line."""
    return found.launch is not None and found.launch.fact("model") is not None


def ask_of(job: TrainingJob, launch: Launch, around: SizingContext, files: "_Files") -> JobQuestions:
    """Put the job's line into questions, one for each card that it may get."""
    selected = named_product(job)
    return build_questions(
        launch,
        around.settings,
        around.tables,
        requested_gpus=requested_gpus(job),
        selected_gpu=selected[0] if selected else "",
        offered=tuple(gpu for gpu in around.offered if allows_product(job, gpu.vendor, gpu.product)),
        files=files.exact,
        folder=job.document.source.path.rpartition("/")[0],
        starts_processes=job.format.has_process_per_gpu,
    )


class _Files:
    """Files of the repository as a job of this path may name them."""

    def __init__(self, path: str, around: SizingContext) -> None:
        self._path = path
        self._around = around

    def exact(self, path: str) -> bytes | None:
        """Return the file of this very path."""
        return self._around.file(path) if path in self._around.paths else None

    def named(self, written: str) -> bytes | None:
        """Return the file that is mounted under this name."""
        path = resolve_file(written, self._around.paths, self._path) if self._around.paths else None
        return self._around.file(path) if path else None


def _launches(container: Container, files: _Files) -> bool:
    return not isinstance(
        find_launch_line(container.command, container.args, dict(container.env), files.named), Diagnostic
    )


def _decided(job: TrainingJob, launch: Launch, asking: JobQuestions, around: SizingContext) -> SizedJob:
    settings, document = around.settings, job.document
    decision = _decide(asking.questions, around.answers)
    question = next((one for one in asking.questions if _is_of(decision, one)), asking.questions[0])
    made = SizedJob(
        document=document,
        told=partial(_told, job, question, decision, asking),
        decision=decision,
        questions=asking.questions,
    )
    if decision.chosen is not None:
        pinned = any(name == "gpu" and fact.origin == OFFERED for name, fact in asking.facts)
        sized = apply_decision(job, launch, question, decision, settings, around.evidence, pin_gpu=pinned)
        is_whole = not any(problem.severity is Severity.ERROR for problem in sized.problems)
        return replace(made, sized=sized if is_whole else None, problems=sized.problems)
    unanswered = settings.when_pending if decision.is_pending else settings.when_refused
    blocks = unanswered is Unanswered.BLOCK
    severity = Severity.ERROR if blocks and not decision.is_pending else Severity.WARNING
    passed = None if blocks else refused(document, decision, settings, around.evidence)
    return replace(made, sized=passed, problems=(_unanswered(job, decision, severity),))


def _told(job: TrainingJob, question: Question, decision: Decision, asking: JobQuestions) -> SizingSummary:
    """Tell a decision; only for what a plan shows, because finding the places of words costs more than deciding."""
    read = [fact.span for name, fact in asking.facts if fact.span is not None and name in _READ_FACTS]
    taken = [(name, fact.origin) for name, fact in asking.defaults if fact.origin]
    places = tuple(sorted({_place(job, span) for span in read}))
    return summarize(decision, read=describe_question(question, taken), places=places)


def _decide(questions: tuple[Question, ...], answers: Answers) -> Decision:
    """Decide; where nobody else is heard, the same question is decided once for all jobs that ask it."""
    return (
        decide_cheapest(questions, answers) if answers.recorded or answers.engine.is_external else _physics(questions)
    )


@lru_cache(maxsize=4096)
def _physics(questions: tuple[Question, ...]) -> Decision:
    return decide_cheapest(questions)


def _is_of(decision: Decision, question: Question) -> bool:
    return decision.chosen is not None and decision.chosen.gpu == question.gpu


def _unanswered(job: TrainingJob, decision: Decision, severity: Severity) -> Problem:
    rule = "sizing.no-recommendation"
    if decision.is_pending:
        rule = "sizing.engine-error" if decision.reason == DecisionReason.ENGINE_ERROR else "sizing.pending"
    hint = "ask the engine: reconciler size record"
    if not decision.is_pending:
        hint = "train with a smaller batch, or on GPUs with more memory"
    return _problem(job, rule, job.lead.container.path, decision.text, hint, severity)


def _problem(  # noqa: PLR0917 - the parts of a problem
    job: TrainingJob, rule: str, at: FieldPath, message: str, hint: str, severity: Severity = Severity.ERROR
) -> Problem:
    document = job.document
    return Problem(
        rule=rule, place=document.at(at), field=format_path(at), message=message, hint=hint, severity=severity
    )


def _problems(job: TrainingJob, diagnostics: Iterable[Diagnostic]) -> Iterator[Problem]:
    for diagnostic in diagnostics:
        span = diagnostic.span
        at = job.lead.container.path if span is None else job.word_path(span.field, span.index)
        place = job.document.at(at) if span is None else _place(job, span)
        yield diagnostic.to_problem(place, format_path(at))


def _place(job: TrainingJob, span: Span) -> SourceRef:
    return word_place(job, span.field, span.index, span.start)
