"""Which weights a line trains: all, or adapters, over a base that may be quantised."""

from msgspec.structs import replace

from reconciler.core.launch.dialects import Dialect
from reconciler.core.launch.gathering import Gathering, truth
from reconciler.core.launch.launch import Fact
from reconciler.core.launch.launchers import Launched
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
_SWITCHES = ("use_peft", "use_lora", "enable_lora", "lora")
_QLORA = ("q_lora", "use_qlora", "qlora")
_FOUR_BITS = ("load_in_4bit", "use_4bit", "use_4bit_quantization")
_BITS = ("quantization_bit", "quant_bits", "bits")
_GPTQ = ("auto_gptq",)
_BNB = ("bnb_qlora",)
_SIGNS = ("lora_r", "lora_rank", "lora_alpha", "lora_target_modules")
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


def read_method(launched: Launched, dialect: Dialect, settings: Settings, gathering: Gathering) -> None:
    """Gather `method` and `quantisation`."""
    if dialect.family == "litgpt":
        _litgpt(launched, settings, gathering)
        return
    if dialect.family == "torchtune":
        _torchtune(launched, settings, gathering)
        return
    method, fact = _adapters(dialect, settings, gathering)
    if "method" in gathering.unsure:
        return
    quantised = _quantised(settings, gathering)
    if quantised is not None and quantised.value != "8bit":
        gathering.facts["quantisation"] = quantised
        if method == "lora":
            method = "gptq-lora" if quantised.value == "gptq" else "qlora"
            fact = replace(quantised, value=method)
    elif quantised is not None:
        gathering.facts["quantisation"] = quantised
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
            message = f"`{found.fact.written}`: only full fine-tuning, LoRA, QLoRA and GPTQ-LoRA can be sized"
            gathering.refuse("method", message, found.fact.spot, "leave the job out of sizing, or change the method")
        return method or "", found.fact
    for names, method in ((_QLORA, "qlora"), (_SWITCHES, "lora")):
        if (found := gathering.known("method", settings.find(names))) is not None and truth(found.text):
            return method, found.fact
        if "method" in gathering.unsure:
            return "", None
    if dialect.name == "" and (sign := settings.find(_SIGNS)) is not None:
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
    if bits is not None and bits.text in {"4", "8"}:
        return replace(bits.fact, value=f"{bits.text}bit")
    eight = gathering.known("quantisation", settings.find(("load_in_8bit",)))
    return replace(eight.fact, value="8bit") if eight is not None and truth(eight.text) else None


def _litgpt(launched: Launched, settings: Settings, gathering: Gathering) -> None:
    words = launched.name.replace(".", " ").replace("/", " ").split()
    verb = next((word for word in words if word.startswith(("finetune", "pretrain", "lora", "full", "adapter"))), "")
    if verb == "finetune":
        verb = next((field.text for field in launched.fields[launched.program + 1 : launched.program + 2]), "")
    fact = Fact(value="", written=launched.name)
    if "adapter" in verb:
        gathering.refuse("method", f"`{launched.name}` trains adapters that cannot be sized", None, "use LoRA or full")
        return
    quantised = gathering.known("quantisation", settings.find(("quantize",)))
    method = "full" if "full" in verb or verb == "pretrain" else "lora"
    if quantised is not None and quantised.text.startswith("bnb."):
        value = "8bit" if "int8" in quantised.text else "4bit"
        gathering.facts["quantisation"] = replace(quantised.fact, value=value)
        method = "qlora" if method == "lora" and value == "4bit" else method
    gathering.facts["method"] = replace(fact, value=method)


def _torchtune(launched: Launched, settings: Settings, gathering: Gathering) -> None:
    recipe = launched.fields[launched.program].text
    component = settings.find(("model._component_",))
    config = settings.find(("config",))
    told: list[Setting] = [setting for setting in (component, config) if setting is not None]
    fact = Fact(value="", written=recipe)
    if "qlora" in recipe or any("qlora" in setting.text for setting in told):
        gathering.facts["quantisation"] = replace(fact, value="4bit")
        gathering.facts["method"] = replace(fact, value="qlora")
    elif recipe.startswith(("lora", "full")) or "/lora_" in recipe or "/full_" in recipe:
        gathering.facts["method"] = replace(fact, value="lora" if "lora" in recipe else "full")
    else:
        gathering.refuse(
            "method", f"the recipe `{recipe}` is neither full nor LoRA fine-tuning", None, "leave it out of sizing"
        )
