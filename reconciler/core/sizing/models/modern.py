"""Decoders that are built like Llama: grouped-query or latent attention, gated feed-forward, experts, state spaces."""

from collections.abc import Iterator

from reconciler.core.sizing.architecture import Architecture, Linear
from reconciler.core.sizing.models.blocks import (
    Heads,
    Mixture,
    attention,
    feed_forward,
    latent_attention,
    mixture,
    qk_norms,
)
from reconciler.core.sizing.models.layers import depth_of, mixture_of, state_space_layers
from reconciler.core.sizing.models.numbers import Numbers, UnreadableError
from reconciler.core.sizing.models.state_space import mamba1, mamba2
from reconciler.core.sizing.models.traits import TRAITS, Traits

_OTHER_SHAPES = ("mamba", "ssm", "expert", "lora_rank", "rwkv", "cross_attention", "conv", "recurrent", "altup", "moe")
"""Words in keys which say that a model of an unknown type is not built like Llama."""


def read_modern(config: Numbers, name: str, kind: str) -> Architecture:
    """Return the architecture, its parameters not yet counted; raise UnreadableError where it cannot be told."""
    traits = TRAITS.get(kind) or _like_llama(config, kind)
    layers = depth_of(config)
    heads = _heads(config)
    states = state_space_layers(config, layers)
    mix = mixture_of(config, layers, traits)
    mixing, inner_norms = _mixing(config, heads, (layers - states, states), traits)
    tied = config.flag("tie_word_embeddings", default=traits.tied)
    vocabulary = config.count("vocab_size", most=100_000_000)
    head_bias = vocabulary if config.flag("lm_head_bias", default=traits.head_bias) else 0
    sharing = mix.shared // mix.width if mix.experts else 0
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
        source=f"config.json of type {kind}" if kind in TRAITS else f"config.json of type {kind!r}, read as Llama's",
        approximate=kind not in TRAITS,
        linears=(*mixing, *_blocks(config, heads.hidden, (layers, mix), traits)),
        embedding=vocabulary * heads.hidden * (1 if tied else 2),
        norms=_norms(config, heads.hidden, layers, traits) + inner_norms + head_bias,
    )


def _like_llama(config: Numbers, kind: str) -> Traits:
    telling = (f"type {kind}", *(str(key) for key, value in config.data.items() if value))
    strange = [word for word in telling if any(part in word for part in _OTHER_SHAPES)]
    if strange:
        raise UnreadableError(
            f"model type {kind!r} is not known, and {strange[0]} says that it is not built like Llama"
        )
    return Traits()


def _heads(config: Numbers) -> Heads:
    hidden = config.count("hidden_size", most=1_000_000)
    count = config.count("num_attention_heads", most=100_000)
    if config.find("kv_lora_rank")[1] is None:
        width = config.count("head_dim", default=max(1, hidden // count), most=100_000)
    else:  # of queries and keys; what files call head_dim is then the rotated part alone
        width = config.count("qk_nope_head_dim", most=100_000) + config.count("qk_rope_head_dim", most=100_000)
    kept = config.count("num_key_value_heads", default=count, most=count)
    return Heads(hidden=hidden, heads=count, kv_heads=kept, head_dim=width)


def _mixing(config: Numbers, heads: Heads, layers: tuple[int, int], traits: Traits) -> tuple[tuple[Linear, ...], int]:
    """Return what mixes tokens, (attention, state-space) `layers` of it, and the small vectors of all layers."""
    attending, states = layers
    if config.find("kv_lora_rank")[1] is not None:
        found, vectors = latent_attention(config, heads.hidden, heads.heads, attending)
    else:
        found = attention(heads, attending, config, traits)
        vectors = qk_norms(heads, config, traits) + (heads.heads if traits.sinks else 0)
    if not states:
        return found, vectors * attending
    mamba, small = (mamba1 if traits.first_mamba else mamba2)(config, heads.hidden, states)
    return (*found, *mamba), vectors * attending + small * states


def _blocks(config: Numbers, hidden: int, layers: tuple[int, Mixture], traits: Traits) -> Iterator[Linear]:
    depth, mix = layers
    bias = config.flag("mlp_bias", *traits.bias_keys[:1] if traits.mlp_bias else (), default=traits.mlp_bias)
    if depth > mix.layers:
        yield from feed_forward(hidden, config.count(*traits.dense_keys), depth - mix.layers, traits, bias=bias)
    yield from mixture(hidden, mix, traits, bias=bias)


def _norms(config: Numbers, hidden: int, layers: int, traits: Traits) -> int:
    of_layer = 1 if config.flag("use_parallel_residual", default=False) else traits.norms
    return hidden * (2 if traits.norm_bias else 1) * (of_layer * layers + bool(of_layer))
