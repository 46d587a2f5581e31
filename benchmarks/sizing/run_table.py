"""Parse a row of a table of runs, as people write them down, into a training, a layout and a GPU."""

from collections.abc import Mapping
from math import isclose
from typing import TypeVar

from msgspec.structs import replace

from benchmarks.sizing.recipe_defaults import FrameworkDefaults, RunKind, framework_defaults
from benchmarks.sizing.run_columns import (
    ATTENTIONS,
    CHECKPOINTING,
    COMPILED,
    CONFIGURATIONS,
    LOSSES,
    METHODS,
    OBJECTIVES,
    OPTIMIZER_NAMES,
    PRECISIONS,
    Parallelism,
    WeightFormat,
    normalize,
    parse_parallelism,
)
from reconciler.sizing.gpus import Gpu, GpuTable
from reconciler.sizing.models import ModelTable
from reconciler.sizing.models.lora import targets_or_default
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training import Architecture, Layout, Method, Offload, Strategy, Training

_T = TypeVar("_T")

SEQUENCE = 2048
"""Default number of tokens per sample."""

_MAX_NUMBER = 1_000_000_000
_HYBRID_GROUP = 8
_MAX_SHOWN = 60
_FOUR_BITS, _EIGHT_BITS, _SIXTEEN_BITS = 4, 8, 16


class _RowError(ValueError):
    """An invalid cell. The text is the message for the user."""


def parse_run(
    row: Mapping[str, str], tables: SizingTables, architecture: Architecture | None = None
) -> tuple[Training, Layout, Gpu] | str:
    """Parse a row; return a message if it is invalid.

    Columns are those of `gpu_memory_rows.csv`, and `lora_rank`, `lora_targets`, `fused_loss`, `compile`, `upcast`,
    `objective`. A missing or empty cell means the default of the framework; measured values are ignored. `global_batch`
    and `per_gpu_batch` count the samples of one step, without accumulation. An unknown value is an error. A `note` that
    names a configuration of fms-acceleration fills empty cells.
    `architecture` is that of the row's model, if the caller has read its configuration.
    """
    try:
        cells = {key: str(value or "").strip() for key, value in row.items()}
        stated = {key: text for key, text in cells.items() if text}
        configuration = CONFIGURATIONS.get(cells.get("note", "").removesuffix("-padding-free"), {})
        return _parse(cells | {**configuration, **stated}, tables, architecture)
    except _RowError as error:
        return str(error)


def _parse(row: Mapping[str, str], tables: SizingTables, known: Architecture | None) -> tuple[Training, Layout, Gpu]:
    architecture = known or _architecture(row, tables.models)
    gpu, layout = _gpu(row, tables.gpus), _layout(row)
    weights = _lookup(row, "precision", PRECISIONS)
    method = _method(row, weights)
    parallelism = _parallelism(row)
    framework = row.get("framework", "")
    defaults = framework_defaults(
        framework, RunKind(method, architecture.name, architecture.parameters, layout.gpus, gpu.memory_gib)
    )
    checkpointing = _lookup(row, "checkpointing", CHECKPOINTING)
    loss = _lookup(row, "fused_loss", LOSSES)
    compiled, compiled_loss = _lookup(row, "compile", COMPILED)
    training = Training(
        model=row["model"],
        architecture=architecture,
        method=method,
        sequence=_count(row, "seq", SEQUENCE),
        objective=_lookup(row, "objective", OBJECTIVES),
        precision=weights.precision,
        optimizer=_lookup(row, "optimizer", OPTIMIZER_NAMES) if row.get("optimizer") else defaults.optimizer,
        checkpointing=defaults.checkpointing if checkpointing is None else checkpointing,
        attention=_lookup(row, "attention", ATTENTIONS) or defaults.attention,
        strategy=_strategy(parallelism, defaults, layout),
        offload=parallelism.offload or (Offload.NONE if row.get("optimizer") else defaults.offload),
        tensor=parallelism.tensor,
        pipeline=parallelism.pipeline,
        context=parallelism.context,
        expert=parallelism.expert,
        expert_tensor=parallelism.expert_tensor,
        chunks=parallelism.chunks,
        microbatch=_microbatch(parallelism, layout),
        replicas=parallelism.replicas,
        recomputed=defaults.recomputed if checkpointing is None else 1.0,
        keeps_products=normalize(row.get("checkpointing", "")) == "selective",
        sequence_parallel=parallelism.sequence_parallel or defaults.sequence_parallel,
        lora_rank=_count(row, "lora_rank", defaults.rank),
        lora_targets=tuple(row.get("lora_targets", "").replace(",", " ").split())
        or targets_or_default(architecture, defaults.targets),
        fused_loss=loss == "fused_loss",
        fast_loss=loss == "fast_loss",
        compiled=compiled,
        compiled_loss=compiled_loss,
        upcast=_lookup(row, "upcast", CHECKPOINTING),
        framework=framework,
    )
    return training, layout, gpu


