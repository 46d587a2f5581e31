"""LitGPT: https://github.com/Lightning-AI/litgpt."""

import re

from reconciler.core.launch.facts import Fact
from reconciler.core.launch.framework import Command, Extraction, Framework, ProcessFlags
from reconciler.core.launch.settings import parse_boolean
from reconciler.core.patterns import later

_GLOBAL_BATCH = "16"
"""Default of `--train.global_batch_size` (litgpt.args.TrainArgs of the finetune scripts)."""

_MAX_DIGITS = 9

_PRECISIONS = {
    "bf16-true": "bf16",
    "bf16-mixed": "bf16-mixed",
    "16-true": "fp16",
    "16-mixed": "fp16-mixed",
    "32-true": "fp32",
    "32": "fp32",
}
_LORA_TARGETS = {
    "lora_query": "q_proj",
    "lora_key": "k_proj",
    "lora_value": "v_proj",
    "lora_projection": "o_proj",
    "lora_mlp": "gate_proj,up_proj,down_proj",
    "lora_head": "lm_head",
}
_LORA_TARGETS_BY_DEFAULT = frozenset({"lora_query", "lora_value"})
_METHODS = frozenset({"lora", "full", "adapter", "adapter_v2"})


def _read_words(extraction: Extraction) -> None:
    """Take the first positional word that is not a method for the checkpoint folder."""
    folder = next((field for field in extraction.arguments.words if field.text not in _METHODS), None)
    if folder is not None and not extraction.script.has("checkpoint_dir"):
        extraction.script.add_word("checkpoint_dir", folder.text, folder)


def _read_processes(extraction: Extraction) -> None:
    """Read devices per node and nodes, which are flags of the script."""
    setting = extraction.script.find(("devices",))
    devices = extraction.add_number("processes", setting)
    machines = extraction.add_number("machines", extraction.script.find(("num_nodes",))) or 1
    extraction.set_default("processes", str(machines), "default of litgpt")
    extraction.set_default("machines", "1", "default of litgpt")
    if setting is not None and devices is not None:
        extraction.add("processes", setting, str(devices * machines))


def _read_method(extraction: Extraction) -> None:
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


def _read_lora_targets(extraction: Extraction) -> None:
    """Read the flags that switch each kind of matrix."""
    given = {name: setting for name in _LORA_TARGETS if (setting := extraction.script.find((name,))) is not None}
    chosen = [
        targets
        for name, targets in _LORA_TARGETS.items()
        if (parse_boolean(given[name].text) if name in given else name in _LORA_TARGETS_BY_DEFAULT)
    ]
    if given:
        extraction.add("lora_targets", next(iter(given.values())), ",".join(chosen))


def _read_precision(extraction: Extraction) -> None:
    setting = extraction.resolve("precision", extraction.script.find(("precision",)))
    if setting is not None and (value := _PRECISIONS.get(setting.text)):
        extraction.add("precision", setting, value)


def _read_sharding(extraction: Extraction) -> None:
    """Shard and checkpoint as soon as there is more than one device."""
    processes = extraction.facts.get("processes")
    if processes is not None and processes.value != "1":
        extraction.set_framework_default("strategy", "fsdp-full")
        extraction.set_framework_default("checkpointing", "true")


def _complete(extraction: Extraction) -> None:
    """Divide the batch of all devices into accumulation steps."""
    setting = extraction.script.find(("train.global_batch_size",))
    if setting is not None and extraction.resolve("accumulation", setting) is None:
        return
    text = _GLOBAL_BATCH if setting is None else setting.text
    batch, processes = extraction.number("batch"), extraction.number("processes")
    if not text.isdecimal() or len(text) > _MAX_DIGITS or not batch or not processes:
        return
    steps, rest = divmod(int(text), batch * processes)
    if steps and not rest:
        snippet = setting.fact.snippet if setting is not None else ""
        origin = f"global batch of {text} over {processes} x {batch}"
        extraction.facts["accumulation"] = Fact(value=str(steps), snippet=snippet, origin=origin)


LITGPT = Framework(
    name="litgpt",
    source="litgpt",
    commands=(
        Command(
            program="litgpt",
            verbs=later("finetune|finetune_(?:full|lora|adapter|adapter_v2)|pretrain"),
            process_flags=ProcessFlags(processes="--devices", machines="--num_nodes", of_script=True),
            read_processes=_read_processes,
        ),
    ),
    programs=later(r"litgpt(?:\.finetune.*)?|(?:.*/)?finetune/(?:lora|full|adapter)\.py"),
    settings={
        "model": ("checkpoint_dir", "model_name"),
        "batch": ("train.micro_batch_size",),
        "sequence": ("train.max_seq_length", "train.max_seq_len"),
        "lora_rank": ("lora_r",),
        "optimizer": ("optimizer.class_path", "optimizer"),
    },
    defaults={"batch": "1", "lora_rank": "8", "optimizer": "adamw_torch", "checkpointing": "false", "attention": "sdpa"}
    | {"precision": "bf16", "lora_targets": "q_proj,v_proj", "fused_loss": "false"},
    single_values=True,
    config_flags=("config",),
    config_keys=frozenset({"checkpoint_dir"}),
    read_words=_read_words,
    read_method=_read_method,
    read_precision=_read_precision,
    read_sharding=_read_sharding,
    complete=_complete,
    changes={"4-bit-base": {"quantize": "bnb.nf4"}},
)
