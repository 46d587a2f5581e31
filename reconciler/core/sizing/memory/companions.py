"""Memory of the models beside the policy: frozen ones that judge its answers, and a value model with an optimizer."""

from typing import NamedTuple

from msgspec.structs import replace

from reconciler.core.sizing.memory.stacks import Stack
from reconciler.core.sizing.memory.states import DEEPSPEED, PACKED, Shards, shards_of
from reconciler.core.sizing.memory.terms import terms_of
from reconciler.core.sizing.training import (
    Architecture,
    Companion,
    CompanionRole,
    Layout,
    Method,
    Objective,
    Strategy,
    Training,
)

_WIDTHS = {4: PACKED[Method.QLORA], 8: PACKED[Method.INT8_LORA], 16: 2.0, 32: 4.0}
"""Bytes of a frozen weight by its bits. Those of quantized ones include their scales."""

_HALF = 2.0


class CompanionBytes(NamedTuple):
    """Bytes on one GPU: `weights`, the `optimizer` of a value model, and what a `step` of it needs besides."""

    weights: float
    optimizer: float
    step: float


def companion_bytes(training: Training, layout: Layout, stack: Stack) -> CompanionBytes:
    """Return the bytes of all companions; zero if there are none.

    Frozen models are whole on every GPU, unless ZeRO-3 shards them: only stage 3 is of use without an optimizer (TRL's
    `prepare_deepspeed`, OpenRLHF's `get_ds_eval_config`), and accelerate wraps no model for evaluation alone.
    """
    weights = optimizer = step = 0.0
    shards = shards_of(training, layout)
    for companion in training.companions:
        if companion.role is CompanionRole.VALUE:
            found = _trained(training, companion, layout, shards, stack)
            weights, optimizer, step = weights + found.weights, optimizer + found.optimizer, step + found.step
        else:
            is_sharded = training.strategy is Strategy.ZERO3
            frozen = _frozen(training, companion) / (layout.gpus if is_sharded else training.ways)
            weights += frozen
    return CompanionBytes(weights, optimizer, step)


def _frozen(training: Training, companion: Companion) -> float:
    width = _WIDTHS[companion.bits]
    if training.strategy in DEEPSPEED:
        width = min(width, _HALF)
    return width * _shape(companion).parameters


def _shape(companion: Companion) -> Architecture:
    """Return the architecture without the head over the vocabulary, if a head of one output replaces it."""
    model = companion.architecture
    if companion.has_vocabulary or companion.role is CompanionRole.REFERENCE or model.tied:
        return model
    head = model.vocabulary * model.hidden
    return replace(
        model, tied=True, parameters=model.parameters - head, active_parameters=model.active_parameters - head
    )


def _trained(training: Training, companion: Companion, layout: Layout, shards: Shards, stack: Stack) -> CompanionBytes:
    """Return the bytes of a value model, which is sharded like the policy.

    Taking turns, only the larger of both models has gradients and activations at the worst moment.
    """
    own = replace(
        training,
        architecture=_shape(companion),
        method=Method.FULL if companion.joint else training.method,
        objective=Objective.REWARD,
        companions=(),
        checkpointing=training.checkpointing and not companion.joint,
    )
    terms = terms_of(own, stack, sharded=shards.weights > 1)
    states, tokens = terms.states, layout.batch * training.sequence
    step = 0.0
    if companion.joint or own.architecture.parameters > training.architecture.parameters:
        step = states.gradients / shards.gradients
        step += tokens * (terms.activations.kept + max(terms.activations.forward, terms.activations.backward))
    return CompanionBytes(states.weights / shards.weights, states.optimizer / shards.optimizer, step)
