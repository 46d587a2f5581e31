"""Takes a program's words apart: what launches, its own flags, the script or module, and that one's arguments."""

import re
from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.launch.facts import Launcher
from reconciler.core.launch.options import Arguments, Option, is_flag, launcher_arguments
from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.variables import UNKNOWN
from reconciler.core.launch.wrappers import program_name

_ACCELERATE_BARE = frozenset(
    (
        *("m", "module", "no_python", "multi_gpu", "cpu", "tpu", "tpu_use_cluster", "tpu_use_sudo", "use_xpu", "ipex"),
        *("use_deepspeed", "use_fsdp", "use_megatron_lm", "use_parallelism_config", "use_mps_device", "quiet", "q"),
        *("debug", "downcast_bf16", "enable_cpu_affinity", "tpu_cluster", "no_tpu_cluster"),
    )
)
"""Flags of `accelerate launch` without a value (accelerate.commands.launch.launch_command_parser)."""

_TORCHRUN_BARE = frozenset({"standalone", "m", "module", "no_python", "run_path", "use_env"})
"""Flags of `torchrun` without a value (torch.distributed.run.get_args_parser)."""

_DEEPSPEED_BARE = frozenset(
    (
        *("module", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "save_pid", "force_multi"),
        *("elastic_training", "bind_cores_to_rank"),
    )
)
"""Flags of `deepspeed` without a value (deepspeed.launcher.runner.parse_args)."""

_PYTHON_VALUED = frozenset({"-W", "-X", "-Q", "--check-hash-based-pycs"})
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_RUN_MODULES = {
    "torch.distributed.run": Launcher.TORCHRUN,
    "torch.distributed.launch": Launcher.TORCHRUN,
    "torch.distributed.elastic.launch": Launcher.TORCHRUN,
    "accelerate.commands.launch": Launcher.ACCELERATE,
    "deepspeed": Launcher.DEEPSPEED,
    "deepspeed.launcher.runner": Launcher.DEEPSPEED,
}
_BARE = {
    Launcher.ACCELERATE: _ACCELERATE_BARE,
    Launcher.TORCHRUN: _TORCHRUN_BARE,
    Launcher.DEEPSPEED: _DEEPSPEED_BARE,
}
_COMMANDS = {
    "llamafactory-cli": re.compile(r"train"),
    "lmf": re.compile(r"train"),
    "axolotl": re.compile(r"train|fine-tune"),
    "tune": re.compile(r"run"),
    "litgpt": re.compile(r"(?:finetune|finetune_(?:full|lora|adapter|adapter_v2)|pretrain)"),
    "trl": re.compile(r"sft|dpo|kto|grpo|rloo|reward"),
    "swift": re.compile(r"sft|pt|rlhf"),
}
"""Frameworks' own commands, and the verbs that train."""

_TUNE_BARE = _TORCHRUN_BARE


class Invocation(Struct, frozen=True):
    """One launch line, taken apart.

    `head` and `program` are numbers of words: the one behind which a launcher's flag
    may stand, and the script, module or verb. `module`: it was named with `-m`.
    """

    launcher: Launcher
    fields: Sequence[Field]
    head: int
    program: int
    arguments: Arguments
    module: bool = False
    command: str = ""  # the framework's own command

    @property
    def name(self) -> str:
        """The script or module, or the framework's command with its verb."""
        text = self.fields[self.program].text
        return f"{self.command} {text}" if self.command else text

    @property
    def first_word_of_program(self) -> int:
        """Number of the `-m` in front of a module, or of the script itself."""
        before = self.program - 1
        return before if self.module and self.fields[before].text in {"-m", "--module"} else self.program

    def option(self, *names: str) -> Option | None:
        """Return the last of the launcher's own flags that has one of these names."""
        return next((option for option in reversed(self.arguments.options) if option.name in names), None)


def take_apart(fields: Sequence[Field]) -> Invocation | None:
    """Return the parts of a line that may start a training; None for every other program."""
    name = program_name(fields[0].text)
    count = len(fields)
    if name == "accelerate":
        return _launched(Launcher.ACCELERATE, fields, 2) if count > 1 and fields[1].text == "launch" else None
    if name in {"accelerate-launch", "torchrun", "deepspeed"}:
        return _launched(Launcher(name.removesuffix("-launch")), fields, 1)
    if (verbs := _COMMANDS.get(name)) is not None:
        return _command(name, verbs, fields)
    return _python(fields) if _PYTHON.fullmatch(name) else None


def _launched(launcher: Launcher, fields: Sequence[Field], start: int) -> Invocation | None:
    arguments = launcher_arguments(fields, start, _BARE[launcher])
    if arguments.stop >= len(fields):
        return None
    names = {option.name for option in arguments.options}
    invocation = Invocation(launcher, fields, start - 1, arguments.stop, arguments, bool(names & {"m", "module"}))
    if "no_python" in names and (verbs := _COMMANDS.get(program_name(fields[arguments.stop].text))):
        return _within(invocation, verbs)
    return invocation


def _within(invocation: Invocation, verbs: re.Pattern[str]) -> Invocation | None:
    """`torchrun --no-python llamafactory-cli train …`."""
    at = invocation.program + 1
    if at >= len(invocation.fields) or not verbs.fullmatch(invocation.fields[at].text):
        return None
    command = program_name(invocation.fields[at - 1].text)
    return Invocation(
        invocation.launcher, invocation.fields, invocation.head, at, invocation.arguments, command=command
    )


def _command(name: str, verbs: re.Pattern[str], fields: Sequence[Field]) -> Invocation | None:
    if len(fields) == 1 or not verbs.fullmatch(fields[1].text):
        return None
    none = Arguments((), (), (), 1)
    if name != "tune":
        return Invocation(Launcher.CLI, fields, 1, 1, none, command=name)
    arguments = launcher_arguments(fields, 2, _TUNE_BARE)
    if arguments.stop >= len(fields):
        return None
    return Invocation(Launcher.CLI, fields, 1, arguments.stop, arguments, command="tune run")


def _python(fields: Sequence[Field]) -> Invocation | None:
    at = 1
    while at < len(fields) and is_flag(text := fields[at].text):
        if text == "-m" and at + 1 < len(fields):
            return _module(fields, at + 1)
        if text in {"-c", "-V", "--version", "-h", "--help"} or text.startswith("-c"):
            return None
        at += 2 if text in _PYTHON_VALUED else 1
    if at >= len(fields) or fields[at].text == "-":
        return None
    if fields[at].loose and fields[at].text == UNKNOWN:
        return None
    return Invocation(Launcher.PYTHON, fields, at - 1, at, Arguments((), (), (), at))


def _module(fields: Sequence[Field], at: int) -> Invocation | None:
    module = fields[at].text
    if (launcher := _RUN_MODULES.get(module)) is not None:
        return _launched(launcher, fields, at + 1)
    root = module.partition(".")[0]
    if root in _NO_TRAINING:
        return None
    return Invocation(Launcher.PYTHON, fields, at - 1, at, Arguments((), (), (), at), module=True)


_NO_TRAINING = frozenset(
    (
        *("pip", "venv", "ensurepip", "http", "json", "zipfile", "site", "timeit", "pdb", "unittest", "pytest"),
        *("compileall", "nltk", "spacy", "huggingface_hub", "debugpy", "vllm", "ray", "wandb", "tensorboard"),
    )
)
"""Modules that people run before and after a training."""
