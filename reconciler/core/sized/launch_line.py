"""The launch line with the numbers of a layout."""

from msgspec import Struct

from reconciler.core.launch import Launch, NotEditable, edit_launch, script_flag
from reconciler.core.objects import format_path
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin
from reconciler.core.sized.fields import ACCUMULATION, BATCH, NUM_GPUS, NUM_MACHINES, NUM_PROCESSES
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Layout
from reconciler.core.training import TrainingJob


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
        return _problem(job, "sizing.one-process", message, hint)
    own = launch.fact("processes")
    if launch.launcher.starts_one_process and own is not None and own.value not in {"1", str(layout.gpus)}:
        message = f"the script itself starts {own.value} processes, and {layout.gpus} GPUs were chosen"
        hint = f"set its flags to {layout.gpus} GPUs, or exclude the job from sizing"
        return _problem(job, "sizing.line", message, hint)
    writer = _NumberWriter(job, launch, layout)
    launcher, script = _process_flags(job, launch, writer)
    script |= _batch_flags(launch, question, writer)
    if "" in script:
        message = f"the flag of {launch.framework.name} for the batch is unknown"
        return _problem(job, "sizing.line", message, "set the batch per device on the launch line")
    if not launcher and not script:
        return LaunchWords(command=job.command, args=job.args)
    try:
        command, args = edit_launch(launch, launcher, script)
    except NotEditable as problem:
        return _problem(
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
    return (_problem(job, "sizing.machine-rank", message, hint, Severity.WARNING),)


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


def _problem(job: TrainingJob, rule: str, message: str, hint: str, severity: Severity = Severity.ERROR) -> Problem:
    path = job.line or job.lead.container.path
    place, field = job.document.at(path), format_path(path)
    return Problem(rule=rule, place=place, field=field, message=message, hint=hint, severity=severity)
