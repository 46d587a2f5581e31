"""Unsloth: https://github.com/unslothai/unsloth (`unsloth-cli.py`, and `unsloth train` of `unsloth_cli/config.py`)."""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import is_true, parse_boolean

_CHECKPOINTING = ("use_gradient_checkpointing", "gradient_checkpointing", "training.gradient_checkpointing")


def _is_command(extraction: Extraction) -> bool:
    return extraction.invocation.command is not None


def read_method(extraction: Extraction) -> None:
    """Read adapters on a base in 4 bits: the default of `unsloth train`, and by `--load_in_4bit` of the script.

    The script's `--quantization` is the format in which it saves.
    """
    script = extraction.script
    script.find(("quantization", "save_method", "quantization_method"))
    kind = extraction.resolve("method", script.find(("training_type", "training.training_type")))
    if kind is not None and kind.text.lower() == "full":
        extraction.add("method", kind, "full")
        return
    packed = extraction.resolve("method", script.find(("load_in_4bit", "training.load_in_4bit")))
    model = extraction.facts.get("model")
    is_packed = is_true(packed) or (packed is None and _is_command(extraction))
    if is_packed or (model is not None and "bnb-4bit" in model.value.lower()):
        fact = packed.fact if packed is not None else Fact(value="", snippet="")
        extraction.facts["quantisation"] = Fact(value="4bit", snippet=fact.snippet, span=fact.span)
    method = "qlora" if "quantisation" in extraction.facts else "lora"
    extraction.facts["method"] = Fact(value=method, snippet=packed.fact.snippet if packed is not None else "")


def complete(extraction: Extraction) -> None:
    """Read checkpointing, by default Unsloth's own, which offloads the inputs of layers; and the script's rank."""
    setting = extraction.script.find(_CHECKPOINTING)
    word = "unsloth" if setting is None else setting.text.lower()
    extraction.discard("checkpointing")
    is_on = word == "unsloth" or parse_boolean(word) is True
    extraction.set_framework_default("checkpointing", "true" if is_on else "false")
    extraction.discard("offloads_activations")
    if word == "unsloth":
        extraction.set_framework_default("offloads_activations", "true")
    extraction.set_framework_default("lora_rank", "64" if _is_command(extraction) else "16")
