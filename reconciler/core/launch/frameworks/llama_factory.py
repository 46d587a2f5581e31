"""LLaMA-Factory: https://github.com/hiyouga/LLaMA-Factory."""

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from reconciler.core.launch.framework import Command, Extraction, Framework, Overrides
from reconciler.core.launch.frameworks.llama_factory_v1 import LLAMA_FACTORY_V1
from reconciler.core.launch.frameworks.reinforcement.llama_factory_ppo import read_llama_factory_ppo
from reconciler.core.launch.frameworks.transformers import TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.launchers import count_per_node
from reconciler.core.launch.objective import PREFERENCES
from reconciler.core.launch.settings import setting_from_env
from reconciler.core.launch.training import read_framework_method
from reconciler.core.patterns import later

_read_counts = count_per_node((), (), ("NPROC_PER_NODE", "NNODES"))
_V1_KEYS = ("train_dataset", "dist_config.name", "peft_config.name", "model_class", "kernel_config.name")


def _read_processes(extraction: Extraction) -> None:
    """Read the counts. Without NPROC_PER_NODE, it starts one process for each visible GPU."""
    _read_counts(extraction)
    visible = setting_from_env(extraction.line.env, "CUDA_VISIBLE_DEVICES")
    if visible is None or not visible.text or "processes" in {*extraction.facts, *extraction.unresolved}:
        return
    if extraction.resolve("processes", visible) is not None:
        extraction.add("processes", visible, str(len(visible.text.split(","))))


def _read_method(extraction: Extraction) -> None:
    """Reject configurations of version 1, whose names version 0 does not know."""
    script = extraction.script
    if any(script.has(name) for name in _V1_KEYS):
        message = "the configuration is for LLaMA-Factory v1, which runs only if USE_V1 is set"
        extraction.reject("method", message, None, "set USE_V1=1 in the container's env")
    else:
        read_framework_method(extraction)


def _complete(extraction: Extraction) -> None:
    """Apply its default rank of projections; BAdam never keeps all weights in fp32 (model/adapter.py).

    Without a type on the line, the base of adapters is loaded in 16 bits (`infer_optim_dtype`), and trained weights are
    in fp32.
    Liger's loss is for supervised training alone (`apply_liger_kernel` with `require_logits`).
    """
    if "objective" in extraction.facts:
        extraction.discard("fused_loss")
        extraction.set_default("fused_loss", "false", "the loss of the objective needs logits")
    optimizer, precision = extraction.facts.get("optimizer"), extraction.facts.get("precision")
    method = extraction.facts.get("method") or extraction.defaults.get("method")
    if precision is None and method is not None and method.value != "full":
        extraction.discard("precision")
        extraction.set_framework_default("precision", "bf16-mixed")
    if "optimizer_rank" in extraction.defaults:
        extraction.discard("optimizer_rank")
        extraction.set_framework_default("optimizer_rank", "16")
    if optimizer is not None and optimizer.value == "badam":
        extraction.discard("precision")
        extraction.facts["precision"] = replace(precision or optimizer, value="bf16")


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    """Recognise its `src/train.py` by its flags, or by a configuration file alone."""
    if "finetuning_type" in flags or {"stage", "cutoff_len"} <= flags:
        return True
    return script.endswith(("src/train.py", "src/train_bash.py")) and not flags


LLAMA_FACTORY = Framework(
    name="llama-factory",
    newer=("USE_V1", LLAMA_FACTORY_V1),
    source="LLaMA-Factory",
    commands=(
        Command(program="llamafactory-cli", verbs=later("train|sft"), read_processes=_read_processes),
        Command(program="lmf", verbs=later("train|sft"), read_processes=_read_processes),
    ),
    programs=later(r"(?:.*/)?llamafactory/launcher\.py|llamafactory(?:\.cli|\.launcher)?"),
    matches=_matches,
    settings=TRAINER_SETTINGS
    | {"sequence": ("cutoff_len",), "lora_rank": ("lora_rank",), "lora_targets": ("lora_target",)}
    | {"attention": ("flash_attn",), "fused_loss": ("enable_liger_kernel",), "dtype": (), "checkpointing": ()}
    | {"saved_modules": ("additional_target",), "offloads_activations": ("use_unsloth_gc",)},
    defaults=TRAINER_DEFAULTS
    | {"sequence": "2048", "method": "lora", "lora_rank": "8", "lora_targets": "all-linear", "checkpointing": "true"},
    config_keys=frozenset({"model_name_or_path"}),
    config_may_be_unknown=True,
    overrides=Overrides.WITH_FILE,
    objective_settings=("stage",),
    objectives=PREFERENCES | {"rm": "value-head", "ppo": "ppo"},
    read_rollout=read_llama_factory_ppo,
    read_method=_read_method,
    complete=_complete,
    changes={
        "sdpa": {"flash_attn": "sdpa"},
        "checkpointing": {"disable_gradient_checkpointing": "false"},
        "fused-loss": {"enable_liger_kernel": "true"},
        "8-bit-optimizer": {"optim": "adamw_bnb_8bit"},
        "lora": {"finetuning_type": "lora", "lora_rank": "{rank}", "lora_target": "all"},
        "4-bit-base": {"quantization_bit": "4"},
        "zero-2": {"deepspeed": "examples/deepspeed/ds_z2_config.json"},
        "zero-3": {"deepspeed": "examples/deepspeed/ds_z3_config.json"},
        "zero-2 optimizer": {"deepspeed": "examples/deepspeed/ds_z2_offload_config.json"},
        "zero-3 all": {"deepspeed": "examples/deepspeed/ds_z3_offload_config.json"},
    },
)
