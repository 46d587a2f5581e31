"""Answer a sizing question without a file."""

from collections.abc import Mapping, Sequence

import msgspec

from reconciler.app.size.answers import completed
from reconciler.core.launch import FRAMEWORKS, Framework
from reconciler.core.sizing.gpu_sweep import Bounds, gpu_sweep
from reconciler.core.sizing.misspelled import misspelled
from reconciler.core.sizing.models import parse_model_config
from reconciler.core.sizing.models.lora import UnknownTargetError, adapter_parameters
from reconciler.core.sizing.remedies import Situation
from reconciler.core.sizing.run_columns import PRECISIONS, normalize
from reconciler.core.sizing.summary import describe_question, summarize
from reconciler.core.sizing.tables import SizingTables
from reconciler.core.sizing.training import Architecture, Training, impossible_degrees
from reconciler.core.values import NOT_JSON
from reconciler.errors import ConfigError
from reconciler.outputs.sizing.answer import SizeAnswer

# Columns of a table of runs whose flag has another name.
_FLAGS = {
    "gpu_model": "gpu",
    "per_gpu_batch": "batch",
    "grad_accum": "grad-accum",
    "lora_rank": "lora-rank",
    "lora_targets": "lora-targets",
    "fused_loss": "fused-loss",
}
_HINT = "see `reconciler size ask --help`"
_HINTS = {
    "model": "name a folder with its config.json",
    "gpu_model": "use the value of the node label nvidia.com/gpu.product",
}
# Columns that a flag leaves empty, by the facts that frameworks have defaults for.
_DEFAULTS = {
    "method": "method",
    "sequence": "seq",
    "batch": "per_gpu_batch",
    "precision": "precision",
    "optimizer": "optimizer",
    "checkpointing": "checkpointing",
    "attention": "attention",
    "lora_rank": "lora_rank",
    "lora_targets": "lora_targets",
    "fused_loss": "fused_loss",
}


def framework_names(frameworks: Sequence[Framework] = FRAMEWORKS) -> tuple[str, ...]:
    """Return the names of the frameworks whose trainings can be sized."""
    return tuple(dict.fromkeys(row.name for row in frameworks if row.name and not row.unsupported))


def find_framework(name: str) -> Framework | None:
    """Return the framework of a name, None for an empty one; `ConfigError` for any other."""
    if not name:
        return None
    found = next((row for row in reversed(FRAMEWORKS) if row.name == name.lower() and not row.unsupported), None)
    if found is None:
        near = misspelled(name.lower(), framework_names())
        hint = f"did you mean {near[0]}?" if near else f"known frameworks: {', '.join(framework_names())}"
        raise ConfigError(f"--framework: unknown framework {name!r}", hint=hint)
    return found


def answer_question(
    row: Mapping[str, str],
    bounds: Bounds,
    tables: SizingTables,
    *,
    gpus: int | None = None,
    architecture: Architecture | None = None,
) -> SizeAnswer:
    """Find the smallest number of GPUs that fits a training.

    row: the training, as a row of a table of runs (`core.sizing.run_table`). Empty cells are the defaults of the
    framework that it names, as on a launch line.
    gpus: a number of GPUs to check as well.
    architecture: shape of a model that is not in the model table.

    Raises `ConfigError` that names the flag with an invalid value.
    """
    framework = find_framework(row.get("framework", ""))
    sweep = gpu_sweep(_with_defaults(row, framework), bounds, tables, gpus=gpus, architecture=architecture)
    if isinstance(sweep, str):
        column, _, rest = sweep.partition("; or set gpu_mem_gib")[0].partition(": ")  # no flag sets gpu_mem_gib
        hint = "" if "did you mean" in rest else _HINTS.get(column, _HINT)
        raise ConfigError(f"--{_FLAGS.get(column, column)}: {rest}" if rest else sweep, hint=hint)
    _check_degrees(sweep.question.training, evenly=framework is not None and framework.divides_evenly)
    _check_adapters(row, sweep.question.training)
    answer = SizeAnswer(
        question=sweep.question,
        decision=sweep.decision,
        note=summarize(sweep.decision, read=describe_question(sweep.question, ())),
        requested=sweep.requested,
    )
    situation = Situation(offered=tuple(tables.gpus), most_gpus=bounds.max_gpus, framework=framework)
    return completed(answer, situation, sweep.asked)


def _with_defaults(row: Mapping[str, str], framework: Framework | None) -> dict[str, str]:
    """Fill empty cells with the defaults of the framework's launch lines."""
    defaults = {} if framework is None else framework.defaults
    filled = dict(row)
    for fact, column in _DEFAULTS.items():
        value = defaults.get(fact, "")
        if value and not filled.get(column) and (column != "precision" or normalize(value) in PRECISIONS):
            filled[column] = value
    filled["parallelism"] = _parallelism(filled.get("parallelism", ""), defaults.get("strategy", "FSDP"))
    return filled | {"method": filled.get("method") or "full"}


def _parallelism(written: str, strategy: str) -> str:
    """Return a parallelism with a strategy: the default one where only what is offloaded is written."""
    return f"{strategy}{written}" if not written or written.startswith(" +") else written


def _check_adapters(row: Mapping[str, str], training: Training) -> None:
    if not training.method.has_adapters:
        for column in ("lora_rank", "lora_targets"):
            if row.get(column):
                message = f"--{_FLAGS[column]}: the method {training.method} trains no LoRA adapters"
                raise ConfigError(message, hint="add --method lora, or remove the flag")
        return
    try:
        adapter_parameters(training.architecture, training.lora_rank, training.lora_targets)
    except UnknownTargetError as error:
        raise ConfigError(f"--lora-targets: {error}", hint="use all-linear, or names of the model's layers") from error


def _check_degrees(training: Training, *, evenly: bool) -> None:
    for _, message in impossible_degrees(training, evenly=evenly):
        raise ConfigError(f"--parallelism: {message}", hint="correct the degree of parallelism")


def parse_architecture(raw: bytes, path: str, name: str) -> Architecture:
    """Parse a model's `config.json`, whose path is only shown; `ConfigError` if it does not describe a known shape."""
    hint = "pass the folder or the config.json of a Hugging Face model"
    try:
        config = msgspec.json.decode(raw)
    except NOT_JSON as error:
        raise ConfigError(f"{path}: invalid JSON: {error}", hint=hint) from error
    parsed = parse_model_config(config, name) if isinstance(config, dict) else "it is not a JSON object"
    if isinstance(parsed, str):
        raise ConfigError(f"{path}: cannot read the shape of the model: {parsed}", hint=hint)
    return parsed
