"""Which weights a line trains: all of them, or adapters over a base that may be quantised.

Only supervised fine-tuning and pre-training of one model are sized. Preference and reinforcement learning also hold a
reference model, a reward model or sampled answers, and several sequences for each sample: sized like supervised
training, they would run out of memory.
"""

import re

from msgspec.structs import replace

from reconciler.core.launch.extraction import Extraction, is_true, parse_boolean
from reconciler.core.launch.facts import Fact
from reconciler.core.launch.settings import Setting

OTHER_OBJECTIVES = "(?:dpo|kto|grpo|rloo|reward|rm|orpo|cpo|simpo|ppo|online_dpo|nash_md|xpo|gkd|prm|bco|rlhf)"
"""Verbs and script names of trainings other than supervised fine-tuning."""

_OTHER_SCRIPTS = re.compile(rf"(?:.*/)?(?:run_)?{OTHER_OBJECTIVES}\.py")
_SUPERVISED = frozenset({"sft", "pt", "", "none", "null", "false"})
_METHOD = (
    *("peft_method", "finetuning_type", "adapter", "sft_type", "train_type", "tuner_type", "peft_type"),
    "finetune_type",
)
_METHODS = {
    "lora": "lora",
    "qlora": "qlora",
    "full": "full",
    "none": "full",
    "": "full",
    "null": "full",
    "sft": "full",
    "dora": "lora",
    "rslora": "lora",
    "gptq-lora": "gptq-lora",
    "false": "full",
}
_LORA_SWITCHES = ("use_peft", "use_lora", "enable_lora", "lora_enable", "lora")
_QLORA_SWITCHES = ("q_lora", "use_qlora", "qlora")
_LORA_FLAGS = ("lora_r", "lora_rank", "lora_alpha", "lora_target_modules")
_QUANTISED_BASE = {"qlora": "4bit", "gptq-lora": "gptq"}
_IN_4_BITS = ("load_in_4bit", "use_4bit", "use_4bit_quantization", "bnb_qlora")
_BITS = ("quantization_bit", "quant_bits", "bits", "quantization")
_BIT_WORDS = {"4": "4bit", "4bit": "4bit", "8": "8bit", "8bit": "8bit", "": "8bit", "true": "8bit"}


def read_method(extraction: Extraction) -> None:
    """Read `method` and `quantisation`."""
    if _rejects_objective(extraction):
        return
    if extraction.framework.read_method is not None:
        extraction.framework.read_method(extraction)
        return
    method, fact = _named_method(extraction)
    if "method" in extraction.unresolved:
        return
    quantised = _quantisation(extraction)
    if quantised is not None:
        extraction.facts["quantisation"] = quantised
        if quantised.value != "8bit":
            if method == "full":
                message = f"`{quantised.snippet}` loads the weights in 4 bits; only adapters can be trained on them"
                hint = "train LoRA adapters, or remove the quantisation"
                extraction.reject("method", message, quantised.span, hint)
                return
            method, fact = "gptq-lora" if quantised.value == "gptq" else "qlora", quantised
    if fact is not None and method:
        extraction.facts["method"] = replace(fact, value=method)


def _rejects_objective(extraction: Extraction) -> bool:
    """Reject a line that trains for another objective, by its program or by the framework's setting for it."""
    name, framework = extraction.invocation.name, extraction.framework
    problem = "is not supervised fine-tuning: its other models and samples are not in the memory model"
    hint = "exclude the job from sizing, and set its number of GPUs"
    patterns = (_OTHER_SCRIPTS, framework.other_objectives)
    if any(pattern is not None and pattern.fullmatch(name) for pattern in patterns):
        extraction.reject("method", f"`{name}` {problem}", None, hint)
        return True
    setting = extraction.resolve("method", extraction.script.find(framework.objective_settings))
    if setting is not None and setting.text.strip().lower() not in _SUPERVISED:
        extraction.reject("method", f"`{setting.fact.snippet}` {problem}", setting.fact.span, hint)
    return "method" in extraction.unresolved


def _named_method(extraction: Extraction) -> tuple[str, Fact | None]:
    """Return the method that a setting names, and the setting's words; empty where none does."""
    script = extraction.script
    if (named := script.find(_METHOD)) is not None:
        if extraction.resolve("method", named) is None:
            return "", None
        method = _METHODS.get(named.text.strip().lower())
        if method is None:
            message = f"`{named.fact.snippet}`: only full fine-tuning, LoRA, QLoRA and GPTQ-LoRA can be sized"
            hint = "exclude the job from sizing, or change the method"
            extraction.reject("method", message, named.fact.span, hint)
        return method or "", named.fact
    for names, method in ((_QLORA_SWITCHES, extraction.framework.qlora_method), (_LORA_SWITCHES, "lora")):
        switch = extraction.resolve("method", script.find(names))
        if switch is not None and is_true(switch):
            if method in _QUANTISED_BASE:
                extraction.add("quantisation", switch, _QUANTISED_BASE[method])
            return method, switch.fact
        if "method" in extraction.unresolved:
            return "", None
    if extraction.framework.adapters_from_flags and (flag := script.find(_LORA_FLAGS)) is not None:
        return "lora", flag.fact
    return "", None


def _quantisation(extraction: Extraction) -> Fact | None:
    """Return `4bit`, `8bit` or `gptq` with the words that set it."""

    def setting(*names: str) -> Setting | None:
        return extraction.resolve("quantisation", extraction.script.find(names))

    gptq = setting("auto_gptq")
    if gptq is not None and gptq.text.lower() not in {"none", "false"}:
        return replace(gptq.fact, value="gptq")
    in_4_bits = setting(*_IN_4_BITS)
    if in_4_bits is not None and parse_boolean(in_4_bits.text) is not False:
        return replace(in_4_bits.fact, value="4bit")
    bits = setting(*_BITS)
    if bits is not None and bits.text.lower() in _BIT_WORDS:
        return replace(bits.fact, value=_BIT_WORDS[bits.text.lower()])
    in_8_bits = setting("load_in_8bit")
    return replace(in_8_bits.fact, value="8bit") if in_8_bits is not None and is_true(in_8_bits) else None
