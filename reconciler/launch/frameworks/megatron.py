"""Megatron-LM: https://github.com/NVIDIA/Megatron-LM (`megatron/training/arguments.py`), and ms-swift on top of it."""

from msgspec.structs import replace

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.frameworks.sizes import read_sizes
from reconciler.launch.settings import is_true, parse_boolean

_HINT = "exclude the job from sizing, and set its number of GPUs"
_OWN_ATTENTION = frozenset({"unfused", "local"})


def read_precision(extraction: Extraction) -> None:
    """Read the type of the computation: weights are in it, and the optimizer keeps copies in fp32."""
    for name in ("bf16", "fp16"):
        setting = extraction.resolve("precision", extraction.script.find((name,)))
        if setting is not None and is_true(setting):
            extraction.add("precision", setting, f"{name}-mixed")


def read_sharding(extraction: Extraction) -> None:
    """Read whether the optimizer is sharded. DeepSpeed beside Megatron is another program."""
    script = extraction.script
    if (other := script.find(("deepspeed", "deepspeed_config", "zero_stage"))) is not None:
        message = f"`{other.fact.snippet}`: Megatron-DeepSpeed is not modelled"
        extraction.reject("strategy", message, other.fact.span, _HINT)
    sharded = script.find(("use_distributed_optimizer",))
    if sharded is not None:
        extraction.add("strategy", sharded, "zero-1" if is_true(sharded) else "ddp")
    extraction.set_framework_default("strategy", extraction.framework.defaults["strategy"])
    _read_offload(extraction)


def _read_offload(extraction: Extraction) -> None:
    offload = extraction.script.find(("optimizer_cpu_offload",))
    fraction = extraction.script.find(("optimizer_offload_fraction",))
    if offload is None or not is_true(offload):
        return
    if fraction is None or fraction.text in {"1", "1.0"}:
        extraction.add("offload", offload, "optimizer")
    else:
        message = f"`{fraction.fact.snippet}` leaves a part of the optimizer on the GPU, which is not modelled"
        extraction.reject("offload", message, fraction.fact.span, _HINT)


def _read_recomputation(extraction: Extraction) -> None:
    """Read which layers are recomputed, and how many at once; `selective` recomputes scores of attention.

    `uniform` keeps the input of every n-th layer, `block` recomputes n layers of each chunk of a stage.
    """
    script, layers = extraction.script, extraction.model_config.get("num_hidden_layers")
    granularity = script.find(("recompute_granularity",)) or script.find(("recompute_activations",))
    method = script.text("recompute_method", "checkpoint_method")
    count = script.text("recompute_num_layers", "checkpoint_num_layers")
    whole = script.find(("checkpoint_activations",)) or granularity
    if whole is None:
        return
    is_old = script.has("checkpoint_activations") and parse_boolean(whole.text) is True
    if not is_old and whole.text != "full":
        extraction.add("checkpointing", whole, "false")
        if whole.text == "selective" or parse_boolean(whole.text):
            _read_modules(extraction)
        return
    extraction.add("checkpointing", whole, "true")
    number = int(count) if count.isdecimal() and len(count) < 6 and int(count) else 1  # noqa: PLR2004 - layers
    if method != "block" and number == 1:
        return
    if method != "block":
        extraction.facts["together"] = Fact(
            value=str(number), snippet=whole.fact.snippet, origin="--recompute-num-layers"
        )
    elif layers is None:
        extraction.mark_uncertain(whole, "recomputes only some of the layers")
    else:
        parts = (extraction.number("pipeline") or 1) * (extraction.number("chunks") or 1)
        share = min(1.0, number * parts / layers)
        extraction.facts["recomputed"] = Fact(
            value=str(share), snippet=whole.fact.snippet, origin="--recompute-num-layers"
        )


def _read_modules(extraction: Extraction) -> None:
    modules = extraction.script.find(("recompute_modules",))
    if modules is not None and set(modules.texts or (modules.text,)) - {"core_attn", ""}:
        extraction.mark_uncertain(modules, "recomputes parts of layers, which then keep less than predicted")


def _read_attention(extraction: Extraction) -> None:
    """Read whether the scores of attention are stored: by Megatron's own kernels, unless they are recomputed."""
    script = extraction.script
    backend, kind = script.find(("attention_backend",)), script.find(("transformer_impl",))
    flash, legacy = script.find(("use_flash_attn",)), script.find(("use_legacy_models",))
    own = next(
        (
            setting
            for setting in (backend, kind, legacy)
            if setting is not None and (setting.text in _OWN_ATTENTION or (setting is legacy and is_true(legacy)))
        ),
        None,
    )
    if own is not None and not is_true(flash):
        recomputed = script.text("recompute_granularity") == "selective" or script.has("recompute_activations")
        extraction.add("attention", own, "sdpa" if recomputed else "eager")


def _read_chunks(extraction: Extraction) -> None:
    """Read the chunks of an interleaved pipeline from the layers of each."""
    setting = extraction.script.find(("num_layers_per_virtual_pipeline_stage",))
    layers, stages = extraction.model_config.get("num_hidden_layers"), extraction.number("pipeline") or 1
    if setting is None or layers is None or extraction.resolve("chunks", setting) is None:
        return
    each = int(setting.text) if setting.text.isdecimal() and len(setting.text) < 6 else 0  # noqa: PLR2004 - layers
    if each and layers % (stages * each) == 0:
        extraction.add("chunks", setting, str(layers // (stages * each)))
    else:
        message = f"`{setting.fact.snippet}` does not divide {layers} layers into {stages} stages"
        extraction.reject("chunks", message, setting.fact.span)


def read_method(extraction: Extraction) -> None:
    """Train all weights: nothing on the line says otherwise."""
    extraction.set_framework_default("method", "full")


def complete(extraction: Extraction) -> None:
    """Read the sizes of the model, and what depends on them."""
    read_sizes(extraction)
    _read_chunks(extraction)
    _read_recomputation(extraction)
    _read_attention(extraction)


_CONVERTED = "-mcore"
"""End of the names of folders with converted weights, in the examples of ms-swift."""


def complete_swift(extraction: Extraction) -> None:
    """Name the model as its repository does. Only the sizes of a known model tell what `block` recomputes."""
    model = extraction.facts.get("model")
    if model is not None and model.value.rstrip("/").endswith(_CONVERTED):
        extraction.facts["model"] = replace(model, value=model.value.rstrip("/").removesuffix(_CONVERTED))
    if "expert" in extraction.facts:
        extraction.set_framework_default("expert_tensor", "1")
    _read_recomputation(extraction)
    _read_attention(extraction)
