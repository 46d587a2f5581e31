"""TRL: https://huggingface.co/docs/trl."""

from reconciler.core.launch.extraction import Extraction
from reconciler.core.launch.framework import Command, Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.training import OTHER_OBJECTIVES
from reconciler.core.patterns import later


def _read_processes(extraction: Extraction) -> None:
    """Read the counts among the command's own flags, which it passes to accelerate."""
    extraction.add_number("processes", extraction.script.find(("num_processes", "nproc_per_node")))
    extraction.set_default("machines", "1", "default of trl")


TRL = Framework(
    name="trl",
    source="trl 0.20 and later",
    commands=(Command(program="trl", verbs=later("sft|dpo|kto|grpo|rloo|reward"), read_processes=_read_processes),),
    programs=later(r"trl\.scripts\.\w+|(?:.*/)?trl/(?:scripts|cli)/\w+\.py|(?:.*/)?(?:run_)?sft\.py"),
    settings=TRAINER_SETTINGS
    | {"model": ("model_name_or_path", "model_name"), "sequence": ("max_length", "max_seq_length")},
    defaults=TRAINER_DEFAULTS
    | {"sequence": "1024", "checkpointing": "true", "precision": "bf16-mixed"}
    | {"lora_rank": "16", "lora_targets": "all-linear"},
    config_flags=("config",),
    config_keys=frozenset({"model_name_or_path"}),
    other_objectives=later(rf"trl(?: |\.scripts\.){OTHER_OBJECTIVES}"),
)
