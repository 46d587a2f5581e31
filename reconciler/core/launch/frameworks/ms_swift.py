"""ms-swift: https://swift.readthedocs.io."""

from reconciler.core.launch.framework import Command, Extraction, Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_CHANGES, TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.launchers import count_per_node
from reconciler.core.launch.objective import OTHER_OBJECTIVES, PREFERENCES
from reconciler.core.launch.rollout import RolloutFlags, read_rollout
from reconciler.core.patterns import later

_read_counts = count_per_node((), (), ("NPROC_PER_NODE", "NNODES"))


def _read_processes(extraction: Extraction) -> None:
    """Read the counts. Without NPROC_PER_NODE, one process places the layers on all visible GPUs."""
    _read_counts(extraction)
    extraction.set_default("processes", "1", "ms-swift without NPROC_PER_NODE")
    visible = extraction.line.env.get("CUDA_VISIBLE_DEVICES") or ""
    if "processes" in extraction.defaults and "," in visible:
        message = (
            f"CUDA_VISIBLE_DEVICES={visible} without NPROC_PER_NODE: one process places the layers on several GPUs"
        )
        extraction.reject("processes", message, None, "set NPROC_PER_NODE")


_ROLLOUT = RolloutFlags(
    prompt=("max_length",),
    answer=("max_completion_length",),
    prompt_tokens="2048",
    answer_tokens="512",
    engine=("use_vllm",),
    mode=("vllm_mode",),
    fraction=("vllm_gpu_memory_utilization",),
    default_fraction="0.9",
    sleep=("sleep_level",),
    alone=("offload_model", "offload_optimizer"),
    beta=("beta",),
    has_reference=True,
)

MS_SWIFT = Framework(
    name="ms-swift",
    source="ms-swift",
    commands=(
        Command(
            program="swift",
            verbs=later("sft|pt|rlhf"),
            read_processes=_read_processes,
        ),
    ),
    programs=later(r"swift\.cli\.(?:sft|pt|rlhf)|(?:.*/)?(?:llm_sft|swift/cli/sft)\.py"),
    settings=TRAINER_SETTINGS
    | {"model": ("model", "model_id_or_path", "model_type"), "sequence": ("max_length",)}
    | {"batch": ("per_device_train_batch_size", "batch_size"), "context": ("sequence_parallel_size",)},
    defaults=TRAINER_DEFAULTS
    | {"batch": "1", "lora_rank": "8", "lora_targets": "all-linear", "checkpointing": "true"}
    | {"method": "lora", "precision": "bf16"},  # torch_dtype is the model's own, and bf16 follows it
    other_objectives=later(rf"swift(?: |\.cli\.){OTHER_OBJECTIVES}"),
    objective_settings=("rlhf_type",),
    objectives=PREFERENCES | {"rm": "reward", "rlhf": "dpo", "grpo": "grpo"},
    read_rollout=lambda extraction: read_rollout(extraction, _ROLLOUT),
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
        "default-zero2": ("2", "none"),  # before version 3
        "default-zero3": ("3", "none"),
        "zero2-offload": ("2", "optimizer"),
        "zero3-offload": ("3", "all"),
    },
    changes={name: TRAINER_CHANGES[name] for name in ("checkpointing", "fused-loss", "8-bit-optimizer")}
    | {"lora": {"tuner_type|train_type|sft_type": "lora", "lora_rank": "{rank}", "target_modules": "all-linear"}}
    | {"4-bit-base": {"quant_method": "bnb", "quant_bits|quantization_bit": "4"}}
    | {"zero-2": {"deepspeed": "zero2"}, "zero-2 optimizer": {"deepspeed": "zero2_offload"}}
    | {"zero-3": {"deepspeed": "zero3"}, "zero-3 all": {"deepspeed": "zero3_offload"}}
    | {"sdpa": {"attn_impl": "sdpa"}, "context": {"sequence_parallel_size": "{degree}"}},
)
