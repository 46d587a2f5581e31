"""Axolotl: https://docs.axolotl.ai."""

from reconciler.launch.framework import Extraction
from reconciler.launch.frameworks.rollout import read_rollout
from reconciler.launch.settings import is_true

_PLUGINS = frozenset({"LigerPlugin", "CutCrossEntropyPlugin", "LMEvalPlugin"})
"""Plugins whose settings are read. The others change the model, the loss or the sharding."""


def read_precision(extraction: Extraction) -> None:
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


def read_modes_and_rollout(extraction: Extraction) -> None:
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
    read_rollout(extraction)


_CONSTANTS = frozenset(
    (
        *("reward_funcs", "reward_weights", "num_generations", "log_completions", "num_completions_to_print"),
        *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "epsilon", "epsilon_high", "loss_type"),
        *("scale_rewards", "mask_truncated_completions", "importance_sampling_level", "num_iterations"),
        *("vllm_server_host", "vllm_server_port", "vllm_server_timeout", "generation_batch_size"),
    )
)
"""Keys of `trl` that do not change memory: how answers are drawn, rewarded and sent."""


def complete(extraction: Extraction) -> None:
    """Read the plugins: Cut Cross Entropy is on as soon as its plugin is listed."""
    extraction.script.find(("launcher", "mixed_precision"))  # what starts the processes; the type is that of the file
    plugins = extraction.script.find(("plugins",))
    named = [word.rpartition(".")[2] for word in plugins.text.split(",")] if plugins is not None else []
    if plugins is not None and (others := sorted(set(named) - _PLUGINS - {""})):
        message = f"the plugin {others[0]} is not modelled"
        extraction.reject("method", message, plugins.fact.span, "exclude the job from sizing")
    if plugins is not None and "CutCrossEntropyPlugin" in named and not extraction.script.has("cut_cross_entropy"):
        extraction.add("fused_loss", plugins, "true")
