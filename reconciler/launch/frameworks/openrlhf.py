"""OpenRLHF: https://github.com/OpenRLHF/OpenRLHF (`openrlhf/cli/train_*.py`)."""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import is_true
from reconciler.launch.sharding import add_stage


def read_method(extraction: Extraction) -> None:
    """Read `--lora_rank` and `--load_in_4bit`, whose names have had dots since 0.10."""
    script = extraction.script
    rank = extraction.resolve("method", script.find(("lora_rank", "ds.lora.rank")))
    quantized = script.find(("load_in_4bit", "ds.load_in_4bit"))
    if rank is None or rank.text == "0":
        if quantized is not None and is_true(quantized):
            message = f"`{quantized.fact.snippet}` quantizes the weights; only adapters can be trained on them"
            extraction.reject("method", message, quantized.fact.span, "set --lora_rank")
        return
    if quantized is not None and is_true(quantized):
        extraction.add("quantisation", quantized, "4bit")
    extraction.add("method", rank, "qlora" if "quantisation" in extraction.facts else "lora")


def read_sharding(extraction: Extraction) -> None:
    """Read the stage of ZeRO, 2 by default, and `--adam_offload`. DeepSpeed keeps weights in fp32."""
    stage = add_stage(extraction, extraction.script.find(("zero_stage", "ds.zero_stage")))
    if stage is None and "strategy" not in extraction.unresolved:
        extraction.set_framework_default("strategy", "zero-2")
    offload = extraction.script.find(("adam_offload", "ds.adam_offload"))
    if offload is not None and is_true(offload):
        extraction.add("offload", offload, "optimizer")


def mark_kernels(extraction: Extraction) -> None:
    """Mark Liger's kernels: OpenRLHF computes its losses from logits, which Liger's fused loss omits."""
    setting = extraction.script.find(("use_liger_kernel", "ds.use_liger_kernel"))
    if setting is not None and is_true(setting):
        extraction.mark_uncertain(setting, "replaces kernels with ones that keep different tensors")


def _read_update(extraction: Extraction) -> None:
    """Read the samples of an update: its steps, or if the line does not say the processes, what those will divide."""
    extraction.add_number("update_batch", extraction.script.find(("train_batch_size",)))
    extraction.set_framework_default("update_batch", "128")
    batch, processes, samples = (extraction.number(name) for name in ("batch", "processes", "update_batch"))
    if batch and processes and samples and samples % (batch * processes) == 0:
        origin = f"a batch of {samples} over {processes} x {batch}"
        steps = str(samples // (batch * processes))
        extraction.facts["accumulation"] = Fact(value=steps, snippet="", origin=origin)
        for known in (extraction.facts, extraction.defaults):
            known.pop("update_batch", None)


def complete(extraction: Extraction) -> None:
    """Read the length, `--train_batch_size`, and `--ref_offload`: the reference model is on the host."""
    is_supervised = "train_sft" in extraction.invocation.name
    extraction.set_framework_default("sequence", "2048" if is_supervised else "512")
    _read_update(extraction)
    reference = extraction.script.find(("ref_pretrain",))
    if reference is not None and reference.text != extraction.script.text("pretrain"):
        message = f"`{reference.fact.snippet}`: a reference model of another shape is not in the memory model"
        extraction.reject("method", message, reference.fact.span, "exclude the job from sizing")
    offload = extraction.script.find(("ref_offload",))
    if offload is not None and is_true(offload):
        extraction.add("reference", offload, "false")
    mark_kernels(extraction)
