"""Decoders older than Llama (GPT-2, GPT-NeoX, BLOOM, OPT, Falcon ...), each with its own names and biases."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.models.blocks import matrix
from reconciler.sizing.models.keys import ConfigKeys
from reconciler.sizing.training import Architecture, BlockRole, Linear


class _Family(Struct, frozen=True, kw_only=True):
    """The layout of one family. `vectors` are the parameters of norms in all layers, `positions` learned embeddings."""

    kv_heads: int
    width: int
    names: tuple[str, str, str, str]  # joined queries, keys and values; output; up; down
    tied: bool
    vectors: int
    bias: bool = True
    positions: int = 0
    narrow: int = 0  # width of the embeddings, if it differs from that of the layers
    head_bias: bool = False
    split: bool = False  # queries, keys and values are three matrices
    gate: str = ""  # name of the gate's matrix
    joined: bool = False  # gate and up are one matrix
    own_scores: int = 0  # see `Architecture`


class _Sizes(Struct, frozen=True, kw_only=True):
    layers: int
    hidden: int
    heads: int

    @property
    def head_dim(self) -> int:
        return max(1, self.hidden // self.heads)


def parse_gpt(config: ConfigKeys, name: str, kind: str) -> Architecture:
    """Return the architecture without its parameter counts; raise UnsupportedModelError."""
    sizes = _Sizes(
        layers=config.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000),
        hidden=config.count("hidden_size", "n_embd", "d_model", most=1_000_000),
        heads=config.count("num_attention_heads", "n_head", "n_heads", "num_heads", most=100_000),
    )
    family = GPT_FAMILIES[kind](config, sizes)
    vocabulary = config.count("padded_vocab_size", "vocab_size", most=100_000_000)
    words = vocabulary * (1 if family.tied else 2) * (family.narrow or sizes.hidden)
    return Architecture(
        name=name,
        layers=sizes.layers,
        hidden=sizes.hidden,
        intermediate=family.width,
        heads=sizes.heads,
        kv_heads=family.kv_heads,
        head_dim=sizes.head_dim,
        vocabulary=vocabulary,
        tied=family.tied,
        parameters=0,
        active_parameters=0,
        gated=family.joined or bool(family.gate),
        own_scores=family.own_scores,
        source=f"config.json of type {kind}",
        linears=_linears(sizes, family),
        embedding=words + (family.positions + 2 * family.narrow) * sizes.hidden,
        norms=family.vectors + (vocabulary if family.head_bias else 0),
    )


def _linears(sizes: _Sizes, family: _Family) -> tuple[Linear, ...]:
    first, output, up, down = family.names
    layers, hidden, bias = sizes.layers, sizes.hidden, family.bias
    queries, keys = sizes.heads * sizes.head_dim, family.kv_heads * sizes.head_dim
    role = BlockRole.ATTENTION
    if family.split:
        parts = (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
        attending = tuple(matrix(name, hidden, width, layers, role, bias=bias) for name, width in parts)
    else:
        attending = (matrix(first, hidden, queries + 2 * keys, layers, role, bias=bias),)
    widths = {family.gate: family.width} if family.gate else {}
    widths[up] = family.width * (2 if family.joined else 1)
    return (
        *attending,
        matrix(output, queries, hidden, layers, role, bias=bias),
        *(matrix(name, hidden, width, layers, BlockRole.FEED_FORWARD, bias=bias) for name, width in widths.items()),
        matrix(down, family.width, hidden, layers, BlockRole.FEED_FORWARD, bias=bias),
    )


def _layer_norms(sizes: _Sizes, of_layer: int) -> int:
    """Return the parameters of LayerNorms with bias: `of_layer` in each layer, and the final one."""
    return 2 * sizes.hidden * (of_layer * sizes.layers + 1)


def _gpt2(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("n_inner", default=4 * sizes.hidden),
        names=("c_attn", "c_proj", "c_fc", "c_proj"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 2),
        positions=config.count("n_positions", "n_ctx", default=1024),
    )


def _gpt_bigcode(config: ConfigKeys, sizes: _Sizes) -> _Family:
    family = _gpt2(config, sizes)
    shared = config.flag("multi_query", default=True)
    return replace(family, kv_heads=1 if shared else sizes.heads)


def _gpt_neox(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size", default=4 * sizes.hidden),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=_layer_norms(sizes, 2),
    )


def _bloom(config: ConfigKeys, sizes: _Sizes) -> _Family:
    family = _gpt_neox(config, sizes)
    tied = config.flag("tie_word_embeddings", default=True)
    return replace(family, width=4 * sizes.hidden, tied=tied, vectors=_layer_norms(sizes, 2) + 2 * sizes.hidden)


def _opt(config: ConfigKeys, sizes: _Sizes) -> _Family:
    last = config.flag("do_layer_norm_before", default=True)
    embedding_width = config.count("word_embed_proj_dim", default=sizes.hidden, most=1_000_000)
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("ffn_dim"),
        names=("", "out_proj", "fc1", "fc2"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 2) - (0 if last else 2 * sizes.hidden),
        positions=config.count("max_position_embeddings", default=2048) + 2,
        narrow=embedding_width if embedding_width != sizes.hidden else 0,
        split=True,
    )


def _falcon(config: ConfigKeys, sizes: _Sizes) -> _Family:
    newer = config.flag("new_decoder_architecture", default=False)
    shared = config.flag("multi_query", default=True)
    parallel = config.flag("parallel_attn", default=True)
    kept = config.count("num_kv_heads", "n_head_kv", default=sizes.heads, most=sizes.heads)
    return _Family(
        kv_heads=kept if newer else 1 if shared else sizes.heads,
        width=config.count("ffn_hidden_size", default=4 * sizes.hidden),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 1 if parallel and not newer else 2),
        bias=config.flag("bias", default=False),
    )


def _qwen(config: ConfigKeys, sizes: _Sizes) -> _Family:
    """Return what Qwen's first generation is: only queries, keys and values have a bias (counted with the norms)."""
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size") // 2,
        names=("c_attn", "c_proj", "w2", "c_proj"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1) + 3 * sizes.hidden * sizes.layers,
        bias=False,
        gate="w1",
    )


