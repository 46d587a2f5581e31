"""ms-swift: https://swift.readthedocs.io."""

from reconciler.core.launch.framework import Command, Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.launchers import count_per_node
from reconciler.core.launch.training import OTHER_OBJECTIVES
from reconciler.core.patterns import later

MS_SWIFT = Framework(
    name="ms-swift",
    source="ms-swift",
    commands=(
        Command(
            program="swift",
            verbs=later("sft|pt|rlhf"),
            read_processes=count_per_node((), (), ("NPROC_PER_NODE", "NNODES")),
        ),
    ),
    programs=later(r"swift\.cli\.sft|(?:.*/)?llm_sft\.py"),
    settings=TRAINER_SETTINGS
    | {"model": ("model", "model_id_or_path", "model_type"), "sequence": ("max_length",)}
    | {"batch": ("per_device_train_batch_size", "batch_size")},
    defaults=TRAINER_DEFAULTS
    | {"batch": "1", "lora_rank": "8", "lora_targets": "all-linear", "checkpointing": "true"}
    | {"method": "lora", "precision": "bf16"},  # torch_dtype is the model's own, and bf16 follows it
    other_objectives=later(rf"swift(?: |\.cli\.){OTHER_OBJECTIVES}"),
    objective_settings=("rlhf_type",),
    # Configurations in its package (swift/config), by the names that `--deepspeed` accepts.
    deepspeed_presets={
        "zero0": ("0", "none"),
        "zero1": ("1", "none"),
        "zero2": ("2", "none"),
        "zero3": ("3", "none"),
        "zero0_offload": ("0", "optimizer"),
        "zero1_offload": ("1", "optimizer"),
        "zero2_offload": ("2", "optimizer"),
        "zero3_offload": ("3", "all"),
    },
)
