"""What a launch line leaves open, and what is assumed instead: the answer names each assumption and has a wider band.

Assumptions are the variables `AUTOCONF_*` by which a job states the same facts, and files that the line names, so that
a line with them is read as any other. A line with an unknown script states most facts by flags with usual names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.launch import Diagnostic, FileReader, Launch, Span
from reconciler.launch.launch import UnreadSetting
from reconciler.sizing.models import ModelTable

SEQUENCE = "AUTOCONF_TOKENS_PER_SAMPLE"
_MODEL, _BATCH, _METHOD = "AUTOCONF_MODEL_NAME", "AUTOCONF_BATCH_SIZE", "AUTOCONF_METHOD"
_OBJECTIVE = "AUTOCONF_OBJECTIVE"
_TOKENS = 2048
"""Tokens of a sample where the data decides: the default of `size ask`."""
LENGTHS = (1024, 2048, 4096, 8192, 16_384)
"""Tokens of a sample for which the answer shows the number of GPUs, if the line leaves them to the data."""
_MAX_DIGITS = 9
_USUAL = {
    "model": ("model", "model_name", "model_id", "model_path", "base_model", "pretrained_model", "pretrained"),
    "sequence": ("seq_len", "seq_length", "sequence_length", "max_length", "max_len", "block_size", "context_length"),
    "batch": ("batch_size", "micro_batch_size", "train_batch_size", "per_gpu_batch_size", "bs"),
}
"""Names of flags by which scripts of no known framework state a fact."""


class _Assumed(Struct, frozen=True, kw_only=True):
    variable: str
    value: str
    text: str
    setting: UnreadSetting | None = None


class Assumptions(Struct, frozen=True, kw_only=True):
    """Values that a line does not state: `variables` state them, `texts` say what is assumed, `used` are its flags.

    `files` stand for those that are not here, `ignored` is what counts as if the line did not say it, and `families`:
    a model that nobody knows is taken for one of its family and size.
    """

    variables: Mapping[str, str] = {}
    texts: tuple[str, ...] = ()
    used: frozenset[Span | None] = frozenset()
    files: Mapping[str, bytes] = {}
    ignored: frozenset[Diagnostic] = frozenset()
    families: bool = False

    def __add__(self, other: "Assumptions") -> "Assumptions":
        """Return both together."""
        return Assumptions(
            variables={**self.variables, **other.variables},
            texts=tuple(dict.fromkeys((*self.texts, *other.texts))),
            used=self.used | other.used,
            files={**self.files, **other.files},
            ignored=self.ignored | other.ignored,
            families=self.families or other.families,
        )

    def reader(self, files: FileReader) -> FileReader:
        """Return a reader that has the assumed files as well."""
        return lambda path: self.files.get(path) or files(path)


def assume(
    launch: Launch, diagnostics: Sequence[Diagnostic], models: ModelTable, gpus: int | None
) -> tuple[Assumptions, tuple[Diagnostic, ...]]:
    """Return what to assume instead of what is wrong with a line, and what no assumption helps against."""
    found, left = Assumptions(), []
    for diagnostic in dict.fromkeys(diagnostics):
        one = _assumption(launch, diagnostic, models, gpus)
        if one is None:
            left.append(diagnostic)
        else:
            found += one
    return found, tuple(left)


def _assumption(launch: Launch, wrong: Diagnostic, models: ModelTable, gpus: int | None) -> Assumptions | None:
    if wrong.missing in _ASSUMED:
        return _variable(_ASSUMED[wrong.missing](launch, models, gpus, wrong))
    if wrong.rule == "launch.flag":
        return _without_flag(launch, wrong, models)
    if wrong.missing == "architecture":
        return Assumptions(families=True)
    if wrong.path and wrong.missing in _FILES:
        return _file(wrong)
    if wrong.missing in _COUNTED_LATER:
        text = f"the line computes a value ({wrong.missing}), which counts as if it were not set"
        return Assumptions(texts=(text,), ignored=frozenset({wrong}))
    return None


def _variable(one: _Assumed | None) -> Assumptions | None:
    if one is None:
        return None
    used = frozenset() if one.setting is None else frozenset({one.setting.fact.span})
    return Assumptions(variables={one.variable: one.value}, texts=(one.text,), used=used)


_COUNTED_LATER = frozenset({"processes", "machines", "accumulation"})
"""Facts that a script often computes, and that change the number of GPUs but hardly the memory of one."""
_JUDGES = re.compile(r".*(?:reward|teacher|critic|value|judge|draft|assistant|distill).*")
"""Flags of models beside the one that is trained."""


def _without_flag(launch: Launch, wrong: Diagnostic, models: ModelTable) -> Assumptions | None:
    """Return that a flag is not modelled; None if it adds a model, whose size nothing would count."""
    at = [one for one in launch.unread if one.fact.span == wrong.span and one.fact.snippet in wrong.message]
    if any(_JUDGES.fullmatch(one.name) and ("/" in one.text or models.find(one.text)) for one in at):
        return None
    ignored = Assumptions(used=frozenset({wrong.span}), ignored=frozenset({wrong}))
    if "method" not in launch.facts and any("lora" in one.name for one in at):
        return ignored + Assumptions(variables={_METHOD: "lora"}, texts=("the method is lora, as a flag's name says",))
    return ignored + Assumptions(texts=(f"{wrong.message}: it counts as if it were not set",))


_DEEPSPEED, _ACCELERATE = "DeepSpeed configuration", "accelerate configuration"
_FILES = (_DEEPSPEED, _ACCELERATE, "FSDP configuration")
_IS_DEEPSPEED = re.compile(r"deepspeed|(?:^|[^a-z])ds(?:[^a-z]|$)")
_STAGE = re.compile(r"(?:zero|stage|z)[-_]?o?[-_]?([0-3])(?![0-9])")


def _file(wrong: Diagnostic) -> Assumptions:
    """Return what a file that is not here says by its name. Without a stage, ZeRO's is 2, which needs more than 3."""
    name = wrong.path.rpartition("/")[2].lower()
    stage, offload = _STAGE.search(name), "offload" in name and not re.search(r"no[-_]?offload", name)
    number = stage[1] if stage is not None else "2"
    optimizer, weights = ("cpu" if offload else "none"), ("cpu" if offload and number == "3" else "none")
    says = f"stage {number} of ZeRO" + (" with offloading" if offload else "")
    if wrong.missing == _DEEPSPEED:
        devices = {"offload_optimizer": {"device": optimizer}, "offload_param": {"device": weights}}
        content: dict[str, Any] = {"zero_optimization": {"stage": int(number), **devices}}
    elif wrong.missing != _ACCELERATE:
        says, content = "nothing that shards otherwise", {}
    elif stage is not None or _IS_DEEPSPEED.search(name):
        flags = {"offload_optimizer_device": optimizer, "offload_param_device": weights}
        content = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": int(number), **flags}}
    elif "fsdp" in name:
        says = "full sharding by FSDP"
        content = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "FULL_SHARD"}}
    else:
        says, content = "no sharding", {"distributed_type": "MULTI_GPU"}
    text = f"`{wrong.path}` was not found: it is taken to say {says}"
    return Assumptions(texts=(text,), files={wrong.path: msgspec.json.encode(content)})


