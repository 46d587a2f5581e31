"""Axolotl: https://docs.axolotl.ai."""

from reconciler.core.launch.framework import Command, Framework
from reconciler.core.launch.launchers import read_script_processes
from reconciler.core.patterns import later

AXOLOTL = Framework(
    name="axolotl",
    source="axolotl",
    commands=(Command(program="axolotl", verbs=later("train|fine-tune"), read_processes=read_script_processes),),
    programs=later(r"axolotl\.cli(?:\.train)?|(?:.*/)?axolotl/cli/train\.py"),
    matches=lambda script, flags: script.endswith("scripts/finetune.py") and "model_name_or_path" not in flags,
    settings={
        "model": ("base_model",),
        "batch": ("micro_batch_size",),
        "sequence": ("sequence_len",),
        "accumulation": ("gradient_accumulation_steps",),
        "optimizer": ("optimizer",),
        "checkpointing": ("gradient_checkpointing",),
        "attention": ("attn_implementation",),
        "lora_rank": ("lora_r",),
        "lora_targets": ("lora_target_modules",),
        "fused_loss": ("liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy"),
        "tensor": ("tensor_parallel_size",),
        "deepspeed": ("deepspeed",),
    },
    defaults={"batch": "1", "accumulation": "1", "sequence": "512", "checkpointing": "false"}
    | {"optimizer": "adamw_torch_fused", "attention": "sdpa", "fused_loss": "false"},
    single_values=True,
    config_keys=frozenset({"base_model"}),
    config_may_be_unknown=True,
    objective_settings=("rl",),
    attention_switches={"flash_attention": "flash-attn-2", "sdp_attention": "sdpa", "eager_attention": "eager"},
)
