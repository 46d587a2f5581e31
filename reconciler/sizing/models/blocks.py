"""The matrices of the blocks of decoders: attention, feed-forward, experts, state-space layers."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.models.keys import ConfigKeys
from reconciler.sizing.training import BlockRole, Linear


class QkNorm(StrEnum):
    """Normalization of queries and keys."""

    NONE = "none"
    HEAD = "head"  # one vector of head_dim, shared by all heads
    FULL = "full"  # over the whole projection
    EACH = "each"  # a vector for every head


class Experts(StrEnum):
    """The layout of the experts of a mixture."""

    MODULES = "modules"  # gate_proj, up_proj, down_proj of every expert are modules
    MIXTRAL = "mixtral"  # the same, named w1, w3, w2
    FUSED = "fused"  # one tensor for all experts


class Traits(Struct, frozen=True, kw_only=True):
    """Defaults are Llama's. `tied`, `qkv_bias` and `mlp_bias` apply if `config.json` does not state them.

    `norms` is the number of norms in a layer; `norm_bias`: they are LayerNorms with a bias.
    """

    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool | None = None  # of the output projection; None: as the other three
    mlp_bias: bool = False
    bias_keys: tuple[str, ...] = ("attention_bias",)
    norms: int = 2
    norm_bias: bool = False
    qk_norm: QkNorm = QkNorm.NONE
    qk_norm_key: str = ""  # the flag that turns qk_norm on; empty: always
    gated: bool = True
    joined_qkv: bool = False  # one matrix for queries, keys and values
    joined_up: str = ""  # the name of one matrix for gate and up; empty: they are two
    names: tuple[str, str, str] = ("o_proj", "up_proj", "down_proj")
    experts: Experts = Experts.MODULES
    router: str = "gate"
    router_module: bool = True  # otherwise a bare weight, which takes no adapter
    shared_gate: bool = False  # the shared expert has its own gate
    shared_like: bool = False  # a shared expert has the width of the others
    dense_keys: tuple[str, ...] = ("intermediate_size",)  # of the width of dense blocks
    sinks: bool = False  # attention sinks: one parameter per head
    first_mamba: bool = False  # state-space layers are Mamba, not Mamba-2
    head_bias: bool = False
    gated_queries: bool = False  # the projection of queries also makes a gate of the output
    softcap: bool = False  # logits go through a tanh, unless `final_logit_softcapping` says otherwise
    windowed: tuple[int, int, int] = (0, 1, 0)  # layers with a sliding window, of how many, and its tokens
    activation: int = 0  # learned parameters of the activation function in one layer


_GEMMA2 = Traits(tied=True, norms=4, softcap=True, windowed=(1, 2, 4096))
_GEMMA3 = Traits(tied=True, norms=4, qk_norm=QkNorm.HEAD, windowed=(5, 6, 1024))
_QWEN2 = Traits(qkv_bias=True, out_bias=False)
_QWEN3 = Traits(qk_norm=QkNorm.HEAD)
_OLMO2 = Traits(qk_norm=QkNorm.FULL)
_COHERE = Traits(tied=True, norms=1, qk_norm=QkNorm.EACH, qk_norm_key="use_qk_norm")
_GRANITE_MOE = Traits(
    experts=Experts.FUSED,
    router="layer",
    joined_up="input_linear",
    names=("o_proj", "input_linear", "output_linear"),
)
_DEEPSEEK = Traits(router_module=False)
_GLM = Traits(qkv_bias=True, out_bias=False, joined_up="gate_up_proj")

TRAITS = {
    "llama": Traits(),
    "mistral": Traits(),
    "ministral": Traits(),
    "mixtral": Traits(experts=Experts.MIXTRAL),
    "qwen2": _QWEN2,
    "qwen2_moe": Traits(qkv_bias=True, out_bias=False, shared_gate=True),
    "qwen2_vl": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": Traits(qk_norm=QkNorm.HEAD, experts=Experts.FUSED),
    "qwen3_next": Traits(qk_norm=QkNorm.HEAD, shared_gate=True, gated_queries=True),
    "mllama_text_model": Traits(),
    "apertus": Traits(qk_norm=QkNorm.HEAD, gated=False, activation=2),
    "gemma": Traits(tied=True),
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "phi3": Traits(joined_qkv=True, joined_up="gate_up_proj"),
    "phimoe": Traits(norm_bias=True, experts=Experts.MIXTRAL),
    "granite": Traits(),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": _GRANITE_MOE,
    "granitemoehybrid": replace(_GRANITE_MOE, dense_keys=("shared_intermediate_size",)),
    "olmo": Traits(norms=0),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, windowed=(3, 4, 4096)),
    "olmoe": Traits(qk_norm=QkNorm.FULL),
    "smollm3": Traits(tied=True),
    "stablelm": Traits(
        norm_bias=True, bias_keys=("use_qkv_bias",), out_bias=False, qk_norm=QkNorm.EACH, qk_norm_key="qk_layernorm"
    ),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, windowed=(3, 4, 4096)),
    "starcoder2": Traits(
        tied=True,
        qkv_bias=True,
        mlp_bias=True,
        bias_keys=("use_bias",),
        norm_bias=True,
        gated=False,
        names=("o_proj", "c_fc", "c_proj"),
    ),
    "phi": Traits(
        qkv_bias=True,
        mlp_bias=True,
        bias_keys=(),
        norms=1,
        norm_bias=True,
        gated=False,
        names=("dense", "fc1", "fc2"),
        head_bias=True,
    ),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "dots1": replace(_DEEPSEEK, qk_norm=QkNorm.HEAD),
    "minimax_m2": Traits(qk_norm=QkNorm.FULL, experts=Experts.FUSED, router_module=False),
    "glm": _GLM,
    "glm4": Traits(qkv_bias=True, out_bias=False, joined_up="gate_up_proj", norms=4),
    "glm4_moe": Traits(
        qkv_bias=True, out_bias=False, qk_norm=QkNorm.HEAD, qk_norm_key="use_qk_norm", router_module=False
    ),
    "gpt_oss": Traits(
        qkv_bias=True,
        mlp_bias=True,
        experts=Experts.FUSED,
        router="router",
        router_module=False,
        sinks=True,
        windowed=(1, 2, 128),
    ),
    "llama4_text": Traits(
        experts=Experts.FUSED,
        router="router",
        shared_like=True,
        dense_keys=("intermediate_size_mlp", "intermediate_size"),
    ),
    "exaone4": _QWEN3,
    "ernie4_5": Traits(tied=True),
    "seed_oss": Traits(qkv_bias=True, out_bias=False),
    "hunyuan_v1_dense": _QWEN3,
    "arcee": Traits(gated=False),
    "nemotron": Traits(norm_bias=True, gated=False),
    "jamba": Traits(router="router", first_mamba=True),
    "bamba": Traits(),
}
"""From the modelling files of Hugging Face transformers 4.57 (`minimax_m2`: 5.0), by `model_type`."""


class Heads(Struct, frozen=True, kw_only=True):
    """Sizes of the attention blocks."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def queries(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all key heads, and of all value heads."""
        return self.kv_heads * self.head_dim


