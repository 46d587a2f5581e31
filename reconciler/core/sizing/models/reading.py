"""From the content of a Hugging Face `config.json` to an architecture, or to the reason why not."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.core.sizing.architecture import Architecture, parameter_parts
from reconciler.core.sizing.models.classic import CLASSIC, read_classic
from reconciler.core.sizing.models.modern import read_modern
from reconciler.core.sizing.models.numbers import Numbers, UnreadableError
from reconciler.core.sizing.models.vision import vision_parameters

_NO_DECODERS = frozenset({"bert", "roberta", "distilbert", "t5", "bart", "whisper", "clip", "vit", "electra", "marian"})


def architecture_of(config: Mapping[str, Any], name: str) -> Architecture | str:
    """Return the architecture that a `config.json` describes; otherwise the reason why it does not.

    The count of parameters is the formula of the family (attention, feed-forward, experts, state-space layers, norms,
    embeddings), exact for the types in `traits.TRAITS` and `classic.CLASSIC`. Another type is read as built like Llama
    if it has Llama's keys and none of experts, state-space layers and the like; `source` then says so.
    """
    try:
        return _counted(_read(Numbers(config), name))
    except UnreadableError as error:
        return str(error)


def _read(config: Numbers, name: str) -> Architecture:
    inner = config.section("text_config", "language_config", "llm_config")
    text = config if inner is None else inner
    kind = text.text("model_type")
    if not kind:
        raise UnreadableError("model_type is missing")
    if text.flag("is_encoder_decoder", default=False) or kind in _NO_DECODERS:
        raise UnreadableError(f"model type {kind!r} is no decoder")
    read = read_classic(text, name, kind) if kind in CLASSIC else read_modern(text, name, kind)
    if config.section("audio_config") is not None:
        raise UnreadableError("a tower for sound is not known")
    return replace(read, vision=vision_parameters(config, read.hidden))


def _counted(architecture: Architecture) -> Architecture:
    total = parameter_parts(architecture).total
    idle = sum(linear.size * (linear.count - linear.active) for linear in architecture.linears)
    return replace(architecture, parameters=total, active_parameters=total - idle)
