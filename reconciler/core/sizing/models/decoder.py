"""Decoders built like Llama: grouped-query or latent attention, gated feed-forward, experts, state-space layers."""

from collections.abc import Iterator

from reconciler.core.sizing.models.blocks import (
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
from reconciler.core.sizing.models.keys import ConfigKeys, UnsupportedModelError
from reconciler.core.sizing.training import Architecture, Linear
from reconciler.core.values import plural

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
