"""ado-autoconf's recommenders: the arguments they take, and how their numbers are read."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reconciler.errors import OutsideError, PredictorError, PredictorUnavailable
from reconciler.sizing.config import Goal
from reconciler.sizing.question import EngineQuestion

SAME_BATCH = "min_gpu_recommender"  # the fewest GPUs for a batch over all GPUs
SAME_BATCH_PER_GPU = "avoid_oom_recommender"  # the requested GPUs, or more
_MAX_COUNT = 100_000  # GPUs or workers: more than the largest cluster has


def recommender_name(question: EngineQuestion) -> str:
    """Return the recommender for a goal. There is none for the highest throughput, which starts from what fits."""
    return SAME_BATCH_PER_GPU if question.goal is Goal.AVOID_OOM else SAME_BATCH


def recommender_arguments(question: EngineQuestion) -> dict[str, str | int]:
    """Return the arguments that the recommender requires, by its own names."""
    arguments: dict[str, str | int] = {
        "model_name": question.model,
        "method": question.method,
        "gpu_model": question.gpu_model,
        "model_version": question.model_version,
        "tokens_per_sample": question.tokens_per_sample,
    }
    if recommender_name(question) == SAME_BATCH:
        return arguments | {"batch_size": question.batch_size}
    return arguments | {
        "per_device_train_batch_size": question.per_device_batch_size,
        "number_gpus": question.number_gpus or 1,
    }


def parse_count(value: Any) -> int | None:
    """Read a count of GPUs or workers: a whole number from 1 to 100,000, also as 2.0; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 1 <= value <= _MAX_COUNT and value == int(value) else None


@contextmanager
def as_predictor_errors() -> Iterator[None]:
    """Turn the errors of the process and HTTP modules into those of the port `Predictor`."""
    try:
        yield
    except PredictorError:
        raise
    except OutsideError as error:
        kind = PredictorUnavailable if error.retryable else PredictorError
        raise kind(error.message, hint=error.hint) from error
