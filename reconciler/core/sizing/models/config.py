"""From a Hugging Face `config.json` to an architecture, or to the reason why it is not supported."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.core.sizing.models.decoder import parse_decoder
from reconciler.core.sizing.models.gpt import GPT_FAMILIES, parse_gpt
from reconciler.core.sizing.models.keys import ConfigKeys, UnsupportedModelError
from reconciler.core.sizing.models.vision import vision_parameters
from reconciler.core.sizing.training import Architecture, parameter_parts

_ENCODERS = frozenset({"bert", "roberta", "distilbert", "t5", "bart", "whisper", "clip", "vit", "electra", "marian"})


def parse_model_config(config: Mapping[str, Any], name: str) -> Architecture | str:
    """Return the architecture that a `config.json` describes, or the reason why it is not supported.

    The number of parameters follows the formula of the family (attention, feed-forward, experts, state-space layers,
    norms, embeddings) and is exact for the types in `traits.TRAITS` and `gpt.GPT_FAMILIES`. An unknown type is read as
    a variant of Llama if it has Llama's keys and no key of experts, state-space layers and the like; `source` says so.
    """
    try:
        return _count_parameters(_parse(ConfigKeys(config), name))
    except UnsupportedModelError as error:
        return str(error)


def _parse(config: ConfigKeys, name: str) -> Architecture:
    text = config.section("text_config", "language_config", "llm_config") or config
    model_type = text.text("model_type")
    if not model_type:
        raise UnsupportedModelError("model_type is missing")
    if text.flag("is_encoder_decoder", default=False) or model_type in _ENCODERS:
        raise UnsupportedModelError(f"model type {model_type!r} is not a decoder")
    parse = parse_gpt if model_type in GPT_FAMILIES else parse_decoder
    architecture = parse(text, name, model_type)
    if config.section("audio_config") is not None:
        raise UnsupportedModelError("audio_config is not supported")
    return replace(architecture, vision=vision_parameters(config, architecture.hidden))


def _count_parameters(architecture: Architecture) -> Architecture:
    total = parameter_parts(architecture).total
    inactive = sum(linear.size * (linear.count - linear.active) for linear in architecture.linears)
    return replace(architecture, parameters=total, active_parameters=total - inactive)
