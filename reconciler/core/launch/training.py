"""Facts that the script's flags and files set: model, batch, sequence, optimizer, precision and the like."""

from msgspec.structs import replace

from reconciler.core.launch.extraction import Extraction, is_true, parse_boolean
from reconciler.core.launch.settings import Setting

_NUMBERS = frozenset({"batch", "sequence", "accumulation", "lora_rank", "tensor", "pipeline"})
_READ_SEPARATELY = frozenset({"deepspeed", "dtype", "attention", "fused_loss", "checkpointing"})
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


def read_training(extraction: Extraction) -> None:
    """Read the facts that the script's settings set."""
    for name in extraction.framework.settings:
        setting = None if name in _READ_SEPARATELY else extraction.find(name)
        if setting is None:
            continue
        if name in _NUMBERS:
            extraction.add_number(name, setting)
        elif name == "lora_targets":
            _read_lora_targets(extraction, setting)
        elif setting.text in _OPTIMIZERS and name == "optimizer":
            extraction.add(name, setting, _OPTIMIZERS[setting.text])
        else:
            extraction.add_text(name, setting)
    linear = extraction.script.find(("lora_target_linear",))
    if linear is not None and is_true(linear):
        extraction.add("lora_targets", linear, "all-linear")
    extraction.add_boolean("fused_loss", extraction.find("fused_loss"))
    _read_checkpointing(extraction)
    _read_attention(extraction)
    (extraction.framework.read_precision or _read_precision)(extraction)


def read_dtype(extraction: Extraction) -> tuple[Setting | None, str]:
    """Return the setting of the weights' data type, and its name in our terms (empty where it has none)."""
    setting = extraction.resolve("precision", extraction.find("dtype"))
    return setting, "" if setting is None else _DTYPES.get(setting.text.lower(), "")


def _read_lora_targets(extraction: Extraction, setting: Setting) -> None:
    if extraction.resolve("lora_targets", setting) is None:
        return
    text = " ".join(setting.texts or (setting.text,))
    words = [word.strip("'\"") for word in text.translate(str.maketrans(",", " ", "[]")).split()]
    value = "all-linear" if set(words) & {"all", "all-linear", "ALL"} else ",".join(words)
    if value:
        extraction.add("lora_targets", setting, value)


def _read_checkpointing(extraction: Extraction) -> None:
    setting = extraction.find("checkpointing")
    if setting is not None and setting.text.lower() in {"offload", "offload_disk", "unsloth", "selective"}:
        extraction.add("checkpointing", setting, "true")
    elif setting is not None:
        extraction.add_boolean("checkpointing", setting)
    else:
        disabled = extraction.script.find(("disable_gradient_checkpointing", "no_gradient_checkpointing"))
        extraction.add_boolean("checkpointing", disabled, invert=True)


def _read_attention(extraction: Extraction) -> None:
    setting = extraction.resolve("attention", extraction.find("attention"))
    if setting is None:
        for name, value in extraction.framework.attention_switches.items():
            switch = extraction.script.find((name,))
            if switch is not None and is_true(switch):
                extraction.add("attention", switch, value)
        return
    value = _ATTENTION.get(setting.text.lower(), "")
    if not value and (enabled := parse_boolean(setting.text)) is not None:
        value = "flash-attn-2" if enabled else "sdpa"
    if value:
        extraction.add("attention", setting, value)
    else:
        message = f"`{setting.fact.snippet}` is not a known attention implementation"
        extraction.reject("attention", message, setting.fact.span)


def _read_precision(extraction: Extraction) -> None:
    """Weights keep their dtype; mixed precision over fp32 weights, or sharded, keeps fp32 master copies (`-mixed`).

    FSDP in accelerate and the 16-bit optimizers of DeepSpeed hold trained weights in fp32 when mixed precision is on.
    """
    dtype, weights = read_dtype(extraction)
    mixed = _mixed_precision(extraction)
    if "precision" in extraction.unresolved:
        return
    pure = extraction.script.find(("pure_bf16",))
    if pure is not None and is_true(pure):
        extraction.add("precision", pure, "bf16")
    elif mixed is not None:
        keeps_fp32 = "strategy" in extraction.facts or extraction.framework.fp32_master_weights
        half = weights in {"bf16", "fp16"} and not keeps_fp32
        extraction.add("precision", mixed, mixed.text if half else f"{mixed.text}-mixed")
    elif dtype is not None and weights:
        extraction.add("precision", dtype, weights)


def _mixed_precision(extraction: Extraction) -> Setting | None:
    """Return the setting that turns mixed precision on, with `bf16` or `fp16` as its text."""
    for name in ("bf16", "fp16"):
        setting = extraction.resolve("precision", extraction.script.find((name,)))
        if setting is not None and is_true(setting):
            return replace(setting, text=name)
    setting = extraction.resolve("precision", extraction.launcher.find(("mixed_precision",)))
    if setting is not None and setting.text.lower() in {"bf16", "fp16"}:
        return replace(setting, text=setting.text.lower())
    for name in ("bf16", "fp16"):
        setting = extraction.script.find((f"deepspeed.{name}.enabled",))
        if setting is not None and setting.text != "auto" and is_true(setting):
            return replace(setting, text=name)
    return None
