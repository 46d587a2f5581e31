"""The tokens that a whole run trains on: from steps or epochs on the launch line, and the size of the dataset."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.core.launch import Launch
from reconciler.core.sizing.question import Question

SAMPLES, TOKENS = "gpureconciler.io/dataset-samples", "gpureconciler.io/dataset-tokens"
"""Annotations of a job with the size of its dataset, for one epoch: samples at full length, or tokens."""

_MAX_DIGITS = 15


class Dataset(Struct, frozen=True, kw_only=True):
    """The size of a dataset as a job states it; None: not stated."""

    samples: int | None = None
    tokens: int | None = None


NO_DATASET = Dataset()
"""A job that does not say how large its dataset is."""


def parse_dataset(annotations: Mapping[str, str]) -> tuple[Dataset, tuple[str, ...]]:
    """Return the size that annotations state, and the keys of those that are not positive whole numbers."""
    numbers = dict(_numbers(annotations))
    invalid = tuple(key for key in (SAMPLES, TOKENS) if key in annotations and key not in numbers)
    return Dataset(samples=numbers.get(SAMPLES), tokens=numbers.get(TOKENS)), invalid


def _numbers(annotations: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for key in (SAMPLES, TOKENS):
        text = annotations.get(key, "")
        if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0:
            yield key, int(text)


def total_tokens(launch: Launch, question: Question, dataset: Dataset) -> float | None:
    """Return the tokens of the whole run; None if neither steps nor epochs with the size of the dataset are known.

    Steps win over epochs, as in `transformers.TrainingArguments` (`max_steps`). A step is one update of the weights.
    """
    training = question.training
    per_sample = training.sequence * training.objective.answers
    steps, epochs = launch.length.get("steps"), launch.length.get("epochs")
    if steps is not None:
        return steps * question.effective_batch * per_sample
    if epochs is None or (dataset.tokens is None and dataset.samples is None):
        return None
    return epochs * (dataset.tokens if dataset.tokens is not None else (dataset.samples or 0) * per_sample)
