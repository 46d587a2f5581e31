"""The launch line with its numbers: which flags say them for each launcher, and what stays as it is written."""

from msgspec import Struct

from reconciler.core.launch import Launch, NotEditable, edit_launch, script_flag
from reconciler.core.objects import format_path
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin
from reconciler.core.sized.variables import ACCUMULATION, BATCH, NUM_GPUS, NUM_MACHINES, NUM_PROCESSES
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Layout
from reconciler.core.training import TrainingJob


class Line(Struct, frozen=True, kw_only=True):
    """A container's words after editing."""

    command: tuple[str, ...]
    args: tuple[str, ...]


def sized_line(job: TrainingJob, launch: Launch, question: Question, layout: Layout) -> Line | Problem:
    """Return the words of the line with the layout's numbers.

    A script of a shell gets references (`$AUTOCONF_NUM_PROCESSES`), so that it reads like the autoconf controller's;
    words that no shell expands, and the lines of Ray and torchrun jobs, get the numbers themselves. Problems:
    `sizing.one-process` (nothing starts a process for each GPU), `sizing.line` (the words cannot be edited).
    """
    if launch.launcher.starts_one_process and layout.gpus > 1 and not job.format.starts_processes:
        message = f"needs {layout.gpus} GPUs, but the line starts one process"
        hint = "start it with `accelerate launch` or `torchrun`, which start one process for each GPU"
        return _problem(job, "sizing.one-process", message, hint)
    numbers = _Numbers(job, launch, layout)
    launcher, script = _process_flags(job, launch, numbers)
    script |= _batch_flags(launch, question, numbers)
    if "" in script:
        message = f"the flag of {launch.framework.name} for the batch is unknown"
        return _problem(job, "sizing.line", message, "give the batch per device on the launch line")
    if not launcher and not script:
        return Line(command=job.command, args=job.args)
    try:
        command, args = edit_launch(launch, launcher, script)
    except NotEditable as problem:
        return _problem(
            job, "sizing.line", f"cannot be edited: {problem}", "write the line's words out where it stands"
        )
    return Line(command=command, args=args)


def line_warnings(job: TrainingJob, launch: Launch, layout: Layout) -> tuple[Problem, ...]:
    """Warn of a line whose machines would all take the rank of the first one."""
    flags = launch.launcher.rank_flags
    if not flags or layout.workers == 1 or any(launch.option(flag) for flag in flags):
        return ()
    message = f"runs on {layout.workers} nodes, but the line does not set the machine's rank"
    rank, main = job.format.rank_variable, job.format.main_variable
    arguments = f"--machine_rank=${rank} --main_process_ip=${main}_ADDR --main_process_port=${main}_PORT"
    hint = f"add {arguments} to the line"
    return (_problem(job, "sizing.machine-rank", message, hint, Severity.WARNING),)


def line_origins(job: TrainingJob, launch: Launch) -> tuple[Origin, ...]:
    """Return the places of the words that the line's facts were read from, each once."""
    spans = sorted({fact.span for fact in launch.facts.values() if fact.span is not None})
    paths = dict.fromkeys(job.word_path(span.field, span.index) for span in spans)
    return tuple(Origin(document=job.document, field=path) for path in paths)


class _Numbers:
    """Writes a number as the line can take it: its variable where a shell expands it, else its digits."""

    __slots__ = ("_refers", "layout")

    def __init__(self, job: TrainingJob, launch: Launch, layout: Layout) -> None:
        self._refers = launch.in_shell and job.line is None
        self.layout = layout

    def write(self, variable: str, number: int) -> str:
        return f"${variable}" if self._refers else str(number)

    def processes(self, *, in_all: bool) -> str:
        layout = self.layout
        return self.write(NUM_PROCESSES, layout.gpus) if in_all else self.write(NUM_GPUS, layout.gpus_per_worker)

    @property
    def machines(self) -> str:
        return self.write(NUM_MACHINES, self.layout.workers)


Flags = dict[str, str]


def _process_flags(job: TrainingJob, launch: Launch, numbers: _Numbers) -> tuple[Flags, Flags]:
    """Return the flags that count processes and machines: the launcher's, and those among the script's own.

    accelerate always gets both, as the autoconf controller writes them. Others get what they have to be told: an
    operator tells torchrun, `auto` says itself, and one machine is every launcher's default.
    """
    known = launch.line.invocation.process_flags
    if not known.processes:
        return {}, {}
    always = launch.launcher.explicit
    told = job.format.passes_process_counts and launch.launcher.reads_pet
    flags: Flags = {}
    processes, machines = (launch.option(flag, of_script=known.of_script) for flag in (known.processes, known.machines))
    if always or (processes is None and not told) or (processes is not None and processes.value not in _AUTOMATIC):
        flags[known.processes] = numbers.processes(in_all=known.counts_all)
    if always or machines is not None or (numbers.layout.workers > 1 and not told):
        flags[known.machines] = numbers.machines
    return ({}, flags) if known.of_script else (flags, {})


_AUTOMATIC = frozenset({"auto", "gpu"})
"""What torchrun and litgpt take for "as many as there are GPUs"."""


def _batch_flags(launch: Launch, question: Question, numbers: _Numbers) -> Flags:
    """Return the script's flags: the batch of a device where it is one already or changes, the steps when they change.

    accelerate always gets the batch, as the autoconf controller writes it.
    """
    layout, flags = numbers.layout, {}
    batch = launch.facts.get("batch")
    written = batch is not None and batch.span is not None
    if written or layout.batch != question.batch or launch.launcher.explicit:
        flags[script_flag(launch, "batch")] = numbers.write(BATCH, layout.batch)
    if layout.accumulation != question.accumulation:
        flags[script_flag(launch, "accumulation")] = numbers.write(ACCUMULATION, layout.accumulation)
    return flags


def _problem(job: TrainingJob, rule: str, message: str, hint: str, severity: Severity = Severity.ERROR) -> Problem:
    path = job.line or job.lead.container.path
    place, field = job.document.at(path), format_path(path)
    return Problem(rule=rule, place=place, field=field, message=message, hint=hint, severity=severity)
