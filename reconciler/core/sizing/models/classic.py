"""Decoders before Llama: GPT-2 and its kin, each with names and biases of its own."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.sizing.architecture import Architecture, Linear, Role
from reconciler.core.sizing.models.blocks import matrix
from reconciler.core.sizing.models.numbers import Numbers


class _Plan(Struct, frozen=True, kw_only=True):
    """What a family makes of its keys. `vectors` are the small ones of all layers, `positions` learned ones."""

    kv_heads: int
    width: int
    names: tuple[str, str, str, str]  # queries, keys and values in one; output; up; down
    tied: bool
    vectors: int
    bias: bool = True
    positions: int = 0
    narrow: int = 0  # width of embeddings, where it is another than that of layers
    head_bias: bool = False
    split: bool = False  # queries, keys and values are three matrices
    gated: bool = False


class _Sizes(Struct, frozen=True, kw_only=True):
    layers: int
    hidden: int
    heads: int

    @property
    def head_dim(self) -> int:
        return max(1, self.hidden // self.heads)


def read_classic(config: Numbers, name: str, kind: str) -> Architecture:
    """Return the architecture, its parameters not yet counted; raise UnreadableError where it cannot be told."""
    sizes = _Sizes(
        layers=config.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000),
        hidden=config.count("hidden_size", "n_embd", "d_model", most=1_000_000),
        heads=config.count("num_attention_heads", "n_head", "n_heads", "num_heads", most=100_000),
    )
    plan = CLASSIC[kind](config, sizes)
    vocabulary = config.count("vocab_size", most=100_000_000)
    words = vocabulary * (1 if plan.tied else 2) * (plan.narrow or sizes.hidden)
    return Architecture(
        name=name,
        layers=sizes.layers,
        hidden=sizes.hidden,
        intermediate=plan.width,
        heads=sizes.heads,
        kv_heads=plan.kv_heads,
        head_dim=sizes.head_dim,
        vocabulary=vocabulary,
        tied=plan.tied,
        parameters=0,
        active_parameters=0,
        gated=plan.gated,
        source=f"config.json of type {kind}",
        linears=_linears(sizes, plan),
        embedding=words + (plan.positions + 2 * plan.narrow) * sizes.hidden,
        norms=plan.vectors + (vocabulary if plan.head_bias else 0),
    )


def _linears(sizes: _Sizes, plan: _Plan) -> tuple[Linear, ...]:
    first, output, up, down = plan.names
    layers, hidden, bias = sizes.layers, sizes.hidden, plan.bias
    queries, keys = sizes.heads * sizes.head_dim, plan.kv_heads * sizes.head_dim
    role = Role.ATTENTION
    if plan.split:
        widths = (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
        attending = tuple(matrix(name, hidden, width, layers, role, bias=bias) for name, width in widths)
    else:
        attending = (matrix(first, hidden, queries + 2 * keys, layers, role, bias=bias),)
    gate = ("w1",) if plan.gated else ()
    return (
        *attending,
        matrix(output, queries, hidden, layers, role, bias=bias),
        *(matrix(name, hidden, plan.width, layers, Role.FEED_FORWARD, bias=bias) for name in (*gate, up)),
        matrix(down, plan.width, hidden, layers, Role.FEED_FORWARD, bias=bias),
    )


def _layer_norms(sizes: _Sizes, of_layer: int) -> int:
    """Return the parameters of LayerNorms with bias: some in each layer, and the last one."""
    return 2 * sizes.hidden * (of_layer * sizes.layers + 1)


def _gpt2(config: Numbers, sizes: _Sizes) -> _Plan:
    return _Plan(
        kv_heads=sizes.heads,
        width=config.count("n_inner", default=4 * sizes.hidden),
        names=("c_attn", "c_proj", "c_fc", "c_proj"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 2),
        positions=config.count("n_positions", "n_ctx", default=1024),
    )


def _gpt_bigcode(config: Numbers, sizes: _Sizes) -> _Plan:
    plan = _gpt2(config, sizes)
    shared = config.flag("multi_query", default=True)
    return replace(plan, kv_heads=1 if shared else sizes.heads)


def _gpt_neox(config: Numbers, sizes: _Sizes) -> _Plan:
    return _Plan(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size", default=4 * sizes.hidden),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=_layer_norms(sizes, 2),
    )


def _bloom(config: Numbers, sizes: _Sizes) -> _Plan:
    plan = _gpt_neox(config, sizes)
    tied = config.flag("tie_word_embeddings", default=True)
    return replace(plan, width=4 * sizes.hidden, tied=tied, vectors=_layer_norms(sizes, 2) + 2 * sizes.hidden)


def _opt(config: Numbers, sizes: _Sizes) -> _Plan:
    last = config.flag("do_layer_norm_before", default=True)
    narrow = config.count("word_embed_proj_dim", default=sizes.hidden, most=1_000_000)
    return _Plan(
        kv_heads=sizes.heads,
        width=config.count("ffn_dim"),
        names=("", "out_proj", "fc1", "fc2"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 2) - (0 if last else 2 * sizes.hidden),
        positions=config.count("max_position_embeddings", default=2048) + 2,
        narrow=narrow if narrow != sizes.hidden else 0,
        split=True,
    )


def _falcon(config: Numbers, sizes: _Sizes) -> _Plan:
    newer = config.flag("new_decoder_architecture", default=False)
    shared = config.flag("multi_query", default=True)
    parallel = config.flag("parallel_attn", default=True)
    kept = config.count("num_kv_heads", "n_head_kv", default=sizes.heads, most=sizes.heads)
    return _Plan(
        kv_heads=kept if newer else 1 if shared else sizes.heads,
        width=config.count("ffn_hidden_size", default=4 * sizes.hidden),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 1 if parallel and not newer else 2),
        bias=config.flag("bias", default=False),
    )


def _qwen(config: Numbers, sizes: _Sizes) -> _Plan:
    """Return what Qwen's first generation is: only queries, keys and values have a bias (counted with the norms)."""
    return _Plan(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size") // 2,
        names=("c_attn", "c_proj", "w2", "c_proj"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1) + 3 * sizes.hidden * sizes.layers,
        bias=False,
        gated=True,
    )


def _gptj(config: Numbers, sizes: _Sizes) -> _Plan:
    """Return what GPT-J is: feed-forward blocks have biases (counted with the norms), attention has none."""
    width = config.count("n_inner", default=4 * sizes.hidden)
    return _Plan(
        kv_heads=sizes.heads,
        width=width,
        names=("", "out_proj", "fc_in", "fc_out"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=_layer_norms(sizes, 1) + sizes.layers * (width + sizes.hidden),
        bias=False,
        head_bias=True,
        split=True,
    )


def _mpt(config: Numbers, sizes: _Sizes) -> _Plan:
    return _Plan(
        kv_heads=sizes.heads,
        width=sizes.hidden * config.count("expansion_ratio", default=4, most=1000),
        names=("Wqkv", "out_proj", "up_proj", "down_proj"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=sizes.hidden * (2 * sizes.layers + 1),
        bias=not config.flag("no_bias", default=True),
    )


CLASSIC: Mapping[str, Callable[[Numbers, _Sizes], _Plan]] = MappingProxyType(
    {
        "gpt2": _gpt2,
        "gpt_bigcode": _gpt_bigcode,
        "gpt_neox": _gpt_neox,
        "gptj": _gptj,
        "bloom": _bloom,
        "opt": _opt,
        "falcon": _falcon,
        "qwen": _qwen,
        "mpt": _mpt,
    }
)
"""From the modelling files of Hugging Face transformers 4.57, by `model_type`."""
