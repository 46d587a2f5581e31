"""LLaMA-Factory: https://github.com/hiyouga/LLaMA-Factory."""

from collections.abc import Set as AbstractSet

from reconciler.core.launch.framework import Command, Framework, Overrides
from reconciler.core.launch.frameworks.transformers import TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.launchers import count_per_node
from reconciler.core.patterns import later

_READ_PROCESSES = count_per_node((), (), ("NPROC_PER_NODE", "NNODES"))


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    """Recognise its `src/train.py` by its flags, or by a configuration file alone."""
    if "finetuning_type" in flags or {"stage", "cutoff_len"} <= flags:
        return True
    return script.endswith(("src/train.py", "src/train_bash.py")) and not flags


LLAMA_FACTORY = Framework(
    name="llama-factory",
    source="LLaMA-Factory",
    commands=(
        Command(program="llamafactory-cli", verbs=later("train"), read_processes=_READ_PROCESSES),
        Command(program="lmf", verbs=later("train"), read_processes=_READ_PROCESSES),
    ),
    programs=later(r"(?:.*/)?llamafactory/launcher\.py|llamafactory(?:\.cli|\.launcher)?"),
    matches=_matches,
    settings=TRAINER_SETTINGS
    | {"sequence": ("cutoff_len",), "lora_rank": ("lora_rank",), "lora_targets": ("lora_target",)}
    | {"attention": ("flash_attn",), "fused_loss": ("enable_liger_kernel",), "dtype": ()},
    defaults=TRAINER_DEFAULTS
    | {"sequence": "2048", "method": "lora", "lora_rank": "8", "lora_targets": "all-linear", "checkpointing": "true"},
    config_keys=frozenset({"model_name_or_path"}),
    config_may_be_unknown=True,
    overrides=Overrides.WITH_FILE,
    objective_settings=("stage",),
)
