"""Size one job document: launch line, questions, decision, and the sized document."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.sized.apply import Sized, apply_decision, mark_refused
from reconciler.index.sized.cards import Offered, cards
from reconciler.kinds.kind import Kinds
from reconciler.kinds.training import training_job
from reconciler.kube.objects import SourceRef, format_path
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin
from reconciler.kube.yaml import Document
from reconciler.launch import (
    Diagnostic,
    FileReader,
    FlagReview,
    Launch,
    ParsedLaunch,
    Span,
    find_launch_line,
    parse_launch,
    resolve_file,
    review_flags,
)
from reconciler.launch.changes import SettingEdit, format_edits
from reconciler.repo.config import Unanswered
from reconciler.sizing.answers import Answers
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decide import Evaluator, decide_cheapest, format_gpus
from reconciler.sizing.decision import Candidate, Decision, DecisionReason
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.job_questions import JobQuestions, build_questions, parse_dataset
from reconciler.sizing.question import Question
from reconciler.sizing.remedies import Remedy, Situation, find_remedies, reread_question
from reconciler.sizing.resolve import OFFERED, SELECTED
from reconciler.sizing.summary import SizingSummary, describe_question, summarize
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training import Training
from reconciler.sizing.training_jobs import (
    Container,
    TrainingJob,
    binds_all_pods,
    is_done,
    is_watched,
    named_product,
    requested_gpus,
    word_place,
)
from reconciler.sizing.training_jobs.config_maps import FindConfigMap, environment, mounted_file, variable_path


class JobFiles:
    """Files of the repository, and the ConfigMaps of it that a container mounts."""

    def __init__(self, document: Document, paths: tuple[str, ...], file: FileReader, find: FindConfigMap) -> None:
        self._document, self._paths, self._file, self._find = document, paths, file, find

    def exact(self, path: str) -> bytes | None:
        """Return the file of the repository with exactly this path."""
        return self._file(path) if path in self._paths else None

    def named(self, container: Container) -> FileReader:
        """Return a reader of files by the paths at which a container sees them."""

        def read(written: str) -> bytes | None:
            is_mounted, content = mounted_file(self._document.data, container.path, written, self._find)
            if is_mounted:
                return content
            path = resolve_file(written, self._paths, self._document.source.path) if self._paths else None
            return self._file(path) if path else None

        return read


_READ_FACTS = ("model", "method", "batch", "sequence", "processes", "accumulation")  # whose positions the summary shows


class SizingContext(Struct, frozen=True, kw_only=True):
    """The environment of a job that is sized.

    `answers` are those of external engines, which are looked up one by one; `offered` is what the job's queue or the
    cluster has; `evidence` are the origins of both. `paths` are the configurations that launch lines may name, `file`
    returns their content, or None; `config_map` finds ConfigMaps in the job's namespace.
    """

    settings: SizingSettings
    kinds: Kinds
    tables: SizingTables
    answers: Answers
    offered: Offered = Offered()
    evidence: tuple[Origin, ...] = ()
    paths: tuple[str, ...] = ()
    file: FileReader
    config_map: FindConfigMap


class SizedJob(Struct, frozen=True, kw_only=True, eq=False):
    """The result of sizing a job. `sized` is None if the job is held back: it has errors or `waits` for an answer.

    `situation` is for the search of remedies, if there is no size.
    """

    document: Document
    sized: Sized | None = None
    summary: Callable[[], SizingSummary] | None = None
    decision: Decision | None = None
    questions: tuple[Question, ...] = ()
    situation: Situation | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def waits(self) -> bool:
        """True if an external engine has not answered yet."""
        return self.decision is not None and self.decision.is_pending


def size_job(document: Document, context: SizingContext, *, named: bool = False) -> SizedJob | None:
    """Size a document that its schema has accepted and that `is_selected` has selected, or that was `named`.

    Return None for a job that is neither watched nor named and does not train a language model.
    """
    files = JobFiles(document, context.paths, context.file, context.config_map)
    parsed = training_job(context.kinds, document, lambda container: _launches(container, files))
    watched = named or is_watched(document, context.settings)
    if parsed.intent is None:
        return SizedJob(document=document, problems=parsed.problems) if watched else None
    job = replace(parsed.intent, env=environment(parsed.intent, context.config_map))
    done = is_done(document, context.settings)
    named_file = files.named(job.lead.container)
    parsed_launch = parse_launch(job.command, job.args, dict(job.env), named_file, sized=done)
    if not watched and not _names_model(parsed_launch):
        return None
    launch = parsed_launch.launch
    review = review_flags(launch, context.tables.flags) if launch is not None else FlagReview()
    diagnostics = parsed_launch.diagnostics + review.refused
    if launch is None or diagnostics:
        return SizedJob(document=document, problems=tuple(_problems(job, diagnostics)))
    found = cards(job, launch, context.offered, context.settings, context.tables.gpus)
    invalid = tuple(_not_a_number(job, key) for key in parse_dataset(job.annotations)[1])
    if found.problems or invalid:
        return SizedJob(document=document, problems=(*found.problems, *invalid))
    job_questions = _build_questions(job, launch, context, files, found.gpus, is_uncertain=bool(review.warnings))
    if job_questions.diagnostics:
        return SizedJob(document=document, problems=tuple(_problems(job, job_questions.diagnostics)))
    situation = Situation(
        offered=context.offered.gpus,
        most_gpus=context.settings.max_gpus,
        framework=launch.framework,
        launch=launch,
        reread=partial(_reread, job, context, files, found.gpus, is_done=done),
    )
    result = _decided(job, launch, job_questions, context, situation, found.gpus)
    warnings = (replace(problem, severity=Severity.WARNING) for problem in _problems(job, review.warnings))
    return replace(result, problems=(*warnings, *result.problems))


def _names_model(parsed_launch: ParsedLaunch) -> bool:
    """Return whether a line names a language model. Any Python script may look like a launch line."""
    return parsed_launch.launch is not None and parsed_launch.launch.fact("model") is not None


def _build_questions(
    job: TrainingJob,
    launch: Launch,
    context: SizingContext,
    files: JobFiles,
    gpus: tuple[Gpu, ...],
    *,
    is_uncertain: bool,
) -> JobQuestions:
    """Return the questions of a job, one for each GPU product that it may get."""
    dataset, _ = parse_dataset(job.annotations)
    selected = named_product(job)
    return build_questions(
        launch,
        context.settings,
        context.tables,
        requested_gpus=requested_gpus(job),
        selected_gpu=selected[0] if selected else "",
        offered=gpus,
        files=files.exact,
        folder=job.document.source.path.rpartition("/")[0],
        starts_processes=job.format.has_process_per_gpu,
        is_uncertain=is_uncertain,
        one_node=not job.has_rendezvous,
        dataset=dataset,
    )


def _launches(container: Container, files: JobFiles) -> bool:
    read = files.named(container)
    return not isinstance(find_launch_line(container.command, container.args, dict(container.env), read), Diagnostic)


def _reread(
    job: TrainingJob,
    context: SizingContext,
    files: JobFiles,
    gpus: tuple[Gpu, ...],
    edits: Sequence[SettingEdit],
    *,
    is_done: bool,
) -> tuple[Training, bool] | None:
    """Return what the job trains if its launch line had other settings, as `remedies.Reread` says."""
    read = files.named(job.lead.container)
    parsed = parse_launch(job.command, job.args, dict(job.env), read, sized=is_done, edits=edits)
    launch = parsed.launch
    if launch is None or parsed.diagnostics:
        return None
    review = review_flags(launch, context.tables.flags)
    if review.refused:
        return None
    questions = _build_questions(job, launch, context, files, gpus, is_uncertain=bool(review.warnings)).questions
    return (questions[0].training, questions[0].is_uncertain) if questions else None


def _decided(  # noqa: PLR0917 - what a job is decided by
    job: TrainingJob,
    launch: Launch,
    job_questions: JobQuestions,
    context: SizingContext,
    situation: Situation,
    gpus: tuple[Gpu, ...],
) -> SizedJob:
    settings, document = context.settings, job.document
    decision = _decide(job_questions.questions, context.answers)
    question = next((one for one in job_questions.questions if _decides(decision, one)), job_questions.questions[0])
    result = SizedJob(
        document=document,
        summary=partial(_summarize, job, question, decision, job_questions),
        decision=decision,
        questions=job_questions.questions,
        situation=situation,
    )
    if decision.chosen is not None:
        pin_gpu = _may_differ(job, job_questions, decision.chosen.gpu, gpus)
        sized = apply_decision(job, launch, question, decision, settings, context.evidence, pin_gpu=pin_gpu)
        is_valid = not any(problem.severity is Severity.ERROR for problem in sized.problems)
        return replace(result, sized=sized if is_valid else None, problems=sized.problems)
    unanswered = settings.when_pending if decision.is_pending else settings.when_refused
    has_gpus = bool(job.format.total_gpus) or requested_gpus(job) is not None
    is_stranded = decision.reason == DecisionReason.ONE_NODE
    blocks = unanswered is Unanswered.BLOCK or not has_gpus or is_stranded  # as written it would run without GPUs
    severity = Severity.ERROR if blocks and not decision.is_pending else Severity.WARNING
    marked = None if blocks else mark_refused(document, decision, settings, context.evidence)
    problem = _unanswered(job, decision, question, situation, severity, has_gpus=has_gpus)
    return replace(result, sized=marked, problems=(problem,))


def _not_a_number(job: TrainingJob, key: str) -> Problem:
    message = f"{job.annotations[key]!r} is not a positive whole number"
    hint = 'write the size of one epoch as digits in quotes, such as "52000"'
    return job.document.problem("sizing.dataset", ("metadata", "annotations", key), message, hint)


def _may_differ(job: TrainingJob, job_questions: JobQuestions, chosen: Gpu, gpus: tuple[Gpu, ...]) -> bool:
    """Return whether some pods could get another product than the chosen one unless they are bound to it."""
    origin = dict(job_questions.facts)["gpu"].origin
    if origin == SELECTED:
        return not binds_all_pods(job)
    products = {gpu.product for gpu in gpus}
    return origin == OFFERED or (len(products) > 1 and chosen.product in products)


def _summarize(job: TrainingJob, question: Question, decision: Decision, job_questions: JobQuestions) -> SizingSummary:
    """Summarize a decision. Only called for jobs that are shown: finding positions costs more than deciding."""
    read = [fact.span for name, fact in job_questions.facts if fact.span is not None and name in _READ_FACTS]
    defaults = [(name, fact.origin) for name, fact in job_questions.defaults if fact.origin]
    places = tuple(sorted({_place(job, span) for span in read}))
    return summarize(decision, read=describe_question(question, defaults), places=places)


def _decide(questions: tuple[Question, ...], answers: Answers) -> Decision:
    """Decide. Without an external engine, jobs with equal questions share the decision."""
    return decide_cheapest(questions, answers) if answers.engine.is_external else _decide_analytic(questions)


@lru_cache(maxsize=4096)
def _decide_analytic(questions: tuple[Question, ...]) -> Decision:
    return decide_cheapest(questions)


def _decides(decision: Decision, question: Question) -> bool:
    return decision.chosen is not None and decision.chosen.gpu == question.gpu


@lru_cache(maxsize=1024)
def _enough(question: Question, candidates: tuple[Candidate, ...], situation: Situation) -> tuple[Remedy, ...]:
    """Return what would be enough. Jobs with equal questions share it, so it does not depend on the line."""
    found = find_remedies(question, candidates, situation)
    return () if found is None else found.enough


def _best_remedy(decision: Decision, question: Question, situation: Situation) -> str:
    """Return the cheapest change that would make a job fit, with its settings."""
    any_line = replace(situation, launch=None, reread=None)
    for remedy in _enough(question, decision.candidates, any_line):
        edits, refusal = situation.edits(remedy.savings)
        if not refusal and remedy.text and _holds(question, remedy, edits, situation):
            written = format_edits(edits, situation.framework) if edits and situation.framework else ""
            verb = "is" if remedy.after.layout.gpus == 1 else "are"
            enough = f"{format_gpus(remedy.after.layout)} {verb} then enough"
            return f"try {remedy.text}{f' ({written})' if written else ''}: {enough}"
    return "train with a smaller batch, or on GPUs with more memory"


def _holds(question: Question, remedy: Remedy, edits: Sequence[SettingEdit], situation: Situation) -> bool:
    """Return whether the line with the settings is read, and fits as the remedy says."""
    if situation.reread is None or not edits:
        return True
    changed = reread_question(replace(question, gpu=remedy.after.gpu), edits, situation.reread)
    return changed is not None and Evaluator(changed).evaluate(remedy.after.layout).fits


def _unanswered(
    job: TrainingJob,
    decision: Decision,
    question: Question,
    situation: Situation,
    severity: Severity,
    *,
    has_gpus: bool,
) -> Problem:
    rule = "sizing.no-recommendation"
    if decision.is_pending:
        rule = "sizing.engine-error" if decision.reason == DecisionReason.ENGINE_ERROR else "sizing.pending"
    hint = "ask the engine: reconciler size record"
    if not decision.is_pending:
        hint = f"{_best_remedy(decision, question, situation)}; see: reconciler size {job.document.source.path}"
    if decision.reason == DecisionReason.ONE_NODE:
        rule = "sizing.rendezvous"
        hint = "use a PyTorchJob, TrainJob or TorchrunJob, or set the address of the main process in the launch line"
    text = decision.text
    if not has_gpus and not decision.is_pending:
        text += "; the job itself requests no GPUs, so it is not rendered"
    return job.document.problem(rule, job.lead.container.path, text, hint, severity=severity)


def _problems(job: TrainingJob, diagnostics: Iterable[Diagnostic]) -> Iterator[Problem]:
    for diagnostic in diagnostics:
        span = diagnostic.span
        at = variable_path(job, diagnostic.variable) if span is None else job.word_path(span.field, span.index)
        place = job.document.at(at) if span is None else _place(job, span)
        yield diagnostic.to_problem(place, format_path(at))


def _place(job: TrainingJob, span: Span) -> SourceRef:
    return word_place(job, span.field, span.index, span.start)