def matrix(name: str, inputs: int, outputs: int, count: int, role: BlockRole, *, bias: bool = False) -> Linear:
    """Return matrices that are all active for every token."""
    return Linear(name=name, inputs=inputs, outputs=outputs, count=count, active=count, role=role, bias=bias)


def attention(heads: Heads, layers: int, config: ConfigKeys, traits: Traits) -> tuple[Linear, ...]:
    """Return the matrices of grouped-query attention (arXiv 2305.13245) in `layers` layers."""
    bias = config.flag(*traits.bias_keys, default=traits.qkv_bias) if traits.bias_keys else traits.qkv_bias
    out = bias if traits.out_bias is None else traits.out_bias
    width, role = heads.hidden, BlockRole.ATTENTION
    output = matrix(traits.names[0], heads.queries, width, layers, role, bias=out)
    if traits.joined_qkv:
        return matrix("qkv_proj", width, heads.queries + 2 * heads.keys, layers, role, bias=bias), output
    return (
        matrix("q_proj", width, heads.queries * (2 if traits.gated_queries else 1), layers, role, bias=bias),
        matrix("k_proj", width, heads.keys, layers, role, bias=bias),
        matrix("v_proj", width, heads.keys, layers, role, bias=bias),
        output,
    )


def qk_norms(heads: Heads, config: ConfigKeys, traits: Traits) -> int:
    """Return the parameters of the normalization of queries and keys in one layer."""
    if traits.qk_norm_key and not config.flag(traits.qk_norm_key, default=False):
        return 0
    if traits.qk_norm is QkNorm.HEAD:
        return 2 * heads.head_dim
    return heads.queries + heads.keys if traits.qk_norm in {QkNorm.FULL, QkNorm.EACH} else 0


def latent_attention(config: ConfigKeys, hidden: int, heads: int, layers: int) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of latent attention (DeepSeek-V2, arXiv 2405.04434), and the norms' parameters of a layer."""
    role = BlockRole.ATTENTION
    rope = config.count("qk_rope_head_dim")
    unrotated = config.count("qk_nope_head_dim")
    values = config.count("v_head_dim")
    latent = config.count("kv_lora_rank")
    query_rank = config.count("q_lora_rank", default=0, least=0)
    queries = heads * (unrotated + rope)
    query: tuple[Linear, ...]
    if query_rank:
        query = (
            matrix("q_a_proj", hidden, query_rank, layers, role),
            matrix("q_b_proj", query_rank, queries, layers, role),
        )
    else:
        query = (matrix("q_proj", hidden, queries, layers, role),)
    rest = (
        matrix("kv_a_proj_with_mqa", hidden, latent + rope, layers, role),
        matrix("kv_b_proj", latent, heads * (unrotated + values), layers, role),
        matrix("o_proj", heads * values, hidden, layers, role),
    )
    return (*query, *rest), latent + query_rank


