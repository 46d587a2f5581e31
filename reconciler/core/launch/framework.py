"""The rows of the registries: a launcher, a framework's own command, a framework.

Everything particular to one framework is in its file under `frameworks/`; the readers only look at the row.
"""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from reconciler.core.launch.extraction import Extraction

CONFIG_EXTENSIONS = (".yaml", ".yml", ".json")
"""File extensions by which a positional word is taken for a configuration file."""

Names = tuple[str, ...]
Read = Callable[["Extraction"], None]
"""Adds facts to an extraction."""


class ProcessFlags(Struct, frozen=True, kw_only=True):
    """The flags that set how many processes and machines there are; empty where there is none.

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
    read_processes: Read


class Command(Struct, frozen=True, kw_only=True, eq=False):
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
    """Whether a framework takes `name=value` words."""

    NEVER = "never"
    WITH_FILE = "with-file"  # where the line names a configuration file
    ALWAYS = "always"


class Framework(Struct, frozen=True, kw_only=True, eq=False):
    """One training framework.

    Recognition: `commands`, or `programs` that matches the script or module, or `matches` by script and flags.
    Facts: `settings` lists for each fact the flags or keys that set it, the first one given counts; `defaults` are the
    documented ones, and `source` names where. `read_*` replace the general readers; `complete` runs after them.
    `name` is empty for a script of an unknown framework.
    """

    name: str
    source: str
    settings: Mapping[str, Names]
    defaults: Mapping[str, str]
    # Recognition.
    commands: tuple[Command, ...] = ()
    programs: re.Pattern[str] | None = None
    matches: Callable[[str, AbstractSet[str]], bool] | None = None  # script or module, names of its flags
    # The line and its configuration.
    single_values: bool = False  # no flag takes more than one word
    config_flags: Names = ()  # flags that name a configuration file
    config_keys: frozenset[str] = frozenset()  # top-level keys by which such a file is recognised
    config_may_be_unknown: bool = False  # an unknown first word is taken for the configuration file
    named_recipes: bool = False  # a configuration without a file extension is in the framework's own package
    overrides: Overrides = Overrides.NEVER
    read_words: Read | None = None
    read_environment: Read | None = None
    # The objective and the method.
    other_objectives: re.Pattern[str] | None = None  # programs and recipes other than supervised fine-tuning
    objective_settings: Names = ()
    adapters_from_flags: bool = False  # a LoRA rank or the like implies LoRA
    qlora_method: str = "qlora"  # what `--q_lora` means
    read_method: Read | None = None
    # Precision, attention, sharding.
    fp32_master_weights: bool = False  # mixed precision always keeps copies of the weights in fp32
    read_precision: Read | None = None
    attention_switches: Mapping[str, str] = {}
    deepspeed_presets: Mapping[str, tuple[str, str]] = {}  # name: ZeRO stage, offload
    read_sharding: Read | None = None
    complete: Read | None = None
