"""Facts that the script's flags and files set: model, batch, sequence, precision, method and the like."""

import re

from msgspec.structs import replace

from reconciler.kube.patterns import later
from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction, Framework
from reconciler.launch.objective import read_objective
from reconciler.launch.settings import Setting, is_true, parse_boolean, setting_from_env

# How GPUs share samples and shards: tensor and context parallelism, HSDP, by flags and accelerate's configuration.
# What cannot be read is judged by the table of flags.


_ACCELERATE = "parallelism_config_"

_FILE = "parallelism_config."

_CONTEXT = ("cp_size", "sp_size")

_TENSOR = ("tp_size",)

_MODIFIERS = (
    *("heads_k_stride", "ring_attn_func", "context_parallel", "sequence_parallel"),
    *("sp_backend", "sp_attn_implementation", "cp_rotate_method"),
)
"""How parts are exchanged, which keeps no other tensors."""

_ACCELERATE_MODIFIERS = ("cp_comm_strategy", "dp_shard_size", "sp_backend", "sp_seq_length_is_variable")


_REPLICAS, _SHARDS = "dp_replicate_size", "dp_shard_size"

_GROUPS = (
    ("replica_group_size", "fsdp_config.replica_group_size"),
    ("sharding_group_size", "fsdp_config.sharding_group_size"),
)
"""Flags of llama-recipes for the replicas of shards, and for the shards of each."""


def read_parallelism(extraction: Extraction) -> None:
    """Read `tensor`, `context` and HSDP: flags of the framework, then those of accelerate's `ParallelismConfig`.

    Context parallelism, and sequence parallelism among GPUs that hold the same weights (Ulysses, arXiv 2309.14509; ring
    attention, arXiv 2310.01889), divide each sample.
    """
    for fact, own in (("context", _CONTEXT), ("tensor", _TENSOR)):
        extraction.add_number(fact, extraction.find(fact))
        setting = _accelerate(extraction, own)
        if setting is not None and setting.text not in {"", "1"}:
            extraction.add_number(fact, setting)
    if "context" in extraction.facts:
        extraction.script.find(_MODIFIERS)
    _read_replicas(extraction)
    if "context" in extraction.facts or "tensor" in extraction.facts:
        _accelerate(extraction, _ACCELERATE_MODIFIERS)
        extraction.launcher.find(("use_parallelism_config",))


def _read_replicas(extraction: Extraction) -> None:
    """Read the replicas of shards and the shards of each (HSDP): only both together say how weights are divided."""
    strategy = extraction.facts.get("strategy") or extraction.defaults.get("strategy")
    if strategy is None or not strategy.value.startswith("fsdp-"):
        return
    if extraction.launcher.holds(_spelled(_REPLICAS), _spelled(_SHARDS)):
        replicas, shards = (extraction.launcher.find(_spelled(name)) for name in (_REPLICAS, _SHARDS))
        extraction.launcher.find(("use_parallelism_config",))
    elif extraction.script.holds(*_GROUPS):
        replicas, shards = (extraction.script.find(names) for names in _GROUPS)
    else:
        return
    if (extraction.add_number("replicas", replicas) or 0) > 1 and extraction.add_number("shards", shards) is not None:
        extraction.facts["strategy"] = replace(strategy, value="fsdp-hybrid")


def _spelled(name: str) -> tuple[str, ...]:
    """Return the spellings of a setting of accelerate's `ParallelismConfig`: as a flag, and in its file."""
    return f"{_ACCELERATE}{name}", f"{_FILE}{_ACCELERATE}{name}", f"{_FILE}{name}"


def _accelerate(extraction: Extraction, names: tuple[str, ...]) -> Setting | None:
    """Return the first of accelerate's settings that is not 1; all count as read."""
    found = None
    for name in names:
        setting = extraction.launcher.find(_spelled(name))
        if setting is not None and found is None and setting.text != "1":
            found = setting
    return found


_POSITIVE = later(r"[0-9]{1,9}(?:\.[0-9]{1,4})?")

_NUMBERS = frozenset(
    (
        *("batch", "sequence", "accumulation", "lora_rank", "pipeline", "chunks", "expert", "expert_tensor"),
        *("update_batch", "replicas"),
    )
)

_SWITCHES = frozenset({"fused_loss", "dora", "sequence_parallel"})

