"""Qwen of Alibaba."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, Shape, decoder
from reconciler.core.sizing.models.rows.towers import qwen


def _first(layers: int, hidden: int, width: int, heads: int, vocabulary: int) -> dict[str, Any]:
    """Return a Qwen of the first generation, whose `intermediate_size` counts gate and up together."""
    return decoder("qwen", (layers, hidden, width, heads, heads, vocabulary))


def _third(layers: int, hidden: int, width: int, heads: int, *, tied: bool = False) -> dict[str, Any]:
    more = {"head_dim": 128, "tie_word_embeddings": tied}
    return decoder("qwen3", (layers, hidden, width, heads, 8, 151936), **more)


def _moe(shape: Shape, width: int, experts: int = 128) -> dict[str, Any]:
    more = {"head_dim": 128, "moe_intermediate_size": width, "num_experts": experts, "num_experts_per_tok": 8}
    return decoder("qwen3_moe", shape, **more)


def _second_moe(shape: Shape, experts: tuple[int, int], width: int, shared: int) -> dict[str, Any]:
    """Return a mixture with `experts` (in all, of a token) of `width`, and a `shared` one."""
    more = {"moe_intermediate_size": width, "shared_expert_intermediate_size": shared}
    return decoder("qwen2_moe", shape, num_experts=experts[0], num_experts_per_tok=experts[1], **more)


def _tied(layers: int, hidden: int, width: int, heads: int, kv_heads: int) -> dict[str, Any]:
    return decoder("qwen2", (layers, hidden, width, heads, kv_heads, 151936), tie_word_embeddings=True)


def _seeing(shape: Shape, inner: int, *, tied: bool = False) -> dict[str, Any]:
    """Return a Qwen2.5-VL; `inner` is the width of its tower's feed-forward blocks."""
    text = decoder("qwen2_5_vl_text", shape, tie_word_embeddings=tied)
    tower = qwen(shape[1], inner)
    return {"model_type": "qwen2_5_vl", "text_config": text, "vision_config": tower, "tie_word_embeddings": tied}


