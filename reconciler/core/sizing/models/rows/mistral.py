"""Mistral and Mixtral."""

from reconciler.core.sizing.models.rows.row import Row, decoder
from reconciler.core.sizing.models.rows.towers import pixtral

_EIGHT = {"num_local_experts": 8, "num_experts_per_tok": 2}

MISTRAL = (
    Row(
        "mistral-7b-v0.1",
        "mistralai/Mistral-7B-v0.1 mistralai/Mistral-7B-Instruct-v0.1",
        decoder("mistral", (32, 4096, 14336, 32, 8, 32000)),
        autoconf="mistral-7b-v0.1",
        also="mistralai-mistral-7b-v0.1",
    ),
    Row(
        "mistral-7b-v0.2",
        "mistralai/Mistral-7B-Instruct-v0.2 mistral-community/Mistral-7B-v0.2",
        decoder("mistral", (32, 4096, 14336, 32, 8, 32000)),
        autoconf="mistral-7b-v0.1",
    ),
    Row(
        "mistral-7b-v0.3",
        "mistralai/Mistral-7B-v0.3 mistralai/Mistral-7B-Instruct-v0.3",
        decoder("mistral", (32, 4096, 14336, 32, 8, 32768)),
        autoconf="mistral-7b-v0.1",
    ),
    Row(
        "mistral-123b-v2",
        "mistralai/Mistral-Large-Instruct-2407",
        decoder("mistral", (88, 12288, 28672, 96, 8, 32768)),
        autoconf="mistral-123b-v2",
        also="mistral-large-2407 mistral-large/fp16_240620",
    ),
    Row(
        "mistral-large-2411",
        "mistralai/Mistral-Large-Instruct-2411",
        decoder("mistral", (88, 12288, 28672, 96, 8, 32768)),
        autoconf="mistral-123b-v2",
    ),
    Row(
        "mistral-nemo-12b",
        "mistralai/Mistral-Nemo-Base-2407 mistralai/Mistral-Nemo-Instruct-2407",
        decoder("mistral", (40, 5120, 14336, 32, 8, 131072), head_dim=128),
        also="mistral-nemo",
    ),
    Row(
        "mistral-small-22b",
        "mistralai/Mistral-Small-Instruct-2409",
        decoder("mistral", (56, 6144, 16384, 48, 8, 32768), head_dim=128),
        also="mistral-small-2409",
    ),
    Row(
        "mistral-small-24b",
        "mistralai/Mistral-Small-24B-Base-2501 mistralai/Mistral-Small-24B-Instruct-2501",
        decoder("mistral", (40, 5120, 32768, 32, 8, 131072), head_dim=128),
        also="mistral-small-2501",
    ),
    Row(
        "ministral-8b",
        "mistralai/Ministral-8B-Instruct-2410",
        decoder("mistral", (36, 4096, 12288, 32, 8, 131072), head_dim=128),
    ),
    Row("mathstral-7b", "mistralai/Mathstral-7B-v0.1", decoder("mistral", (32, 4096, 14336, 32, 8, 32768))),
    Row(
        "mixtral-8x7b-v0.1",
        "mistralai/Mixtral-8x7B-v0.1 mistralai/Mixtral-8x7B-Instruct-v0.1",
        decoder("mixtral", (32, 4096, 14336, 32, 8, 32000), **_EIGHT),
        autoconf="mixtral-8x7b-instruct-v0.1",
        also="mixtral-8x7b",
    ),
    Row(
        "mixtral-8x22b-v0.1",
        "mistralai/Mixtral-8x22B-v0.1",
        decoder("mixtral", (56, 6144, 16384, 48, 8, 32000), **_EIGHT),
    ),
    Row(
        "mixtral-8x22b-instruct-v0.1",
        "mistralai/Mixtral-8x22B-Instruct-v0.1",
        decoder("mixtral", (56, 6144, 16384, 48, 8, 32768), **_EIGHT),
    ),
    Row(
        "codestral-22b",
        "mistralai/Codestral-22B-v0.1",
        decoder("mistral", (56, 6144, 16384, 48, 8, 32768), head_dim=128),
    ),
    Row(
        "devstral-small-2505",
        "mistralai/Devstral-Small-2505 mistralai/Magistral-Small-2506",
        decoder("mistral", (40, 5120, 32768, 32, 8, 131072), head_dim=128),
    ),
    Row(
        "mistral-small-3.1-24b",
        "mistralai/Mistral-Small-3.1-24B-Base-2503 mistralai/Mistral-Small-3.1-24B-Instruct-2503"
        " mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        {
            "model_type": "mistral3",
            "text_config": decoder("mistral", (40, 5120, 32768, 32, 8, 131072), head_dim=128),
            "vision_config": pixtral(1540),
        },
    ),
    Row(
        "zephyr-7b",
        "HuggingFaceH4/zephyr-7b-beta HuggingFaceH4/zephyr-7b-alpha",
        decoder("mistral", (32, 4096, 14336, 32, 8, 32000)),
        autoconf="mistral-7b-v0.1",
    ),
)
