"""A parsed launch line: its words, its place, its facts."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.launch.facts import Diagnostic, Fact
from reconciler.launch.framework import Framework, Launcher, LaunchLine
from reconciler.launch.settings import Arguments, Option, flag_name


class UnreadSetting(Struct, frozen=True, gc=False):
    """A setting that no reader asked for; `owner` is the framework or the launcher that defines it."""

    owner: str
    name: str
    text: str
    fact: Fact


class Launch(Struct, frozen=True, kw_only=True):
    """A parsed launch line.

    `facts` come from the line and its configuration files, `defaults` from the framework; each names its origin.
    `unresolved` explains facts that are set to a value that is unknown before the job runs; `unread` are all settings
    that say nothing about a fact, of which `review_flags` judges the effect; `uncertain` are values whose effect on
    memory is not modelled. `length` has what ends the run, if stated: `steps` (updates of the weights) or `epochs`.
    `model_config` has the sizes of a model without a name, by the keys of a `config.json`.

    Facts with whole numbers: `batch` (samples per process and step), `global_batch` (of all processes, from
    AUTOCONF_BATCH_SIZE), `update_batch` (of all processes for an update of the weights), `processes` (of all machines),
    `machines`, `sequence`, `accumulation`, `lora_rank`; degrees of parallelism `tensor`, `pipeline`, `context`,
    `expert`, `expert_tensor`, `replicas`, `shards`; `chunks` and `microbatch` of a pipeline, `together` (layers that
    are recomputed at once). `recomputed` is a fraction. Texts: `model`, `method`, `optimizer`, `attention`, `strategy`,
    `lora_targets` (comma-separated), `quantisation` (4bit, 8bit, gptq), `offload`, `precision`, `gpu_model`. Booleans
    (`true`, `false`): `checkpointing`, `fused_loss`, `compiled` (layers), `compiled_loss`. The texts are those of the
    enumerations in `sizing.training` where there is one.

    `in_shell`: a shell expands the words, so an edit may write variables. `not_editable` is the reason why the line
    cannot be edited, or empty. `line` and `arguments` (the script's) keep the parsed words, for edits.
    """

    framework: Framework
    facts: Mapping[str, Fact]
    defaults: Mapping[str, Fact]
    command: tuple[str, ...]
    args: tuple[str, ...]
    line: LaunchLine
    arguments: Arguments
    unresolved: tuple[Diagnostic, ...] = ()
    unread: tuple[UnreadSetting, ...] = ()
    uncertain: tuple[Diagnostic, ...] = ()
    length: Mapping[str, float] = field(default_factory=dict)
    model_config: Mapping[str, Any] = field(default_factory=dict)
    not_editable: str = ""

    @property
    def launcher(self) -> Launcher:
        """The starter of the processes."""
        return self.line.invocation.launcher

    @property
    def in_shell(self) -> bool:
        """True if a shell expands the words."""
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
