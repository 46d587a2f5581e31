"""Apply a decision to a job: set every field that sizing owns, and render the result."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.sized.fields import (
    ACCUMULATION,
    BATCH,
    NUM_GPUS,
    NUM_MACHINES,
    NUM_PROCESSES,
    set_done,
    set_resources,
    set_variables,
    set_waiting,
    variables,
)
from reconciler.index.sized.patch import DocumentPatch, ListItem, NotAContainerError, SizingReasons
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.plain import render_plain
from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.problems import Parsed, Problem, Severity
from reconciler.kube.reasons import Origin, Reason, Reasons, Traced
from reconciler.kube.yaml import Document
from reconciler.launch import Launch, NotEditable, edit_launch, script_flag
from reconciler.repo.config import Cluster
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decision import Decision
from reconciler.sizing.devices import PRODUCT_LABEL
from reconciler.sizing.question import Question
from reconciler.sizing.training import Layout
from reconciler.sizing.training_jobs import TrainingJob, named_product
from reconciler.sizing.training_jobs.job import PodCounts


class LaunchWords(Struct, frozen=True, kw_only=True):
    """The command and arguments of a container."""

    command: tuple[str, ...]
    args: tuple[str, ...]


def sized_line(job: TrainingJob, launch: Launch, question: Question, layout: Layout) -> LaunchWords | Problem:
    """Return the words of the line with the layout's numbers.

    A shell script gets references (`$AUTOCONF_NUM_PROCESSES`), as the autoconf controller writes them; words that no
    shell expands, and the lines of Ray and torchrun jobs, get the numbers themselves. Problems: `sizing.one-process`
    (nothing starts a process per GPU), `sizing.line` (the words cannot be edited, or the script, as those of verl and
    OpenRLHF, divides another number of GPUs itself).
    """
    if launch.launcher.starts_one_process and layout.gpus > 1 and not job.format.starts_processes:
        message = f"requests {layout.gpus} GPUs, but the launch line starts one process"
        hint = "start it with `accelerate launch` or `torchrun`, which start one process per GPU"
        return _line_problem(job, "sizing.one-process", message, hint)
    own = launch.fact("processes")
    if launch.launcher.starts_one_process and own is not None and own.value not in {"1", str(layout.gpus)}:
        message = f"the script itself starts {own.value} processes, and {layout.gpus} GPUs were chosen"
        hint = f"set its flags to {layout.gpus} GPUs, or exclude the job from sizing"
        return _line_problem(job, "sizing.line", message, hint)
    writer = _NumberWriter(job, launch, layout)
    launcher, script = _process_flags(job, launch, writer)
    script |= _batch_flags(launch, question, writer)
    if "" in script:
        message = f"the flag of {launch.framework.name} for the batch is unknown"
        return _line_problem(job, "sizing.line", message, "set the batch per device on the launch line")
    if not launcher and not script:
        return LaunchWords(command=job.command, args=job.args)
    try:
        command, args = edit_launch(launch, launcher, script)
    except NotEditable as problem:
        return _line_problem(
            job, "sizing.line", f"cannot be edited: {problem}", "write the launch line without substitutions"
        )
    return LaunchWords(command=command, args=args)


def line_warnings(job: TrainingJob, launch: Launch, layout: Layout) -> tuple[Problem, ...]:
    """Warn about a line on which all machines would have the rank of the first one."""
    flags = launch.launcher.rank_flags
    if not flags or layout.workers == 1 or any(launch.option(flag) for flag in flags):
        return ()
    message = f"runs on {layout.workers} nodes, but the line does not set the machine's rank"
    rank, main = job.format.rank_variable, job.format.main_variable
    arguments = f"--machine_rank=${rank} --main_process_ip=${main}_ADDR --main_process_port=${main}_PORT"
    hint = f"add {arguments} to the line"
    return (_line_problem(job, "sizing.machine-rank", message, hint, Severity.WARNING),)


def line_origins(job: TrainingJob, launch: Launch) -> tuple[Origin, ...]:
    """Return the positions of the words that the facts of the line were read from, each once."""
    spans = sorted({fact.span for fact in launch.facts.values() if fact.span is not None})
    paths = dict.fromkeys(job.word_path(span.field, span.index) for span in spans)
    return tuple(Origin(document=job.document, field=path) for path in paths)


class _NumberWriter:
    """Writes numbers: as a reference to their variable if a shell expands it, else as digits."""

    __slots__ = ("_refers", "layout")

    def __init__(self, job: TrainingJob, launch: Launch, layout: Layout) -> None:
        self._refers = launch.in_shell and job.line is None
        self.layout = layout

    def write(self, variable: str, number: int) -> str:
        return f"${variable}" if self._refers else str(number)

    def processes(self, *, over_all: bool) -> str:
        layout = self.layout
        return self.write(NUM_PROCESSES, layout.gpus) if over_all else self.write(NUM_GPUS, layout.gpus_per_worker)

    @property
    def machines(self) -> str:
        return self.write(NUM_MACHINES, self.layout.workers)


Flags = dict[str, str]


def _process_flags(job: TrainingJob, launch: Launch, writer: _NumberWriter) -> tuple[Flags, Flags]:
    """Return the flags that count processes and machines: the launcher's, and those among the script's own.

    accelerate always gets both, as the autoconf controller writes them. Others get what they do not know: operators
    pass the counts to torchrun, `auto` needs no number, and one machine is the default of every launcher.
    """
    known = launch.line.invocation.process_flags
    if not known.processes:
        return {}, {}
    always = launch.launcher.explicit
    is_passed = job.format.passes_process_counts and launch.launcher.reads_pet
    flags: Flags = {}
    processes, machines = (launch.option(flag, of_script=known.of_script) for flag in (known.processes, known.machines))
    if always or (processes is None and not is_passed) or (processes is not None and processes.value not in _AUTOMATIC):
        flags[known.processes] = writer.processes(over_all=known.counts_all)
    if always or machines is not None or (writer.layout.workers > 1 and not is_passed):
        flags[known.machines] = writer.machines
    return ({}, flags) if known.of_script else (flags, {})


_AUTOMATIC = frozenset({"auto", "gpu"})
"""Values of torchrun and litgpt for one process per GPU."""


def _batch_flags(launch: Launch, question: Question, writer: _NumberWriter) -> Flags:
    """Return the script's flags: the batch per device if it is set or changes, the steps if they change.

    accelerate always gets the batch, as the autoconf controller writes it.
    """
    layout, flags = writer.layout, {}
    batch = launch.facts.get("batch")
    written = batch is not None and batch.span is not None
    if written or layout.batch != question.batch or launch.launcher.explicit:
        flags[script_flag(launch, "batch")] = writer.write(BATCH, layout.batch)
    if layout.accumulation != question.accumulation and not question.keeps_batch:  # it follows from what is stated
        flags[script_flag(launch, "accumulation")] = writer.write(ACCUMULATION, layout.accumulation)
    return flags


def _line_problem(job: TrainingJob, rule: str, message: str, hint: str, severity: Severity = Severity.ERROR) -> Problem:
    path = job.line or job.lead.container.path
    return job.document.problem(rule, path, message, hint, severity=severity)


class Sized(Struct, frozen=True, kw_only=True, eq=False):
    """A sized document: its complete data, and the reason of every changed value.

    If the problems contain an error, the data is that of the document: either all changes are made or none.
    """

    document: Document
    data: dict[str, Any]
    reasons: Reasons
    problems: tuple[Problem, ...] = ()


def _finish(patch: DocumentPatch, warnings: tuple[Problem, ...] = ()) -> Sized:
    """Return the sized document of a patch."""
    return Sized(document=patch.document, data=patch.body, reasons=patch.reasons, problems=warnings)


def _keep(document: Document, problems: tuple[Problem, ...]) -> Sized:
    """Return the unchanged document, with the problems that prevent sizing."""
    return Sized(document=document, data=document.data, reasons={}, problems=problems)


def sized_manifest(sized: Sized, cluster: Cluster, *, namespaced: bool) -> Manifest:
    """Render a sized document for `cluster` like any plain object. Changed values have their reasons."""
    rendered = render_plain(_document(sized), cluster, namespaced=namespaced)
    return replace(rendered, reasons={**rendered.reasons, **sized.reasons})


def sized_intent(kind: Kind, sized: Sized) -> Parsed[Any]:
    """Parse a sized document again, so that its family renders the numbers; changed values have their reasons."""
    if kind.source.parse is None:
        return Parsed(intent=None)
    parsed = kind.source.parse(_document(sized))
    if parsed.intent is None:
        return parsed
    fields = {name: getattr(parsed.intent, name) for name in parsed.intent.__struct_fields__}
    changed = {name: _retrace(value, sized.reasons) for name, value in fields.items()}
    return Parsed(intent=replace(parsed.intent, **changed), problems=parsed.problems)


def stamp(kinds: Kinds, manifest: Manifest, sized: Sized) -> Manifest:
    """Return the workload of a rendered job with the labels and annotations that sizing gave to the job.

    Labels that rendering set (Kueue's queue) stay. Other objects of the job are returned unchanged.
    """
    if manifest.key.name != sized.document.key.name or kinds.pod_sets(manifest.body) is None:
        return manifest
    metadata = dict(manifest.body["metadata"])
    reasons = dict(manifest.reasons)
    for path, reason in sized.reasons.items():
        if len(path) == len(("metadata", "labels", "key")) and path[0] == "metadata":
            section, key = str(path[1]), str(path[2])
            value = sized.data["metadata"].get(section, {}).get(key)
            entries = metadata.get(section) or {}
            if value is not None and key not in entries:
                metadata[section] = {**entries, key: value}
                reasons[path] = reason
    return replace(manifest, body={**manifest.body, "metadata": metadata}, reasons=reasons)


def _document(sized: Sized) -> Document:
    """Return the document with its new data and the positions of the file."""
    return replace(sized.document, data=sized.data)


def _retrace(value: Any, reasons: Reasons) -> Any:
    if isinstance(value, tuple):
        return tuple(_retrace(item, reasons) for item in value)
    if not isinstance(value, Traced) or not value.reason.origins:
        return value
    reason: Reason | None = reasons.get(value.reason.origins[0].field)
    return value if reason is None else Traced(value.value, reason)


def set_replicas(patch: DocumentPatch, job: TrainingJob, reasons: SizingReasons) -> None:
    """Set the number of nodes in the fields of the job's kind, and in those of its wrapper."""
    pods = job.format.set_replicas(patch, job, reasons)
    if job.is_wrapped:
        _set_pod_sets(patch, job, pods, reasons)


def _set_pod_sets(patch: DocumentPatch, job: TrainingJob, pods: PodCounts, reasons: SizingReasons) -> None:
    """Set the number of pods in a wrapper's `podSets`, if it has any. An AppWrapper infers missing ones."""
    path: FieldPath = (*job.root[:-1], "podSets")
    before = patch.get(path)
    if not isinstance(before, list) or not before:
        return
    reason = reasons.because("workers", f"{reasons.spread}; the wrapper has the same pods")
    missing = {format_path(template[len(job.root) - 1 :]): count for template, count in pods.items()}
    rows: list[ListItem] = []
    for index, item in enumerate(before):
        known = isinstance(item, dict) and item.get("path") in missing
        count = missing.pop(item["path"]) if known else None
        if count is None or (count == item.get("replicas", 1) and count):
            rows.append((item, index))
        elif count:
            rows.append(({**item, "replicas": count}, reason))
    rows += [({"path": template, "replicas": count}, reason) for template, count in missing.items() if count]
    patch.set_rows(path, rows)


def apply_decision(  # noqa: PLR0917 - job, decision, settings
    job: TrainingJob,
    launch: Launch,
    question: Question,
    decision: Decision,
    settings: SizingSettings,
    evidence: tuple[Origin, ...] = (),
    *,
    pin_gpu: bool = False,
) -> Sized:
    """Write a decision into its job. Without a recommendation, the job is only marked (`mark_refused`).

    `evidence` are the origins of the decision besides the launch line. Errors leave the document unchanged:
    `sizing.effective-batch`, `sizing.rendezvous`, `sizing.one-process`, `sizing.line`, `sizing.shape`. A warning
    (`sizing.machine-rank`) does not. `pin_gpu`: the job does not name the GPU product for all of its pods; they get a
    node selector for the one that it was sized for.
    """
    origins = (*line_origins(job, launch), *evidence)
    if decision.chosen is None:
        return mark_refused(job.document, decision, settings, origins)
    reasons = SizingReasons(question=question, chosen=decision.chosen, origins=origins)
    line = sized_line(job, launch, question, decision.chosen.layout)
    problems = [*_problems(job, reasons), *([line] if isinstance(line, Problem) else [])]
    if problems or isinstance(line, Problem):
        return _keep(job.document, tuple(problems))

    def change(patch: DocumentPatch) -> None:
        _set_numbers(patch, job, reasons, line, settings, pin_gpu=pin_gpu)
        set_done(patch, decision, settings, origins)

    return _apply(job.document, change, line_warnings(job, launch, decision.chosen.layout))


def _set_numbers(
    patch: DocumentPatch,
    job: TrainingJob,
    reasons: SizingReasons,
    line: LaunchWords,
    settings: SizingSettings,
    *,
    pin_gpu: bool,
) -> None:
    set_replicas(patch, job, reasons)
    values = list(variables(job, reasons))
    for container in (*job.format.containers(patch, job), *job.seen_by):
        set_variables(patch, (*container, "env"), values)
    for container in job.format.containers(patch, job):
        if job.format.resources:
            set_resources(patch, (*container, job.format.resources), reasons, settings)
        _set_line(patch, job, container, line, reasons)
    if pin_gpu:
        gpu = reasons.chosen.gpu
        selected = named_product(job)
        why = "the job names no GPU product" if selected is None else "only some pods name the GPU product"
        product = gpu.product if selected is None else selected[0]
        reason = reasons.because("gpu", f"{why}; {reasons.memory}")
        job.format.select_product(patch, job, PRODUCT_LABEL[gpu.vendor], product, reason)
    if settings.unsuspend:
        _unsuspend(patch, job, reasons)


def mark_refused(
    document: Document, decision: Decision, settings: SizingSettings, origins: tuple[Origin, ...] = ()
) -> Sized:
    """Mark a job without a recommendation, so that it is not sized again."""
    return _apply(document, lambda patch: set_done(patch, decision, settings, origins))


def mark_waiting(document: Document, request: str, settings: SizingSettings) -> Sized:
    """Mark a job with the id of its pending request, for sources that are edited in place."""
    return _apply(document, lambda patch: set_waiting(patch, request, settings))


def _apply(document: Document, change: Callable[[DocumentPatch], None], warnings: tuple[Problem, ...] = ()) -> Sized:
    """Return the document with a change applied; unchanged if a value has an unexpected type."""
    patch = DocumentPatch(document)
    try:
        change(patch)
    except NotAContainerError as error:
        message, hint = "must be a mapping or a list", "correct or remove it"
        return _keep(document, (document.problem("sizing.shape", error.path, message, hint),))
    return _finish(patch, warnings)


def _problems(job: TrainingJob, reasons: SizingReasons) -> list[Problem]:
    layout, question = reasons.chosen.layout, reasons.question
    found = []
    if question.samples(layout) != question.effective_batch:
        message = f"the layout would change the training: {reasons.batch}"
        found.append(
            job.document.problem("sizing.effective-batch", (), message, "choose a batch that divides among the GPUs")
        )
    if reasons.workers > 1 and not job.has_rendezvous:
        message = f"needs {reasons.workers} nodes, but the pods of this {job.kind} have no rendezvous address"
        hint = "use a PyTorchJob, TrainJob or TorchrunJob, or set the address of the main process in the launch line"
        found.append(job.document.problem("sizing.rendezvous", job.lead.container.path, message, hint))
    return found


def _set_line(
    patch: DocumentPatch, job: TrainingJob, container: FieldPath, line: LaunchWords, reasons: SizingReasons
) -> None:
    reason = reasons.because("command", f"{reasons.spread}; {reasons.batch}")
    if job.line is not None:
        patch.set(job.line, line.command[-1], reason)
        return
    if line.command != job.command:
        patch.set_words((*container, "command"), list(line.command), reason)
    if line.args != job.args:
        patch.set_words((*container, "args"), list(line.args), reason)


def _unsuspend(patch: DocumentPatch, job: TrainingJob, reasons: SizingReasons) -> None:
    """Unsuspend a suspended job or its wrapper."""
    path: FieldPath = ("spec", "suspend") if job.is_wrapped else job.format.suspend
    if patch.get(path) is True:
        patch.set(
            path, value=False, reason=reasons.because("suspend", "the job is sized and may run (sizing.unsuspend)")
        )
