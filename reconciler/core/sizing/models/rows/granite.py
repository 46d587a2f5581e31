"""IBM Granite."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, Shape, decoder
from reconciler.core.sizing.models.rows.towers import siglip


def _granite(shape: Shape) -> dict[str, Any]:
    return decoder("granite", shape, tie_word_embeddings=True)


def _moe(layers: int, hidden: int, heads: int, experts: int, vocabulary: int) -> dict[str, Any]:
    """Return a mixture of small experts; eight are chosen for a token."""
    more = {"num_local_experts": experts, "num_experts_per_tok": 8, "tie_word_embeddings": True}
    return decoder("granitemoe", (layers, hidden, 512, heads, 8, vocabulary), **more)


def _code(shape: tuple[int, int, int], kv_heads: int) -> dict[str, Any]:
    """Return a code model: layers, hidden, intermediate."""
    more = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
    return decoder("llama", (*shape, 32, kv_heads, 49152), **more)


def _big_code(layers: int, hidden: int, heads: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "gpt_bigcode",
        "n_layer": layers,
        "n_embd": hidden,
        "n_inner": 4 * hidden,
        "n_head": heads,
        "n_positions": 8192,
        "vocab_size": vocabulary,
        "multi_query": True,
    }


def _fourth(
    shape: tuple[int, int, int, int, int], attention: int = 0, experts: tuple[int, int] = (0, 0), head_dim: int = 64
) -> dict[str, Any]:
    """Return a Granite 4.0 of `shape` (without vocabulary).

    `attention` layers are it where the others are Mamba-2 with heads of `head_dim`; `experts` are all, and those of a
    token.
    """
    layers, hidden, width, _, _ = shape
    more: dict[str, Any] = {"tie_word_embeddings": True, "shared_intermediate_size": 2 * width if experts[0] else width}
    states = layers - attention if attention else 0
    more["layer_types"] = ["mamba"] * states + ["attention"] * (layers - states)
    if states:
        more |= {"mamba_d_state": 128, "mamba_expand": 2, "mamba_n_heads": 2 * hidden // head_dim}
    more |= {"num_local_experts": experts[0], "num_experts_per_tok": experts[1]}
    return decoder("granitemoehybrid", (*shape, 100352), **more)


def _vision(text: dict[str, Any]) -> dict[str, Any]:
    layers = [-24, -20, -12, -1]
    return {
        "model_type": "llava_next",
        "text_config": text,
        "vision_config": siglip(384),
        "vision_feature_layer": layers,
    }


GRANITE = (
    Row(
        "granite-3.0-8b",
        "ibm-granite/granite-3.0-8b-base ibm-granite/granite-3.0-8b-instruct",
        _granite((40, 4096, 12800, 32, 8, 49155)),
        autoconf="granite-3-8b",
    ),
    Row(
        "granite-3.1-8b",
        "ibm-granite/granite-3.1-8b-instruct ibm-granite/granite-3.1-8b-base",
        _granite((40, 4096, 12800, 32, 8, 49155)),
        autoconf="granite-3.1-8b-instruct",
    ),
    Row(
        "granite-3.2-8b",
        "ibm-granite/granite-3.2-8b-instruct",
        _granite((40, 4096, 12800, 32, 8, 49155)),
        autoconf="granite-3.1-8b-instruct",
    ),
    Row(
        "granite-3.3-8b",
        "ibm-granite/granite-3.3-8b-instruct ibm-granite/granite-3.3-8b-base",
        _granite((40, 4096, 12800, 32, 8, 49159)),
        autoconf="granite-3.1-8b-instruct",
    ),
    Row(
        "granite-3.0-2b",
        "ibm-granite/granite-3.0-2b-base ibm-granite/granite-3.0-2b-instruct",
        _granite((40, 2048, 8192, 32, 8, 49155)),
        autoconf="granite-3.1-2b",
    ),
    Row(
        "granite-3.1-2b",
        "ibm-granite/granite-3.1-2b-base ibm-granite/granite-3.1-2b-instruct",
        _granite((40, 2048, 8192, 32, 8, 49155)),
        autoconf="granite-3.1-2b",
    ),
    Row(
        "granite-3.2-2b",
        "ibm-granite/granite-3.2-2b-instruct",
        _granite((40, 2048, 8192, 32, 8, 49155)),
        autoconf="granite-3.1-2b",
    ),
    Row(
        "granite-3.3-2b",
        "ibm-granite/granite-3.3-2b-instruct ibm-granite/granite-3.3-2b-base",
        _granite((40, 2048, 8192, 32, 8, 49159)),
        autoconf="granite-3.1-2b",
    ),
    Row(
        "granite-3.0-1b-a400m",
        "ibm-granite/granite-3.0-1b-a400m-base ibm-granite/granite-3.0-1b-a400m-instruct",
        _moe(24, 1024, 16, 32, 49155),
    ),
    Row(
        "granite-3.1-1b-a400m",
        "ibm-granite/granite-3.1-1b-a400m-base ibm-granite/granite-3.1-1b-a400m-instruct",
        _moe(24, 1024, 16, 32, 49155),
    ),
    Row(
        "granite-3.0-3b-a800m",
        "ibm-granite/granite-3.0-3b-a800m-base ibm-granite/granite-3.0-3b-a800m-instruct",
        _moe(32, 1536, 24, 40, 49155),
    ),
    Row(
        "granite-3.1-3b-a800m",
        "ibm-granite/granite-3.1-3b-a800m-instruct ibm-granite/granite-3.1-3b-a800m-base",
        _moe(32, 1536, 24, 40, 49155),
        autoconf="granite-3.1-3b-a800m-instruct",
    ),
    Row(
        "granite-3b-code",
        "ibm-granite/granite-3b-code-base-128k ibm-granite/granite-3b-code-base-2k"
        " ibm-granite/granite-3b-code-instruct-128k ibm-granite/granite-3b-code-instruct-2k",
        _code((32, 2560, 10240), 32),
        autoconf="granite-3b-code-base-128k",
    ),
    Row(
        "granite-8b-code",
        "ibm-granite/granite-8b-code-base-4k ibm-granite/granite-8b-code-base-128k"
        " ibm-granite/granite-8b-code-instruct-4k ibm-granite/granite-8b-code-instruct-128k",
        _code((36, 4096, 14336), 8),
        autoconf="granite-8b-code-base",
    ),
    Row(
        "granite-20b-code",
        "ibm-granite/granite-20b-code-base-8k ibm-granite/granite-20b-code-instruct-8k",
        _big_code(52, 6144, 48, 49152),
        autoconf="granite-20b-v2",
        also="granite-20b-code-base granite-20b-code-base-v2/step_280000_ckpt",
    ),
    Row(
        "granite-34b-code",
        "ibm-granite/granite-34b-code-base-8k ibm-granite/granite-34b-code-instruct-8k",
        _big_code(88, 6144, 48, 49152),
        autoconf="granite-34b-code-base",
    ),
    Row(
        "granite-7b",
        "ibm-granite/granite-7b-base ibm-granite/granite-7b-instruct instructlab/granite-7b-lab",
        decoder("llama", (32, 4096, 11008, 32, 32, 32000)),
        autoconf="granite-7b-base",
    ),
    Row(
        "granite-13b-v2",
        "",
        _big_code(40, 5632, 44, 50304),
        autoconf="granite-13b-v2",
        also="granite-13b-base-v2 granite-13b-instruct-v2 granite-13b-chat-v2 granite-13b-base-v2/step_300000_ckpt",
        source="IBM's model card (13B, multi-query attention) gives no widths: those that make 13B of GPT-BigCode",
        approximate=True,
    ),
    Row(
        "granite-8b-japanese",
        "",
        _code((36, 4096, 14336), 8),
        autoconf="granite-8b-japanese",
        also="granite-8b-japanese-base-v1 granite-8b-japanese-base-v1-llama granite-8b-japanese-instruct",
        source="IBM's model card (8B, grouped-query attention, SwiGLU) gives no widths: those of granite-8b-code",
        approximate=True,
    ),
    Row(
        "granite-4.0-350m",
        "ibm-granite/granite-4.0-350m",
        _fourth((28, 1024, 2048, 16, 4)),
        autoconf="granite-4.0-350m",
    ),
    Row(
        "granite-4.0-h-350m",
        "ibm-granite/granite-4.0-h-350m",
        _fourth((32, 768, 2048, 12, 4), 4, head_dim=32),
    ),
    Row("granite-4.0-1b", "ibm-granite/granite-4.0-1b", _fourth((40, 2048, 4096, 16, 4)), autoconf="granite-4.0-1b"),
    Row(
        "granite-4.0-micro",
        "ibm-granite/granite-4.0-micro",
        _fourth((40, 2560, 8192, 40, 8)),
        autoconf="granite-4.0-micro",
    ),
    Row(
        "granite-4.0-h-1b",
        "ibm-granite/granite-4.0-h-1b",
        _fourth((40, 1536, 4096, 12, 4), 4),
        autoconf="granite-4.0-h-1b",
    ),
    Row(
        "granite-4.0-h-micro",
        "ibm-granite/granite-4.0-h-micro",
        _fourth((40, 2048, 8192, 32, 8), 4),
        autoconf="granite-4.0-h-micro",
    ),
    Row(
        "granite-4.0-h-tiny",
        "ibm-granite/granite-4.0-h-tiny",
        _fourth((40, 1536, 512, 12, 4), 4, (64, 6)),
        autoconf="granite-4.0-h-tiny",
    ),
    Row(
        "granite-4.0-h-small",
        "ibm-granite/granite-4.0-h-small",
        _fourth((40, 4096, 768, 32, 8), 4, (72, 10)),
        autoconf="granite-4.0-h-small",
    ),
    Row(
        "granite-vision-3.2-2b",
        "ibm-granite/granite-vision-3.2-2b",
        _vision(_granite((40, 2048, 8192, 32, 8, 49156))),
    ),
)