_READ_SEPARATELY = frozenset(
    {"deepspeed", "dtype", "attention", "checkpointing", "tensor", "context", "offloads_activations", "saved_modules"}
)


def _by_word(words: dict[str, str]) -> dict[str, str]:
    """Invert a table from names to words: return the name for each word."""
    return {word: name for name, text in words.items() for word in text.split()}


_FLASH_KERNELS = later(r"(?:paged\|)?kernels-community/[\w.-]*flash-attn[\w.-]*(?:@.+)?")
"""Kernels of the Hub for flash attention, by the names that transformers accepts."""

_ATTENTION = _by_word(
    {
        "flash-attn-2": "flash_attention_2 flash_attention_3 fa2 flash_attn flash-attn-2 flash_attention "
        "flash_attention_4",
        "sdpa": "sdpa auto flex_attention xformers",
        "eager": "eager disabled",
    }
)

_DTYPES = _by_word(
    {
        "bf16": "bfloat16 bf16 torch.bfloat16",
        "fp16": "float16 fp16 half torch.float16",
        "fp32": "float32 fp32 float torch.float32",
    }
)

_OPTIMIZERS = _by_word(
    {
        "adamw_torch": "torch.optim.AdamW torch.optim.adamw.AdamW AdamW adamw",
        "sgd": "torch.optim.SGD",
        "paged_adamw_32bit": "bitsandbytes.optim.PagedAdamW",
        "paged_adamw_8bit": "bitsandbytes.optim.PagedAdamW8bit",
        "adamw_bnb_8bit": "bitsandbytes.optim.AdamW8bit",
        "adafactor": "Adafactor",
        "adamw_torch_8bit": "ao_adamw_8bit torchao.prototype.low_bit_optim.AdamW8bit torchao.optim.AdamW8bit",
        "adamw_torch_4bit": "ao_adamw_4bit torchao.prototype.low_bit_optim.AdamW4bit torchao.optim.AdamW4bit",
    }
)

_OPTIMIZER_SWITCHES = {"adafactor": "adafactor", "use_muon": "muon", "use_adam_mini": "adam_mini"} | {
    "use_galore": "galore_adamw",
    "use_apollo": "apollo_adamw",
    "use_badam": "badam",
}

_RANKS = {"galore_adamw": "128", "apollo_adamw": "1"}
"""Optimizers that project gradients, and the rank by default (transformers.Trainer.get_optimizer_cls_and_kwargs)."""

_RANK = later(r"(?:^|[ ,])rank ?= ?([0-9]+)")

_PROJECTIONS = (
    *("galore_update_interval", "galore_scale", "galore_proj_type"),
    *("apollo_update_interval", "apollo_scale", "apollo_scale_type", "apollo_scale_front", "apollo_proj"),
    *("badam_start_block", "badam_switch_mode", "badam_switch_interval", "badam_verbose"),
)

_WHOLE_MODELS = ({"all"}, {"all-linear"}, {"attn", "mlp"}, {"self_attn", "mlp"})

_METHOD = (
    *("peft_method", "finetuning_type", "adapter", "sft_type", "train_type", "tuner_type", "peft_type"),
    "finetune_type",
)

_METHODS = {"": "full"} | _by_word(
    {"full": "full none null sft false", "lora": "lora dora rslora", "qlora": "qlora", "gptq-lora": "gptq-lora"}
)

_OFFLOADED_CHECKPOINTING = frozenset({"offload", "offload_disk", "unsloth"})

_OTHER_CHECKPOINTING = _OFFLOADED_CHECKPOINTING | {"selective"}

_LORA_SWITCHES = ("use_peft", "use_lora", "enable_lora", "lora_enable", "lora", "use_peft_lora")

_QLORA_SWITCHES = ("q_lora", "use_qlora", "qlora")

_LORA_FLAGS = ("lora_r", "lora_rank", "lora_alpha", "lora_target_modules")

_QUANTISED_BASE = {"qlora": "4bit", "gptq-lora": "gptq", "int8-lora": "8bit"}

_METHOD_OF_BASE = {base: method for method, base in _QUANTISED_BASE.items()}

_IN_4_BITS = ("load_in_4bit", "use_4bit", "use_4bit_quantization", "bnb_qlora")

_BITS = ("quantization_bit", "quant_bits", "bits", "quantization")

