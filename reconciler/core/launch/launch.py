"""The line that starts a training: what it says, and where."""

from msgspec import Struct

from reconciler.core.launch.facts import Fact, Launcher, Trouble
from reconciler.core.launch.search import Line


class Launch(Struct, frozen=True, kw_only=True):
    """The line that starts a training.

    `facts` are what it says, `defaults` what its framework takes where it says nothing, each with its origin. `unsure`
    tells why a fact that is written is not known.

    Facts that hold whole numbers: `batch` (samples a process and step), `global_batch` (of all processes, from
    AUTOCONF_BATCH_SIZE), `processes` (in all), `machines`, `sequence`, `accumulation`, `lora_rank`, `tensor`,
    `pipeline`.
    Words: `model`, `method`, `optimizer`, `attention`, `lora_targets` (commas between), `quantisation` (4bit, 8bit,
    gptq), `strategy`, `offload`, `precision`, `gpu_model`. Yes or no (`true`, `false`): `checkpointing`,
    `fused_loss`. Where the sizing knows a value as an enumeration, its words are used.

    `shell`: a shell expands the line's words, so that variables may be written. `stuck` says why it cannot be edited.
    `line` is what was read, for edits.
    """

    launcher: Launcher
    framework: str
    program: str
    facts: dict[str, Fact]
    defaults: dict[str, Fact]
    command: tuple[str, ...]
    args: tuple[str, ...]
    line: Line
    unsure: tuple[Trouble, ...] = ()
    shell: bool = False
    stuck: str = ""

    def fact(self, name: str) -> Fact | None:
        """Return what the line says, else the framework's default, else None."""
        return self.facts.get(name) or self.defaults.get(name)

    def number(self, name: str) -> int | None:
        """Return a fact that is a whole number; all that can be were checked when the line was read."""
        found = self.fact(name)
        return int(found.value) if found is not None and found.value.isdecimal() else None


class LaunchReading(Struct, frozen=True, kw_only=True):
    """What reading a container's command gave. With troubles, the job is not to be sized from it."""

    launch: Launch | None
    troubles: tuple[Trouble, ...] = ()
