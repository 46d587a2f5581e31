"""A question as ado-autoconf's recommenders take it, and how its numbers are read back."""

import math
from typing import Any

from reconciler.core.config import Goal
from reconciler.core.sizing.question import Asked

SAME_BATCH = "min_gpu_recommender"  # the fewest GPUs for a batch over all devices
SAME_BATCH_PER_GPU = "avoid_oom_recommender"  # the requested GPUs, or more of them


def recommender(question: Asked) -> str:
    """Name the recommender for a goal; it has none for the highest throughput, which starts from what fits."""
    return SAME_BATCH_PER_GPU if question.goal is Goal.AVOID_OOM else SAME_BATCH


def inputs(question: Asked) -> dict[str, str | int]:
    """Return the arguments of the recommender without which it does not answer, by its own names."""
    named: dict[str, str | int] = {
        "model_name": question.model,
        "method": question.method,
        "gpu_model": question.gpu_model,
        "model_version": question.model_version,
        "tokens_per_sample": question.tokens_per_sample,
    }
    if recommender(question) == SAME_BATCH:
        return named | {"batch_size": question.batch_size}
    return named | {"per_device_train_batch_size": question.per_device_batch_size, "number_gpus": requested(question)}


def requested(question: Asked) -> int:
    """Return the GPUs that the job asks for today; one where nobody knows."""
    return question.number_gpus or 1


def tried(question: Asked) -> tuple[tuple[int, int], ...]:
    """List (GPUs in all, samples of one step) in the order in which the recommender of release 1.9.7 tries them.

    They are powers of two; for `SAME_BATCH` those that divide the batch, else the requested number and those above it.
    """
    powers = [1 << exponent for exponent in range(question.max_gpus.bit_length())]
    if recommender(question) == SAME_BATCH:
        return tuple((gpus, question.batch_size) for gpus in powers if question.batch_size % gpus == 0)
    first, each = requested(question), question.per_device_batch_size
    return tuple((gpus, each * gpus) for gpus in (first, *(gpus for gpus in powers if gpus > first)))


def spread(gpus: int, gpus_per_worker: int) -> tuple[int, int]:
    """Return (GPUs of a worker, workers), as ado-autoconf divides them."""
    workers = -(-gpus // gpus_per_worker)
    return -(-gpus // workers), workers


def whole(value: Any) -> int | None:
    """Read a count of GPUs or workers: a whole number from 1 to 100,000, also as 2.0; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 1 <= value <= _MOST and value == int(value) else None


_MOST = 100_000  # the largest cluster has fewer GPUs, and a slip of the pen has more


def one_line(text: object, most: int = 300) -> str:
    """Make foreign words fit for a message: one line, printable, not too long."""
    words = " ".join(str(text).split())
    clean = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in words)
    return clean if len(clean) <= most else clean[:most] + "…"
