"""DeepSpeed-Chat, supervised fine-tuning (step 1): https://github.com/deepspeedai/DeepSpeedExamples."""

from collections.abc import Set as AbstractSet

from reconciler.core.launch.framework import Extraction, Framework
from reconciler.core.launch.settings import is_true
from reconciler.core.launch.sharding import add_stage


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    """Recognise its `main.py` by flags that no other script has together."""
    return script.rpartition("/")[2] == "main.py" and {"data_split", "model_name_or_path"} <= flags


def _read_method(extraction: Extraction) -> None:
    """Read `--lora_dim`. Without `--only_optimize_lora`, embeddings and norms are trained beside the adapters."""
    rank = extraction.script.find(("lora_dim",))
    only = extraction.script.find(("only_optimize_lora",))
    scope = extraction.script.find(("lora_module_name",))
    if rank is None or rank.text == "0":
        return
    if not is_true(only):
        message = f"`{rank.fact.snippet}` without --only_optimize_lora trains the embeddings, too"
        extraction.reject("method", message, rank.fact.span, "exclude the job from sizing")
        return
    extraction.add("method", rank, "lora")
    extraction.add_number("lora_rank", rank)
    extraction.add("lora_targets", scope or rank, "all-linear")


def _read_precision(extraction: Extraction) -> None:
    """Read `--dtype`, fp16 by default; DeepSpeed keeps a copy of the weights in fp32."""
    dtype = extraction.script.find(("dtype",))
    if dtype is not None and extraction.resolve("precision", dtype) is not None:
        extraction.add("precision", dtype, "bf16-mixed" if dtype.text == "bf16" else "fp16-mixed")


def _read_sharding(extraction: Extraction) -> None:
    """Read `--zero_stage` and `--offload`, which moves parameters and optimizer to the host."""
    stage = add_stage(extraction, extraction.script.find(("zero_stage",)))
    offload = extraction.script.find(("offload",))
    if offload is not None and is_true(offload):
        has_shards = stage is not None and stage.text == "3"
        extraction.add("offload", offload, "all" if has_shards else "optimizer")


DEEPSPEED_CHAT = Framework(
    name="deepspeed-chat",
    source="DeepSpeed-Chat main.py",
    matches=_matches,
    settings={
        "model": ("model_name_or_path",),
        "batch": ("per_device_train_batch_size",),
        "sequence": ("max_seq_len",),
        "accumulation": ("gradient_accumulation_steps",),
        "checkpointing": ("gradient_checkpointing",),
    },
    defaults={"batch": "16", "sequence": "512", "accumulation": "1", "optimizer": "adamw_torch_fused"}
    | {"precision": "fp16-mixed", "checkpointing": "false", "attention": "sdpa", "fused_loss": "false"},
    objective_settings=("num_padding_at_beginning", "actor_model_name_or_path"),
    read_method=_read_method,
    read_precision=_read_precision,
    read_sharding=_read_sharding,
    changes={
        "checkpointing": {"gradient_checkpointing": ""},
        "lora": {"lora_dim": "{rank}", "lora_module_name": "decoder.layers.", "only_optimize_lora": ""},
        "zero-2": {"zero_stage": "2"},
        "zero-3": {"zero_stage": "3"},
        "zero-2 optimizer": {"zero_stage": "2", "offload": ""},
        "zero-3 all": {"zero_stage": "3", "offload": ""},
    },
)
