"""GPT-2 and its kin: small ones for tests, and what Llama came after."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, decoder


def _gpt2(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": heads,
        "vocab_size": 50257,
        "n_positions": 1024,
    }


def _neox(layers: int, hidden: int, heads: int, vocabulary: int = 50304) -> dict[str, Any]:
    return decoder("gpt_neox", (layers, hidden, 4 * hidden, heads, heads, vocabulary))


def _bloom(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {"model_type": "bloom", "n_layer": layers, "hidden_size": hidden, "n_head": heads, "vocab_size": 250880}


def _opt(layers: int, hidden: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "opt",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "ffn_dim": 4 * hidden,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        **more,
    }


CLASSIC = (
    Row("distilgpt2", "distilbert/distilgpt2 distilgpt2", _gpt2(6, 768, 12)),
    Row("gpt2", "openai-community/gpt2 gpt2", _gpt2(12, 768, 12)),
    Row("gpt2-medium", "openai-community/gpt2-medium gpt2-medium", _gpt2(24, 1024, 16)),
    Row("gpt2-large", "openai-community/gpt2-large gpt2-large", _gpt2(36, 1280, 20)),
    Row("gpt2-xl", "openai-community/gpt2-xl gpt2-xl", _gpt2(48, 1600, 25)),
    Row("pythia-70m", "EleutherAI/pythia-70m EleutherAI/pythia-70m-deduped", _neox(6, 512, 8)),
    Row("pythia-160m", "EleutherAI/pythia-160m EleutherAI/pythia-160m-deduped", _neox(12, 768, 12)),
    Row("pythia-410m", "EleutherAI/pythia-410m EleutherAI/pythia-410m-deduped", _neox(24, 1024, 16)),
    Row("pythia-1b", "EleutherAI/pythia-1b EleutherAI/pythia-1b-deduped", _neox(16, 2048, 8)),
    Row("pythia-1.4b", "EleutherAI/pythia-1.4b EleutherAI/pythia-1.4b-deduped", _neox(24, 2048, 16)),
    Row("pythia-2.8b", "EleutherAI/pythia-2.8b EleutherAI/pythia-2.8b-deduped", _neox(32, 2560, 32)),
    Row("pythia-6.9b", "EleutherAI/pythia-6.9b EleutherAI/pythia-6.9b-deduped", _neox(32, 4096, 32, 50432)),
    Row("pythia-12b", "EleutherAI/pythia-12b EleutherAI/pythia-12b-deduped", _neox(36, 5120, 40, 50688)),
    Row("gpt-neox-20b", "EleutherAI/gpt-neox-20b", _neox(44, 6144, 64, 50432)),
    Row(
        "stablelm-base-alpha-3b",
        "stabilityai/stablelm-base-alpha-3b stabilityai/stablelm-tuned-alpha-3b",
        _neox(16, 4096, 32, 50688),
    ),
    Row(
        "stablelm-base-alpha-7b",
        "stabilityai/stablelm-base-alpha-7b stabilityai/stablelm-tuned-alpha-7b",
        _neox(16, 6144, 48, 50432),
    ),
    Row(
        "gpt-j-6b",
        "EleutherAI/gpt-j-6b",
        {"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16, "vocab_size": 50400},
    ),
    Row(
        "mpt-7b",
        "mosaicml/mpt-7b mosaicml/mpt-7b-instruct mosaicml/mpt-7b-chat",
        {"model_type": "mpt", "n_layers": 32, "d_model": 4096, "n_heads": 32, "vocab_size": 50432, "no_bias": True},
    ),
    Row(
        "starcoder-15b",
        "bigcode/starcoder bigcode/starcoderbase",
        {
            "model_type": "gpt_bigcode",
            "n_layer": 40,
            "n_embd": 6144,
            "n_head": 48,
            "n_inner": 24576,
            "vocab_size": 49152,
            "n_positions": 8192,
        },
    ),
    Row("bloom-560m", "bigscience/bloom-560m bigscience/bloomz-560m", _bloom(24, 1024, 16)),
    Row("bloom-1b1", "bigscience/bloom-1b1 bigscience/bloomz-1b1", _bloom(24, 1536, 16)),
    Row("bloom-1b7", "bigscience/bloom-1b7 bigscience/bloomz-1b7", _bloom(24, 2048, 16)),
    Row("bloom-3b", "bigscience/bloom-3b bigscience/bloomz-3b", _bloom(30, 2560, 32)),
    Row("bloom-7b1", "bigscience/bloom-7b1 bigscience/bloomz-7b1", _bloom(30, 4096, 32)),
    Row("bloom-176b", "bigscience/bloom bigscience/bloomz", _bloom(70, 14336, 112)),
    Row("opt-125m", "facebook/opt-125m", _opt(12, 768, 12)),
    Row("opt-350m", "facebook/opt-350m", _opt(24, 1024, 16, word_embed_proj_dim=512, do_layer_norm_before=False)),
    Row("opt-1.3b", "facebook/opt-1.3b", _opt(24, 2048, 32)),
    Row("opt-2.7b", "facebook/opt-2.7b", _opt(32, 2560, 32)),
    Row("opt-6.7b", "facebook/opt-6.7b", _opt(32, 4096, 32)),
    Row("opt-13b", "facebook/opt-13b", _opt(40, 5120, 40)),
    Row("opt-30b", "facebook/opt-30b", _opt(48, 7168, 56)),
    Row("opt-66b", "facebook/opt-66b", _opt(64, 9216, 72)),
)
