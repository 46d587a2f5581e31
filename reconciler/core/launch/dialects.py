"""How each training framework names what decides memory, and what it takes where nothing is said."""

import re

from msgspec import Struct

Names = tuple[str, ...]


class Dialect(Struct, frozen=True, kw_only=True):
    """One framework. `names` gives for each fact the settings that may hold it, the first that is given counts.

    `defaults` are its documented ones; `source` says where. `family` tells how method and precision are read.
    """

    name: str
    names: dict[str, Names]
    defaults: dict[str, str]
    source: str
    family: str = "transformers"
    config: Names = ()  # flags that name a file of settings
    single: bool = False  # no flag takes more than one word


_TRANSFORMERS: dict[str, Names] = {
    "model": ("model_name_or_path",),
    "batch": ("per_device_train_batch_size", "per_gpu_train_batch_size"),
    "sequence": ("max_seq_length", "max_length", "max_seq_len", "model_max_length", "cutoff_len", "block_size"),
    "accumulation": ("gradient_accumulation_steps",),
    "optimizer": ("optim",),
    "checkpointing": ("gradient_checkpointing", "use_gradient_checkpointing"),
    "attention": ("attn_implementation", "attn_impl", "use_flash_attn", "flash_attn", "use_flash_attention_2"),
    "dtype": ("torch_dtype", "dtype"),
    "lora_rank": ("lora_r", "lora_rank", "r"),
    "lora_targets": ("lora_target_modules", "target_modules", "lora_target"),
    "fused_loss": ("use_liger_kernel", "use_liger", "enable_liger_kernel", "use_fused_ce"),
    "deepspeed": ("deepspeed",),
}
_TRAINING_ARGUMENTS = {
    "batch": "8",
    "accumulation": "1",
    "optimizer": "adamw_torch",
    "checkpointing": "false",
    "precision": "fp32",
    "attention": "sdpa",
    "fused_loss": "false",
}
_TRAINING_ARGUMENTS_SOURCE = "transformers.TrainingArguments"

TRANSFORMERS = Dialect(
    name="transformers",
    names=_TRANSFORMERS,
    defaults=_TRAINING_ARGUMENTS,
    source=_TRAINING_ARGUMENTS_SOURCE,
)

FMS = Dialect(
    name="fms-hf-tuning",
    names=_TRANSFORMERS | {"fused_loss": ("use_liger_kernel",), "lora_rank": ("r", "lora_r")},
    defaults=_TRAINING_ARGUMENTS
    | {"sequence": "4096", "precision": "bf16", "attention": "flash-attn-2"}
    | {"lora_rank": "8", "lora_targets": "q_proj,v_proj"},
    source="fms-hf-tuning",
)

TRL = Dialect(
    name="trl",
    names=_TRANSFORMERS | {"model": ("model_name_or_path", "model_name"), "sequence": ("max_length", "max_seq_length")},
    defaults=_TRAINING_ARGUMENTS
    | {"sequence": "1024", "checkpointing": "true", "precision": "bf16-mixed"}
    | {"lora_rank": "16", "lora_targets": "all-linear"},
    source="trl 0.20 and later",
    config=("config",),
)

LLAMA_FACTORY = Dialect(
    name="llama-factory",
    names=_TRANSFORMERS
    | {"sequence": ("cutoff_len",), "lora_rank": ("lora_rank",), "lora_targets": ("lora_target",)}
    | {"attention": ("flash_attn",), "fused_loss": ("enable_liger_kernel",), "dtype": ()},
    defaults=_TRAINING_ARGUMENTS
    | {"sequence": "2048", "method": "lora", "lora_rank": "8", "lora_targets": "all-linear", "checkpointing": "true"},
    source="LLaMA-Factory",
    family="llama-factory",
)

AXOLOTL = Dialect(
    name="axolotl",
    names={
        "model": ("base_model",),
        "batch": ("micro_batch_size",),
        "sequence": ("sequence_len",),
        "accumulation": ("gradient_accumulation_steps",),
        "optimizer": ("optimizer",),
        "checkpointing": ("gradient_checkpointing",),
        "attention": ("attn_implementation",),
        "lora_rank": ("lora_r",),
        "lora_targets": ("lora_target_modules",),
        "fused_loss": ("liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy"),
        "tensor": ("tensor_parallel_size",),
        "deepspeed": ("deepspeed",),
    },
    defaults={"batch": "1", "accumulation": "1", "sequence": "512", "checkpointing": "false"}
    | {"optimizer": "adamw_torch_fused", "attention": "sdpa", "fused_loss": "false"},
    source="axolotl",
    family="axolotl",
    single=True,
)

