"""Hugging Face transformers: its example scripts, and what every script on top of its `Trainer` accepts."""

from reconciler.core.launch.framework import Framework, Names
from reconciler.core.patterns import later

TRAINER_SETTINGS: dict[str, Names] = {
    "model": ("model_name_or_path",),
    "batch": ("per_device_train_batch_size", "per_gpu_train_batch_size"),
    "sequence": ("max_seq_length", "max_length", "max_seq_len", "model_max_length", "cutoff_len", "block_size"),
    "accumulation": ("gradient_accumulation_steps",),
    "optimizer": ("optim",),
    "checkpointing": ("gradient_checkpointing", "use_gradient_checkpointing"),
    "attention": ("attn_implementation", "attn_impl", "use_flash_attn", "flash_attn", "use_flash_attention_2"),
    "dtype": ("torch_dtype", "dtype"),
    "lora_rank": ("lora_r", "lora_rank", "r"),
    "lora_targets": ("lora_target_modules", "target_modules", "lora_target"),
    "saved_modules": ("modules_to_save", "lora_modules_to_save"),
    "dora": ("use_dora", "peft_use_dora"),
    "offloads_activations": ("activation_offloading",),
    "fused_loss": ("use_liger_kernel", "use_liger", "enable_liger_kernel", "use_fused_ce"),
    "deepspeed": ("deepspeed",),
}
TRAINER_DEFAULTS = {
    "batch": "8",
    "accumulation": "1",
    "optimizer": "adamw_torch",
    "checkpointing": "false",
    "precision": "fp32",
    "attention": "sdpa",
    "fused_loss": "false",
}
TRAINER_CHANGES: dict[str, dict[str, str]] = {
    "checkpointing": {"gradient_checkpointing": "true"},
    "fused-loss": {"use_liger_kernel": "true"},
    "8-bit-optimizer": {"optim": "adamw_bnb_8bit"},
    "fsdp-full": {"fsdp": "full_shard auto_wrap"},
    "fsdp-full all": {"fsdp": "full_shard auto_wrap offload"},
}
TRAINER_SOURCE = "transformers.TrainingArguments"

TRANSFORMERS = Framework(
    name="transformers",
    source=TRAINER_SOURCE,
    programs=later(r"(?:.*/)?run_(?:clm|mlm|seq2seq|summarization|translation)(?:_lora)?\.py"),
    settings=TRAINER_SETTINGS,
    defaults=TRAINER_DEFAULTS,
    changes=TRAINER_CHANGES,
)