_BIT_WORDS = {"4": "4bit", "4bit": "4bit", "8": "8bit", "8bit": "8bit", "": "8bit", "true": "8bit"}


def read_training(extraction: Extraction) -> None:
    """Read the facts that the script's settings set."""
    for name in extraction.framework.settings:
        setting = None if name in _READ_SEPARATELY else extraction.find(name)
        if setting is None:
            continue
        if name in _NUMBERS:
            extraction.add_number(name, setting)
        elif name in _SWITCHES:
            extraction.add_boolean(name, setting)
        elif name == "lora_targets":
            _read_lora_targets(extraction, setting)
        elif name == "optimizer" and (known := _optimizer(extraction.framework, setting.text)):
            extraction.add(name, setting, known)
        else:
            extraction.add_text(name, setting)
    linear = extraction.script.find(("lora_target_linear",))
    if linear is not None and is_true(linear):
        extraction.add("lora_targets", linear, "all-linear")
    _read_optimizer_switches(extraction)
    _read_projection(extraction)
    _read_length(extraction)
    read_parallelism(extraction)
    _read_saved_modules(extraction)
    _read_checkpointing(extraction)
    _read_attention(extraction)
    (extraction.framework.read_precision or _read_precision)(extraction)


_LENGTHS = {
    "steps": ("max_steps", "max_train_steps", "train.max_steps", "training.steps", "train_iters"),
    "epochs": ("num_train_epochs", "num_epochs", "epochs", "train.epochs"),
}
"""Flags and keys of the frameworks that end a run. A step is one update of the weights."""


def _read_length(extraction: Extraction) -> None:
    """Read how long the run is. It does not change the size, so what is unknown or not positive is left out."""
    for name, flags in _LENGTHS.items():
        setting = extraction.script.find(flags)
        text = "" if setting is None or setting.reason else setting.text
        if setting is not None and _POSITIVE.fullmatch(text) and float(text) > 0:
            extraction.length[name] = float(text)


def _optimizer(framework: Framework, name: str) -> str:
    return framework.optimizers.get(name) or _OPTIMIZERS.get(name, "")


def _read_optimizer_switches(extraction: Extraction) -> None:
    for flag, optimizer in _OPTIMIZER_SWITCHES.items():
        if optimizer in {*_RANKS, "badam"} and not extraction.framework.is_known:
            continue  # its rank and layers may be anything
        switch = extraction.script.find((flag,))
        if switch is not None and is_true(switch):
            extraction.add("optimizer", switch, optimizer)


def _read_projection(extraction: Extraction) -> None:
    """Read the rank of gradients that GaLore or APOLLO projects, and whether all layers are projected.

    They need whole gradients, so that sharded ones are refused; so are projections of some layers alone.
    """
    fact, script = extraction.facts.get("optimizer"), extraction.script
    name = "" if fact is None else fact.value.removesuffix("_layerwise").replace("_8bit", "")
    if fact is None or name not in {*_RANKS, "badam"}:
        return
    own = name.partition("_")[0]
    for flag in _PROJECTIONS:
        script.find((flag,))
    if script.text("badam_mode") == "layer":
        script.find(("badam_mode",))
    if is_true(script.find((f"{own}_layerwise",))):
        extraction.facts["optimizer"] = replace(fact, value=f"{name}_layerwise")
    targets = script.find((f"{own}_target", "optim_target_modules"))
    words = set() if targets is None else {word.strip("[]'\" ") for word in targets.texts or targets.text.split(",")}
    if targets is not None and words and words not in _WHOLE_MODELS:
        extraction.reject("optimizer", f"`{targets.fact.snippet}` projects only some of the layers", targets.fact.span)
    if (strategy := extraction.facts.get("strategy")) is not None and strategy.value != "ddp":
        message = f"`{fact.snippet}` needs whole gradients, and `{strategy.snippet}` shards them"
        extraction.reject("optimizer", message, fact.span, "remove the sharding, or exclude the job from sizing")
    rank = script.find((f"{own}_rank", "optim_args.rank"))
    arguments = script.find(("optim_args",))
    if rank is None and arguments is not None and (stated := _RANK.search(arguments.text)):
        rank = replace(arguments, text=stated[1])
    extraction.add_number("optimizer_rank", rank)
    if name in _RANKS:
        extraction.set_default("optimizer_rank", _RANKS[name], "default of transformers.Trainer")


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


