"""PPO of LLaMA-Factory (`llamafactory/train/ppo`), on the trainer of trl 0.9: the value is a head of the policy."""

from reconciler.core.launch.facts import Fact
from reconciler.core.launch.framework import Extraction
from reconciler.core.launch.settings import Setting

_KINDS = {"lora": False, "full": True, "api": False}
"""Values of `reward_model_type`, and whether the reward model has weights of its own. As `lora`, it is an adapter."""

_HINT = "exclude the job from sizing, and set its number of GPUs"


def read_llama_factory_ppo(extraction: Extraction) -> None:
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
