"""Models of a few billion parameters that courses, tests and laptops use."""

from reconciler.core.sizing.models.rows.row import Row, decoder

SMALL = (
    Row(
        "smollm2-135m",
        "HuggingFaceTB/SmolLM2-135M HuggingFaceTB/SmolLM2-135M-Instruct",
        decoder("llama", (30, 576, 1536, 9, 3, 49152), tie_word_embeddings=True),
        autoconf="smollm2-135m",
    ),
    Row(
        "gemma-2b",
        "google/gemma-2b google/gemma-2b-it google/gemma-1.1-2b-it",
        decoder("gemma", (18, 2048, 16384, 8, 1, 256000), head_dim=256),
    ),
    Row(
        "gemma-7b",
        "google/gemma-7b google/gemma-7b-it google/gemma-1.1-7b-it",
        decoder("gemma", (28, 3072, 24576, 16, 16, 256000), head_dim=256),
    ),
    Row(
        "stablelm-base-alpha-3b",
        "stabilityai/stablelm-base-alpha-3b stabilityai/stablelm-tuned-alpha-3b",
        decoder("gpt_neox", (16, 4096, 16384, 32, 32, 50688)),
    ),
)
