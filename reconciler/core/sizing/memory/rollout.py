"""Memory of answers that a policy writes while it trains on them: an engine beside it, or its own generation."""

from typing import NamedTuple

from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.training import Architecture, Layout, Objective, Training

GIB = float(1 << 30)
ASLEEP = GIB
"""Bytes that a sleeping engine keeps: its context and its CUDA graphs (vLLM, "Sleep Mode")."""

ENTROPY = 8.0
"""Bytes per token and vocabulary entry of PPO's entropy: a softmax in fp32, and its product with the logits (TRL's
`entropy_from_logits`)."""

_SCORES = 8.0
"""Bytes per generated token and vocabulary entry of logits in fp32, which are padded into a copy (TRL's
`batch_generation`)."""

_JUDGED = 6.0
"""Bytes per token and vocabulary entry while a batch of answers is judged: logits in 2 bytes and in fp32."""


class RolloutBytes(NamedTuple):
    """Bytes on one GPU: `beside` the training's own peak, and all of them while answers are `generated`."""

    beside: float
    generated: float


def rollout_bytes(training: Training, layout: Layout, gpu: Gpu, states: float, whole: float) -> RolloutBytes:
    """Return the bytes of a rollout; zero for other objectives.

    `states` are those of the training that stay on the GPU, `whole` are the weights if one GPU gathers all of them. The
    policy itself generates all answers of an update at once, or PPO's in parts, with the keys and values of each token.
    """
    if not training.rollout and not training.generates:
        return RolloutBytes(0.0, 0.0)
    model, answers = training.architecture, layout.batch * layout.accumulation
    at_once = min(answers, training.rollout_batch or layout.batch) if training.objective is Objective.PPO else answers
    beside = scores = 0.0
    if training.rollout:
        engine = training.rollout * gpu.memory_gib * GIB
        beside = ASLEEP if training.rollout_sleeps else engine
        generated = (0.0 if training.rollout_alone else states) + engine
    else:
        generated = states + whole + at_once * training.sequence * cache_bytes(model)
    if training.keeps_scores:
        scores = answers * training.scored * training.sequence * model.vocabulary * _SCORES
    if training.objective is not Objective.PPO:
        return RolloutBytes(beside, generated)
    most = max((companion.architecture for companion in training.companions), key=_hidden_states, default=model)
    judged = at_once * training.sequence * max(_JUDGED * model.vocabulary, _hidden_states(most))
    return RolloutBytes(beside, max(generated + scores, states + beside + scores / 2 + judged))


def _hidden_states(model: Architecture) -> float:
    """Return the bytes of one token's inputs of all layers, which a model that judges returns."""
    return 2.0 * model.layers * model.hidden


def cache_bytes(model: Architecture) -> float:
    """Return the bytes of keys and values of one token, in 2 bytes each."""
    return 4.0 * (model.attention_layers or model.layers) * model.kv_heads * model.head_dim
