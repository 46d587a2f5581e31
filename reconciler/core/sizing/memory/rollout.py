"""Memory of answers that a policy writes while it trains on them: an engine beside it, or its own generation."""

from typing import NamedTuple

from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.training import Architecture, Layout, Training

GIB = float(1 << 30)
ASLEEP = GIB
"""Bytes that a sleeping engine keeps: its context and its CUDA graphs (vLLM, "Sleep Mode")."""


class RolloutBytes(NamedTuple):
    """Bytes on one GPU: `beside` the training's own peak, and all of them while answers are `generated`."""

    beside: float
    generated: float


def rollout_bytes(training: Training, layout: Layout, gpu: Gpu, states: float, whole: float) -> RolloutBytes:
    """Return the bytes of a rollout; zero for other objectives.

    `states` are those of the training that stay on the GPU, `whole` are the weights if one GPU gathers all of them. The
    policy itself generates all answers of an update at once, with the keys and values of each token.
    """
    if training.rollout:
        engine = training.rollout * gpu.memory_gib * GIB
        kept = 0.0 if training.rollout_alone else states
        return RolloutBytes(ASLEEP if training.rollout_sleeps else engine, kept + engine)
    if training.generates:
        answers = layout.batch * layout.accumulation * training.sequence
        return RolloutBytes(0.0, states + whole + answers * cache_bytes(training.architecture))
    return RolloutBytes(0.0, 0.0)


def cache_bytes(model: Architecture) -> float:
    """Return the bytes of keys and values of one token, in 2 bytes each."""
    return 4.0 * (model.attention_layers or model.layers) * model.kv_heads * model.head_dim
