"""DeepSeek, Kimi and others with latent attention or many small experts; OpenAI's open models; GLM."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, Shape, decoder


def _latent(
    kind: str, shape: Shape, experts: tuple[int, int, int, int], *, dense: int = 1, low: int | None = 1536
) -> dict[str, Any]:
    """Return a mixture with latent attention; `experts`: in all, of a token, shared, width. The first are `dense`."""
    count, chosen, shared, width = experts
    return decoder(
        kind,
        shape,
        q_lora_rank=low,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        n_routed_experts=count,
        num_experts_per_tok=chosen,
        n_shared_experts=shared,
        moe_intermediate_size=width,
        first_k_dense_replace=dense,
        moe_layer_freq=1,
    )


def _glm(shape: Shape, experts: int, width: int, *, dense: int, norm: bool) -> dict[str, Any]:
    return decoder(
        "glm4_moe",
        shape,
        head_dim=128,
        n_routed_experts=experts,
        num_experts_per_tok=8,
        n_shared_experts=1,
        moe_intermediate_size=width,
        first_k_dense_replace=dense,
        attention_bias=True,
        use_qk_norm=norm,
    )


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    more = {"head_dim": 64, "num_local_experts": experts, "num_experts_per_tok": 4, "attention_bias": True}
    return decoder("gpt_oss", (layers, 2880, 2880, 64, 8, 201088), **more)


_V3 = (61, 7168, 18432, 128, 128, 129280)

DEEPSEEK = (
    Row(
        "deepseek-llm-7b",
        "deepseek-ai/deepseek-llm-7b-base deepseek-ai/deepseek-llm-7b-chat",
        decoder("llama", (30, 4096, 11008, 32, 32, 102400)),
    ),
    Row(
        "deepseek-llm-67b",
        "deepseek-ai/deepseek-llm-67b-base deepseek-ai/deepseek-llm-67b-chat",
        decoder("llama", (95, 8192, 22016, 64, 8, 102400)),
    ),
    Row(
        "deepseek-coder-1.3b",
        "deepseek-ai/deepseek-coder-1.3b-base deepseek-ai/deepseek-coder-1.3b-instruct",
        decoder("llama", (24, 2048, 5504, 16, 16, 32256)),
    ),
    Row(
        "deepseek-coder-6.7b",
        "deepseek-ai/deepseek-coder-6.7b-base deepseek-ai/deepseek-coder-6.7b-instruct",
        decoder("llama", (32, 4096, 11008, 32, 32, 32256)),
    ),
    Row(
        "deepseek-coder-33b",
        "deepseek-ai/deepseek-coder-33b-base deepseek-ai/deepseek-coder-33b-instruct",
        decoder("llama", (62, 7168, 19200, 56, 8, 32256)),
    ),
    Row(
        "deepseek-v2-lite",
        "deepseek-ai/DeepSeek-V2-Lite deepseek-ai/DeepSeek-V2-Lite-Chat"
        " deepseek-ai/DeepSeek-Coder-V2-Lite-Base deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct",
        _latent("deepseek_v2", (27, 2048, 10944, 16, 16, 102400), (64, 6, 2, 1408), low=None),
    ),
    Row(
        "deepseek-v2",
        "deepseek-ai/DeepSeek-V2 deepseek-ai/DeepSeek-V2-Chat deepseek-ai/DeepSeek-V2.5",
        _latent("deepseek_v2", (60, 5120, 12288, 128, 128, 102400), (160, 6, 2, 1536)),
    ),
    Row(
        "deepseek-v3",
        "deepseek-ai/DeepSeek-V3 deepseek-ai/DeepSeek-V3-Base deepseek-ai/DeepSeek-V3-0324"
        " deepseek-ai/DeepSeek-V3.1 deepseek-ai/DeepSeek-V3.1-Base",
        _latent("deepseek_v3", _V3, (256, 8, 1, 2048), dense=3),
    ),
    Row(
        "deepseek-r1",
        "deepseek-ai/DeepSeek-R1 deepseek-ai/DeepSeek-R1-0528 deepseek-ai/DeepSeek-R1-Zero",
        _latent("deepseek_v3", _V3, (256, 8, 1, 2048), dense=3),
    ),
    Row(
        "deepseek-r1-distill-qwen-1.5b",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        decoder("qwen2", (28, 1536, 8960, 12, 2, 151936)),
    ),
    Row(
        "deepseek-r1-distill-qwen-7b",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        decoder("qwen2", (28, 3584, 18944, 28, 4, 152064)),
    ),
    Row(
        "deepseek-r1-distill-qwen-14b",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
        decoder("qwen2", (48, 5120, 13824, 40, 8, 152064)),
    ),
    Row(
        "deepseek-r1-distill-qwen-32b",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
        decoder("qwen2", (64, 5120, 27648, 40, 8, 152064)),
    ),
    Row(
        "deepseek-r1-distill-llama-8b",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        decoder("llama", (32, 4096, 14336, 32, 8, 128256)),
    ),
    Row(
        "deepseek-r1-distill-llama-70b",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        decoder("llama", (80, 8192, 28672, 64, 8, 128256)),
    ),
    Row(
        "deepseek-r1-0528-qwen3-8b",
        "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B",
        decoder("qwen3", (36, 4096, 12288, 32, 8, 151936), head_dim=128),
    ),
    Row(
        "moonlight-16b-a3b",
        "moonshotai/Moonlight-16B-A3B moonshotai/Moonlight-16B-A3B-Instruct",
        _latent("deepseek_v3", (27, 2048, 11264, 16, 16, 163840), (64, 6, 2, 1408), low=None),
    ),
    Row(
        "kimi-k2",
        "moonshotai/Kimi-K2-Instruct moonshotai/Kimi-K2-Base moonshotai/Kimi-K2-Instruct-0905"
        " moonshotai/Kimi-K2-Thinking",
        _latent("kimi_k2", (61, 7168, 18432, 64, 64, 163840), (384, 8, 1, 2048)),
    ),
    Row("gpt-oss-20b", "openai/gpt-oss-20b", _gpt_oss(24, 32)),
    Row("gpt-oss-120b", "openai/gpt-oss-120b", _gpt_oss(36, 128)),
    Row(
        "glm-4-9b",
        "zai-org/glm-4-9b-hf THUDM/glm-4-9b-hf zai-org/glm-4-9b-chat-hf THUDM/glm-4-9b-chat-hf",
        decoder("glm", (40, 4096, 13696, 32, 2, 151552), head_dim=128, attention_bias=True, pad_token_id=151329),
    ),
    Row(
        "glm-4-9b-0414",
        "zai-org/GLM-4-9B-0414 THUDM/GLM-4-9B-0414",
        decoder("glm4", (40, 4096, 13696, 32, 2, 151552), head_dim=128, attention_bias=False),
    ),
    Row(
        "glm-4-32b-0414",
        "zai-org/GLM-4-32B-0414 THUDM/GLM-4-32B-0414",
        decoder("glm4", (61, 6144, 23040, 48, 2, 151552), head_dim=128, attention_bias=False),
    ),
    Row(
        "glm-4.5",
        "zai-org/GLM-4.5 zai-org/GLM-4.5-Base zai-org/GLM-4.6 zai-org/GLM-4.7",
        _glm((92, 5120, 12288, 96, 8, 151552), 160, 1536, dense=3, norm=True),
    ),
    Row(
        "glm-4.5-air",
        "zai-org/GLM-4.5-Air zai-org/GLM-4.5-Air-Base",
        _glm((46, 4096, 10944, 96, 8, 151552), 128, 1408, dense=1, norm=False),
    ),
)
