"""The rows of the registries (a launcher, a framework and its own command), and the facts that their readers extract.

Everything particular to one framework is in its file under `frameworks/`; the general readers only look at the row.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.launch.container import SourceMap
from reconciler.launch.facts import Diagnostic, Fact, Span, default_fact
from reconciler.launch.settings import (
    Arguments,
    FileReader,
    Setting,
    SettingTable,
    parse_boolean,
    read_file,
    script_arguments,
)
from reconciler.launch.shell.expansion import UNKNOWN, Field

CONFIG_EXTENSIONS = (".yaml", ".yml", ".json")
"""File extensions by which a positional word is taken for a configuration file."""

MAX_NUMBER = 100_000_000
"""Larger than any batch, length, rank or number of processes; beyond it, the number is a typing error."""

_DECIDED_LATER = frozenset({"auto", "gpu", "cpu", "xpu", "-1"})  # when the processes start
_MAX_DIGITS = 30

Names = tuple[str, ...]
Changes = Mapping[str, Mapping[str, str]]
"""The settings that make a change (`checkpointing`, `lora`, or a strategy with its offload), and their new values.

`a|b` are names of several versions, the newest first; `a+` is a list that gets one more item; `--a` is a flag of
accelerate in the row of a framework. An empty value is a switch.
"""
Read = Callable[["Extraction"], None]
"""Adds facts to an extraction."""


class ProcessFlags(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flags that set how many processes and machines there are; empty if there are none.

    `counts_all`: `processes` counts the processes of all machines, not those of one. `of_script`: the flags belong to
    the script, not to the launcher.
    """

    processes: str = ""
    machines: str = ""
    counts_all: bool = False
    of_script: bool = False


class Launcher(Struct, frozen=True, kw_only=True, eq=False):
    """A program that starts the processes of a training.

    `programs` are its command lines without flags, `modules` what `python -m` runs. `switches` are its flags without a
    value. `device_flags` name devices one by one; the launcher then accepts no number. `rank_flags` set which machine
    this is, where the launcher needs one of them on several machines. `explicit`: sized lines always set its counts.
    `reads_pet`: takes the counts from the operator's variables `PET_NPROC_PER_NODE` and `PET_NNODES`.
    """

    name: str
    programs: tuple[str, ...] = ()
    modules: Names = ()
    switches: frozenset[str] = frozenset()
    process_flags: ProcessFlags = ProcessFlags()
    device_flags: Names = ()
    rank_flags: Names = ()
    explicit: bool = False
    reads_pet: bool = False
    starts_one_process: bool = False
    starts_only: bool = False  # its own flags do not change memory
    changes: Changes = {}
    read_processes: Read


class Command(Struct, frozen=True, kw_only=True, eq=False, forbid_unknown_fields=True):
    """A framework's own command, such as `axolotl train`. `verbs` matches the second word.

    `switches` are the flags without a value between the verb and the recipe, None where no flags may stand there.
    """

    program: str
    verbs: re.Pattern[str]
    switches: frozenset[str] | None = None
    process_flags: ProcessFlags = ProcessFlags()
    read_processes: Read

    @property
    def label(self) -> str:
        """The words in front of the recipe or the verb, as messages show them."""
        return self.program if self.switches is None else f"{self.program} {self.verbs.pattern}"


class Overrides(StrEnum):
    """The `name=value` words that a framework takes."""

    NEVER = "never"
    WITH_FILE = "with-file"  # where the line names a configuration file
    ALWAYS = "always"


class ScriptMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that recognises a script: its name matches `script`, and of its flags, `all` are given, one matches `any`.

    No flag matches `none`. What a rule leaves out is not asked.
    """

    script: re.Pattern[str] | None = None
    all: Names = ()
    any: re.Pattern[str] | None = None
    none: re.Pattern[str] | None = None

    def fits(self, script: str, flags: AbstractSet[str]) -> bool:
        """Return whether a script or module with these flags is recognised."""
        return (
            (self.script is None or self.script.fullmatch(script) is not None)
            and set(self.all) <= flags
            and (self.any is None or any(map(self.any.fullmatch, flags)))
            and (self.none is None or not any(map(self.none.fullmatch, flags)))
        )


class RolloutFlags(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flags of a framework for rollouts. Each default is the documented one; `fraction` is of the GPU's memory.

    `has_reference`: it holds a reference model unless `beta` is 0, or (false) only if it is set to another value.
    """

    prompt: Names
    answer: Names
    prompt_tokens: str
    answer_tokens: str
    engine: Names
    mode: Names = ()
    fraction: Names
    default_fraction: str
    sleep: Names = ()
    alone: Names = ()  # all of them move the training's states to the host while answers are generated
    beta: Names = ()
    has_reference: bool = False