def _chatglm(config: ConfigKeys, sizes: _Sizes) -> _Family:
    """Return what ChatGLM2 and 3 are: only queries, keys and values have a bias (counted with the norms).

    Their code knows no flash attention. For a batch with a mask it makes scores in 2 bytes, their copy in fp32, that
    scaled, masked, the softmax, and its cast (modeling_chatglm.py, `CoreAttention`).
    """
    groups = config.count("multi_query_group_num", default=sizes.heads, most=sizes.heads)
    shared = config.flag("multi_query_attention", default=True)
    keys = groups if shared else sizes.heads
    return _Family(
        kv_heads=keys,
        width=config.count("ffn_hidden_size"),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1) + sizes.layers * (sizes.heads + 2 * keys) * sizes.head_dim,
        bias=False,
        joined=True,
        own_scores=20,
    )


def _baichuan(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size"),
        names=("W_pack", "o_proj", "up_proj", "down_proj"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1),
        bias=False,
        gate="gate_proj",
    )


def _gptj(config: ConfigKeys, sizes: _Sizes) -> _Family:
    """Return the layout of GPT-J. Its feed-forward blocks have biases (counted with the norms), attention has none."""
    width = config.count("n_inner", default=4 * sizes.hidden)
    return _Family(
        kv_heads=sizes.heads,
        width=width,
        names=("", "out_proj", "fc_in", "fc_out"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=_layer_norms(sizes, 1) + sizes.layers * (width + sizes.hidden),
        bias=False,
        head_bias=True,
        split=True,
    )


def _mpt(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=sizes.hidden * config.count("expansion_ratio", default=4, most=1000),
        names=("Wqkv", "out_proj", "up_proj", "down_proj"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=sizes.hidden * (2 * sizes.layers + 1),
        bias=not config.flag("no_bias", default=True),
    )


GPT_FAMILIES: Mapping[str, Callable[[ConfigKeys, _Sizes], _Family]] = MappingProxyType(
    {
        "gpt2": _gpt2,
        "gpt_bigcode": _gpt_bigcode,
        "gpt_neox": _gpt_neox,
        "gptj": _gptj,
        "bloom": _bloom,
        "opt": _opt,
        "falcon": _falcon,
        "qwen": _qwen,
        "chatglm": _chatglm,
        "baichuan": _baichuan,
        "mpt": _mpt,
    }
)
"""From the modelling files of Hugging Face transformers 4.57, by `model_type`; Qwen, ChatGLM and Baichuan from the
code in their repositories on the Hub."""
