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


def _read_precision(extraction: Extraction) -> None:
    """Read pure bf16, or else the type of mixed precision (configs/training.py and fsdp.py)."""
    script = extraction.script
    pure = script.find(("pure_bf16", "fsdp_config.pure_bf16"))
    half = script.find(("use_fp16", "fsdp_config.use_fp16"))
    mixed = script.find(("mixed_precision", "fsdp_config.mixed_precision"))
    if mixed is not None and not is_true(mixed):
        extraction.doubt(mixed, "computes in the type of the weights, which depends on the version")
    if pure is not None and is_true(pure):
        extraction.add("precision", pure, "bf16")
    elif half is not None and is_true(half):
        extraction.add("precision", half, "fp16-mixed")


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
    read_precision=_read_precision,
    read_sharding=_read_sharding,
    changes={
        "checkpointing": {"fsdp_activation_checkpointing|fsdp_config.fsdp_activation_checkpointing": "true"},
        "fsdp-full": {"enable_fsdp": ""},
        "4-bit-base": {"quantization": "4bit"},
    },
)
