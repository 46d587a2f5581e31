"""LitGPT: https://github.com/Lightning-AI/litgpt."""

import re

from msgspec.structs import replace

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import parse_boolean

_GLOBAL_BATCH, _PRETRAINING_GLOBAL_BATCH = "16", "512"
"""Defaults of `--train.global_batch_size` (`TrainArgs` in `litgpt/finetune/*.py` and `litgpt/pretrain.py`)."""

_MAX_DIGITS = 9

_LORA_TARGETS_BY_DEFAULT = frozenset({"lora_query", "lora_value"})
_METHODS = frozenset({"lora", "full", "adapter", "adapter_v2"})


def read_words(extraction: Extraction) -> None:
    """Take the first positional word that is not a method for the checkpoint folder."""
    folder = next((field for field in extraction.arguments.words if field.text not in _METHODS), None)
    if folder is not None and not extraction.script.has("checkpoint_dir"):
        extraction.script.add_word("checkpoint_dir", folder.text, folder)


def _pretrains(extraction: Extraction) -> bool:
    return extraction.invocation.name.endswith("pretrain")


def read_processes(extraction: Extraction) -> None:
    """Read devices per node and nodes, which are flags of the script. Pre-training takes all GPUs by default."""
    setting = extraction.script.find(("devices",))
    devices = extraction.add_number("processes", setting)
    machines = extraction.add_number("machines", extraction.script.find(("num_nodes",))) or 1
    if not _pretrains(extraction):
        extraction.set_default("processes", str(machines), "default of litgpt")
    extraction.set_default("machines", "1", "default of litgpt")
    if setting is not None and devices is not None:
        extraction.add("processes", setting, str(devices * machines))


def read_method(extraction: Extraction) -> None:
    """Read the method from the command's verb (`finetune_lora`), or from the word after `finetune`."""
    invocation = extraction.invocation
    words = re.split(r"[ ./]", invocation.name)
    verb = next((word for word in words if word.startswith(("finetune", "pretrain", "lora", "full", "adapter"))), "")
    if verb == "finetune":
        verb = next((field.text for field in invocation.fields[invocation.program + 1 : invocation.program + 2]), "")
    if "adapter" in verb:
        message = f"`{invocation.name}` trains adapters that cannot be sized"
        extraction.reject("method", message, None, "use LoRA or full fine-tuning")
        return
    method = "full" if "full" in verb or verb == "pretrain" else "lora"
    quantised = extraction.resolve("quantisation", extraction.script.find(("quantize",)))
    if quantised is not None and quantised.text.startswith("bnb."):
        bits = "8bit" if "int8" in quantised.text else "4bit"
        extraction.add("quantisation", quantised, bits)
        if method == "lora":
            method = "qlora" if bits == "4bit" else "int8-lora"
    extraction.facts["method"] = Fact(value=method, snippet=invocation.name)
    _read_lora_targets(extraction)
    if _pretrains(extraction):
        for name, value in extraction.framework.words["pretraining"].items():
            extraction.set_framework_default(name, value)


def _read_lora_targets(extraction: Extraction) -> None:
    """Read the flags that switch each kind of matrix."""
    matrices = extraction.framework.words["lora_targets"]
    given = {name: setting for name in matrices if (setting := extraction.script.find((name,))) is not None}
    chosen = [
        targets
        for name, targets in matrices.items()
        if (parse_boolean(given[name].text) if name in given else name in _LORA_TARGETS_BY_DEFAULT)
    ]
    if given:
        extraction.add("lora_targets", next(iter(given.values())), ",".join(chosen))


def read_precision(extraction: Extraction) -> None:
    """Read `--precision` by its words for types."""
    setting = extraction.resolve("precision", extraction.script.find(("precision",)))
    if setting is not None and (value := extraction.framework.words["precision"].get(setting.text)):
        extraction.add("precision", setting, value)


def read_sharding(extraction: Extraction) -> None:
    """Shard and checkpoint as soon as there may be more than one device. Pre-training shards within nodes alone."""
    processes = extraction.facts.get("processes")
    if _pretrains(extraction):
        extraction.set_framework_default("strategy", "fsdp-hybrid")
    if extraction.unresolved.get("processes") or (processes is not None and processes.value != "1"):
        extraction.set_framework_default("strategy", "fsdp-full")
        extraction.set_framework_default("checkpointing", "true")


def _read_quantization(extraction: Extraction) -> None:
    """Refuse what the fine-tuning scripts refuse: a quantized base in mixed precision, or on several GPUs."""
    quantized = extraction.facts.get("quantisation")
    if quantized is None:
        return
    precision = extraction.facts.get("precision") or extraction.defaults["precision"]
    processes = extraction.number("processes") or 1
    if precision.value.endswith("-mixed"):
        named = precision.snippet or "the default"
        message = f"`{quantized.snippet}`: LitGPT trains no quantized base in mixed precision ({named})"
        extraction.reject("precision", message, quantized.span, "set --precision bf16-true")
    if processes > 1:
        message = f"`{quantized.snippet}`: LitGPT trains no quantized base on several GPUs"
        extraction.reject("quantisation", message, quantized.span, "set --devices 1, or remove the flag")
    extraction.facts["shards"] = replace(quantized, value="1")


def complete(extraction: Extraction) -> None:
    """Divide the batch of all devices into accumulation steps."""
    _read_quantization(extraction)
    setting = extraction.script.find(("train.global_batch_size",))
    if setting is not None and extraction.resolve("accumulation", setting) is None:
        return
    text = setting.text if setting is not None else _GLOBAL_BATCH
    if setting is None and _pretrains(extraction):
        text = _PRETRAINING_GLOBAL_BATCH
    batch, processes = extraction.number("batch"), extraction.number("processes")
    if not text.isdecimal() or len(text) > _MAX_DIGITS or not batch:
        return
    if _pretrains(extraction):  # on all GPUs, whose number may be unknown
        extraction.facts["update_batch"] = Fact(value=text, snippet="", origin="default of litgpt")
        if setting is not None:
            extraction.add("update_batch", setting, text)
        return
    if not processes:
        return
    steps, rest = divmod(int(text), batch * processes)
    if steps and not rest:
        snippet = setting.fact.snippet if setting is not None else ""
        origin = f"global batch of {text} over {processes} x {batch}"
        extraction.facts["accumulation"] = Fact(value=str(steps), snippet=snippet, origin=origin)
