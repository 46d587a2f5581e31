"""Vision models: the tower, and the projector to the decoder."""

from msgspec import Struct

from reconciler.core.sizing.models.keys import ConfigKeys, UnsupportedModelError


class _Tower(Struct, frozen=True):
    gated: bool = False
    bias: bool = True
    positions: bool = True  # learned ones
    outer_norms: int = 2  # vectors before and after the layers, and the class token
    pools: bool = False  # an attention pooling head, unless vision_use_head is false


_TOWERS = {
    "siglip_vision_model": _Tower(pools=True),
    "clip_vision_model": _Tower(outer_norms=5),
    "llama4_vision_model": _Tower(outer_norms=5),
    "pixtral": _Tower(gated=True, bias=False, positions=False, outer_norms=1),
}
_PROJECTORS = frozenset({"llava", "llava_next", "gemma3", "mistral3", "llama4"})


def vision_parameters(config: ConfigKeys, hidden: int) -> int:
    """Return the parameters of the tower and of the projector to a decoder of width `hidden`; 0 without a tower.

    A tower is a vision transformer (arXiv 2010.11929): 4 w^2 of attention and 2 or 3 w x i of feed-forward a layer.
    Raises UnsupportedModelError for an unknown type.
    """
    vision = config.section("vision_config")
    if vision is None:
        return 0
    kind = vision.text("model_type")
    if kind == "qwen2_5_vl":
        return _merging_tower(vision)
    tower = _TOWERS.get(kind)
    if tower is None:
        raise UnsupportedModelError(f"unknown type of vision tower {kind!r}")
    width = vision.count("hidden_size", most=100_000)
    return _tower(vision, tower, width) + _projector(config, vision, width, hidden)


def _tower(vision: ConfigKeys, tower: _Tower, width: int) -> int:
    inner = vision.count("intermediate_size", most=1_000_000)
    layers = vision.count("num_hidden_layers", most=10_000)
    patch = vision.count("patch_size", most=1000)
    side = vision.count("image_size", default=224, most=100_000) // patch
    matrices = 4 * width * width + (3 if tower.gated else 2) * width * inner
    biases = 5 * width + inner if tower.bias else 0
    norms = (4 if tower.bias else 2) * width
    embedding = vision.count("num_channels", default=3, most=100) * patch * patch * width + (width if tower.bias else 0)
    positions = side * side * width if tower.positions else 0
    block = matrices + biases + norms
    pool = block - width if tower.pools and vision.flag("vision_use_head", default=True) else 0
    return layers * block + pool + embedding + positions + tower.outer_norms * width


def _merging_tower(vision: ConfigKeys) -> int:
    """Return the parameters of Qwen2.5-VL's tower (arXiv 2502.13923): gated blocks with biases, then a merger."""
    width = vision.count("hidden_size", most=100_000)
    inner = vision.count("intermediate_size", most=1_000_000)
    merged = width * vision.count("spatial_merge_size", default=2, most=100) ** 2
    out = vision.count("out_hidden_size", most=1_000_000)
    patch = vision.count("patch_size", default=14, most=1000) ** 2 * vision.count(
        "temporal_patch_size", default=2, most=100
    )
    block = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width
    merger = width + merged * merged + merged + merged * out + out
    channels = vision.count("in_channels", "in_chans", default=3, most=100)
    return vision.count("depth", most=10_000) * block + channels * patch * width + merger


def _projector(config: ConfigKeys, vision: ConfigKeys, width: int, hidden: int) -> int:
    """Return the projector's parameters: two layers, in some families one, or more that merge neighbouring patches."""
    kind = config.text("model_type")
    if kind == "gemma3":
        return width * hidden + width
    if kind == "llama4":
        between, out = vision.count("projector_input_dim"), vision.count("projector_output_dim")
        return vision.count("intermediate_size") * between + between * out + out * hidden
    if kind not in _PROJECTORS:
        raise UnsupportedModelError(f"model type {kind!r} with a vision tower is not supported")
    layers = config.items("vision_feature_layer")
    first = width * max(1, len(layers)) * hidden + hidden * hidden
    merger = 4 * width * width + width if kind == "mistral3" else 2 * hidden
    return first + merger + (hidden if kind == "llava_next" else 0)  # and the end-of-row embedding
