"""Axolotl: https://docs.axolotl.ai."""

from reconciler.core.launch.framework import Command, Extraction, Framework
from reconciler.core.launch.launchers import read_script_processes
from reconciler.core.launch.objective import PREFERENCES
from reconciler.core.launch.rollout import RolloutFlags, read_rollout
from reconciler.core.launch.settings import is_true
from reconciler.core.patterns import later

_PLUGINS = frozenset({"LigerPlugin", "CutCrossEntropyPlugin", "LMEvalPlugin"})
"""Plugins whose settings are read. The others change the model, the loss or the sharding."""


_FSDP = {
    "fsdp_version": "2",
    "fsdp_config.auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_config.reshard_after_forward": "true",
}
"""FSDP of PyTorch 2 (https://docs.axolotl.ai/docs/multi-gpu.html)."""


def _read_precision(extraction: Extraction) -> None:
    """Read the type of weights and computation (axolotl.utils.config.normalize_config).

    The weights are loaded in that type. Adapters, and weights under FSDP and DeepSpeed, are trained in fp32.
    """
    script = extraction.script
    names = (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16"), ("float16", "fp16"))
    found = [(name, dtype, extraction.resolve("precision", script.find((name,)))) for name, dtype in names]
    for name, dtype, setting in found:
        if setting is None or not (is_true(setting) or setting.text.lower() == "full"):
            continue
        is_pure = name in {"bfloat16", "float16"} or setting.text.lower() == "full"
        keeps_fp32 = "strategy" in extraction.facts or script.has("adapter") or name == "fp16"
        is_mixed = not is_pure and keeps_fp32
        extraction.add("precision", setting, f"{dtype}-mixed" if is_mixed else dtype)
        return


_ROLLOUT = RolloutFlags(
    prompt=("sequence_len",),
    answer=("trl.max_completion_length",),
    prompt_tokens="512",
    answer_tokens="256",
    engine=("trl.use_vllm",),
    mode=("trl.vllm_mode",),
    fraction=("vllm.gpu_memory_utilization",),
    default_fraction="0.9",
    sleep=("trl.vllm_enable_sleep_mode",),
    beta=("trl.beta", "rl_beta"),
)
"""Keys of `trl` and `vllm` (axolotl 0.19, `core/trainers/grpo`)."""


def _read_rollout(extraction: Extraction) -> None:
    """Read the rollout. An engine is a server on other GPUs, unless it is `colocate` (`axolotl vllm-serve`)."""
    script = extraction.script
    mode = script.find(("trl.vllm_mode",))
    if is_true(script.find(("trl.use_vllm",))) and mode is None:
        message = "`trl.use_vllm` without `trl.vllm_mode`: where the engine runs is unknown"
        extraction.reject("rollout", message, None, "set it to `colocate` or `server`")
    for name in _CONSTANTS:
        script.find((f"trl.{name}",))
    if mode is not None and mode.text == "server":
        script.under("vllm.")
    read_rollout(extraction, _ROLLOUT)


_CONSTANTS = frozenset(
    (
        *("reward_funcs", "reward_weights", "num_generations", "log_completions", "num_completions_to_print"),
        *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "epsilon", "epsilon_high", "loss_type"),
        *("scale_rewards", "mask_truncated_completions", "importance_sampling_level", "num_iterations"),
        *("vllm_server_host", "vllm_server_port", "vllm_server_timeout", "generation_batch_size"),
    )
)
"""Keys of `trl` that do not change memory: how answers are drawn, rewarded and sent."""


def _complete(extraction: Extraction) -> None:
    """Read the plugins: Cut Cross Entropy is on as soon as its plugin is listed."""
    extraction.script.find(("launcher", "mixed_precision"))  # what starts the processes; the type is that of the file
    plugins = extraction.script.find(("plugins",))
    named = [word.rpartition(".")[2] for word in plugins.text.split(",")] if plugins is not None else []
    if plugins is not None and (others := sorted(set(named) - _PLUGINS - {""})):
        message = f"the plugin {others[0]} is not modelled"
        extraction.reject("method", message, plugins.fact.span, "exclude the job from sizing")
    if plugins is not None and "CutCrossEntropyPlugin" in named and not extraction.script.has("cut_cross_entropy"):
        extraction.add("fused_loss", plugins, "true")


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
        "saved_modules": ("lora_modules_to_save",),
        "dora": ("peft_use_dora",),
        "offloads_activations": ("activation_offloading",),
        "tensor": ("tensor_parallel_size",),
        "context": ("context_parallel_size", "sequence_parallel_degree"),
        "deepspeed": ("deepspeed",),
    },
    defaults={"batch": "1", "accumulation": "1", "sequence": "512", "checkpointing": "false"}
    | {"optimizer": "adamw_torch_fused", "attention": "sdpa", "fused_loss": "false"},
    single_values=True,
    config_keys=frozenset({"base_model"}),
    config_may_be_unknown=True,
    objectives=PREFERENCES | {"reward_model": "reward", "grpo": "grpo"},
    read_rollout=_read_rollout,
    objective_settings=("rl", "reward_model", "process_reward_model"),
    read_precision=_read_precision,
    complete=_complete,
    attention_switches={"flash_attention": "flash-attn-2", "sdp_attention": "sdpa", "eager_attention": "eager"},
    changes={
        "sdpa": {"attn_implementation": "sdpa"},
        "checkpointing": {"gradient_checkpointing": "true"},
        "fused-loss": {
            "plugins+": "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin",
            "cut_cross_entropy": "true",
        },
        "8-bit-optimizer": {"optimizer": "adamw_bnb_8bit"},
        "lora": {"adapter": "lora", "lora_r": "{rank}", "lora_target_linear": "true"},
        "4-bit-base": {"adapter": "qlora", "load_in_4bit": "true"},
        "fsdp-full": _FSDP,
        "fsdp-full all": _FSDP | {"fsdp_config.offload_params": "true"},
        "context": {"context_parallel_size": "{degree}"},
    },
)
