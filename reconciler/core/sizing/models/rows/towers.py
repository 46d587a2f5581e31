"""The towers for images that several families share, as in their `vision_config`."""

from typing import Any


def siglip(image: int, **more: Any) -> dict[str, Any]:
    """Return SigLIP-So400m with patches of 14 pixels (arXiv 2303.15343), for images of `image` pixels a side."""
    return {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "image_size": image,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "patch_size": 14,
        **more,
    }


def pixtral(image: int) -> dict[str, Any]:
    """Return Pixtral's tower (arXiv 2410.07073)."""
    return {
        "model_type": "pixtral",
        "hidden_size": 1024,
        "image_size": image,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "patch_size": 14,
    }


def qwen(out: int, inner: int) -> dict[str, Any]:
    """Return the tower of Qwen2.5-VL for a decoder of width `out`."""
    return {
        "model_type": "qwen2_5_vl",
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": inner,
        "num_heads": 16,
        "out_hidden_size": out,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }


LLAMA4 = {
    "model_type": "llama4_vision_model",
    "hidden_size": 1408,
    "image_size": 336,
    "intermediate_size": 5632,
    "num_hidden_layers": 34,
    "patch_size": 14,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
    "vision_output_dim": 4096,
}
