"""LLaMA-Factory: https://github.com/hiyouga/LLaMA-Factory."""

from msgspec.structs import replace

from reconciler.core.launch.framework import Extraction
from reconciler.core.launch.launchers import read_variables
from reconciler.core.launch.settings import setting_from_env
from reconciler.core.launch.training import read_framework_method

_V1_KEYS = ("train_dataset", "dist_config.name", "peft_config.name", "model_class", "kernel_config.name")


def read_processes(extraction: Extraction) -> None:
    """Read the counts. Without NPROC_PER_NODE, it starts one process for each visible GPU."""
    read_variables(extraction)
    visible = setting_from_env(extraction.line.env, "CUDA_VISIBLE_DEVICES")
    if visible is None or not visible.text or "processes" in {*extraction.facts, *extraction.unresolved}:
        return
    if extraction.resolve("processes", visible) is not None:
        extraction.add("processes", visible, str(len(visible.text.split(","))))


def read_method(extraction: Extraction) -> None:
    """Reject configurations of version 1, whose names version 0 does not know."""
    script = extraction.script
    if any(script.has(name) for name in _V1_KEYS):
        message = "the configuration is for LLaMA-Factory v1, which runs only if USE_V1 is set"
        extraction.reject("method", message, None, "set USE_V1=1 in the container's env")
    else:
        read_framework_method(extraction)


def complete(extraction: Extraction) -> None:
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
