"""Vision models: the tower, and the projector to the decoder."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

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
    visual = config.section("visual")
    if visual is not None and config.text("model_type") == "qwen":
        return _resampling_tower(visual)
    vision = config.section("vision_config")
    if vision is None:
        return 0
    kind = vision.text("model_type") or config.text("model_type")  # Qwen2-VL's own section names none
    if kind in _WHOLE:
        return _WHOLE[kind](vision, hidden)
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


def _patch(vision: ConfigKeys, *, side: int) -> int:
    """Return the values of a patch of several frames; `side` is that of the patches by default."""
    pixels = vision.count("patch_size", default=side, most=1000) ** 2
    channels = vision.count("in_channels", "in_chans", default=3, most=100)
    return channels * pixels * vision.count("temporal_patch_size", default=2, most=100)


def _merging_tower(vision: ConfigKeys, _: int) -> int:
    """Return the parameters of Qwen2.5-VL's tower (arXiv 2502.13923): gated blocks with biases, then a merger."""
    width = vision.count("hidden_size", most=100_000)
    inner = vision.count("intermediate_size", most=1_000_000)
    merged = width * vision.count("spatial_merge_size", default=2, most=100) ** 2
    out = vision.count("out_hidden_size", most=1_000_000)
    patch = _patch(vision, side=14)
    block = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width
    merger = width + merged * merged + merged + merged * out + out
    return vision.count("depth", most=10_000) * block + patch * width + merger


def _plain_merging_tower(vision: ConfigKeys, _: int) -> int:
    """Return the parameters of Qwen2-VL's tower (arXiv 2409.12191): blocks with biases, then a merger."""
    width = vision.count("embed_dim", most=100_000)
    inner = width * vision.count("mlp_ratio", default=4, most=_MAX_RATIO)
    merged = width * vision.count("spatial_merge_size", default=2, most=100) ** 2
    out = vision.count("hidden_size", most=1_000_000)
    patch = _patch(vision, side=14)
    block = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width
    merger = 2 * width + merged * merged + merged + merged * out + out
    return vision.count("depth", most=10_000) * block + patch * width + merger


def _deep_tower(vision: ConfigKeys, _: int) -> int:
    """Return the parameters of Qwen3-VL's tower: blocks with biases, and mergers, also of inner layers (deepstack)."""
    width = vision.count("hidden_size", most=100_000)
    inner = vision.count("intermediate_size", most=1_000_000)
    merged = width * vision.count("spatial_merge_size", default=2, most=100) ** 2
    out = vision.count("out_hidden_size", most=1_000_000)
    patch = _patch(vision, side=16)
    block = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width
    merger = merged * merged + merged + merged * out + out
    inner_mergers = len(vision.items("deepstack_visual_indexes")) * (2 * merged + merger)
    positions = vision.count("num_position_embeddings", default=2304, most=1_000_000) * width
    embedding = patch * width + width
    return vision.count("depth", most=10_000) * block + embedding + positions + 2 * width + merger + inner_mergers


def _tiled_tower(vision: ConfigKeys, hidden: int) -> int:
    """Return the parameters of Llama 3.2's tower (tiles, local and global layers) and of its projector."""
    width = vision.count("hidden_size", most=100_000)
    inner = vision.count("intermediate_size", most=1_000_000)
    local, whole = vision.count("num_hidden_layers", most=10_000), vision.count("num_global_layers", most=10_000)
    patch = vision.count("patch_size", most=1000)
    places = (vision.count("image_size", most=100_000) // patch) ** 2 + 1
    tiles = vision.count("max_num_tiles", default=4, most=100)
    ratios = _aspect_ratios(tiles) + 1
    block = 4 * width * width + 2 * width * inner + inner + width + 4 * width
    embedding = vision.count("num_channels", default=3, most=100) * patch * patch * width + width
    positions = 1 + places * width + ratios * tiles * places * width
    tile_embeddings = 2 * (1 + ratios * tiles * width)
    levels = 1 + len(vision.items("intermediate_layers_indices"))
    projector = levels * width * hidden + hidden
    blocks = (local + whole) * block + 2 * whole
    return blocks + embedding + positions + tile_embeddings + 4 * width + projector


def _aspect_ratios(tiles: int) -> int:
    """Return the number of aspect ratios that at most `tiles` tiles can have."""
    return sum(rows * columns <= tiles for rows in range(1, tiles + 1) for columns in range(1, tiles + 1))


def _resampling_tower(visual: ConfigKeys) -> int:
    """Return the parameters of Qwen-VL's tower (arXiv 2308.12966): a vision transformer, and a resampler."""
    width, out = visual.count("width", most=100_000), visual.count("output_dim", most=1_000_000)
    patch, places = visual.count("patch_size", most=1000), visual.count("n_queries", default=256, most=100_000)
    kind, ratio = visual.find("mlp_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not 0 < ratio <= _MAX_RATIO:
        raise UnsupportedModelError(f"{kind} must be a number up to {_MAX_RATIO}")
    inner = int(width * ratio)
    block = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width
    seen = 3 * patch * patch * width + places * width + 2 * width
    resampler = 2 * places * out + width * out + 4 * out * out + 4 * out + 4 * out
    return visual.count("layers", most=10_000) * block + seen + resampler + 2 * out + out * out


_MAX_RATIO = 100
_WHOLE: Mapping[str, Callable[[ConfigKeys, int], int]] = MappingProxyType(
    {
        "qwen2_vl": _plain_merging_tower,
        "qwen2_5_vl": _merging_tower,
        "qwen3_vl": _deep_tower,
        "qwen3_vl_moe": _deep_tower,
        "mllama_vision_model": _tiled_tower,
    }
)
"""Towers with their projectors, by `model_type`."""


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
