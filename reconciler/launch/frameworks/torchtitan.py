"""torchtitan: https://github.com/pytorch/torchtitan (`torchtitan/config/job_config.py`)."""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import MAX_NUMBER, Extraction
from reconciler.launch.settings import Setting, is_true

_HINT = "exclude the job from sizing, and set its number of GPUs"
_KERNELS = ("_flex_attn", "_flex", "_varlen_attn", "_varlen", "_irope")
"""Ends of flavors with another kernel of attention, but the same matrices."""
_ONE_BY_ONE = frozenset({"1f1b", "interleaved1f1b"})
_LEFTOVER = "-1"
_PARALLELISM = ("parallelism", "training", "experimental")
"""Sections in which versions have the degrees."""


def _degree(name: str) -> tuple[str, ...]:
    return tuple(f"{section}.{name}" for section in _PARALLELISM)


def _read_model(extraction: Extraction) -> None:
    """Name the model by its flavor."""
    script = extraction.script
    if (config := script.find(("module", "config"))) is not None:
        message = f"`{config.fact.snippet}` names a configuration in Python, which is not read"
        extraction.reject("model", message, config.fact.span, "use a version with TOML files (before 0.3)")
        return
    name, flavor = script.text("model.name") or "llama3", extraction.resolve("model", script.find(("model.flavor",)))
    if flavor is None:
        return
    size = flavor.text.lower()
    for end in _KERNELS:
        size = size.removesuffix(end)
    known = extraction.framework.words.get(name, {}).get(size)
    if known is None:
        message = f"`{flavor.fact.snippet}` of {name} is not a model whose sizes are known"
        extraction.reject("model", message, flavor.fact.span, _HINT)
    else:
        extraction.add("model", flavor, known)


def read_sharding(extraction: Extraction) -> None:
    """Read the replicas and the shards of the weights. -1 stands for what is left of the GPUs."""
    script = extraction.script
    shards, replicas = script.find(_degree("data_parallel_shard_degree")), extraction.find("replicas")
    copies = replicas is not None and replicas.text not in {"", "1"}
    if shards is not None and shards.text == "1":
        extraction.add("strategy", shards, "ddp")
    elif copies and replicas is not None:
        extraction.add("strategy", replicas, "fsdp-hybrid")
    else:
        extraction.set_framework_default("strategy", "fsdp-full")
    if shards is not None and shards.text not in {"", _LEFTOVER}:
        extraction.add_number("shards", shards)
    gathered = script.find(("parallelism.fsdp_reshard_after_forward",))
    if gathered is not None and gathered.text == "never":
        message = f"`{gathered.fact.snippet}` keeps whole weights on every GPU, which is not modelled"
        extraction.reject("strategy", message, gathered.fact.span, _HINT)
    offload = script.find(("training.enable_cpu_offload",))
    if offload is not None and is_true(offload):
        extraction.add("offload", offload, "all")


def read_precision(extraction: Extraction) -> None:
    """Read the type of the weights; in fp32, FSDP gathers and computes in 2 bytes unless told otherwise."""
    script = extraction.script
    weights, computed = script.find(("training.dtype",)), script.find(("training.mixed_precision_param",))
    if weights is not None and weights.text == "bfloat16":
        extraction.add("precision", weights, "bf16")
    elif computed is not None and computed.text == "float32":
        extraction.add("precision", computed, "fp32")


def _read_checkpointing(extraction: Extraction) -> None:
    """Read which layers are recomputed: all, every n-th, or the operations between every second matrix (`op`)."""
    script = extraction.script
    mode = script.find(("activation_checkpoint.mode", "training.activation_checkpoint"))
    option = script.find(("activation_checkpoint.selective_ac_option", "activation_checkpoint.selective_ac_type"))
    kind = "selective" if mode is None else mode.text
    chosen = "2" if option is None else option.text
    source = mode or option
    snippet = "" if source is None else source.fact.snippet
    extraction.facts["checkpointing"] = Fact(
        value="false" if kind == "none" else "true", snippet=snippet, origin="activation_checkpoint"
    )
    if kind == "selective" and chosen == "op":
        extraction.facts["keeps_products"] = Fact(value="true", snippet=snippet, origin="activation_checkpoint")
    elif kind == "selective" and chosen.isdecimal() and len(chosen) < 6 and int(chosen):  # noqa: PLR2004 - layers
        extraction.facts["recomputed"] = Fact(
            value=str(1 / int(chosen)), snippet=snippet, origin="activation_checkpoint"
        )
    elif kind not in {"full", "none"} and source is not None:
        extraction.reject("checkpointing", f"`{snippet}` is not modelled", source.fact.span, _HINT)


