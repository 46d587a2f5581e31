"""What the script's own flags and files say: model, batch, sequence, optimizer, precision and the like."""

from collections.abc import Mapping
from functools import cache

from msgspec.structs import replace

from reconciler.core.launch.dialects import Dialect
from reconciler.core.launch.facts import Fact
from reconciler.core.launch.gathering import Gathering, truth
from reconciler.core.launch.settings import Setting, Settings

_NUMBERS = ("batch", "sequence", "accumulation", "lora_rank", "tensor", "pipeline")
_TAKEN_LATER = frozenset({"deepspeed", "dtype", "attention", "fused_loss", "checkpointing"})
_ATTENTION = {
    "flash_attention_2": "flash-attn-2",
    "flash_attention_3": "flash-attn-2",
    "fa2": "flash-attn-2",
    "flash_attn": "flash-attn-2",
    "flash-attn-2": "flash-attn-2",
    "flash_attention": "flash-attn-2",
    "kernels-community/flash-attn2": "flash-attn-2",
    "kernels-community/flash-attn3": "flash-attn-2",
    "sdpa": "sdpa",
    "auto": "sdpa",
    "flex_attention": "sdpa",
    "eager": "eager",
    "disabled": "eager",
}
_DTYPES = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "torch.bfloat16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "torch.float16": "fp16",
    "float32": "fp32",
    "fp32": "fp32",
    "float": "fp32",
    "torch.float32": "fp32",
}
_LITGPT_PRECISIONS = {
    "bf16-true": "bf16",
    "bf16-mixed": "bf16-mixed",
    "16-true": "fp16",
    "16-mixed": "fp16-mixed",
    "32-true": "fp32",
    "32": "fp32",
}
_OPTIMIZERS = {
    "torch.optim.AdamW": "adamw_torch",
    "torch.optim.adamw.AdamW": "adamw_torch",
    "AdamW": "adamw_torch",
    "adamw": "adamw_torch",
    "torch.optim.SGD": "sgd",
    "bitsandbytes.optim.PagedAdamW": "paged_adamw_32bit",
    "bitsandbytes.optim.PagedAdamW8bit": "paged_adamw_8bit",
    "bitsandbytes.optim.AdamW8bit": "adamw_bnb_8bit",
    "torchao.prototype.low_bit_optim.AdamW8bit": "adamw_torch_8bit",
}


def read_script(dialect: Dialect, settings: Settings, launcher: Settings, gathering: Gathering) -> None:
    """Gather the facts that the script's settings hold."""
    for name, names in dialect.names.items():
        if name in _TAKEN_LATER or (setting := settings.find(names)) is None:
            continue
        if name in _NUMBERS:
            gathering.number(name, setting)
        elif name == "lora_targets":
            _targets(setting, gathering)
        elif name == "optimizer":
            gathering.text(name, setting, _OPTIMIZERS.get(setting.text, ""))
        else:
            gathering.text(name, setting)
    linear = settings.find(("lora_target_linear",))
    if linear is not None and truth(linear.text):
        gathering.text("lora_targets", linear, "all-linear")
    gathering.flag("fused_loss", settings.find(dialect.names.get("fused_loss", ())))
    _checkpointing(dialect, settings, gathering)
    _attention(dialect, settings, gathering)
    _precision(dialect, settings, launcher, gathering)


