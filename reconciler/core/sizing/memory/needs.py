"""What a run needs at its worst moment: what is alive, without what the allocator merely keeps."""

from math import inf

from reconciler.core.sizing.memory.holdings import Holdings, divided
from reconciler.core.sizing.memory.sharding import Shards
from reconciler.core.sizing.memory.terms import Terms

CONTEXT = 1.4 * (1 << 30)
"""Bytes of context: the same for one GPU and many, so that more GPUs never need more."""


def need_of(terms: Terms, held: Holdings, shards: Shards, tokens: int, *, accumulates: bool) -> tuple[float, float]:
    """Return the bytes that are alive, and those that no order of work can avoid: weights and gradients.

    Alive at the worst of three moments: the loss, the first block of the backward pass, the optimizer's step. Without
    accumulation there are no gradients yet at the loss. A paged optimizer may lie in the host's memory.

    It is monotone: every term falls with the number of GPUs and rises with tokens, and no more is counted than what one
    GPU would hold that divides nothing (what sharding gathers is never more than what it divides), nor than what the
    states would be if all weights were trained. A run near the limit may so be told to fit where many GPUs take a
    gathered layer more than one; the safety that is asked for covers that. The buckets of DDP are as large as all
    gradients, which no safety covers: with DDP it is monotone from two GPUs on.
    """
    own = (held.weights, held.gradients, held.optimizer, held.temporary, held.gathered + held.whole)
    floor = held.weights + held.gradients
    choices = [own, (*terms.alone, terms.copy)]
    if terms.adapters:
        full = divided(terms.full, shards)
        choices += [(*full, held.gathered), (*terms.full, 0.0)]
        floor = min(floor, full[0] + full[1])
    loss = backward = step = inf
    for weights, gradients, optimizer, temporary, extra in choices:
        states = weights + extra + (0.0 if terms.paged else optimizer)
        loss = min(loss, states + (gradients if accumulates else 0.0))
        backward = min(backward, states + gradients)
        step = min(step, states + gradients + temporary)
    loss += tokens * (terms.kept + terms.live)
    backward += tokens * (terms.kept + terms.block)
    return max(loss, backward, step) + held.buckets + CONTEXT, floor
