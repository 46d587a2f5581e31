"""TRL: https://huggingface.co/docs/trl."""

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from reconciler.core.launch.framework import Command, Extraction, Framework
from reconciler.core.launch.frameworks.reinforcement.trl_ppo import read_trl_ppo
from reconciler.core.launch.frameworks.transformers import TRAINER_CHANGES, TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.launchers import read_script_processes
from reconciler.core.launch.objective import OTHER_OBJECTIVES, PREFERENCES
from reconciler.core.launch.rollout import RolloutFlags, read_rollout
from reconciler.core.patterns import later

# Its own configurations of accelerate (trl/accelerate_configs, trl 0.9 to 1.16), by the names of `--accelerate_config`.
# All start eight processes unless `--num_processes` says otherwise, and compute in bf16.
_ACCELERATE = {
    "single_gpu": "ddp",
    "multi_gpu": "ddp",
    "fsdp1": "fsdp-full",
    "fsdp2": "fsdp-full",
    "fsdp_qlora": "fsdp-full",
    "zero1": "zero-1",
    "zero2": "zero-2",
    "zero3": "zero-3",
    "deepspeed_zero1": "zero-1",
    "deepspeed_zero2": "zero-2",
    "deepspeed_zero3": "zero-3",
}

_COPIES = frozenset({"sft.py", "run_sft.py", "dpo.py", "kto.py", "orpo.py", "cpo.py", "reward_modeling.py"})
_OBJECTIVES = (
    PREFERENCES
    | {"reward": "reward", "reward_modeling": "reward", "dpo_vlm": "dpo", "dpo_visual": "dpo"}
    | {"run_dpo": "dpo", "run_orpo": "orpo", "grpo": "grpo", "rloo": "grpo"}
    | {"ppo": "ppo", "ppo_tldr": "ppo"}
)

# https://huggingface.co/docs/trl/distributing_training (context parallelism, which needs FSDP 2)
_CONTEXT = {
    "--use_fsdp": "",
    "--fsdp_version": "2",
    "--use_parallelism_config": "",
    "--parallelism_config_cp_size": "{degree}",
}
_ROLLOUT = RolloutFlags(
    prompt=("max_prompt_length",),
    answer=("max_completion_length",),
    prompt_tokens="512",
    answer_tokens="512",
    engine=("use_vllm",),
    mode=("vllm_mode",),
    fraction=("vllm_gpu_memory_utilization",),
    default_fraction="0.3",
    sleep=("vllm_enable_sleep_mode",),
    beta=("beta",),
)
"""GRPOConfig of trl 1.16; the length of prompts is the default of 0.15 to 0.26."""


def _read_rollout(extraction: Extraction) -> None:
    """Read the rollout. RLOO's `beta` is 0.05 by default (RLOOConfig), so that it has a reference model."""
    if extraction.facts["objective"].value == "ppo":
        read_trl_ppo(extraction)
        return
    is_rloo = "rloo" in extraction.invocation.name.rpartition("/")[2]
    read_rollout(extraction, replace(_ROLLOUT, has_reference=is_rloo))


_OWN_FLAGS = frozenset({"dataset_name", "use_peft", "dataset_train_split", "dataset_text_field", "assistant_only_loss"})


def _read_sharding(extraction: Extraction) -> None:
    """Read `--accelerate_config`: one of its own configurations by name, or a file."""
    named = extraction.resolve("strategy", extraction.script.find(("accelerate_config",)))
    if named is not None and (strategy := _ACCELERATE.get(named.text)):
        extraction.add("strategy", named, strategy)
        if not extraction.script.has("num_processes"):
            extraction.add("processes", named, "1" if named.text == "single_gpu" else "8")


def _read_words(extraction: Extraction) -> None:
    """Read the file of `--accelerate_config` as accelerate does."""
    named = extraction.script.find(("accelerate_config",))
    if named is not None and named.text not in _ACCELERATE:
        diagnostic = extraction.load(extraction.launcher, named, "accelerate configuration")
        if diagnostic is not None:
            extraction.unresolved |= dict.fromkeys(("strategy", "offload", "processes", "machines"), diagnostic)


def _matches(script: str, flags: AbstractSet[str]) -> bool:
    """Recognise copies of its scripts by flags of its own arguments, and the alignment handbook's by their recipes."""
    name = script.rpartition("/")[2]
    if name in {"run_sft.py", "run_dpo.py", "run_orpo.py"} and "model_name_or_path" not in flags:
        return True
    if name.startswith("ppo") and {"sft_model_path", "reward_model_path"} <= flags:
        return True
    return name in _COPIES and "model_name_or_path" in flags and not flags.isdisjoint(_OWN_FLAGS)


TRL = Framework(
    name="trl",
    source="trl 0.20 and later",
    commands=(
        Command(
            program="trl",
            verbs=later("sft|dpo|kto|orpo|grpo|rloo|reward|distillation"),
            read_processes=read_script_processes,
        ),
    ),
    programs=later(
        r"trl\.scripts\.\w+|(?:.*/)?open_r1/(?:sft|grpo)\.py|(?:.*/)?trl/(?:scripts|cli)/\w+\.py|(?:.*/)?examples/scripts/"
        r"(?:sft\w*|dpo|dpo_vlm|kto|orpo|cpo|grpo|rloo|reward_modeling|(?:ppo/)?ppo(?:_tldr)?)\.py"
    ),
    matches=_matches,
    settings=TRAINER_SETTINGS
    | {"model": ("model_name_or_path", "model_name"), "sequence": ("max_length", "max_seq_length", "seq_length")}
    # The last names are those of its `sft.py` before 0.8.
    | {"batch": (*TRAINER_SETTINGS["batch"], "batch_size"), "lora_rank": ("lora_r", "peft_lora_r")},
    defaults=TRAINER_DEFAULTS
    | {"sequence": "1024", "checkpointing": "true", "precision": "bf16-mixed"}
    | {"lora_rank": "16", "lora_targets": "all-linear"},
    read_words=_read_words,
    read_sharding=_read_sharding,
    config_flags=("config",),
    config_keys=frozenset({"model_name_or_path"}),
    objectives=_OBJECTIVES,
    read_rollout=_read_rollout,
    loads_fp32=True,
    other_objectives=later(rf"trl(?: |\.scripts\.){OTHER_OBJECTIVES}"),
    changes=TRAINER_CHANGES
    | {"lora": {"use_peft": "true", "lora_r": "{rank}", "lora_target_modules": "all-linear"}}
    | {"4-bit-base": {"load_in_4bit": "true"}, "sdpa": {"attn_implementation": "sdpa"}, "context": _CONTEXT},
)