def _read_saved_modules(extraction: Extraction) -> None:
    """Read the modules that are trained whole beside the adapters."""
    setting = extraction.resolve("saved_modules", extraction.find("saved_modules"))
    if setting is None or parse_boolean(setting.text) is False or setting.text == "[]":
        return
    text = " ".join(setting.texts or (setting.text,)).translate(str.maketrans(",", " ", "[]'\""))
    if words := text.split():
        extraction.add("saved_modules", setting, ",".join(words))


def _read_checkpointing(extraction: Extraction) -> None:
    setting = extraction.find("checkpointing")
    offloading = extraction.find("offloads_activations")
    if offloading is not None and parse_boolean(offloading.text) is not False:
        extraction.add("offloads_activations", offloading, "true")
    if setting is not None and (kind := setting.text.lower()) in _OTHER_CHECKPOINTING:
        extraction.add("checkpointing", setting, "true")
        if kind in _OFFLOADED_CHECKPOINTING:
            extraction.add("offloads_activations", setting, "true")
        else:
            extraction.mark_uncertain(setting, "keeps different tensors than checkpointing does")
    elif setting is not None:
        extraction.add_boolean("checkpointing", setting)
    else:
        disabled = extraction.script.find(("disable_gradient_checkpointing", "no_gradient_checkpointing"))
        extraction.add_boolean("checkpointing", disabled, invert=True)
    _read_fsdp_checkpointing(extraction)


def _read_fsdp_checkpointing(extraction: Extraction) -> None:
    """Read FSDP's own checkpointing, of transformers, axolotl and accelerate."""
    names = ("activation_checkpointing", "fsdp_activation_checkpointing")
    prefixed = tuple(f"fsdp_config.{name}" for name in names)
    for setting in (extraction.script.find(prefixed), extraction.launcher.find((*prefixed, names[1]))):
        if setting is not None and is_true(setting):
            extraction.add("checkpointing", setting, "true")


def _read_attention(extraction: Extraction) -> None:
    setting = extraction.resolve("attention", extraction.find("attention"))
    if setting is None:
        for name, value in extraction.framework.attention_switches.items():
            switch = extraction.script.find((name,))
            if switch is not None and is_true(switch):
                extraction.add("attention", switch, value)
        return
    value = _ATTENTION.get(setting.text.lower(), "")
    if _FLASH_KERNELS.fullmatch(setting.text):
        value = "flash-attn-2"
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
    pure = extraction.script.find(("pure_bf16", "fsdp_config.pure_bf16"))
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
    switches = [(name, extraction.resolve("precision", extraction.script.find((name,)))) for name in ("bf16", "fp16")]
    launcher = extraction.resolve("precision", extraction.launcher.find(("mixed_precision",)))
    files = [(name, extraction.script.find((f"deepspeed.{name}.enabled",))) for name in ("bf16", "fp16")]
    for name, setting in switches:
        if setting is not None and is_true(setting):
            return replace(setting, text=name)
    if launcher is not None and launcher.text.lower() == "fp8":
        extraction.mark_uncertain(
            launcher, "computes in FP8: weights stay in their type, and what layers keep is not modelled"
        )
        return replace(launcher, text="bf16")
    if launcher is not None and launcher.text.lower() in {"bf16", "fp16"}:
        return replace(launcher, text=launcher.text.lower())
    variable = extraction.resolve("precision", setting_from_env(extraction.line.env, "ACCELERATE_MIXED_PRECISION"))
    if launcher is None and variable is not None and variable.text.lower() in {"bf16", "fp16"}:
        return replace(variable, text=variable.text.lower())
    for name, setting in files:
        if setting is not None and setting.text != "auto" and is_true(setting):
            return replace(setting, text=name)
    return None


# The method: which weights are trained


def read_method(extraction: Extraction) -> None:
    """Read `method` and `quantisation`."""
    if not read_objective(extraction):
        return
    if extraction.framework.read_method is not None:
        extraction.framework.read_method(extraction)
    else:
        read_framework_method(extraction)