def _architecture(row: Mapping[str, str], models: ModelTable) -> Architecture:
    name = row.get("model", "")
    architecture = models.find(name) if name else None
    if architecture is None:
        raise _RowError(_unknown("model", name, models.closest(name)))
    return architecture


def _gpu(row: Mapping[str, str], gpus: GpuTable) -> Gpu:
    """Return the GPU. With `gpu_mem_gib`, which overrides the table, the product may be unknown."""
    product = row.get("gpu_model", "")
    memory = _number(row, "gpu_mem_gib")
    gpu = gpus.find(product, memory) if product else None
    if gpu is None and memory is None:
        raise _RowError(f"{_unknown('gpu_model', product, gpus.closest(product))}; or set gpu_mem_gib")
    if gpu is None:
        return Gpu(product=product, memory_gib=memory or 0.0, source="the row")
    if memory is None or isclose(gpu.memory_gib, memory, rel_tol=1e-3):
        return gpu
    return replace(gpu, memory_gib=memory, source="the row")


def _layout(row: Mapping[str, str]) -> Layout:
    gpus, nodes = _count(row, "gpus", 1), _count(row, "nodes", 1)
    if nodes > gpus:
        raise _RowError(f"nodes: {nodes} is more than the number of GPUs ({gpus})")
    batch = _count(row, "per_gpu_batch", 0)
    global_batch = _count(row, "global_batch", 0)
    if global_batch and batch and global_batch != batch * gpus:
        raise _RowError(f"global_batch: {global_batch} is not per_gpu_batch x gpus = {batch * gpus}")
    if global_batch % gpus:
        raise _RowError(f"global_batch: {global_batch} does not divide among {gpus} GPUs")
    batch = batch or global_batch // gpus or 1
    return Layout(gpus=gpus, workers=nodes, batch=batch, accumulation=_count(row, "grad_accum", 1))


def _method(row: Mapping[str, str], weights: WeightFormat) -> Method:
    method = _lookup(row, "method", METHODS)
    if weights.bits < _SIXTEEN_BITS and method is Method.FULL:
        raise _RowError(f"precision: a {weights.bits}-bit base cannot be fully fine-tuned; use method lora")
    if weights.bits == _EIGHT_BITS:
        return Method.INT8_LORA
    if weights.gptq:
        return Method.GPTQ_LORA
    return Method.QLORA if weights.bits == _FOUR_BITS and method is Method.LORA else method


def _parallelism(row: Mapping[str, str]) -> Parallelism:
    text = row.get("parallelism", "")
    parallelism = parse_parallelism(text)
    if parallelism is None:
        raise _RowError(
            f"parallelism: unknown value {_shown(text)}; use values such as none, FSDP FULL_SHARD, ZeRO-3, TP 2"
        )
    return parallelism


def _strategy(parallelism: Parallelism, defaults: FrameworkDefaults, layout: Layout) -> Strategy:
    """Return the strategy. `FULL/HYBRID_SHARD` is full sharding up to eight GPUs and hybrid sharding above."""
    if parallelism.strategy is None:
        return defaults.strategy if layout.gpus > 1 else defaults.single
    if layout.gpus == 1 and parallelism.strategy is Strategy.DDP:
        return defaults.single
    if parallelism.either and layout.gpus > _HYBRID_GROUP and layout.workers > 1:
        return Strategy.FSDP_HYBRID
    return parallelism.strategy


def _microbatch(parallelism: Parallelism, layout: Layout) -> int:
    """Return the samples of a microbatch: by default, there are as many as stages, or as steps of an accumulation."""
    parts = parallelism.microbatches or (parallelism.pipeline if layout.accumulation == 1 else 0)
    return -(-layout.batch // parts) if parts else 0


def _lookup(row: Mapping[str, str], column: str, known: Mapping[str, _T]) -> _T:
    text = row.get(column, "")
    key = normalize(text)
    if key not in known:
        names = ", ".join(sorted(name for name in known if name)[:_MAX_SHOWN])
        raise _RowError(f"{column}: unknown value {_shown(text)}; allowed values: {names}")
    return known[key]


def _count(row: Mapping[str, str], column: str, default: int) -> int:
    number = _number(row, column)
    if number is None:
        return default
    if number != int(number):
        raise _RowError(f"{column}: {_shown(row[column])} is not an integer")
    return int(number)


def _number(row: Mapping[str, str], column: str) -> float | None:
    """Return a positive number; None if the cell is empty."""
    text = row.get(column, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MAX_NUMBER:
        raise _RowError(f"{column}: {_shown(text)} is not a positive number up to {_MAX_NUMBER}")
    return number


def _unknown(column: str, text: str, closest: tuple[str, ...]) -> str:
    if not text:
        return f"{column}: is required"
    return f"{column}: unknown value {_shown(text)}" + (f"; did you mean {', '.join(closest)}?" if closest else "")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")
