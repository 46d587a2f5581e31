"""Scripts of an unknown framework, with or without the `Trainer` of transformers."""

from msgspec.structs import replace

from reconciler.core.launch.framework import Framework
from reconciler.core.launch.frameworks.transformers import (
    TRAINER_CHANGES,
    TRAINER_DEFAULTS,
    TRAINER_SETTINGS,
    TRAINER_SOURCE,
)

_TRAINER_FLAGS = frozenset({"per_device_train_batch_size", "num_train_epochs", "save_strategy", "lr_scheduler_type"})

SCRIPT = Framework(
    name="",
    source="",
    is_known=False,
    matches=lambda _script, _flags: True,
    settings=TRAINER_SETTINGS
    | {
        "model": (
            *("model_name_or_path", "model_name", "model_id", "base_model", "pretrained_model_name_or_path"),
            "model_path",
        ),
        "batch": ("per_device_train_batch_size", "per_gpu_train_batch_size", "micro_batch_size", "micro_batch"),
        "sequence": (*TRAINER_SETTINGS["sequence"], "sequence_len", "sequence_length", "seq_length", "seq_len"),
        "accumulation": ("gradient_accumulation_steps", "grad_accum", "accumulation_steps"),
        "optimizer": ("optim", "optimizer"),
    },
    defaults={},
    adapters_from_flags=True,
    config_flags=("config", "config_file", "config_path", "cfg", "conf"),
)

TRAINER_SCRIPT = replace(
    SCRIPT,
    name="transformers",
    source=TRAINER_SOURCE,
    matches=lambda _script, flags: not flags.isdisjoint(_TRAINER_FLAGS),
    defaults=TRAINER_DEFAULTS,
    changes=TRAINER_CHANGES,
)
