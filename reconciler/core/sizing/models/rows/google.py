"""Gemma of Google."""

from typing import Any

from reconciler.core.sizing.models.rows.row import Row, Shape, decoder
from reconciler.core.sizing.models.rows.towers import siglip


def _seeing(shape: Shape, **more: Any) -> dict[str, Any]:
    """Return a Gemma 3 with a tower for images."""
    return {
        "model_type": "gemma3",
        "text_config": decoder("gemma3_text", shape, **more),
        "vision_config": siglip(896, vision_use_head=False),
    }


GOOGLE = (
    Row(
        "gemma-2b",
        "google/gemma-2b google/gemma-2b-it google/gemma-1.1-2b-it",
        decoder("gemma", (18, 2048, 16384, 8, 1, 256000), head_dim=256),
    ),
    Row(
        "gemma-7b",
        "google/gemma-7b google/gemma-7b-it google/gemma-1.1-7b-it google/codegemma-7b google/codegemma-7b-it",
        decoder("gemma", (28, 3072, 24576, 16, 16, 256000), head_dim=256),
    ),
    Row(
        "gemma2-2b",
        "google/gemma-2-2b google/gemma-2-2b-it",
        decoder("gemma2", (26, 2304, 9216, 8, 4, 256000), head_dim=256),
    ),
    Row(
        "gemma2-9b",
        "google/gemma-2-9b google/gemma-2-9b-it",
        decoder("gemma2", (42, 3584, 14336, 16, 8, 256000), head_dim=256),
    ),
    Row(
        "gemma2-27b",
        "google/gemma-2-27b google/gemma-2-27b-it",
        decoder("gemma2", (46, 4608, 36864, 32, 16, 256000), head_dim=128),
    ),
    Row(
        "gemma3-270m",
        "google/gemma-3-270m google/gemma-3-270m-it",
        decoder("gemma3_text", (18, 640, 2048, 4, 1, 262144), head_dim=256),
    ),
    Row(
        "gemma3-1b",
        "google/gemma-3-1b-pt google/gemma-3-1b-it",
        decoder("gemma3_text", (26, 1152, 6912, 4, 1, 262144), head_dim=256),
    ),
    Row(
        "gemma3-4b", "google/gemma-3-4b-pt google/gemma-3-4b-it", _seeing((34, 2560, 10240, 8, 4, 262208), head_dim=256)
    ),
    Row(
        "gemma3-12b",
        "google/gemma-3-12b-pt google/gemma-3-12b-it",
        _seeing((48, 3840, 15360, 16, 8, 262208), head_dim=256),
    ),
    Row(
        "gemma3-27b",
        "google/gemma-3-27b-pt google/gemma-3-27b-it",
        _seeing((62, 5376, 21504, 32, 16, 262208), head_dim=128),
    ),
)
