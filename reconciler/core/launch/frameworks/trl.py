"""TRL: https://huggingface.co/docs/trl."""

from reconciler.core.launch.framework import Command, Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.launchers import read_script_processes
from reconciler.core.launch.training import OTHER_OBJECTIVES
from reconciler.core.patterns import later

TRL = Framework(
    name="trl",
    source="trl 0.20 and later",
    commands=(
        Command(program="trl", verbs=later("sft|dpo|kto|grpo|rloo|reward"), read_processes=read_script_processes),
    ),
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