def spread_batch(settings: Settings, gathering: Gathering, defaults: Mapping[str, Fact]) -> None:
    """Work out LitGPT's accumulation: it is told the batch of all devices (16 by default), and divides."""
    setting = settings.find(("train.global_batch_size",))
    if setting is not None and gathering.known("accumulation", setting) is None:
        return
    text = "16" if setting is None else setting.text
    numbers = [
        text,
        *(found.value for name in ("batch", "processes") if (found := gathering.facts.get(name) or defaults.get(name))),
    ]
    if len(numbers) != len(("batch of all", "batch", "processes")) or not all(number.isdecimal() for number in numbers):
        return
    total, batch, processes = map(int, numbers)
    if batch * processes and total % (batch * processes) == 0 and total:
        written = setting.fact.snippet if setting is not None else ""
        origin = f"batch of {total} over {processes} x {batch}"
        gathering.facts["accumulation"] = Fact(value=str(total // (batch * processes)), snippet=written, origin=origin)


def _targets(setting: Setting, gathering: Gathering) -> None:
    found = gathering.known("lora_targets", setting)
    if found is None:
        return
    words = [
        word
        for text in (found.texts or (found.text,))
        for word in text.replace(",", " ").replace("[", "").replace("]", "").split()
    ]
    words = [word.strip("'\"") for word in words]
    value = "all-linear" if set(words) & {"all", "all-linear", "ALL"} else ",".join(words)
    if value:
        gathering.facts["lora_targets"] = replace(found.fact, value=value)


def _checkpointing(dialect: Dialect, settings: Settings, gathering: Gathering) -> None:
    setting = settings.find(dialect.names.get("checkpointing", ()))
    if setting is not None and setting.text.lower() in {"offload", "offload_disk", "unsloth", "selective"}:
        gathering.text("checkpointing", setting, "true")
    elif setting is not None:
        gathering.flag("checkpointing", setting)
    elif (off := settings.find(("disable_gradient_checkpointing", "no_gradient_checkpointing"))) is not None:
        gathering.flag("checkpointing", off, invert=True)


def _attention(dialect: Dialect, settings: Settings, gathering: Gathering) -> None:
    found = gathering.known("attention", settings.find(dialect.names.get("attention", ())))
    if dialect.family == "axolotl" and found is None:
        for name, value in (
            ("flash_attention", "flash-attn-2"),
            ("sdp_attention", "sdpa"),
            ("eager_attention", "eager"),
        ):
            setting = settings.find((name,))
            if setting is not None and truth(setting.text):
                gathering.text("attention", setting, value)
        return
    if found is None:
        return
    value = _ATTENTION.get(found.text.lower(), "")
    if not value and (switch := truth(found.text)) is not None:
        value = "flash-attn-2" if switch else "sdpa"
    if not value:
        gathering.refuse("attention", f"`{found.fact.snippet}` is no attention that is known", found.fact.span)
    else:
        gathering.text("attention", found, value)


def _precision(dialect: Dialect, settings: Settings, launcher: Settings, gathering: Gathering) -> None:
    """Weights rest in their dtype; a 16-bit pass over fp32 weights, or sharded, keeps fp32 copies (`-mixed`).

    FSDP in accelerate and the 16-bit optimizers of DeepSpeed hold trained weights in fp32 when mixed precision is on.
    """
    if dialect.family == "litgpt":
        setting = gathering.known("precision", settings.find(("precision",)))
        if setting is not None and (value := _LITGPT_PRECISIONS.get(setting.text)):
            gathering.text("precision", setting, value)
        return
    dtype = gathering.known("precision", settings.find(dialect.names.get("dtype", ())))
    rest = _DTYPES.get(dtype.text.lower(), "") if dtype is not None else ""
    mixed = _mixed(settings, launcher, gathering)
    if "precision" in gathering.unsure:
        return
    if dialect.family == "torchtune":
        gathering.text("precision", dtype, rest)
        return
    rest = rest or ("bf16" if dialect.name == "fms-hf-tuning" else "")
    pure = settings.find(("pure_bf16",))
    if pure is not None and truth(pure.text):
        gathering.text("precision", pure, "bf16")
    elif mixed is not None:
        sharded = gathering.facts.get("strategy") is not None or dialect.name == "fms-hf-tuning"
        value = mixed.text if rest in {"bf16", "fp16"} and not sharded else f"{mixed.text}-mixed"
        gathering.facts["precision"] = replace(mixed.fact, value=value)
    elif dtype is not None and rest:
        gathering.text("precision", dtype, rest)


def _mixed(settings: Settings, launcher: Settings, gathering: Gathering) -> Setting | None:
    """Return the 16-bit type of the passes, where one is asked for, as the text of the setting that does."""
    for name in ("bf16", "fp16"):
        setting = gathering.known("precision", settings.find((name,)))
        if setting is not None and truth(setting.text):
            return replace(setting, text=name)
    told = gathering.known("precision", launcher.find(("mixed_precision",)))
    if told is not None and told.text.lower() in {"bf16", "fp16"}:
        return replace(told, text=told.text.lower())
    for name in ("bf16", "fp16"):
        setting = settings.find((f"deepspeed.{name}.enabled",))
        if setting is not None and truth(setting.text) and setting.text != "auto":
            return replace(setting, text=name)
    return None


def fill_defaults(dialect: Dialect, gathering: Gathering) -> dict[str, Fact]:
    """Return the framework's documented defaults for facts that nothing was said of."""
    return {
        name: fact
        for name, fact in _defaults(dialect.source, tuple(dialect.defaults.items()))
        if name not in gathering.facts and name not in gathering.unsure
    }


@cache
def _defaults(source: str, values: tuple[tuple[str, str], ...]) -> tuple[tuple[str, Fact], ...]:
    origin = f"default of {source}"
    return tuple((name, Fact(value=value, snippet="", origin=origin)) for name, value in values)
