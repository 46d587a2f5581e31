"""Vision models: the tower, and the projector to the decoder."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from reconciler.kube.values import plural
from reconciler.sizing.models.blocks import (
    TRAITS,
    Heads,
    Mixture,
    Traits,
    attention,
    feed_forward,
    gated_delta,
    latent_attention,
    mamba1,
    mamba2,
    mixture,
    qk_norms,
)
from reconciler.sizing.models.keys import ConfigKeys, UnsupportedModelError
from reconciler.sizing.training import Architecture, Linear

# Decoders built like Llama: grouped-query or latent attention, gated feed-forward, experts, state-space layers.


_OTHER_SHAPES = ("mamba", "ssm", "expert", "lora_rank", "rwkv", "cross_attention", "conv", "recurrent", "altup", "moe")
"""Words in keys that show that a model of an unknown type is not built like Llama."""

_IMAGE_TOKENS = 8
"""Embeddings beyond the vocabulary in models with cross-attention to images (transformers' `MllamaTextModel`)."""


def parse_decoder(config: ConfigKeys, name: str, kind: str) -> Architecture:
    """Return the architecture without its parameter counts; raise UnsupportedModelError."""
    traits = TRAITS.get(kind) or _like_llama(config, kind)
    layers = depth_of(config)
    heads = _heads(config)
    states = state_space_layers(config, layers)
    mix = mixture_of(config, layers, traits)
    mixers, inner_norms = _token_mixers(config, heads, (layers - states, states), traits)
    tied = config.flag("tie_word_embeddings", default=traits.tied)
    vocabulary = config.count("vocab_size", most=100_000_000)
    head_bias = vocabulary if config.flag("lm_head_bias", default=traits.head_bias) else 0
    sharing = mix.shared // mix.width if mix.experts else 0
    crossing, gates = _cross_attention(config, heads)
    special = _IMAGE_TOKENS * heads.hidden if crossing else 0
    special += heads.hidden * config.count("learned_positions", default=0, least=0)
    windowed, window = _windows(config, layers, traits)
    return Architecture(
        name=name,
        layers=layers,
        hidden=heads.hidden,
        intermediate=mix.width if mix.layers else config.count(*traits.dense_keys),
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_dim=heads.head_dim,
        vocabulary=vocabulary,
        tied=tied,
        parameters=0,
        active_parameters=0,
        gated=traits.gated,
        experts=mix.experts,
        active_experts=mix.chosen + sharing,
        attention_layers=layers - states if states else 0,
        windowed_layers=windowed,
        window=window,
        layer_norms=_layer_norms(config, traits) or 2,
        softcap=_is_capped(config, traits),
        source=f"config.json of type {kind}"
        if kind in TRAITS
        else f"config.json of type {kind!r}, read as a variant of Llama",
        approximate=kind not in TRAITS,
        linears=(*mixers, *_blocks(config, heads.hidden, (layers, mix), traits)),
        embedding=vocabulary * heads.hidden * (1 if tied else 2) + special,
        norms=_norms(config, heads.hidden, layers, traits) + inner_norms + head_bias + crossing * gates,
    )


def _like_llama(config: ConfigKeys, kind: str) -> Traits:
    words = (f"type {kind}", *(str(key) for key, value in config.data.items() if value))
    strange = [word for word in words if any(part in word for part in _OTHER_SHAPES)]
    if strange:
        raise UnsupportedModelError(
            f"unknown model type {kind!r}: {strange[0]} shows that it is not a variant of Llama"
        )
    return Traits()


def _heads(config: ConfigKeys) -> Heads:
    hidden = config.count("hidden_size", most=1_000_000)
    count = config.count("num_attention_heads", most=100_000)
    if config.find("kv_lora_rank")[1] is None:
        width = config.count("head_dim", default=max(1, hidden // count), most=100_000)
    else:  # of queries and keys; head_dim in the file is only the rotated part
        width = config.count("qk_nope_head_dim", most=100_000) + config.count("qk_rope_head_dim", most=100_000)
    kept = config.count("num_key_value_heads", default=count, most=count)
    return Heads(hidden=hidden, heads=count, kv_heads=kept, head_dim=width)


def _token_mixers(
    config: ConfigKeys, heads: Heads, layers: tuple[int, int], traits: Traits
) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of (attention, state-space) `layers`, and the parameters of their vectors."""
    attending, states = layers
    if config.find("kv_lora_rank")[1] is not None:
        found, vectors = latent_attention(config, heads.hidden, heads.heads, attending)
    else:
        found = attention(heads, attending, config, traits)
        vectors = qk_norms(heads, config, traits) + (heads.heads if traits.sinks else 0)
    if not states:
        return found, vectors * attending
    mixer = gated_delta if traits.gated_queries else mamba1 if traits.first_mamba else mamba2
    mamba, small = mixer(config, heads.hidden, states)
    return (*found, *mamba), vectors * attending + small * states


def _cross_attention(config: ConfigKeys, heads: Heads) -> tuple[int, int]:
    """Return how many layers attend to images instead (Llama 3.2 Vision), and the parameters that this adds to theirs.

    Their matrices have the sizes of the others; they have norms of queries and keys, and two gates.
    """
    listed = config.items("cross_attention_layers")
    return len(listed), 2 * heads.head_dim + 2


def _blocks(config: ConfigKeys, hidden: int, layers: tuple[int, Mixture], traits: Traits) -> Iterator[Linear]:
    depth, mix = layers
    bias = config.flag("mlp_bias", *traits.bias_keys[:1] if traits.mlp_bias else (), default=traits.mlp_bias)
    if depth > mix.layers:
        yield from feed_forward(hidden, config.count(*traits.dense_keys), depth - mix.layers, traits, bias=bias)
    yield from mixture(hidden, mix, traits, bias=bias)


def _layer_norms(config: ConfigKeys, traits: Traits) -> int:
    """Return the norms with parameters in a layer."""
    return 1 if config.flag("use_parallel_residual", default=False) else traits.norms


def _windows(config: ConfigKeys, layers: int, traits: Traits) -> tuple[int, int]:
    """Return how many layers have a sliding window, and its tokens: as listed, or by the family."""
    some, of, tokens = traits.windowed
    window = config.count("sliding_window", default=tokens, least=0, most=100_000_000)
    kinds = config.items("layer_types")
    if kinds:
        return sum(kind == "sliding_attention" for kind in kinds), window
    return layers * some // of, window


def _is_capped(config: ConfigKeys, traits: Traits) -> bool:
    key = "final_logit_softcapping"
    return bool(config.data[key]) if key in config.data else traits.softcap


def _norms(config: ConfigKeys, hidden: int, layers: int, traits: Traits) -> int:
    of_layer = _layer_norms(config, traits)
    return hidden * (2 if traits.norm_bias else 1) * (of_layer * layers + bool(of_layer)) + traits.activation * layers


_STATE_SPACE = frozenset({"mamba", "mamba2"})

_GATED_DELTA = frozenset({"linear_attention"})

_ATTENTION = frozenset({"attention", "full_attention", "sliding_attention", "chunked_attention"})


def depth_of(config: ConfigKeys) -> int:
    """Return the number of layers."""
    return config.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000)


def state_space_layers(config: ConfigKeys, layers: int) -> int:
    """Return the number of state-space layers; raise UnsupportedModelError if no layer has attention."""
    found = _state_space_layers(config, layers)
    if found == layers:
        raise UnsupportedModelError("no layer has attention")
    return found


def _state_space_layers(config: ConfigKeys, layers: int) -> int:
    """Count them from `layer_types`, from the indices of attention layers, or from their period, by family."""
    kinds = config.items("layer_types", "layers_block_type")
    if kinds:
        if len(kinds) != layers:
            raise UnsupportedModelError(f"{plural(len(kinds), 'layer type')} for {plural(layers, 'layer')}")
        states = _STATE_SPACE if config.find("linear_num_value_heads")[1] is None else _GATED_DELTA
        strange = [kind for kind in kinds if not isinstance(kind, str) or kind not in _ATTENTION | states]
        if strange:
            raise UnsupportedModelError(f"unknown layer type {str(strange[0])[:40]!r}")
        return sum(kind in states for kind in kinds)
    interval = config.count("full_attention_interval", default=0, least=0, most=10_000)
    if interval:
        return layers - layers // interval
    places = config.items("attn_layer_indices")
    if places:
        return layers - len(_indices(places, layers))
    if config.find("attn_layer_period")[1] is None:
        return 0
    period = config.count("attn_layer_period", most=10_000)
    offset = config.count("attn_layer_offset", default=0, least=0, most=10_000)
    return sum(layer % period != offset for layer in range(layers))


def mixture_of(config: ConfigKeys, layers: int, traits: Traits) -> Mixture:
    """Return the sizes of the experts; all zero for a dense model."""
    experts = config.count("num_local_experts", "num_experts", "n_routed_experts", default=0, least=0, most=100_000)
    if not experts:
        return Mixture(experts=0, chosen=0, width=0, shared=0, layers=0)
    chosen = config.count("num_experts_per_tok", "num_experts_per_token", "experts_per_token", most=100_000)
    if chosen > experts:
        raise UnsupportedModelError(f"num_experts_per_tok is {chosen}, but there are only {experts} experts")
    width = config.count("moe_intermediate_size", "intermediate_size")
    shared = config.count("shared_expert_intermediate_size", "shared_intermediate_size", default=0, least=0)
    shared = shared or width * config.count("n_shared_experts", default=0, least=0, most=1000)
    shared = width if traits.shared_like else shared
    return Mixture(experts=experts, chosen=chosen, width=width, shared=shared, layers=_sparse(config, layers))


def _sparse(config: ConfigKeys, layers: int) -> int:
    """Return the number of layers with experts, by the keys of each family."""
    listed = config.items("moe_layers")
    if listed:
        return len(_indices(listed, layers))
    first = config.count("first_k_dense_replace", default=0, least=0, most=10_000)
    step = config.count(
        "moe_layer_freq",
        "decoder_sparse_step",
        "interleave_moe_layer_step",
        "expert_layer_period",
        default=1,
        most=10_000,
    )
    dense = _indices(config.items("mlp_only_layers"), layers)
    if config.find("expert_layer_period")[1] is not None:
        offset = config.count("expert_layer_offset", default=0, least=0, most=10_000)
        return sum(layer % step == offset for layer in range(layers))
    if config.find("moe_layer_freq")[1] is not None:
        return sum(layer >= first and layer % step == 0 for layer in range(layers))
    return sum(layer >= first and (layer + 1) % step == 0 and layer not in dense for layer in range(layers))


def _indices(values: list[object], layers: int) -> frozenset[int]:
    found = frozenset(value for value in values if isinstance(value, int) and 0 <= value < layers)
    if len(found) != len(values):
        raise UnsupportedModelError("a list of layers contains an index that does not exist")
    return found


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
