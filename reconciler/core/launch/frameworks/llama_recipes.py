"""llama-recipes and llama-cookbook: https://github.com/meta-llama/llama-cookbook."""

from collections.abc import Set as AbstractSet

from reconciler.core.launch.framework import Extraction, Framework
from reconciler.core.launch.settings import is_true
from reconciler.core.launch.training import read_framework_method
from reconciler.core.patterns import later


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    """Recognise its `finetuning.py` outside its package, and copies of it, by its flags."""
    own = {"batch_size_training", "enable_fsdp", "use_fast_kernels"}
    is_named = script.rpartition("/")[2].startswith("finetun")
    return (is_named and not flags.isdisjoint(own)) or {"enable_fsdp", "model_name"} <= flags


def _read_method(extraction: Extraction) -> None:
    """Read the method. Without `--use_peft`, all weights are trained, whatever `--peft_method` says."""
    switch = extraction.resolve("method", extraction.script.find(("use_peft",)))
    if switch is not None and is_true(switch):
        read_framework_method(extraction)
    elif "method" not in extraction.unresolved:
        extraction.script.find(("peft_method",))
        extraction.set_framework_default("method", "full")


def _read_sharding(extraction: Extraction) -> None:
    """Checkpoint only where the model is sharded."""
    extraction.set_framework_default("checkpointing", "true" if "strategy" in extraction.facts else "false")


LLAMA_RECIPES = Framework(
    name="llama-recipes",
    source="llama-recipes",
    programs=later(r"(?:.*[./])?llama_(?:recipes|cookbook)[./]finetuning(?:\.py)?"),
    matches=_matches,
    settings={
        "model": ("model_name",),
        "batch": ("batch_size_training",),
        "sequence": ("context_length",),
        "accumulation": ("gradient_accumulation_steps",),
        "optimizer": ("optimizer", "fsdp_config.optimizer"),
        "checkpointing": ("fsdp_activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing"),
        "lora_rank": ("lora_config.r", "r"),
        "lora_targets": ("lora_config.target_modules", "target_modules"),
    },
    defaults={"batch": "4", "sequence": "4096", "accumulation": "1", "optimizer": "adamw_torch"}
    | {"precision": "bf16-mixed", "lora_rank": "8", "lora_targets": "q_proj,v_proj", "attention": "sdpa"},
    attention_switches={"use_fast_kernels": "sdpa"},
    optimizers={"anyprecision": "adamw_anyprecision"},
    read_method=_read_method,
    read_sharding=_read_sharding,
    changes={
        "checkpointing": {"fsdp_activation_checkpointing|fsdp_config.fsdp_activation_checkpointing": "true"},
        "fsdp-full": {"enable_fsdp": ""},
        "4-bit-base": {"quantization": "4bit"},
    },
)
