"""A launch line: its invocation, its place, its facts."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from reconciler.core.launch.container import SourceMap
from reconciler.core.launch.facts import Diagnostic, Fact
from reconciler.core.launch.framework import Command, Framework, Launcher, ProcessFlags
from reconciler.core.launch.settings import Arguments, Option, flag_name
from reconciler.core.launch.shell.expansion import Field


class Invocation(Struct, frozen=True):
    """The words of a launch line, split into launcher and program.

    `head` and `program` are numbers of words: the last one before the launcher's flags, and the script, module or
    verb. `arguments` are the launcher's own. `is_module`: the program was named with `-m`. `command` is the
    framework's own command where one is called, and `framework` its framework.
    """

    launcher: Launcher
    fields: Sequence[Field]
    head: int
    program: int
    arguments: Arguments
    is_module: bool = False
    command: Command | None = None
    framework: Framework | None = None

    @property
    def name(self) -> str:
        """The script or module, or the framework's command with its verb or recipe."""
        text = self.fields[self.program].text
        return f"{self.command.label} {text}" if self.command is not None else text

    @property
    def first_word_of_program(self) -> int:
        """Number of the `-m` in front of a module, or of the script itself."""
        before = self.program - 1
        return before if self.is_module and self.fields[before].text in {"-m", "--module"} else self.program

    @property
    def process_flags(self) -> ProcessFlags:
        """The flags that set the number of processes and machines."""
        if any(option.name in self.launcher.device_flags for option in self.arguments.options):
            return ProcessFlags()
        launcher = self.launcher.process_flags
        return launcher if launcher.processes or self.command is None else self.command.process_flags


class LaunchLine(Struct, frozen=True):
    """An invocation with its place, and the variables that its program sees (None: unknown)."""

    invocation: Invocation
    source: SourceMap
    env: Mapping[str, str | None]


class Launch(Struct, frozen=True, kw_only=True):
    """A parsed launch line.

    `facts` come from the line and its configuration files, `defaults` from the framework; each names its origin.
    `unresolved` explains facts that are set to a value that is unknown before the job runs.

    Facts with whole numbers: `batch` (samples per process and step), `global_batch` (of all processes, from
    AUTOCONF_BATCH_SIZE), `processes` (of all machines), `machines`, `sequence`, `accumulation`, `lora_rank`, `tensor`,
    `pipeline`. Texts: `model`, `method`, `optimizer`, `attention`, `lora_targets` (comma-separated), `quantisation`
    (4bit, 8bit, gptq), `strategy`, `offload`, `precision`, `gpu_model`. Booleans (`true`, `false`): `checkpointing`,
    `fused_loss`. The texts are those of the enumerations in `core.sizing.training` where there is one.

    `in_shell`: a shell expands the words, so an edit may write variables. `not_editable` is the reason why the line
    cannot be edited, or empty. `line` and `arguments` (the script's) keep what was parsed, for edits.
    """

    framework: Framework
    facts: Mapping[str, Fact]
    defaults: Mapping[str, Fact]
    command: tuple[str, ...]
    args: tuple[str, ...]
    line: LaunchLine
    arguments: Arguments
    unresolved: tuple[Diagnostic, ...] = ()
    not_editable: str = ""

    @property
    def launcher(self) -> Launcher:
        """What starts the processes."""
        return self.line.invocation.launcher

    @property
    def in_shell(self) -> bool:
        """Whether a shell expands the words."""
        return self.line.source.script

    def fact(self, name: str) -> Fact | None:
        """Return a fact of the line, else the framework's default, else None."""
        return self.facts.get(name) or self.defaults.get(name)

    def option(self, flag: str, *, of_script: bool = False) -> Option | None:
        """Return a flag that stands on the line, among the launcher's own or the script's."""
        arguments = self.arguments if of_script else self.line.invocation.arguments
        return next((option for option in arguments.options if option.name == flag_name(flag)), None)


class ParsedLaunch(Struct, frozen=True, kw_only=True):
    """The launch line of a container. A job with diagnostics must not be sized from it."""

    launch: Launch | None
    diagnostics: tuple[Diagnostic, ...] = ()
