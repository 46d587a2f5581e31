"""Llama, and what has its shape or its weights."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, decoder
from reconciler.core.sizing.models.rows.towers import LLAMA4


def _fourth(experts: int, step: int) -> dict[str, Any]:
    """Return a Llama 4: every `step`th layer is a mixture; of its `experts` one is chosen, and one is shared."""
    more = {"intermediate_size_mlp": 16384, "num_local_experts": experts, "num_experts_per_tok": 1, "head_dim": 128}
    text = decoder("llama4_text", (48, 5120, 8192, 40, 8, 202048), interleave_moe_layer_step=step, **more)
    return {"model_type": "llama4", "text_config": text, "vision_config": LLAMA4}


LLAMA = (
    Row(
        "llama-7b",
        "huggyllama/llama-7b decapoda-research/llama-7b-hf",
        decoder("llama", (32, 4096, 11008, 32, 32, 32000)),
        autoconf="llama-7b",
        also="LLaMa/models/hf/7B",
    ),
    Row(
        "llama-13b",
        "huggyllama/llama-13b decapoda-research/llama-13b-hf",
        decoder("llama", (40, 5120, 13824, 40, 40, 32000)),
        autoconf="llama-13b",
        also="LLaMa/models/hf/13B",
    ),
    Row("llama-30b", "huggyllama/llama-30b", decoder("llama", (60, 6656, 17920, 52, 52, 32000)), also="llama-33b"),
    Row("llama-65b", "huggyllama/llama-65b", decoder("llama", (80, 8192, 22016, 64, 64, 32000))),
    Row(
        "llama2-7b",
        "meta-llama/Llama-2-7b-hf meta-llama/Llama-2-7b meta-llama/Llama-2-7b-chat-hf",
        decoder("llama", (32, 4096, 11008, 32, 32, 32000)),
        autoconf="llama-7b",
    ),
    Row(
        "llama2-13b",
        "meta-llama/Llama-2-13b-hf meta-llama/Llama-2-13b meta-llama/Llama-2-13b-chat-hf",
        decoder("llama", (40, 5120, 13824, 40, 40, 32000)),
        autoconf="llama-13b",
    ),
    Row(
        "llama2-70b",
        "meta-llama/Llama-2-70b-hf meta-llama/Llama-2-70b meta-llama/Llama-2-70b-chat-hf",
        decoder("llama", (80, 8192, 28672, 64, 8, 32000)),
        autoconf="llama2-70b",
        also="LLaMa/models/hf/70B",
    ),
    Row(
        "llama3-8b",
        "meta-llama/Meta-Llama-3-8B meta-llama/Meta-Llama-3-8B-Instruct",
        decoder("llama", (32, 4096, 14336, 32, 8, 128256)),
        autoconf="llama3-8b",
    ),
    Row(
        "llama3-70b",
        "meta-llama/Meta-Llama-3-70B meta-llama/Meta-Llama-3-70B-Instruct",
        decoder("llama", (80, 8192, 28672, 64, 8, 128256)),
        autoconf="llama3-70b",
    ),
    Row(
        "llama3.1-8b",
        "meta-llama/Llama-3.1-8B meta-llama/Llama-3.1-8B-Instruct",
        decoder("llama", (32, 4096, 14336, 32, 8, 128256)),
        autoconf="llama3.1-8b",
    ),
    Row(
        "llama3.1-70b",
        "meta-llama/Llama-3.1-70B meta-llama/Llama-3.1-70B-Instruct",
        decoder("llama", (80, 8192, 28672, 64, 8, 128256)),
        autoconf="llama3.1-70b",
    ),
    Row(
        "llama3.1-405b",
        "meta-llama/Llama-3.1-405B meta-llama/Llama-3.1-405B-Instruct",
        decoder("llama", (126, 16384, 53248, 128, 8, 128256)),
        autoconf="llama3.1-405b",
    ),
    Row(
        "llama3.2-1b",
        "meta-llama/Llama-3.2-1B meta-llama/Llama-3.2-1B-Instruct",
        decoder("llama", (16, 2048, 8192, 32, 8, 128256), head_dim=64, tie_word_embeddings=True),
    ),
    Row(
        "llama3.2-3b",
        "meta-llama/Llama-3.2-3B meta-llama/Llama-3.2-3B-Instruct",
        decoder("llama", (28, 3072, 8192, 24, 8, 128256), head_dim=128, tie_word_embeddings=True),
    ),
    Row("llama3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", decoder("llama", (80, 8192, 28672, 64, 8, 128256))),
    Row(
        "tinyllama-1.1b",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0 TinyLlama/TinyLlama_v1.1"
        " TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T",
        decoder("llama", (22, 2048, 5632, 32, 4, 32000)),
    ),
    Row(
        "codellama-7b",
        "codellama/CodeLlama-7b-hf codellama/CodeLlama-7b-Instruct-hf",
        decoder("llama", (32, 4096, 11008, 32, 32, 32016)),
    ),
    Row(
        "codellama-13b",
        "codellama/CodeLlama-13b-hf codellama/CodeLlama-13b-Instruct-hf",
        decoder("llama", (40, 5120, 13824, 40, 40, 32016)),
    ),
    Row(
        "codellama-34b",
        "codellama/CodeLlama-34b-hf codellama/CodeLlama-34b-Instruct-hf codellama/CodeLlama-34b-Python-hf",
        decoder("llama", (48, 8192, 22016, 64, 8, 32000)),
    ),
    Row(
        "allam-1-13b",
        "",
        decoder("llama", (40, 5120, 13824, 40, 40, 61568)),
        autoconf="allam-1-13b",
        also="allam-1-13b-instruct allam-1-13b-instruct-20240607",
        source="ALLaM (arXiv 2407.15390): Llama 2 13B with a larger vocabulary, here 61,568",
        approximate=True,
    ),
    Row(
        "codellama-70b",
        "codellama/CodeLlama-70b-hf codellama/CodeLlama-70b-Instruct-hf",
        decoder("llama", (80, 8192, 28672, 64, 8, 32016)),
    ),
    Row(
        "vicuna-7b-v1.5",
        "lmsys/vicuna-7b-v1.5",
        decoder("llama", (32, 4096, 11008, 32, 32, 32000)),
        autoconf="llama-7b",
    ),
    Row(
        "vicuna-13b-v1.5",
        "lmsys/vicuna-13b-v1.5",
        decoder("llama", (40, 5120, 13824, 40, 40, 32000)),
        autoconf="llama-13b",
    ),
    Row(
        "llama3.1-nemotron-70b",
        "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF",
        decoder("llama", (80, 8192, 28672, 64, 8, 128256)),
        autoconf="llama3.1-70b",
    ),
    Row(
        "llama4-scout-17b-16e",
        "meta-llama/Llama-4-Scout-17B-16E meta-llama/Llama-4-Scout-17B-16E-Instruct",
        _fourth(16, 1),
    ),
    Row(
        "llama4-maverick-17b-128e",
        "meta-llama/Llama-4-Maverick-17B-128E meta-llama/Llama-4-Maverick-17B-128E-Instruct",
        _fourth(128, 2),
    ),
)
