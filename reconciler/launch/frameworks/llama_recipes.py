"""llama-recipes and llama-cookbook: https://github.com/meta-llama/llama-cookbook."""

from reconciler.launch.framework import Extraction
from reconciler.launch.settings import is_true
from reconciler.launch.training import read_framework_method


def read_method(extraction: Extraction) -> None:
    """Read the method. Without `--use_peft`, all weights are trained, whatever `--peft_method` says."""
    switch = extraction.resolve("method", extraction.script.find(("use_peft",)))
    if switch is not None and is_true(switch):
        read_framework_method(extraction)
    elif "method" not in extraction.unresolved:
        extraction.script.find(("peft_method",))
        extraction.set_framework_default("method", "full")


def read_precision(extraction: Extraction) -> None:
    """Read pure bf16, or else the type of mixed precision (configs/training.py and fsdp.py)."""
    script = extraction.script
    pure = script.find(("pure_bf16", "fsdp_config.pure_bf16"))
    half = script.find(("use_fp16", "fsdp_config.use_fp16"))
    mixed = script.find(("mixed_precision", "fsdp_config.mixed_precision"))
    if mixed is not None and not is_true(mixed):
        extraction.mark_uncertain(mixed, "computes in the type of the weights, which depends on the version")
    if pure is not None and is_true(pure):
        extraction.add("precision", pure, "bf16")
    elif half is not None and is_true(half):
        extraction.add("precision", half, "fp16-mixed")


def read_sharding(extraction: Extraction) -> None:
    """Checkpoint only where the model is sharded."""
    extraction.set_framework_default("checkpointing", "true" if "strategy" in extraction.facts else "false")