QWEN = (
    Row("qwen-1.8b", "Qwen/Qwen-1_8B Qwen/Qwen-1_8B-Chat", _first(24, 2048, 11008, 16, 151936)),
    Row("qwen-7b", "Qwen/Qwen-7B Qwen/Qwen-7B-Chat", _first(32, 4096, 22016, 32, 151936)),
    Row("qwen-14b", "Qwen/Qwen-14B Qwen/Qwen-14B-Chat", _first(40, 5120, 27392, 40, 152064)),
    Row("qwen-72b", "Qwen/Qwen-72B Qwen/Qwen-72B-Chat", _first(80, 8192, 49152, 64, 152064)),
    Row("qwen1.5-0.5b", "Qwen/Qwen1.5-0.5B Qwen/Qwen1.5-0.5B-Chat", _tied(24, 1024, 2816, 16, 16)),
    Row(
        "qwen1.5-1.8b",
        "Qwen/Qwen1.5-1.8B Qwen/Qwen1.5-1.8B-Chat",
        decoder("qwen2", (24, 2048, 5504, 16, 16, 151936)),
    ),
    Row("qwen1.5-4b", "Qwen/Qwen1.5-4B Qwen/Qwen1.5-4B-Chat", decoder("qwen2", (40, 2560, 6912, 20, 20, 151936))),
    Row("qwen1.5-7b", "Qwen/Qwen1.5-7B Qwen/Qwen1.5-7B-Chat", decoder("qwen2", (32, 4096, 11008, 32, 32, 151936))),
    Row("qwen1.5-14b", "Qwen/Qwen1.5-14B Qwen/Qwen1.5-14B-Chat", decoder("qwen2", (40, 5120, 13696, 40, 40, 152064))),
    Row("qwen1.5-32b", "Qwen/Qwen1.5-32B Qwen/Qwen1.5-32B-Chat", decoder("qwen2", (64, 5120, 27392, 40, 8, 152064))),
    Row("qwen1.5-72b", "Qwen/Qwen1.5-72B Qwen/Qwen1.5-72B-Chat", decoder("qwen2", (80, 8192, 24576, 64, 64, 152064))),
    Row(
        "qwen1.5-moe-a2.7b",
        "Qwen/Qwen1.5-MoE-A2.7B Qwen/Qwen1.5-MoE-A2.7B-Chat",
        _second_moe((24, 2048, 5632, 16, 16, 151936), (60, 4), 1408, 5632),
    ),
    Row(
        "qwen2-57b-a14b",
        "Qwen/Qwen2-57B-A14B Qwen/Qwen2-57B-A14B-Instruct",
        _second_moe((28, 3584, 18944, 28, 4, 151936), (64, 8), 2560, 20480),
    ),
    Row("qwen2-0.5b", "Qwen/Qwen2-0.5B Qwen/Qwen2-0.5B-Instruct", _tied(24, 896, 4864, 14, 2)),
    Row("qwen2-1.5b", "Qwen/Qwen2-1.5B Qwen/Qwen2-1.5B-Instruct", _tied(28, 1536, 8960, 12, 2)),
    Row("qwen2-7b", "Qwen/Qwen2-7B Qwen/Qwen2-7B-Instruct", decoder("qwen2", (28, 3584, 18944, 28, 4, 152064))),
    Row("qwen2-72b", "Qwen/Qwen2-72B Qwen/Qwen2-72B-Instruct", decoder("qwen2", (80, 8192, 29568, 64, 8, 152064))),
    Row(
        "qwen2.5-0.5b",
        "Qwen/Qwen2.5-0.5B Qwen/Qwen2.5-0.5B-Instruct Qwen/Qwen2.5-Coder-0.5B Qwen/Qwen2.5-Coder-0.5B-Instruct",
        _tied(24, 896, 4864, 14, 2),
    ),
    Row(
        "qwen2.5-1.5b",
        "Qwen/Qwen2.5-1.5B Qwen/Qwen2.5-1.5B-Instruct Qwen/Qwen2.5-Coder-1.5B "
        "Qwen/Qwen2.5-Coder-1.5B-Instruct Qwen/Qwen2.5-Math-1.5B Qwen/Qwen2.5-Math-1.5B-Instruct",
        _tied(28, 1536, 8960, 12, 2),
    ),
    Row(
        "qwen2.5-3b",
        "Qwen/Qwen2.5-3B Qwen/Qwen2.5-3B-Instruct Qwen/Qwen2.5-Coder-3B Qwen/Qwen2.5-Coder-3B-Instruct",
        _tied(36, 2048, 11008, 16, 2),
    ),
    Row(
        "qwen2.5-7b",
        "Qwen/Qwen2.5-7B Qwen/Qwen2.5-7B-Instruct Qwen/Qwen2.5-7B-Instruct-1M Qwen/Qwen2.5-Coder-7B "
        "Qwen/Qwen2.5-Coder-7B-Instruct Qwen/Qwen2.5-Math-7B Qwen/Qwen2.5-Math-7B-Instruct",
        decoder("qwen2", (28, 3584, 18944, 28, 4, 152064)),
    ),
    Row(
        "qwen2.5-14b",
        "Qwen/Qwen2.5-14B Qwen/Qwen2.5-14B-Instruct Qwen/Qwen2.5-14B-Instruct-1M"
        " Qwen/Qwen2.5-Coder-14B Qwen/Qwen2.5-Coder-14B-Instruct",
        decoder("qwen2", (48, 5120, 13824, 40, 8, 152064)),
    ),
    Row(
        "qwen2.5-32b",
        "Qwen/Qwen2.5-32B Qwen/Qwen2.5-32B-Instruct Qwen/Qwen2.5-Coder-32B Qwen/Qwen2.5-Coder-32B-Instruct",
        decoder("qwen2", (64, 5120, 27648, 40, 8, 152064)),
    ),
    Row(
        "qwen2.5-72b",
        "Qwen/Qwen2.5-72B Qwen/Qwen2.5-72B-Instruct Qwen/Qwen2.5-Math-72B Qwen/Qwen2.5-Math-72B-Instruct",
        decoder("qwen2", (80, 8192, 29568, 64, 8, 152064)),
    ),
    Row("qwen2.5-vl-3b", "Qwen/Qwen2.5-VL-3B-Instruct", _seeing((36, 2048, 11008, 16, 2, 151936), 3420, tied=True)),
    Row("qwen2.5-vl-7b", "Qwen/Qwen2.5-VL-7B-Instruct", _seeing((28, 3584, 18944, 28, 4, 152064), 3420)),
    Row("qwen2.5-vl-32b", "Qwen/Qwen2.5-VL-32B-Instruct", _seeing((64, 5120, 27648, 40, 8, 152064), 3456)),
    Row("qwen2.5-vl-72b", "Qwen/Qwen2.5-VL-72B-Instruct", _seeing((80, 8192, 29568, 64, 8, 152064), 3456)),
    Row("qwq-32b", "Qwen/QwQ-32B Qwen/QwQ-32B-Preview", decoder("qwen2", (64, 5120, 27648, 40, 8, 152064))),
    Row("qwen3-0.6b", "Qwen/Qwen3-0.6B Qwen/Qwen3-0.6B-Base", _third(28, 1024, 3072, 16, tied=True)),
    Row("qwen3-1.7b", "Qwen/Qwen3-1.7B Qwen/Qwen3-1.7B-Base", _third(28, 2048, 6144, 16, tied=True)),
    Row(
        "qwen3-4b",
        "Qwen/Qwen3-4B Qwen/Qwen3-4B-Instruct-2507 Qwen/Qwen3-4B-Thinking-2507 Qwen/Qwen3-4B-Base",
        _third(36, 2560, 9728, 32, tied=True),
    ),
    Row("qwen3-8b", "Qwen/Qwen3-8B Qwen/Qwen3-8B-Base", _third(36, 4096, 12288, 32)),
    Row("qwen3-14b", "Qwen/Qwen3-14B Qwen/Qwen3-14B-Base", _third(40, 5120, 17408, 40)),
    Row("qwen3-32b", "Qwen/Qwen3-32B", _third(64, 5120, 25600, 64)),
    Row(
        "qwen3-30b-a3b",
        "Qwen/Qwen3-30B-A3B Qwen/Qwen3-30B-A3B-Instruct-2507 Qwen/Qwen3-30B-A3B-Thinking-2507 "
        "Qwen/Qwen3-Coder-30B-A3B-Instruct Qwen/Qwen3-30B-A3B-Base",
        _moe((48, 2048, 6144, 32, 4, 151936), 768),
    ),
    Row(
        "qwen3-235b-a22b",
        "Qwen/Qwen3-235B-A22B Qwen/Qwen3-235B-A22B-Instruct-2507 Qwen/Qwen3-235B-A22B-Thinking-2507",
        _moe((94, 4096, 12288, 64, 4, 151936), 1536),
    ),
    Row(
        "qwen3-coder-480b-a35b",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct",
        _moe((62, 6144, 8192, 96, 8, 151936), 2560, 160),
    ),
)