def read_framework_method(extraction: Extraction) -> None:
    """Read the method by the names that most frameworks share."""
    method, fact = _named_method(extraction)
    extraction.script.find((*_LORA_SWITCHES, *_QLORA_SWITCHES))  # they say the same
    if "method" in extraction.unresolved:
        return
    quantised = _quantisation(extraction)
    if quantised is None and (quantised := _quantised_model(extraction)) is not None:
        method = method or extraction.framework.defaults.get("method", "full")
    if quantised is not None:
        extraction.facts["quantisation"] = quantised
        if method == "full":
            message = f"`{quantised.snippet}` quantizes the weights; only adapters can be trained on them"
            hint = "train LoRA adapters, or remove the quantization"
            extraction.reject("method", message, quantised.span, hint)
            return
        method, fact = _METHOD_OF_BASE.get(quantised.value, method), quantised
    if fact is not None and method:
        extraction.facts["method"] = replace(fact, value=method)


def _named_method(extraction: Extraction) -> tuple[str, Fact | None]:
    """Return the method that a setting names, and the setting's words; empty where none does."""
    script = extraction.script
    if (named := script.find(_METHOD)) is not None:
        if extraction.resolve("method", named) is None:
            return "", None
        method = _METHODS.get(named.text.strip().lower())
        if method is None:
            message = f"`{named.fact.snippet}`: only full fine-tuning, LoRA, QLoRA and GPTQ-LoRA can be sized"
            hint = "exclude the job from sizing, or change the method"
            extraction.reject("method", message, named.fact.span, hint, missing="method")
        return method or "", named.fact
    for names, method in ((_QLORA_SWITCHES, "qlora"), (_LORA_SWITCHES, "lora")):
        switch = extraction.resolve("method", script.find(names))
        if switch is not None and is_true(switch):
            if method in _QUANTISED_BASE:
                extraction.add("quantisation", switch, _QUANTISED_BASE[method])
            return method, switch.fact
        if "method" in extraction.unresolved:
            return "", None
    if extraction.framework.adapters_from_flags and (flag := script.find(_LORA_FLAGS)) is not None:
        return "lora", flag.fact
    return "", None


_QUANTISED_NAMES = (
    (re.compile(r".*(?:bnb|nf4).?4bit|.*4bit.?(?:bnb|nf4)|.*unsloth.*4bit", re.IGNORECASE), "4bit"),
    (re.compile(r".*(?:bnb.?8bit|gptq.?int8|gptq.?8bits?)(?:[-_.].*)?", re.IGNORECASE), "8bit"),
    (re.compile(r".*[-_.](?:gptq|awq|(?:gptq|awq)?-?int4|w4a16|4bit)(?:[-_.].*)?", re.IGNORECASE), "gptq"),
    (re.compile(r".*[-_.](?:int8|8bit|fp8|w8a8|w8a16|fp4|nvfp4|mxfp4|gguf)(?:[-_.].*)?", re.IGNORECASE), "other"),
)
"""Names of repositories whose weights are stored in few bits: bitsandbytes, 8 bits, GPTQ and AWQ with 4, others."""


def _quantised_model(extraction: Extraction) -> Fact | None:
    """Return the type of the stored weights if the model's name states it."""
    fact = extraction.facts.get("model")
    name = "" if fact is None else fact.value.rstrip("/").rpartition("/")[2]
    kind = next((kind for pattern, kind in _QUANTISED_NAMES if pattern.fullmatch(name)), "")
    return replace(fact, value=kind) if fact is not None and kind else None


def _quantisation(extraction: Extraction) -> Fact | None:
    """Return `4bit`, `8bit` or `gptq` with the words that set it."""

    def setting(*names: str) -> Setting | None:
        return extraction.resolve("quantisation", extraction.script.find(names))

    gptq = setting("auto_gptq")
    if gptq is not None and gptq.text.lower() not in {"none", "false"}:
        return replace(gptq.fact, value="gptq")
    in_4_bits = setting(*_IN_4_BITS)
    if in_4_bits is not None and parse_boolean(in_4_bits.text) is not False:
        return replace(in_4_bits.fact, value="4bit")
    bits = setting(*_BITS)
    if bits is not None and bits.text.lower() in _BIT_WORDS:
        return replace(bits.fact, value=_BIT_WORDS[bits.text.lower()])
    in_8_bits = setting("load_in_8bit", "use_8bit_quantization")
    return replace(in_8_bits.fact, value="8bit") if in_8_bits is not None and is_true(in_8_bits) else None
