"""FastChat: https://github.com/lm-sys/FastChat."""

from reconciler.core.launch.framework import Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.patterns import later

FASTCHAT = Framework(
    name="fastchat",
    source="FastChat",
    programs=later(r"fastchat\.train\.\w+|(?:.*/)?fastchat/train/\w+\.py"),
    settings=TRAINER_SETTINGS | {"sequence": ("model_max_length",)},
    defaults=TRAINER_DEFAULTS | {"sequence": "512", "lora_rank": "8", "lora_targets": "q_proj,v_proj"},
)
