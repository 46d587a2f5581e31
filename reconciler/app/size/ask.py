"""Answer a sizing question without a file."""

from collections.abc import Mapping

import msgspec

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.gpu_sweep import Bounds, gpu_sweep
from reconciler.core.sizing.models import architecture_of
from reconciler.core.sizing.summary import describe_question, summarize
from reconciler.errors import ConfigError
from reconciler.outputs.sizes import SizeAnswer

# Columns of a table of runs whose flag has another name.
_FLAGS = {"gpu_model": "gpu", "per_gpu_batch": "batch", "grad_accum": "grad-accum"}
_HINT = "see `reconciler size ask --help`"


def answer_question(
    row: Mapping[str, str], bounds: Bounds, *, gpus: int | None = None, architecture: Architecture | None = None
) -> SizeAnswer:
    """Find the smallest number of GPUs that fits a training.

    row: the training, as a row of a table of runs (`core.sizing.rows`).
    gpus: a number of GPUs to check as well.
    architecture: shape of a model that is not in the model table.

    Raises `ConfigError` that names the flag with an invalid value.
    """
    found = gpu_sweep(row, bounds, gpus=gpus, architecture=architecture)
    if isinstance(found, str):
        column, _, rest = found.partition("; gpu_mem_gib")[0].partition(": ")  # no flag sets gpu_mem_gib
        raise ConfigError(f"--{_FLAGS.get(column, column)}: {rest}" if rest else found, hint=_HINT)
    return SizeAnswer(
        question=found.question,
        decision=found.decision,
        note=summarize(found.decision, read=describe_question(found.question, ())),
        requested=found.requested,
    )


def parse_architecture(raw: bytes, path: str, name: str) -> Architecture:
    """Parse a model's `config.json`, whose path is only shown; `ConfigError` if it does not describe a known shape."""
    hint = "pass the folder or the config.json of a Hugging Face model"
    try:
        config = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: invalid JSON: {error}", hint=hint) from error
    found = architecture_of(config, name) if isinstance(config, dict) else "it is not a JSON object"
    if isinstance(found, str):
        raise ConfigError(f"{path}: cannot read the shape of the model: {found}", hint=hint)
    return found
