"""The line that starts a training: what it says, and where."""

from msgspec import Struct

from reconciler.core.launch.facts import Diagnostic, Fact, Launcher
from reconciler.core.launch.search import LaunchLine


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
    cannot be edited, or empty. `line` keeps what was parsed, for edits.
    """

    launcher: Launcher
    framework: str
    program: str
    facts: dict[str, Fact]
    defaults: dict[str, Fact]
    command: tuple[str, ...]
    args: tuple[str, ...]
    line: LaunchLine
    unresolved: tuple[Diagnostic, ...] = ()
    in_shell: bool = False
    not_editable: str = ""

    def fact(self, name: str) -> Fact | None:
        """Return what the line says, else the framework's default, else None."""
        return self.facts.get(name) or self.defaults.get(name)

    def number(self, name: str) -> int | None:
        """Return a fact that is a whole number; all that can be were checked when the line was read."""
        found = self.fact(name)
        return int(found.value) if found is not None and found.value.isdecimal() else None


class ParsedLaunch(Struct, frozen=True, kw_only=True):
    """What reading a container's command gave. With diagnostics, the job is not to be sized from it."""

    launch: Launch | None
    diagnostics: tuple[Diagnostic, ...] = ()
