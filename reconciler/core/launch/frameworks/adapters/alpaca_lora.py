"""alpaca-lora: https://github.com/tloen/alpaca-lora."""

from collections.abc import Set as AbstractSet

from reconciler.core.launch.framework import Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_SETTINGS


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    return script.rpartition("/")[2].startswith("finetun") and {"base_model", "data_path"} <= flags


ALPACA_LORA = Framework(
    name="alpaca-lora",
    source="alpaca-lora",
    matches=_matches,
    settings=TRAINER_SETTINGS | {"model": ("base_model",), "batch": ("micro_batch_size",), "sequence": ("cutoff_len",)},
    defaults={"batch": "4", "sequence": "256", "method": "int8-lora", "lora_rank": "8", "lora_targets": "q_proj,v_proj"}
    | {"checkpointing": "false", "optimizer": "adamw_torch", "precision": "fp16-mixed", "quantisation": "8bit"},
)
