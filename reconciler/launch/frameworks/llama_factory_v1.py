"""LLaMA-Factory v1 (`USE_V1`): arguments of its own, of llamafactory 0.9.5 (`llamafactory/v1`)."""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.objective import read_objective
from reconciler.launch.settings import Setting, is_true, parse_boolean

_BITS = {"4": "qlora", "8": "int8-lora"}
_BASES = {"qlora": "4bit", "int8-lora": "8bit"}
_LOADING = ("init_config.name", "dist_config.pin_memory", "dist_config.dcp_path", "dist_config.timeout")


def read_environment(extraction: Extraction) -> None:
    """Pass the file of DeepSpeed on to the reader of such files (`DeepSpeedEngine` gives it to accelerate)."""
    script = extraction.script
    path = script.find(("dist_config.config_file",))
    if path is not None and script.text("dist_config.name") == "deepspeed":
        script.add_file({"deepspeed": path.text}, path.fact.origin or "dist_config")


def read_sharding(extraction: Extraction) -> None:
    """Read `dist_config`: FSDP 2 or DeepSpeed; without it, several processes are DDP (`BaseTrainer._shard_model`)."""
    script = extraction.script
    for name in _LOADING:
        script.find((name,))
    for name in ("mp_replicate_size", "mp_shard_size", "dp_size"):
        setting = script.find((f"dist_config.{name}",))
        if setting is not None and setting.text not in {"", "null", "None", "1"}:
            message = f"`{setting.fact.snippet}` shards over only some of the GPUs"
            extraction.reject("strategy", message, setting.fact.span, "remove it, or exclude the job from sizing")
    named = extraction.resolve("strategy", script.find(("dist_config.name",)))
    if named is None or named.text == "deepspeed":
        return
    if named.text != "fsdp2":
        extraction.reject("strategy", f"`{named.fact.snippet}`: expected fsdp2 or deepspeed", named.fact.span)
        return
    resharding = script.find(("dist_config.reshard_after_forward",))
    keeps = resharding is not None and parse_boolean(resharding.text) is False
    extraction.add("strategy", named, "fsdp-grad-op" if keeps else "fsdp-full")
    offload = script.find(("dist_config.offload_params",))
    if offload is not None and is_true(offload):
        extraction.add("offload", offload, "all")


def read_method(extraction: Extraction) -> None:
    """Read `peft_config` and `quant_config`; without adapters, all weights are trained."""
    if not read_objective(extraction):
        return
    script = extraction.script
    named = extraction.resolve("method", script.find(("peft_config.name",)))
    bits = script.find(("quant_config.quantization_bit",))
    script.find(("quant_config.name",))
    if named is not None and named.text != "lora":
        message = f"`{named.fact.snippet}`: only full fine-tuning and LoRA can be sized"
        extraction.reject("method", message, named.fact.span, "exclude the job from sizing, or change the method")
    elif named is None and bits is not None:
        extraction.reject("method", f"`{bits.fact.snippet}` needs adapters", bits.fact.span, "set `peft_config`")
    elif named is not None:
        _add_method(extraction, named, bits)
    elif "method" not in extraction.unresolved:
        extraction.facts["method"] = Fact(value="full", snippet="", origin="no peft_config")


def _add_method(extraction: Extraction, named: Setting, bits: Setting | None) -> None:
    method = "lora" if bits is None else _BITS.get(bits.text, "")
    if bits is not None and not method:
        extraction.reject("method", f"`{bits.fact.snippet}`: expected 4 or 8", bits.fact.span)
        return
    extraction.add("method", named, method)
    if bits is not None:
        extraction.add("quantisation", bits, _BASES[method])


def read_precision(extraction: Extraction) -> None:
    """Leave the precision to `complete`, which knows the method; `bf16` is that of FSDP's computation."""
    extraction.script.find(("bf16",))


def complete(extraction: Extraction) -> None:
    """Derive the precision, and divide the batch of all processes into accumulation steps.

    All weights are cast to fp32 before training; FSDP and DeepSpeed compute in bf16, and nothing else uses autocast
    (`ModelEngine._init_model`, `FSDP2Engine.get_mp_policy`). The base of adapters keeps the type of its files.
    """
    script = extraction.script
    bf16, method = script.find(("bf16",)), extraction.facts.get("method")
    strategy = extraction.facts.get("strategy") or extraction.defaults["strategy"]
    is_full = method is not None and method.value == "full"
    computes_wide = strategy.value == "ddp" or (bf16 is not None and parse_boolean(bf16.text) is False)
    extraction.set_framework_default("precision", "fp32" if is_full and computes_wide else "bf16-mixed")
    whole = script.find(("global_batch_size",))
    if whole is None or whole.text in {"", "null", "None"}:
        return
    samples = extraction.add_number("accumulation", whole)
    batch, processes = extraction.number("batch"), extraction.number("processes")
    if samples is None:
        return
    if not batch or not processes or samples % (batch * processes):
        message = f"`{whole.fact.snippet}` does not divide into steps of the processes on the line"
        extraction.reject("accumulation", message, whole.fact.span, "set NPROC_PER_NODE, or remove it")
        return
    extraction.add("accumulation", whole, str(samples // (batch * processes)))
