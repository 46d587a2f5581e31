"""Which weights a line trains: all, or adapters, over a base that may be quantised."""

from msgspec.structs import replace

from reconciler.core.launch.dialects import Dialect
from reconciler.core.launch.facts import Fact
from reconciler.core.launch.gathering import Gathering, truth
from reconciler.core.launch.launchers import Invocation
from reconciler.core.launch.objective import refuse_other_objectives
from reconciler.core.launch.settings import Setting, Settings

_METHOD = (
    "peft_method",
    "finetuning_type",
    "adapter",
    "sft_type",
    "train_type",
    "tuner_type",
    "peft_type",
    "finetune_type",
)
_SWITCHES = ("use_peft", "use_lora", "enable_lora", "lora_enable", "lora")
_QLORA = ("q_lora", "use_qlora", "qlora")
_FOUR_BITS = ("load_in_4bit", "use_4bit", "use_4bit_quantization")
_BITS = ("quantization_bit", "quant_bits", "bits", "quantization")
_BIT_WORDS = {"4": "4bit", "4bit": "4bit", "8": "8bit", "8bit": "8bit", "": "8bit", "true": "8bit"}
_GPTQ = ("auto_gptq",)
_BNB = ("bnb_qlora",)
_SIGNS = ("lora_r", "lora_rank", "lora_alpha", "lora_target_modules")
_LITGPT_TARGETS = {
    "lora_query": "q_proj",
    "lora_key": "k_proj",
    "lora_value": "v_proj",
    "lora_projection": "o_proj",
    "lora_mlp": "gate_proj,up_proj,down_proj",
    "lora_head": "lm_head",
}
_BASES = {"qlora": "4bit", "gptq-lora": "gptq"}
_NAMES = {
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


def read_method(invocation: Invocation, dialect: Dialect, settings: Settings, gathering: Gathering) -> None:
    """Gather `method` and `quantisation`."""
    if refuse_other_objectives(invocation, dialect, settings, gathering):
        return
    if dialect.family == "litgpt":
        _litgpt(invocation, settings, gathering)
        return
    if dialect.family == "torchtune":
        _torchtune(invocation, settings, gathering)
        return
    method, fact = _adapters(dialect, settings, gathering)
    if "method" in gathering.unsure:
        return
    quantised = _quantised(settings, gathering)
    if quantised is not None:
        gathering.facts["quantisation"] = quantised
    if quantised is not None and quantised.value != "8bit":
        if method == "full":
            message = f"`{quantised.snippet}` holds the weights in 4 bits, which only adapters can be trained on"
            gathering.refuse("method", message, quantised.span, "ask for LoRA, or leave the quantisation out")
            return
        method = "gptq-lora" if quantised.value == "gptq" else "qlora"
        fact = quantised
    if fact is not None and method:
        gathering.facts["method"] = replace(fact, value=method)


def _adapters(dialect: Dialect, settings: Settings, gathering: Gathering) -> tuple[str, Fact | None]:
    """Return the method that is named, and by which words; empty where nothing names one."""
    named = settings.find(_METHOD)
    if named is not None:
        found = gathering.known("method", named)
        if found is None:
            return "", None
        method = _NAMES.get(found.text.strip().lower())
        if method is None:
            message = f"`{found.fact.snippet}`: only full fine-tuning, LoRA, QLoRA and GPTQ-LoRA can be sized"
            gathering.refuse("method", message, found.fact.span, "leave the job out of sizing, or change the method")
        return method or "", found.fact
    for names, method in ((_QLORA, "qlora"), (_SWITCHES, "lora")):
        if (found := gathering.known("method", settings.find(names))) is not None and truth(found.text):
            named_method = "gptq-lora" if method == "qlora" and dialect.name == "qwen" else method
            if named_method in _BASES:
                gathering.facts["quantisation"] = replace(found.fact, value=_BASES[named_method])
            return named_method, found.fact
        if "method" in gathering.unsure:
            return "", None
    if dialect.family == "own" and (sign := settings.find(_SIGNS)) is not None:
        return "lora", sign.fact
    return "", None


def _quantised(settings: Settings, gathering: Gathering) -> Fact | None:
    """Return `4bit`, `8bit` or `gptq` with the words that say so."""
    gptq = gathering.known("quantisation", settings.find(_GPTQ))
    if gptq is not None and gptq.text.lower() not in {"none", "false"}:
        return replace(gptq.fact, value="gptq")
    four = gathering.known("quantisation", settings.find((*_FOUR_BITS, *_BNB)))
    if four is not None and truth(four.text) is not False:
        return replace(four.fact, value="4bit")
    bits = gathering.known("quantisation", settings.find(_BITS))
    if bits is not None and bits.text.lower() in _BIT_WORDS:
        return replace(bits.fact, value=_BIT_WORDS[bits.text.lower()])
    eight = gathering.known("quantisation", settings.find(("load_in_8bit",)))
    return replace(eight.fact, value="8bit") if eight is not None and truth(eight.text) else None


def _litgpt(invocation: Invocation, settings: Settings, gathering: Gathering) -> None:
    words = invocation.name.replace(".", " ").replace("/", " ").split()
    verb = next((word for word in words if word.startswith(("finetune", "pretrain", "lora", "full", "adapter"))), "")
    if verb == "finetune":
        verb = next((field.text for field in invocation.fields[invocation.program + 1 : invocation.program + 2]), "")
    fact = Fact(value="", snippet=invocation.name)
    if "adapter" in verb:
        gathering.refuse(
            "method", f"`{invocation.name}` trains adapters that cannot be sized", None, "use LoRA or full"
        )
        return
    quantised = gathering.known("quantisation", settings.find(("quantize",)))
    method = "full" if "full" in verb or verb == "pretrain" else "lora"
    if quantised is not None and quantised.text.startswith("bnb."):
        value = "8bit" if "int8" in quantised.text else "4bit"
        gathering.facts["quantisation"] = replace(quantised.fact, value=value)
        method = "qlora" if method == "lora" and value == "4bit" else method
    gathering.facts["method"] = replace(fact, value=method)
    _litgpt_targets(settings, gathering)


def _litgpt_targets(settings: Settings, gathering: Gathering) -> None:
    """LitGPT switches each kind of matrix by a flag of its own; those for query and value are on by default."""
    given = {name: setting for name in _LITGPT_TARGETS if (setting := settings.find((name,))) is not None}
    chosen = [
        layers
        for name, layers in _LITGPT_TARGETS.items()
        if (truth(given[name].text) if name in given else name in {"lora_query", "lora_value"})
    ]
    if given:
        first = next(iter(given.values()))
        gathering.facts["lora_targets"] = replace(first.fact, value=",".join(chosen))


def _torchtune(invocation: Invocation, settings: Settings, gathering: Gathering) -> None:
    recipe = invocation.fields[invocation.program].text
    component = settings.find(("model._component_",))
    config = settings.find(("config",))
    told: list[Setting] = [setting for setting in (component, config) if setting is not None]
    fact = Fact(value="", snippet=recipe)
    if "qlora" in recipe or any("qlora" in setting.text for setting in told):
        gathering.facts["quantisation"] = replace(fact, value="4bit")
        gathering.facts["method"] = replace(fact, value="qlora")
    elif recipe.startswith(("lora", "full")) or "/lora_" in recipe or "/full_" in recipe:
        gathering.facts["method"] = replace(fact, value="lora" if "lora" in recipe else "full")
    else:
        gathering.refuse(
            "method", f"the recipe `{recipe}` is neither full nor LoRA fine-tuning", None, "leave it out of sizing"
        )