class Framework(Struct, frozen=True, kw_only=True, eq=False, forbid_unknown_fields=True):
    """One training framework.

    Recognition: `commands`, or `programs` that matches the script or module, or one of `matches`.
    Facts: `settings` lists for each fact the flags or keys that set it, the first one given counts; `defaults` are the
    documented ones, and `source` names where. `read_*` replace the general readers; `complete` runs after them.
    `words` are its own words for what we name otherwise.
    `name` is empty for a script of an unknown framework.
    """

    name: str
    source: str = ""
    settings: Mapping[str, Names] = {}
    defaults: Mapping[str, str] = {}
    is_known: bool = True  # false for scripts of our users, whose flags are taken by their names
    unsupported: str = ""  # why none of its lines can be sized
    newer: "Mapping[str, Framework]" = {}  # variables that select another version's arguments, and its row
    # Recognition.
    commands: tuple[Command, ...] = ()
    programs: re.Pattern[str] | None = None
    matches: tuple[ScriptMatch, ...] = ()
    # The line and its configuration.
    single_values: bool = False  # no flag takes more than one word
    config_flags: Names = ()  # flags that name a configuration file
    config_keys: frozenset[str] = frozenset()  # top-level keys by which such a file is recognized
    config_may_be_unknown: bool = False  # an unknown first word is taken for the configuration file
    # The values of a configuration of the framework's own package, which is named without a file extension.
    named_recipes: "Callable[[Extraction, str], Mapping[str, str]] | None" = None
    overrides: Overrides = Overrides.NEVER
    read_words: Read | None = None
    read_environment: Read | None = None
    # The objective and the method.
    other_objectives: re.Pattern[str] | None = None  # programs and recipes other than supervised fine-tuning
    objective_settings: Names = ()
    read_rollout: Read | None = None  # of reinforcement learning
    rollout: RolloutFlags | None = None  # what that reads
    objectives: Mapping[str, str] = {}  # its words for objectives (a verb, script, recipe or setting), by ours
    adapters_from_flags: bool = False  # a LoRA rank or the like implies LoRA
    read_method: Read | None = None
    # Precision, attention, sharding.
    fp32_master_weights: bool = False  # mixed precision always keeps copies of the weights in fp32
    loads_fp32: bool = False  # a model without a type on the line is loaded in fp32, also under adapters
    read_precision: Read | None = None
    attention_switches: Mapping[str, str] = {}
    deepspeed_presets: Mapping[str, tuple[str, str]] = {}  # name: ZeRO stage, offload
    optimizers: Mapping[str, str] = {}  # its own names of optimizers, by those of transformers
    read_sharding: Read | None = None
    checkpoints_shards: bool = False  # only its FSDP strategy checkpoints: it does not on one GPU
    divides_evenly: bool = False  # it asserts that stages have as many layers, and GPUs as many experts
    complete: Read | None = None
    words: Mapping[str, Mapping[str, str]] = {}
    # What a change of the training is called.
    changes: Changes = {}


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
    """An invocation with its place, the variables that its program sees (None: unknown), and the files it may read.

    `changes`: whether the script around it changes a file.
    """

    invocation: Invocation
    source: SourceMap
    env: Mapping[str, str | None]
    files: FileReader
    changes: Callable[[str], bool]