def _read_pipeline(extraction: Extraction) -> None:
    """Read how a pipeline divides the batch of a GPU. GPipe keeps all of it, as if it were not divided."""
    script, stages = extraction.script, extraction.number("pipeline") or 1
    schedule = script.find(_degree("pipeline_parallel_schedule"))
    size = script.find(_degree("pipeline_parallel_microbatch_size"))
    if stages == 1:
        return
    name = "1f1b" if schedule is None else schedule.text.lower()
    if name == "gpipe":
        extraction.facts["microbatch"] = Fact(value=str(MAX_NUMBER), snippet="", origin="GPipe keeps all of them")
    else:
        extraction.add_number("microbatch", size)
        extraction.set_framework_default("microbatch", "1")
    if name.startswith("interleaved"):
        extraction.facts["chunks"] = Fact(value="2", snippet="", origin=f"default of {name}")
    if schedule is not None and name not in _ONE_BY_ONE | {"gpipe"}:
        extraction.mark_uncertain(schedule, "keeps different microbatches than 1F1B does")
    _mark_stages(extraction, script.find(_degree("pipeline_parallel_layers_per_stage")))


def _mark_stages(extraction: Extraction, setting: Setting | None) -> None:
    if setting is not None and setting.text:
        extraction.mark_uncertain(setting, "divides the layers in a way that is not modelled")


def _read_optimizer(extraction: Extraction) -> None:
    script = extraction.script
    name, kernel = script.find(("optimizer.name",)), script.find(("optimizer.implementation",))
    in_backward = script.find(("optimizer.early_step_in_backward",))
    own = "adamw_torch" if kernel is not None and kernel.text != "fused" else "adamw_torch_fused"
    if name is not None and name.text.lower() not in {"adam", "adamw"}:
        extraction.add("optimizer", name, name.text.lower())
    elif in_backward is not None and is_true(in_backward):
        extraction.add("optimizer", in_backward, f"{own}_in_backward")
    elif kernel is not None:
        extraction.add("optimizer", kernel, own)


def _read_compiled(extraction: Extraction) -> None:
    """Read what is compiled: layers and the loss, since 0.1 (`components/loss.py`), unless `components` names less."""
    script = extraction.script
    compiled, parts = script.find(("compile.enable", "training.compile")), script.find(("compile.components",))
    for fact, part in (("compiled", "model"), ("compiled_loss", "loss")):
        extraction.add_boolean(fact, compiled)
        if parts is not None and part not in parts.text:
            extraction.add(fact, parts, "false")


def complete(extraction: Extraction) -> None:
    """Read the model, and what its sections say."""
    for read in (_read_model, _read_checkpointing, _read_compiled, _read_pipeline, _read_optimizer):
        read(extraction)
    script = extraction.script
    converters = script.find(("model.converters",))
    if converters is not None and converters.text.strip("[] "):
        extraction.mark_uncertain(
            converters, "computes in FP8: weights keep their type, and layers keep different tensors"
        )
    whole = script.find(("parallelism.disable_loss_parallel", "training.disable_loss_parallel"))
    if whole is not None and is_true(whole) and (extraction.number("tensor") or 1) > 1:
        extraction.mark_uncertain(whole, "holds the logits of the whole vocabulary on every GPU")
    samples = script.find(("training.global_batch_size",))
    if samples is not None and samples.text != _LEFTOVER:
        extraction.add_number("update_batch", samples)
    if "expert" in extraction.facts:
        extraction.set_framework_default("expert_tensor", "1")
    extraction.add_boolean("sequence_parallel", script.find(("parallelism.enable_sequence_parallel",)))
    off = script.find(("parallelism.no_enable_sequence_parallel",))
    extraction.add_boolean("sequence_parallel", off, invert=True)
