"""Models of research groups and smaller makers: Falcon, Yi, OLMo, SmolLM, StableLM, Command R, StarCoder2, Jamba ..."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, Shape, decoder


def _tied(shape: Shape) -> dict[str, Any]:
    return decoder("llama", shape, tie_word_embeddings=True)


def _falcon(layers: int, hidden: int, heads: int, groups: int | None) -> dict[str, Any]:
    """Return a first Falcon; `groups` of key heads, or one for all."""
    newer = {"new_decoder_architecture": True, "num_kv_heads": groups} if groups else {"multi_query": True}
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "vocab_size": 65024}
    return {"model_type": "falcon", "parallel_attn": True, "bias": False, **sizes, **newer}


_JAMBA = {
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
}

OPEN = (
    Row("falcon-7b", "tiiuae/falcon-7b tiiuae/falcon-7b-instruct", _falcon(32, 4544, 71, None)),
    Row("falcon-40b", "tiiuae/falcon-40b tiiuae/falcon-40b-instruct", _falcon(60, 8192, 128, 8)),
    Row("falcon-180b", "tiiuae/falcon-180B tiiuae/falcon-180B-chat", _falcon(80, 14848, 232, 8)),
    Row(
        "falcon3-1b",
        "tiiuae/Falcon3-1B-Base tiiuae/Falcon3-1B-Instruct",
        decoder("llama", (18, 2048, 8192, 8, 4, 131072), head_dim=256),
    ),
    Row(
        "falcon3-3b",
        "tiiuae/Falcon3-3B-Base tiiuae/Falcon3-3B-Instruct",
        decoder("llama", (22, 3072, 9216, 12, 4, 131072), head_dim=256),
    ),
    Row(
        "falcon3-7b",
        "tiiuae/Falcon3-7B-Base tiiuae/Falcon3-7B-Instruct",
        decoder("llama", (28, 3072, 23040, 12, 4, 131072), head_dim=256),
    ),
    Row(
        "falcon3-10b",
        "tiiuae/Falcon3-10B-Base tiiuae/Falcon3-10B-Instruct",
        decoder("llama", (40, 3072, 23040, 12, 4, 131072), head_dim=256),
    ),
    Row(
        "yi-6b",
        "01-ai/Yi-6B 01-ai/Yi-6B-Chat 01-ai/Yi-1.5-6B 01-ai/Yi-1.5-6B-Chat",
        decoder("llama", (32, 4096, 11008, 32, 4, 64000)),
    ),
    Row("yi-9b", "01-ai/Yi-9B 01-ai/Yi-1.5-9B 01-ai/Yi-1.5-9B-Chat", decoder("llama", (48, 4096, 11008, 32, 4, 64000))),
    Row(
        "yi-34b",
        "01-ai/Yi-34B 01-ai/Yi-34B-Chat 01-ai/Yi-1.5-34B 01-ai/Yi-1.5-34B-Chat",
        decoder("llama", (60, 7168, 20480, 56, 8, 64000)),
    ),
    Row("olmo-1b", "allenai/OLMo-1B-hf", decoder("olmo", (16, 2048, 8192, 16, 16, 50304), tie_word_embeddings=True)),
    Row("olmo-7b", "allenai/OLMo-7B-hf allenai/OLMo-7B-Instruct-hf", decoder("olmo", (32, 4096, 11008, 32, 32, 50304))),
    Row(
        "olmo2-1b",
        "allenai/OLMo-2-0425-1B allenai/OLMo-2-0425-1B-Instruct",
        decoder("olmo2", (16, 2048, 8192, 16, 16, 100352)),
    ),
    Row(
        "olmo2-7b",
        "allenai/OLMo-2-1124-7B allenai/OLMo-2-1124-7B-Instruct",
        decoder("olmo2", (32, 4096, 11008, 32, 32, 100352)),
    ),
    Row(
        "olmo2-13b",
        "allenai/OLMo-2-1124-13B allenai/OLMo-2-1124-13B-Instruct",
        decoder("olmo2", (40, 5120, 13824, 40, 40, 100352)),
    ),
    Row(
        "olmo2-32b",
        "allenai/OLMo-2-0325-32B allenai/OLMo-2-0325-32B-Instruct",
        decoder("olmo2", (64, 5120, 27648, 40, 8, 100352)),
    ),
    Row(
        "olmoe-1b-7b",
        "allenai/OLMoE-1B-7B-0924 allenai/OLMoE-1B-7B-0924-Instruct",
        decoder("olmoe", (16, 2048, 1024, 16, 16, 50304), num_experts=64, num_experts_per_tok=8),
    ),
    Row(
        "smollm-135m",
        "HuggingFaceTB/SmolLM-135M HuggingFaceTB/SmolLM-135M-Instruct",
        _tied((30, 576, 1536, 9, 3, 49152)),
    ),
    Row(
        "smollm-360m",
        "HuggingFaceTB/SmolLM-360M HuggingFaceTB/SmolLM-360M-Instruct",
        _tied((32, 960, 2560, 15, 5, 49152)),
    ),
    Row(
        "smollm-1.7b",
        "HuggingFaceTB/SmolLM-1.7B HuggingFaceTB/SmolLM-1.7B-Instruct",
        _tied((24, 2048, 8192, 32, 32, 49152)),
    ),
    Row(
        "smollm2-135m",
        "HuggingFaceTB/SmolLM2-135M HuggingFaceTB/SmolLM2-135M-Instruct",
        _tied((30, 576, 1536, 9, 3, 49152)),
    ),
    Row(
        "smollm2-360m",
        "HuggingFaceTB/SmolLM2-360M HuggingFaceTB/SmolLM2-360M-Instruct",
        _tied((32, 960, 2560, 15, 5, 49152)),
    ),
    Row(
        "smollm2-1.7b",
        "HuggingFaceTB/SmolLM2-1.7B HuggingFaceTB/SmolLM2-1.7B-Instruct",
        _tied((24, 2048, 8192, 32, 32, 49152)),
    ),
    Row(
        "smollm3-3b",
        "HuggingFaceTB/SmolLM3-3B HuggingFaceTB/SmolLM3-3B-Base",
        decoder("smollm3", (36, 2048, 11008, 16, 4, 128256)),
    ),
    Row(
        "stablelm-3b-4e1t",
        "stabilityai/stablelm-3b-4e1t stabilityai/stablelm-zephyr-3b",
        decoder("stablelm", (32, 2560, 6912, 32, 32, 50304)),
    ),
    Row(
        "stablelm-2-1.6b",
        "stabilityai/stablelm-2-1_6b stabilityai/stablelm-2-1_6b-chat stabilityai/stablelm-2-zephyr-1_6b",
        decoder("stablelm", (24, 2048, 5632, 32, 32, 100352), use_qkv_bias=True),
    ),
    Row(
        "stablelm-2-12b",
        "stabilityai/stablelm-2-12b stabilityai/stablelm-2-12b-chat",
        decoder("stablelm", (40, 5120, 13824, 32, 8, 100352), qk_layernorm=True, use_parallel_residual=True),
    ),
    Row(
        "command-r-35b",
        "CohereLabs/c4ai-command-r-v01 CohereForAI/c4ai-command-r-v01",
        decoder("cohere", (40, 8192, 22528, 64, 64, 256000)),
    ),
    Row(
        "command-r-08-2024",
        "CohereLabs/c4ai-command-r-08-2024 CohereForAI/c4ai-command-r-08-2024",
        decoder("cohere", (40, 8192, 24576, 64, 8, 256000)),
    ),
    Row(
        "command-r-plus",
        "CohereLabs/c4ai-command-r-plus CohereForAI/c4ai-command-r-plus"
        " CohereLabs/c4ai-command-r-plus-08-2024 CohereForAI/c4ai-command-r-plus-08-2024",
        decoder("cohere", (64, 12288, 33792, 96, 8, 256000), use_qk_norm=True),
    ),
    Row(
        "command-r7b",
        "CohereLabs/c4ai-command-r7b-12-2024 CohereForAI/c4ai-command-r7b-12-2024",
        decoder("cohere2", (32, 4096, 14336, 32, 8, 256000)),
    ),
    Row(
        "command-a-111b",
        "CohereLabs/c4ai-command-a-03-2025 CohereForAI/c4ai-command-a-03-2025",
        decoder("cohere2", (64, 12288, 36864, 96, 8, 256000)),
    ),
    Row("starcoder2-3b", "bigcode/starcoder2-3b", decoder("starcoder2", (30, 3072, 12288, 24, 2, 49152))),
    Row("starcoder2-7b", "bigcode/starcoder2-7b", decoder("starcoder2", (32, 4608, 18432, 36, 4, 49152))),
    Row(
        "starcoder2-15b",
        "bigcode/starcoder2-15b bigcode/starcoder2-15b-instruct-v0.1",
        decoder("starcoder2", (40, 6144, 24576, 48, 4, 49152), tie_word_embeddings=False),
    ),
    Row(
        "solar-10.7b",
        "upstage/SOLAR-10.7B-v1.0 upstage/SOLAR-10.7B-Instruct-v1.0",
        decoder("llama", (48, 4096, 14336, 32, 8, 32000)),
    ),
    Row(
        "seed-oss-36b",
        "ByteDance-Seed/Seed-OSS-36B-Base ByteDance-Seed/Seed-OSS-36B-Instruct",
        decoder("seed_oss", (64, 5120, 27648, 80, 8, 155136), head_dim=128, attention_bias=True),
    ),
    Row("jamba-v0.1", "ai21labs/Jamba-v0.1", decoder("jamba", (32, 4096, 14336, 32, 8, 65536), **_JAMBA)),
    Row(
        "bamba-9b",
        "ibm-ai-platform/Bamba-9B ibm-fms/Bamba-9B ibm-ai-platform/Bamba-9B-v2",
        decoder(
            "bamba",
            (32, 4096, 14336, 32, 8, 128256),
            attn_layer_indices=[9, 18, 27],
            mamba_n_heads=128,
            mamba_d_state=128,
        ),
    ),
)