TORCHTUNE = Dialect(
    name="torchtune",
    names={
        "model": ("checkpointer.checkpoint_dir", "checkpoint_dir"),
        "batch": ("batch_size",),
        "sequence": ("tokenizer.max_seq_len", "max_seq_len"),
        "accumulation": ("gradient_accumulation_steps",),
        "optimizer": ("optimizer._component_", "optimizer"),
        "checkpointing": ("enable_activation_checkpointing",),
        "dtype": ("dtype",),
        "lora_rank": ("model.lora_rank",),
        "lora_targets": ("model.lora_attn_modules",),
        "fused_loss": (),
        "tensor": ("tensor_parallel_dim",),
    },
    defaults={"accumulation": "1", "checkpointing": "false", "attention": "sdpa"},
    source="torchtune",
    family="torchtune",
    config=("config",),
    single=True,
)

LITGPT = Dialect(
    name="litgpt",
    names={
        "model": ("checkpoint_dir", "model_name"),
        "batch": ("train.micro_batch_size",),
        "sequence": ("train.max_seq_length", "train.max_seq_len"),
        "lora_rank": ("lora_r",),
        "optimizer": ("optimizer.class_path", "optimizer"),
    },
    defaults={"batch": "1", "lora_rank": "8", "optimizer": "adamw_torch", "checkpointing": "false", "attention": "sdpa"}
    | {"precision": "bf16", "lora_targets": "q_proj,v_proj", "fused_loss": "false"},
    source="litgpt",
    family="litgpt",
    config=("config",),
    single=True,
)

_QWEN = Dialect(
    name="qwen",
    names=_TRANSFORMERS | {"sequence": ("model_max_length",)},
    defaults=_TRAINING_ARGUMENTS | {"sequence": "8192", "lora_rank": "64", "lora_targets": "c_attn,c_proj,w1,w2"},
    source="Qwen finetune.py",
)

_FASTCHAT = Dialect(
    name="fastchat",
    names=_TRANSFORMERS | {"sequence": ("model_max_length",)},
    defaults=_TRAINING_ARGUMENTS | {"sequence": "512", "lora_rank": "8", "lora_targets": "q_proj,v_proj"},
    source="FastChat",
)

_SWIFT = Dialect(
    name="ms-swift",
    names=_TRANSFORMERS
    | {"model": ("model", "model_id_or_path", "model_type"), "sequence": ("max_length",)}
    | {"batch": ("per_device_train_batch_size", "batch_size")},
    defaults=_TRAINING_ARGUMENTS
    | {"batch": "1", "lora_rank": "8", "lora_targets": "all-linear", "checkpointing": "true"}
    | {"method": "lora", "precision": "bf16"},  # torch_dtype is the model's own, and bf16 follows it
    source="ms-swift",
)

_LLAMA_RECIPES = Dialect(
    name="llama-recipes",
    names={
        "model": ("model_name",),
        "batch": ("batch_size_training",),
        "sequence": ("context_length",),
        "accumulation": ("gradient_accumulation_steps",),
        "optimizer": ("optimizer",),
        "checkpointing": ("fsdp_activation_checkpointing",),
        "lora_rank": ("lora_config.r", "r"),
        "lora_targets": ("lora_config.target_modules", "target_modules"),
    },
    defaults={
        "batch": "4",
        "sequence": "4096",
        "accumulation": "1",
        "optimizer": "adamw_torch",
        "precision": "bf16-mixed",
    }
    | {"lora_rank": "8", "lora_targets": "q_proj,v_proj", "attention": "sdpa"},
    source="llama-recipes",
    family="llama-recipes",
)

_ALPACA_LORA = Dialect(
    name="alpaca-lora",
    names=_TRANSFORMERS | {"model": ("base_model",), "batch": ("micro_batch_size",), "sequence": ("cutoff_len",)},
    defaults={"batch": "4", "sequence": "256", "method": "lora", "lora_rank": "8", "lora_targets": "q_proj,v_proj"}
    | {"checkpointing": "false", "optimizer": "adamw_torch", "precision": "fp16-mixed", "quantisation": "8bit"},
    source="alpaca-lora",
    family="alpaca-lora",
)