def _model(launch: Launch, models: ModelTable, _: int | None, __: Diagnostic) -> _Assumed | None:
    for setting in _usual(launch, "model"):
        if models.with_families().find(setting.text) is not None:
            text = f"`{_written(setting)}` names the model"
            return _Assumed(variable=_MODEL, value=setting.text, text=text, setting=setting)
    return None


def _sequence(launch: Launch, _: ModelTable, __: int | None, ___: Diagnostic) -> _Assumed:
    for setting in _usual(launch, "sequence"):
        if _is_number(setting.text):
            text = f"`{_written(setting)}` is the number of tokens of a sample"
            return _Assumed(variable=SEQUENCE, value=setting.text, text=text, setting=setting)
    text = f"a sample has {_TOKENS:,} tokens, because the line leaves its length to the data"
    return _Assumed(variable=SEQUENCE, value=str(_TOKENS), text=text)


def _batch(launch: Launch, _: ModelTable, gpus: int | None, __: Diagnostic) -> _Assumed:
    stated = launch.fact("processes")
    processes = int(stated.value) if stated is not None else gpus or 1  # the variable is the batch of all processes
    for setting in _usual(launch, "batch"):
        if _is_number(setting.text):
            text = f"`{_written(setting)}` is the batch of each GPU"
            return _Assumed(variable=_BATCH, value=str(int(setting.text) * processes), text=text, setting=setting)
    return _Assumed(variable=_BATCH, value=str(processes), text="each GPU has a batch of 1, because no flag sets it")


def _method(launch: Launch, _: ModelTable, __: int | None, wrong: Diagnostic) -> _Assumed:
    if wrong.rule != "launch.missing":
        method = "full" if _FROZEN_LAYERS.search(wrong.message) else "lora"
        counts = "as if all weights were trained, an upper bound" if method == "full" else "as LoRA of its rank"
        return _Assumed(variable=_METHOD, value=method, text=f"{wrong.message.partition('`:')[0]}` counts {counts}")
    script = launch.line.invocation.name.rpartition("/")[2]
    method = "qlora" if any(word in script.lower() for word in ("qlora", "4bit")) else "lora"
    return _Assumed(variable=_METHOD, value=method, text=f"the method is {method}, as the name of `{script}` says")


_FROZEN_LAYERS = re.compile(r"freeze|llamapro|lisa")
_OBJECTIVES = (("dpo", "dpo"), ("kto", "kto"), ("orpo|simpo|cpo", "orpo"), ("reward|(?<![a-z])rm(?![a-z])", "reward"))
_OTHER_SAMPLES = re.compile(r"process|online|distill|gkd|(?<![a-z])ppo")


def _objective(launch: Launch, _: ModelTable, __: int | None, ___: Diagnostic) -> _Assumed | None:
    """Return the objective that a script's name says, if it is one of pairs of answers."""
    script = launch.line.invocation.name.rpartition("/")[2].lower()
    found = next((one for words, one in _OBJECTIVES if re.search(words, script)), "")
    if not found or _OTHER_SAMPLES.search(script):
        return None
    text = f"the objective is {found}, as the name of `{script}` says"
    return _Assumed(variable=_OBJECTIVE, value=found, text=text)


_ASSUMED = {"model": _model, "sequence": _sequence, "batch": _batch, "method": _method, "objective": _objective}


def _usual(launch: Launch, fact: str) -> Iterator[UnreadSetting]:
    """Yield the settings that nothing read and whose names usually state a fact."""
    return (one for one in launch.unread if one.name.replace("-", "_") in _USUAL[fact])


def _written(setting: UnreadSetting) -> str:
    """Return a flag with its value as it stands on the line."""
    flag, _, rest = setting.fact.snippet.partition(" ")
    return flag if "=" in flag or not rest else f"{flag} {setting.text}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0
