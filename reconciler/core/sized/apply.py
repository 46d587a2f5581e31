"""One decision applied to one job: every field that sizing owns, and nothing else."""

from collections.abc import Callable

from reconciler.core.config import SizingSettings
from reconciler.core.devices import PRODUCT_LABEL
from reconciler.core.documents import Document
from reconciler.core.launch import Launch
from reconciler.core.objects import FieldPath, format_path
from reconciler.core.problems import Problem
from reconciler.core.reasons import Origin
from reconciler.core.sized.draft import Draft, Misfit
from reconciler.core.sized.grounds import Grounds
from reconciler.core.sized.line import Line, line_origins, line_warnings, sized_line
from reconciler.core.sized.protocol import set_done, set_waiting
from reconciler.core.sized.replicas import set_replicas
from reconciler.core.sized.resources import set_resources
from reconciler.core.sized.sized import Sized, finished, unchanged
from reconciler.core.sized.variables import set_variables, variables
from reconciler.core.sizing.decision import Decision
from reconciler.core.sizing.question import Question
from reconciler.core.training import TrainingJob


def apply_decision(  # noqa: PLR0917 - who, what, why
    job: TrainingJob,
    launch: Launch,
    question: Question,
    decision: Decision,
    settings: SizingSettings,
    evidence: tuple[Origin, ...] = (),
    *,
    pin_gpu: bool = False,
) -> Sized:
    """Write a decision into its job; without a recommendation the job passes as it is, marked (`refused`).

    `evidence` are the places of answers and other facts beside the launch line's own words. Problems leave the
    document alone: `sizing.effective-batch`, `sizing.rendezvous`, `sizing.one-process`, `sizing.line`; a warning
    (`sizing.machine-rank`) does not. `pin_gpu`: the job named no card, so its pods are bound to the one it was sized
    for; on a smaller one they would run out of memory.
    """
    origins = (*line_origins(job, launch), *evidence)
    if decision.chosen is None:
        return refused(job.document, decision, settings, origins)
    grounds = Grounds(question=question, chosen=decision.chosen, origins=origins)
    line = sized_line(job, launch, question, decision.chosen.layout)
    problems = [*_problems(job, grounds), *([line] if isinstance(line, Problem) else [])]
    if problems or isinstance(line, Problem):
        return unchanged(job.document, tuple(problems))

    def change(draft: Draft) -> None:
        _set_numbers(draft, job, grounds, line, settings, pin_gpu=pin_gpu)
        set_done(draft, decision, settings, origins)

    return _changed(job.document, change, line_warnings(job, launch, decision.chosen.layout))


def _set_numbers(
    draft: Draft, job: TrainingJob, grounds: Grounds, line: Line, settings: SizingSettings, *, pin_gpu: bool
) -> None:
    set_replicas(draft, job, grounds)
    wanted = list(variables(job, grounds))
    for container in (*job.format.containers(draft, job), *job.seen_by):
        set_variables(draft, (*container, "env"), wanted)
    for container in job.format.containers(draft, job):
        if job.format.resources:
            set_resources(draft, (*container, job.format.resources), grounds, settings)
        _set_line(draft, job, container, line, grounds)
    if pin_gpu:
        gpu = grounds.chosen.gpu
        reason = grounds.because("gpu", f"the job names no GPU product; {grounds.memory}")
        job.format.select_product(draft, job, PRODUCT_LABEL[gpu.vendor], gpu.product, reason)
    if settings.unsuspend:
        _unsuspend(draft, job, grounds)


def refused(
    document: Document, decision: Decision, settings: SizingSettings, origins: tuple[Origin, ...] = ()
) -> Sized:
    """Let a job without a recommendation pass as it is written, marked so that it is not asked for again."""
    return _changed(document, lambda draft: set_done(draft, decision, settings, origins))


def waiting(document: Document, request: str, settings: SizingSettings) -> Sized:
    """Mark a job that waits for an answer with the id of its request: for sources that are edited in place."""
    return _changed(document, lambda draft: set_waiting(draft, request, settings))


def _changed(document: Document, change: Callable[[Draft], None], warnings: tuple[Problem, ...] = ()) -> Sized:
    """Return the document changed, or as it is where something in it can hold no values."""
    draft = Draft(document)
    try:
        change(draft)
    except Misfit as misfit:
        message, hint = "is neither a mapping nor a list, where one belongs", "correct it, or leave it out"
        return unchanged(document, (_problem(document, "sizing.shape", misfit.path, message, hint),))
    return finished(draft, warnings)


def _problems(job: TrainingJob, grounds: Grounds) -> list[Problem]:
    layout, asked = grounds.chosen.layout, grounds.question
    found = []
    if layout.effective_batch != asked.effective_batch:
        message = f"the layout changes what is trained: {grounds.batch}"
        found.append(
            _problem(job.document, "sizing.effective-batch", (), message, "choose a batch that the GPUs divide")
        )
    if grounds.workers > 1 and not job.has_rendezvous:
        message = f"needs {grounds.workers} nodes, but nothing tells the pods of this {job.kind} of each other"
        hint = "make it a PyTorchJob, TrainJob or TorchrunJob, or name the main process in the launch line"
        found.append(_problem(job.document, "sizing.rendezvous", job.lead.container.path, message, hint))
    return found


def _problem(document: Document, rule: str, path: FieldPath, message: str, hint: str) -> Problem:
    return Problem(rule=rule, place=document.at(path), field=format_path(path), message=message, hint=hint)


def _set_line(draft: Draft, job: TrainingJob, container: FieldPath, line: Line, grounds: Grounds) -> None:
    reason = grounds.because("command", f"{grounds.spread}; {grounds.batch}")
    if job.line is not None:
        draft.set(job.line, line.command[-1], reason)
        return
    if line.command != job.command:
        draft.set_words((*container, "command"), list(line.command), reason)
    if line.args != job.args:
        draft.set_words((*container, "args"), list(line.args), reason)


def _unsuspend(draft: Draft, job: TrainingJob, grounds: Grounds) -> None:
    """Let a suspended job run, where it or its wrapper says that it waits."""
    path: FieldPath = ("spec", "suspend") if job.is_wrapped else job.format.suspend
    if draft.get(path) is True:
        draft.set(path, value=False, reason=grounds.because("suspend", "sized, so it may run (sizing.unsuspend)"))