_CUSTOM = Dialect(
    name="",
    names=_TRANSFORMERS
    | {
        "model": (
            "model_name_or_path",
            "model_name",
            "model_id",
            "base_model",
            "pretrained_model_name_or_path",
            "model_path",
        ),
        "batch": ("per_device_train_batch_size", "per_gpu_train_batch_size", "micro_batch_size", "micro_batch"),
        "sequence": (*_TRANSFORMERS["sequence"], "sequence_len", "sequence_length", "seq_length", "seq_len"),
        "accumulation": ("gradient_accumulation_steps", "grad_accum", "accumulation_steps"),
        "optimizer": ("optim", "optimizer"),
    },
    defaults={},
    source="",
    family="own",
)

_PROGRAMS: tuple[tuple[re.Pattern[str], Dialect], ...] = tuple(
    (re.compile(pattern), dialect)
    for pattern, dialect in (
        (r"(?:.*[./])?tuning[./]sft_trainer(?:\.py)?|(?:.*/)?accelerate_launch\.py", FMS),
        (
            r"llamafactory-cli .*|lmf .*|(?:.*/)?llamafactory/launcher\.py|llamafactory(?:\.cli|\.launcher)?",
            LLAMA_FACTORY,
        ),
        (r"axolotl .*|axolotl\.cli(?:\.train)?|(?:.*/)?axolotl/cli/train\.py", AXOLOTL),
        (r"tune run .*", TORCHTUNE),
        (r"litgpt .*|litgpt(?:\.finetune.*)?|(?:.*/)?finetune/(?:lora|full|adapter)\.py", LITGPT),
        (
            r"trl .*|trl\.scripts\.\w+|(?:.*/)?trl/(?:scripts|cli)/\w+\.py|(?:.*/)?(?:run_)?sft\.py",
            TRL,
        ),
        (r"(?:.*[./])?llama_(?:recipes|cookbook)[./]finetuning(?:\.py)?", _LLAMA_RECIPES),
        (r"swift .*|swift\.cli\.sft|(?:.*/)?llm_sft\.py", _SWIFT),
        (r"fastchat\.train\.\w+|(?:.*/)?fastchat/train/\w+\.py", _FASTCHAT),
        (r"(?:.*/)?run_(?:clm|mlm|seq2seq|summarization|translation)(?:_lora)?\.py", TRANSFORMERS),
    )
)


def dialect_of(program: str, flags: frozenset[str] | set[str]) -> Dialect:
    """Return the framework behind a script, module or command; one without a name for a script of people's own."""
    for pattern, dialect in _PROGRAMS:
        if pattern.fullmatch(program):
            return dialect
    if "finetuning_type" in flags or {"stage", "cutoff_len"} <= flags:
        return LLAMA_FACTORY
    if (own := _of_own_script(program, flags)) is not None:
        return own
    return TRANSFORMERS_SCRIPT if flags & _TELLS_TRANSFORMERS else _CUSTOM


def _of_own_script(program: str, flags: frozenset[str] | set[str]) -> Dialect | None:
    """Tell frameworks apart whose scripts have names that anybody's have, by their flags."""
    name = program.rpartition("/")[2]
    if program.endswith(("src/train.py", "src/train_bash.py")) and not flags:
        return LLAMA_FACTORY  # it is given one file
    if program.endswith("scripts/finetune.py") and "model_name_or_path" not in flags:
        return AXOLOTL
    if name.startswith("finetun"):
        if "batch_size_training" in flags or flags & {"enable_fsdp", "use_fast_kernels"}:
            return _LLAMA_RECIPES
        if {"base_model", "data_path"} <= flags:
            return _ALPACA_LORA
        if "model_max_length" in flags:
            return _QWEN
    return None


_TELLS_TRANSFORMERS = frozenset(
    {"per_device_train_batch_size", "num_train_epochs", "save_strategy", "lr_scheduler_type"}
)

TRANSFORMERS_SCRIPT = Dialect(
    name="transformers",
    names=_CUSTOM.names,
    defaults=_TRAINING_ARGUMENTS,
    source=_TRAINING_ARGUMENTS_SOURCE,
    family="own",
)
