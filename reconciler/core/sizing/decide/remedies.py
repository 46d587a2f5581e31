"""What would let a training run that fits nowhere, or on fewer GPUs: other ways of the same training."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Method, Strategy, Training

_DIVIDED = (Strategy.FSDP_FULL, Strategy.FSDP_HYBRID, Strategy.ZERO3)


def remedies(question: Question, *, other_weights: bool) -> Iterator[tuple[str, Question]]:
    """Yield changes that leave what is learnt as it is, the simplest first, each in words.

    `other_weights`: at last also adapters in the place of all weights, which is another training.
    """
    training = question.training
    together, words = training, []
    for name, change in _changes(training):
        changed = replace(training, **change)
        if changed != training:
            yield name, replace(question, training=changed)
            together = replace(together, **change)
            words.append(name)
    if len(words) > 1:
        yield f"{', '.join(words[:-1])} and {words[-1]}", replace(question, training=together)
    if other_weights and training.method is Method.FULL:
        lora = replace(together, method=Method.LORA, lora_targets=("all-linear",))
        yield "LoRA instead of full fine-tuning", replace(question, training=lora)


def _changes(training: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "gradient checkpointing", {"checkpointing": True}
    if training.strategy not in _DIVIDED:
        yield "sharding (FSDP or ZeRO-3)", {"strategy": Strategy.FSDP_FULL}
    yield "a fused loss (Liger kernel)", {"fused_loss": True}
