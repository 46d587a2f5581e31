"""Qwen's `finetune.py`: https://github.com/QwenLM/Qwen."""

from collections.abc import Set as AbstractSet

from reconciler.core.launch.framework import Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_CHANGES, TRAINER_DEFAULTS, TRAINER_SETTINGS


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    return script.rpartition("/")[2].startswith("finetun") and "model_max_length" in flags


QWEN = Framework(
    name="qwen",
    is_known=False,  # only the name of the script and a flag speak for it
    source="Qwen finetune.py",
    matches=_matches,
    settings=TRAINER_SETTINGS | {"sequence": ("model_max_length",)},
    defaults=TRAINER_DEFAULTS | {"sequence": "8192", "lora_rank": "64", "lora_targets": "c_attn,c_proj,w1,w2"},
    qlora_method="gptq-lora",
    changes=TRAINER_CHANGES,
)
