"""Phi of Microsoft."""

from reconciler.core.sizing.models.rows.row import Row, decoder

_MOE = {"num_local_experts": 16, "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True}

MICROSOFT = (
    Row("phi-1.5", "microsoft/phi-1_5", decoder("phi", (24, 2048, 8192, 32, 32, 51200))),
    Row("phi-2", "microsoft/phi-2", decoder("phi", (32, 2560, 10240, 32, 32, 51200))),
    Row(
        "phi-3-mini",
        "microsoft/Phi-3-mini-4k-instruct microsoft/Phi-3-mini-128k-instruct",
        decoder("phi3", (32, 3072, 8192, 32, 32, 32064)),
    ),
    Row(
        "phi-3-medium",
        "microsoft/Phi-3-medium-4k-instruct microsoft/Phi-3-medium-128k-instruct",
        decoder("phi3", (40, 5120, 17920, 40, 10, 32064)),
    ),
    Row("phi-3.5-mini", "microsoft/Phi-3.5-mini-instruct", decoder("phi3", (32, 3072, 8192, 32, 32, 32064))),
    Row("phi-3.5-moe", "microsoft/Phi-3.5-MoE-instruct", decoder("phimoe", (32, 4096, 6400, 32, 8, 32064), **_MOE)),
    Row(
        "phi-4",
        "microsoft/phi-4 microsoft/Phi-4-reasoning microsoft/Phi-4-reasoning-plus",
        decoder("phi3", (40, 5120, 17920, 40, 10, 100352)),
    ),
    Row(
        "phi-4-mini",
        "microsoft/Phi-4-mini-instruct microsoft/Phi-4-mini-reasoning",
        decoder("phi3", (32, 3072, 8192, 24, 8, 200064), tie_word_embeddings=True),
    ),
)
