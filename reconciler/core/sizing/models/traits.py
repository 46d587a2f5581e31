"""Differences among decoders built like Llama: what `model_type` implies and `config.json` does not state."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class QkNorm(StrEnum):
    """Normalization of queries and keys."""

    NONE = "none"
    HEAD = "head"  # one vector of head_dim, shared by all heads
    FULL = "full"  # over the whole projection
    EACH = "each"  # a vector for every head


class Experts(StrEnum):
    """How the experts of a mixture are stored."""

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
