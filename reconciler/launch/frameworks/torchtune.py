"""torchtune: https://pytorch.org/torchtune."""

from msgspec.structs import replace

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import is_true, parse_boolean
from reconciler.launch.training import read_dtype

_COMPONENTS = frozenset({"optimizer", "model", "tokenizer", "checkpointer"})


def recipe_values(extraction: Extraction, name: str) -> dict[str, str]:
    """Return the values of a shipped configuration by their keys; empty if there is none of that name."""
    words = extraction.framework.words
    row = next((line for line in words["recipes"]["rows"].splitlines() if line.partition(" ")[0] == name), "")
    if not row:
        return {}
    values = {short: text for short, _, text in (word.partition("=") for word in row.split(" ")[1:])}
    if "t" in values:
        values["t"] = ",".join(words["targets"][letter] for letter in values["t"])
    return {**words["recipe"], **{words["keys"][short]: text for short, text in values.items()}}


def read_words(extraction: Extraction) -> None:
    """Read `optimizer=CLASS`, which replaces the component of a configuration (torchtune.config._utils)."""
    for field in extraction.arguments.words:
        name, _, text = field.text.partition("=")
        if name in _COMPONENTS:
            extraction.script.add_word(f"{name}._component_", text, field)


def read_method(extraction: Extraction) -> None:
    """Read the method from the recipe's name; QLoRA also from the configuration's."""
    recipe = extraction.invocation.fields[extraction.invocation.program].text
    settings = (extraction.script.find((name,)) for name in ("model._component_", "config"))
    fact = Fact(value="", snippet=recipe)
    if "qlora" in recipe or any("qlora" in setting.text for setting in settings if setting is not None):
        extraction.facts |= {"quantisation": _with_value(fact, "4bit"), "method": _with_value(fact, "qlora")}
    elif recipe.startswith(("lora", "full")) or "/lora_" in recipe or "/full_" in recipe:
        extraction.facts["method"] = _with_value(fact, "lora" if "lora" in recipe else "full")
    else:
        message = f"the recipe `{recipe}` is neither full nor LoRA fine-tuning"
        extraction.reject("method", message, None, "exclude the job from sizing")


def _with_value(fact: Fact, value: str) -> Fact:
    return Fact(value=value, snippet=fact.snippet)


def read_precision(extraction: Extraction) -> None:
    """Read the data type of weights and computation, which are the same."""
    setting, dtype = read_dtype(extraction)
    if setting is not None and dtype:
        extraction.add("precision", setting, dtype)


def read_sharding(extraction: Extraction) -> None:
    """Shard fully in distributed recipes."""
    if "single_device" in extraction.invocation.name:
        extraction.set_default("processes", "1", "a recipe for a single device")
    resharding = extraction.script.find(("fsdp_reshard_after_forward",))
    if "distributed" in extraction.invocation.name:
        keeps = resharding is not None and parse_boolean(resharding.text) is False
        extraction.set_framework_default("strategy", "fsdp-grad-op" if keeps else "fsdp-full")


_MODULES = {"output_proj": "o_proj"}
"""Its names of matrices, by those of transformers."""


def complete(extraction: Extraction) -> None:
    """Name the adapters' targets as transformers does, and read the optimizer in the backward pass."""
    script = extraction.script
    targets = [
        _MODULES.get(name.strip(), name.strip())
        for name in script.text("model.lora_attn_modules").strip("[]").split(",")
        if name
    ]
    mlp, output = (script.find((f"model.apply_lora_to_{part}",)) for part in ("mlp", "output"))
    targets += ["gate_proj", "up_proj", "down_proj"] if is_true(mlp) else []
    targets += ["lm_head"] if is_true(output) else []
    setting = script.find(("model.lora_attn_modules",)) or mlp or output
    if setting is not None and targets:
        extraction.add("lora_targets", setting, ",".join(targets))
    fused, optimizer = script.find(("optimizer.fused",)), extraction.facts.get("optimizer")
    if fused is not None and is_true(fused) and optimizer is not None and optimizer.value == "adamw_torch":
        extraction.facts["optimizer"] = replace(optimizer, value="adamw_torch_fused")
    in_backward = script.find(("optimizer_in_bwd",))
    if in_backward is None or not is_true(in_backward):
        return
    name = optimizer.value if optimizer is not None else "adamw_torch"
    extraction.add("optimizer", in_backward, f"{name}_in_backward")
