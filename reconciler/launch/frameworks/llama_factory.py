"""LLaMA-Factory: https://github.com/hiyouga/LLaMA-Factory.

PPO (`llamafactory/train/ppo`) is on the trainer of trl 0.9: the value is a head of the policy.
"""

from msgspec.structs import replace

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.launchers import read_variables
from reconciler.launch.settings import Setting, setting_from_env
from reconciler.launch.training import read_framework_method

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
        _read_reference(extraction, extraction.facts["objective"].value)
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


def _read_reference(extraction: Extraction, objective: str) -> None:
    """Read `ref_model` of preference training: a model more beside adapters, else the copy that is there anyway."""
    reference = extraction.script.find(("ref_model",)) if objective in {"dpo", "kto"} else None
    method = extraction.facts.get("method") or extraction.defaults.get("method")
    policy = extraction.facts.get("model")
    if reference is None or method is None:
        return
    if method.value != "full":
        extraction.add_text("reference_model", reference)
    elif policy is None or reference.text != policy.value:
        extraction.mark_uncertain(reference, "counts as a copy of the policy")


_KINDS = {"lora": False, "full": True, "api": False}
"""Values of `reward_model_type`, and whether the reward model has weights of its own. As `lora`, it is an adapter."""

_HINT = "exclude the job from sizing, and set its number of GPUs"


def read_ppo(extraction: Extraction) -> None:
    """Read the reward model, the reference model, and the tokens of prompt (`cutoff_len`) and answer together."""
    script = extraction.script
    kind = extraction.resolve("method", script.find(("reward_model_type",)))
    reward = script.find(("reward_model",))
    word = "lora" if kind is None else kind.text.lower()
    if word not in _KINDS or reward is None:
        named = kind if kind is not None and word not in _KINDS else None
        message = "PPO needs `reward_model`" if named is None else f"`{named.fact.snippet}` is not modelled"
        extraction.reject("method", message, None if named is None else named.fact.span, _HINT)
        return
    if _KINDS[word]:
        extraction.add_text("reward_model", reward)
    reference = script.find(("ref_model",))
    extraction.add_text("reference_model", reference)
    for role, model in (("reward", "reward_model"), ("reference", "ref_model")):
        _read_bits(extraction, role, script.find((f"{model}_quantization_bit",)))
        script.find((f"{model}_adapters",))  # merged, or as small as adapters are
    _read_length(extraction)
    origin = "the trainer of PPO"
    extraction.set_default("reference_model", "base", origin)
    extraction.set_default("vocabulary_heads", "true", origin)
    extraction.set_default("generates", "true", origin)


def _read_bits(extraction: Extraction, role: str, setting: Setting | None) -> None:
    if setting is None:
        return
    if setting.text in {"4", "8"}:
        extraction.add(f"{role}_bits", setting, setting.text)
    else:
        extraction.reject("method", f"`{setting.fact.snippet}`: expected 4 or 8", setting.fact.span)


def _read_length(extraction: Extraction) -> None:
    script = extraction.script
    extraction.add_number("prompt_length", script.find(("cutoff_len",)))
    extraction.add_number("answer_length", script.find(("max_new_tokens",)))
    extraction.set_framework_default("prompt_length", "2048")
    extraction.set_framework_default("answer_length", "1024")
    prompt, answer = extraction.number("prompt_length"), extraction.number("answer_length")
    stated = extraction.facts.get("answer_length") or extraction.facts.get("prompt_length")
    for name in ("prompt_length", "answer_length"):
        extraction.facts.pop(name, None)
        extraction.defaults.pop(name, None)
    if prompt is not None and answer is not None:
        extraction.discard("sequence")
        origin = f"{prompt} of a prompt and {answer} of its answer"
        snippet = "" if stated is None else stated.snippet
        span = None if stated is None else stated.span
        extraction.facts["sequence"] = Fact(value=str(prompt + answer), snippet=snippet, span=span, origin=origin)
