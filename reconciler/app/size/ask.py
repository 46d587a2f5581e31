"""Answer a sizing question without a file."""

from collections.abc import Mapping

import msgspec

from reconciler.core.sizing.gpu_sweep import Bounds, gpu_sweep
from reconciler.core.sizing.models import parse_model_config
from reconciler.core.sizing.summary import describe_question, summarize
from reconciler.core.sizing.tables import SizingTables
from reconciler.core.sizing.training import Architecture
from reconciler.errors import ConfigError
from reconciler.outputs.sizes import SizeAnswer

# Columns of a table of runs whose flag has another name.
_FLAGS = {"gpu_model": "gpu", "per_gpu_batch": "batch", "grad_accum": "grad-accum"}
_HINT = "see `reconciler size ask --help`"
_HINTS = {
    "model": "name a folder with its config.json",
    "gpu_model": "use the value of the node label nvidia.com/gpu.product",
}


def answer_question(
    row: Mapping[str, str],
    bounds: Bounds,
    tables: SizingTables,
    *,
    gpus: int | None = None,
    architecture: Architecture | None = None,
) -> SizeAnswer:
    """Find the smallest number of GPUs that fits a training.

    row: the training, as a row of a table of runs (`core.sizing.run_table`).
    gpus: a number of GPUs to check as well.
    architecture: shape of a model that is not in the model table.

    Raises `ConfigError` that names the flag with an invalid value.
    """
    sweep = gpu_sweep(row, bounds, tables, gpus=gpus, architecture=architecture)
    if isinstance(sweep, str):
        column, _, rest = sweep.partition("; or set gpu_mem_gib")[0].partition(": ")  # no flag sets gpu_mem_gib
        hint = "" if "did you mean" in rest else _HINTS.get(column, _HINT)
        raise ConfigError(f"--{_FLAGS.get(column, column)}: {rest}" if rest else sweep, hint=hint)
    return SizeAnswer(
        question=sweep.question,
        decision=sweep.decision,
        note=summarize(sweep.decision, read=describe_question(sweep.question, ())),
        requested=sweep.requested,
    )


def parse_architecture(raw: bytes, path: str, name: str) -> Architecture:
    """Parse a model's `config.json`, whose path is only shown; `ConfigError` if it does not describe a known shape."""
    hint = "pass the folder or the config.json of a Hugging Face model"
    try:
        config = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: invalid JSON: {error}", hint=hint) from error
    parsed = parse_model_config(config, name) if isinstance(config, dict) else "it is not a JSON object"
    if isinstance(parsed, str):
        raise ConfigError(f"{path}: cannot read the shape of the model: {parsed}", hint=hint)
    return parsed
