"""The bytes of the loss per token and vocabulary entry, by its kernel."""

import math

from msgspec import Struct

from reconciler.core.sizing.memory.rollout import ENTROPY
from reconciler.core.sizing.memory.stacks import Stack
from reconciler.core.sizing.memory.states import DEEPSPEED
from reconciler.core.sizing.models.lora import ALL_LINEAR
from reconciler.core.sizing.training import Method, Objective, Training

HALF_LOSS = 8.0
"""Bytes per token and vocabulary entry under DeepSpeed, which casts the whole model, so that the loss is in 2 bytes:
logits, their shifted copy, log-softmax and a gradient."""

FUSED_LOSS = 12.0
"""Bytes per token and hidden width if the loss is fused with the head. Liger's kernel splits the tokens into chunks
whose logits are as large as the head's input: a chunk in 2 bytes, its copy in fp32 and a gradient, and the gradient of
the input (Liger Kernel, `ops/fused_linear_cross_entropy.py`)."""

FAST_LOSS = 6.0
FAST_LOSS_ENTRIES = 65536
"""Bytes per token and vocabulary entry if the cross entropy works in place (logits in 2 bytes and a copy in fp32, which
gradients overwrite), and the largest vocabulary for that (Unsloth, `kernels/cross_entropy_loss.py`)."""

REFERENCE_LOGITS = 6.0
"""Bytes per token and vocabulary entry of a reference model's logits, in 2 bytes and in fp32. They exist while those of
the policy wait for the backward pass (TRL's `DPOTrainer` and `KTOTrainer`)."""

SOFTCAP = 4.0
"""Bytes per token and vocabulary entry, or per score of attention, of a soft cap: the output of tanh, which its
backward pass needs, and a gradient (transformers' `modeling_gemma2.py`)."""


class LossBytes(Struct, frozen=True):
    """Bytes of the loss per token: `reserved`, and `live` at once."""

    reserved: float
    live: float


def loss_bytes(training: Training, stack: Stack) -> LossBytes:
    """Return the bytes of the loss per token.

    `stack.uneven`: samples of other lengths leave blocks of other sizes, as much again as the loss of samples of that
    length.
    """
    ways = training.ways * training.context
    if training.objective is Objective.REWARD:
        return LossBytes(0.0, 0.0)
    if training.objective is Objective.VALUE_HEAD:
        untrained = REFERENCE_LOGITS * training.architecture.vocabulary / ways
        return LossBytes(untrained, untrained)
    if training.fused_loss:
        fused = FUSED_LOSS * training.architecture.hidden / ways
        return LossBytes(fused, fused)
    is_half = training.strategy in DEEPSPEED and training.method is not Method.LORA
    is_fast = training.fast_loss and training.architecture.vocabulary <= FAST_LOSS_ENTRIES
    most = FAST_LOSS if is_fast else HALF_LOSS if is_half else math.inf
    on_head = training.method.has_adapters and ALL_LINEAR in training.lora_targets
    logits = stack.logits_adapted if on_head else stack.logits
    entries = training.architecture.vocabulary / ways
    compares = training.holds_reference and training.objective is not Objective.GRPO  # whose reference comes first
    entries *= training.scored
    scored = entries * REFERENCE_LOGITS if compares else 0.0
    scored += entries * SOFTCAP if training.architecture.softcap else 0.0
    scored += entries * ENTROPY if training.objective is Objective.PPO else 0.0
    uneven = 1 + min(1.0, stack.uneven / training.sequence)
    return LossBytes(
        entries * min(most, logits) * uneven + scored, entries * min(most, logits, stack.logits_live) + scored
    )