def feed_forward(hidden: int, width: int, layers: int, traits: Traits, *, bias: bool = False) -> Iterator[Linear]:
    """Yield the matrices of dense feed-forward blocks; nothing for zero layers."""
    if not layers:
        return
    role, (_, up, down) = BlockRole.FEED_FORWARD, traits.names
    if traits.joined_up:
        yield matrix(traits.joined_up, hidden, 2 * width, layers, role, bias=bias)
    else:
        if traits.gated:
            yield matrix("gate_proj", hidden, width, layers, role, bias=bias)
        yield matrix(up, hidden, width, layers, role, bias=bias)
    yield matrix(down, width, hidden, layers, role, bias=bias)


class Mixture(Struct, frozen=True, kw_only=True):
    """Sizes of mixture-of-experts blocks. Each token uses `chosen` of `experts`, and the `shared` width."""

    experts: int
    chosen: int
    width: int
    shared: int
    layers: int


def mixture(hidden: int, mix: Mixture, traits: Traits, *, bias: bool = False) -> Iterator[Linear]:
    """Yield the matrices of mixture-of-experts blocks: router, experts, shared expert."""
    if not mix.layers:
        return
    role, fused = BlockRole.FEED_FORWARD, traits.experts is Experts.FUSED
    names = {
        Experts.FUSED: ("experts_gate_up", "", "experts_down"),
        Experts.MIXTRAL: ("w1", "w3", "w2"),
        Experts.MODULES: ("gate_proj", "up_proj", "down_proj"),
    }[traits.experts]
    router = matrix(traits.router, hidden, mix.experts, mix.layers, role, bias=bias)
    yield replace(router, fused=not traits.router_module)
    count, active = mix.layers * mix.experts, mix.layers * mix.chosen
    for name, inputs, outputs in (
        (names[0], hidden, 2 * mix.width if fused else mix.width),
        (names[1], hidden, mix.width),
        (names[2], mix.width, hidden),
    ):
        if name:
            yield Linear(
                name=name, inputs=inputs, outputs=outputs, count=count, active=active, role=role, bias=bias, fused=fused
            )
    if mix.shared:
        yield from feed_forward(hidden, mix.shared, mix.layers, traits)
        if traits.shared_gate:
            yield matrix("shared_expert_gate", hidden, 1, mix.layers, role)


def mamba2(config: ConfigKeys, hidden: int, layers: int) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of Mamba-2 in `layers` layers, and the vectors of one layer (granitemoehybrid, bamba)."""
    heads = config.count("mamba_n_heads")
    expand = config.count("mamba_expand", default=2)
    inner = expand * hidden
    state = config.count("mamba_d_state")
    groups = config.count("mamba_n_groups", default=1)
    kernel = config.count("mamba_d_conv", default=4)
    convolved = inner + 2 * groups * state
    bias = config.flag("mamba_proj_bias", default=False)
    conv_bias = config.flag("mamba_conv_bias", default=True)
    linears = (
        matrix("in_proj", hidden, inner + convolved + heads, layers, BlockRole.STATE_SPACE, bias=bias),
        matrix("out_proj", inner, hidden, layers, BlockRole.STATE_SPACE, bias=bias),
    )
    return linears, convolved * (kernel + conv_bias) + 3 * heads + inner


def mamba1(config: ConfigKeys, hidden: int, layers: int) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of Mamba in `layers` layers, and the vectors of one layer (jamba)."""
    inner = config.count("mamba_expand", default=2) * hidden
    state = config.count("mamba_d_state", default=16)
    kernel = config.count("mamba_d_conv", default=4)
    step = config.count("mamba_dt_rank", default=-(-hidden // 16))
    bias = config.flag("mamba_proj_bias", default=False)
    conv_bias = config.flag("mamba_conv_bias", default=True)
    linears = (
        matrix("in_proj", hidden, 2 * inner, layers, BlockRole.STATE_SPACE, bias=bias),
        matrix("x_proj", inner, step + 2 * state, layers, BlockRole.STATE_SPACE),
        matrix("dt_proj", step, inner, layers, BlockRole.STATE_SPACE, bias=True),
        matrix("out_proj", inner, hidden, layers, BlockRole.STATE_SPACE, bias=bias),
    )
    return linears, inner * (kernel + conv_bias) + inner * state + inner + step + 2 * state


def gated_delta(config: ConfigKeys, hidden: int, layers: int) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of gated delta networks (arXiv 2412.06464; qwen3_next), and the vectors of one layer."""
    heads = config.count("linear_num_value_heads")
    width = config.count("linear_value_head_dim")
    keys = config.count("linear_num_key_heads") * config.count("linear_key_head_dim")
    values = heads * width
    kernel = config.count("linear_conv_kernel_dim", default=4)
    linears = (
        matrix("in_proj_qkvz", hidden, 2 * keys + 2 * values, layers, BlockRole.STATE_SPACE),
        matrix("in_proj_ba", hidden, 2 * heads, layers, BlockRole.STATE_SPACE),
        matrix("out_proj", values, hidden, layers, BlockRole.STATE_SPACE),
    )
    return linears, (2 * keys + values) * kernel + 2 * heads + width