class Extraction:
    """The line, its settings, and the facts read so far.

    `script` holds the settings of the script (flags, then files), `launcher` those of the launcher. A fact is in
    `facts`, in `unresolved` (set to a value that is unknown or invalid), in `defaults`, or in none of them.
    `model_config` describes a model that the line gives by its sizes, with the keys of a `config.json`.
    """

    def __init__(self, line: LaunchLine, framework: Framework, read: FileReader) -> None:
        invocation = line.invocation
        self.line = line
        self.invocation = invocation
        self.framework = framework
        self.read_bytes = read
        self.arguments: Arguments = script_arguments(
            invocation.fields, invocation.program + 1, single=framework.single_values
        )
        self.launcher = SettingTable(line.source, invocation.arguments.options)
        self.script = SettingTable(line.source, self.arguments.options)
        self.facts: dict[str, Fact] = {}
        self.unresolved: dict[str, Diagnostic] = {}
        self.defaults: dict[str, Fact] = {}
        self.diagnostics: list[Diagnostic] = []
        self.uncertain: list[Diagnostic] = []
        self.length: dict[str, float] = {}
        self.model_config: dict[str, Any] = {}

    def find(self, fact: str) -> Setting | None:
        """Return the script's setting for a fact, by the framework's names."""
        return self.script.find(self.framework.settings.get(fact, ()))

    def resolve(self, name: str, setting: Setting | None) -> Setting | None:
        """Return the setting if its value is known; else record why the fact is unresolved."""
        if setting is None or UNKNOWN not in setting.text:
            return setting
        self.unresolved[name] = Diagnostic(
            rule="launch.unknown-value",
            message=f"the value of `{setting.fact.snippet}` is unknown: {setting.reason or 'it is set at run time'}",
            hint="write the value out, or give the variable a literal value in the script or in the container's env",
            span=setting.fact.span,
            missing=name,
        )
        return None

    def add(self, name: str, setting: Setting, value: str) -> None:
        """Add a fact with the words of a setting and a value of our own."""
        self.facts[name] = replace(setting.fact, value=value)

    def add_text(self, name: str, setting: Setting | None) -> None:
        """Add the text of a setting, unless it is empty."""
        setting = self.resolve(name, setting)
        if setting is not None and setting.text:
            self.facts[name] = setting.fact

    def add_number(self, name: str, setting: Setting | None) -> int | None:
        """Add a positive whole number; return it."""
        setting = self.resolve(name, setting)
        if setting is None:
            return None
        text = setting.text.strip()
        if text.lower() in _DECIDED_LATER:
            self.unresolved[name] = Diagnostic(
                rule="launch.decided-later",
                message=f"`{setting.fact.snippet}` is resolved only when the job runs",
                hint="write the number out",
                span=setting.fact.span,
            )
            return None
        value = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else 0
        if not 0 < value <= MAX_NUMBER:
            message = f"`{setting.fact.snippet}`: expected a whole number from 1 to {MAX_NUMBER:,}"
            self.reject(name, message, setting.fact.span)
            return None
        self.add(name, setting, str(value))
        return value

    def add_boolean(self, name: str, setting: Setting | None, *, invert: bool = False) -> None:
        """Add a boolean; a bare flag is true."""
        setting = self.resolve(name, setting)
        if setting is None:
            return
        value = parse_boolean(setting.text)
        if value is None:
            self.reject(name, f"`{setting.fact.snippet}`: expected true or false", setting.fact.span)
        else:
            self.add(name, setting, "true" if value ^ invert else "false")

    def reject(
        self, name: str, message: str, span: Span | None, hint: str = "correct the value", missing: str = ""
    ) -> None:
        """Record an invalid value. `missing` is the fact that a variable may state instead."""
        self.unresolved[name] = Diagnostic(rule="launch.value", message=message, hint=hint, span=span, missing=missing)
        self.diagnostics.append(self.unresolved[name])

    def mark_uncertain(self, setting: Setting, effect: str) -> None:
        """Record a value whose effect on memory is not modelled; it widens the band. `effect` is a predicate."""
        message = f"`{setting.fact.snippet}` {effect}; the range of the estimate is wider"
        hint = "compare the recommendation with a measured run"
        self.uncertain.append(Diagnostic(rule="launch.flag", message=message, hint=hint, span=setting.fact.span))

    def discard(self, name: str) -> None:
        """Remove everything known about a fact."""
        for table in (self.facts, self.unresolved, self.defaults):
            table.pop(name, None)

    def set_default(self, name: str, value: str, origin: str) -> None:
        """Set a default of a fact that nothing has set."""
        if name not in self.facts and name not in self.unresolved and name not in self.defaults:
            self.defaults[name] = default_fact(value, origin)

    def set_framework_default(self, name: str, value: str) -> None:
        """Set a default that the framework documents."""
        self.set_default(name, value, f"default of {self.framework.source}")

    def number(self, name: str) -> int | None:
        """Return a number that the line or a default sets."""
        fact = self.facts.get(name) or self.defaults.get(name)
        return int(fact.value) if fact is not None and fact.value.isdecimal() else None

    def load(self, table: SettingTable, path: Setting, title: str, prefix: str = "") -> Diagnostic | None:
        """Add the values of a configuration file to a table, or return why it cannot be read."""
        values, diagnostic = read_file(path.text, self.read_bytes, title)
        table.add_file({prefix + name: value for name, value in values.items()}, f"file {path.text}")
        if diagnostic is None:
            return None
        if self.line.changes(path.text):
            message = f"the {title} `{path.text}` is changed by the script, so its values are unknown"
            diagnostic = replace(diagnostic, message=message, hint="set the values by flags", missing="", path="")
        diagnostic = replace(diagnostic, span=path.fact.span)
        self.diagnostics.append(diagnostic)
        return diagnostic
