"""A row of a table of runs, as people write them down, read into what the engines are asked."""

from collections.abc import Mapping
from math import isclose
from typing import TypeVar

from msgspec.structs import replace

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.gpus import Gpu, closest_gpus, find_gpu
from reconciler.core.sizing.models import closest_models, find_architecture
from reconciler.core.sizing.recipes import Recipe, Run, recipe_of
from reconciler.core.sizing.spellings import (
    ATTENTIONS,
    CHECKPOINTING,
    METHODS,
    OPTIMIZER_NAMES,
    PRECISIONS,
    Spread,
    Written,
    key_of,
    spread_of,
)
from reconciler.core.sizing.training import Layout, Method, Offload, Strategy, Training

_T = TypeVar("_T")

SEQUENCE = 2048
"""Tokens of a sample where a row says nothing."""

_MOST = 1_000_000_000
_GROUP = 8
_SHOWN = 60
_FOUR_BITS, _EIGHT_BITS = 4, 8


class _RowError(ValueError):
    """A cell that cannot be read; the text is the sentence for the user."""


def training_of_row(
    row: Mapping[str, str], architecture: Architecture | None = None
) -> tuple[Training, Layout, Gpu] | str:
    """Read a row into what is trained, how it is spread, and the card; or return a sentence that says what is wrong.

    Columns are those of `gpu_memory_rows.csv`, and `lora_rank`, `lora_targets`, `fused_loss`. What is
    missing or empty is the framework's default; what was measured is ignored. `global_batch` and `per_gpu_batch` count
    the samples of one step, without accumulation. A spelling that is not known is an error, never a default.
    `architecture` stands for the row's model where the caller has read its configuration.
    """
    try:
        return _read({key: str(value or "").strip() for key, value in row.items()}, architecture)
    except _RowError as error:
        return str(error)


def _read(row: Mapping[str, str], known: Architecture | None) -> tuple[Training, Layout, Gpu]:
    architecture, gpu, layout = known or _architecture(row), _gpu(row), _layout(row)
    written = _spelled(row, "precision", PRECISIONS)
    method = _method(row, written)
    spread = _spread(row)
    framework = row.get("framework", "")
    recipe = recipe_of(framework, Run(method, architecture.name, architecture.parameters, layout.gpus, gpu.memory_gib))
    checkpointing = _spelled(row, "checkpointing", CHECKPOINTING)
    training = Training(
        model=row["model"],
        architecture=architecture,
        method=method,
        sequence=_count(row, "seq", SEQUENCE),
        precision=written.precision,
        optimizer=_spelled(row, "optimizer", OPTIMIZER_NAMES) if row.get("optimizer") else recipe.optimizer,
        checkpointing=recipe.checkpointing if checkpointing is None else checkpointing,
        attention=_spelled(row, "attention", ATTENTIONS) or recipe.attention,
        strategy=_strategy(spread, recipe, layout),
        offload=spread.offload or (Offload.NONE if row.get("optimizer") else recipe.offload),
        tensor=spread.tensor,
        pipeline=spread.pipeline,
        lora_rank=_count(row, "lora_rank", recipe.rank),
        lora_targets=tuple(row.get("lora_targets", "").replace(",", " ").split()) or recipe.targets,
        fused_loss=bool(_spelled(row, "fused_loss", CHECKPOINTING)),
        framework=framework,
    )
    return training, layout, gpu


def _architecture(row: Mapping[str, str]) -> Architecture:
    name = row.get("model", "")
    found = find_architecture(name) if name else None
    if found is None:
        raise _RowError(_unknown("model", name, closest_models(name)))
    return found


def _gpu(row: Mapping[str, str]) -> Gpu:
    """Return the card. `gpu_mem_gib` counts where it is given: then the product may be any."""
    product = row.get("gpu_model", "")
    memory = _number(row, "gpu_mem_gib")
    found = find_gpu(product, memory) if product else None
    if found is None and memory is None:
        raise _RowError(f"{_unknown('gpu_model', product, closest_gpus(product))}; gpu_mem_gib may tell its size")
    if found is None:
        return Gpu(product=product, memory_gib=memory or 0.0, source="the row")
    if memory is None or isclose(found.memory_gib, memory, rel_tol=1e-3):
        return found
    return replace(found, memory_gib=memory, source="the row")


def _layout(row: Mapping[str, str]) -> Layout:
    gpus, nodes = _count(row, "gpus", 1), _count(row, "nodes", 1)
    if nodes > gpus:
        raise _RowError(f"nodes: {nodes} nodes cannot share {gpus} GPUs")
    batch = _count(row, "per_gpu_batch", 0)
    whole = _count(row, "global_batch", 0)
    if whole and batch and whole != batch * gpus:
        raise _RowError(f"global_batch: {whole} is not {batch} samples on each of {gpus} GPUs")
    if whole % gpus:
        raise _RowError(f"global_batch: {whole} samples cannot be divided by {gpus} GPUs")
    batch = batch or whole // gpus or 1
    return Layout(gpus=gpus, workers=nodes, batch=batch, accumulation=_count(row, "grad_accum", 1))


def _method(row: Mapping[str, str], written: Written) -> Method:
    method = _spelled(row, "method", METHODS)
    if written.bits == _EIGHT_BITS:
        raise _RowError("precision: a base in 8 bits is not modelled; 4 bits and 16 bits are")
    if written.bits == _FOUR_BITS and method is Method.FULL:
        raise _RowError("precision: a base in 4 bits cannot be trained in full; methods lora and qlora add adapters")
    if written.gptq:
        return Method.GPTQ_LORA
    return Method.QLORA if written.bits == _FOUR_BITS and method is Method.LORA else method


def _spread(row: Mapping[str, str]) -> Spread:
    text = row.get("parallelism", "")
    found = spread_of(text)
    if found is None:
        raise _RowError(
            f"parallelism: {_shown(text)} is not known; write as `none`, `FSDP FULL_SHARD`, `ZeRO-3`, `TP 2`"
        )
    return found


def _strategy(spread: Spread, recipe: Recipe, layout: Layout) -> Strategy:
    """Choose the strategy; `FULL/HYBRID_SHARD` is full within one group of eight GPUs, and hybrid beyond."""
    if spread.strategy is None:
        return recipe.strategy if layout.gpus > 1 else recipe.alone
    if layout.gpus == 1 and spread.strategy is Strategy.DDP:
        return recipe.alone
    if spread.either and layout.gpus > _GROUP and layout.workers > 1:
        return Strategy.FSDP_HYBRID
    return spread.strategy


def _spelled(row: Mapping[str, str], column: str, known: Mapping[str, _T]) -> _T:
    text = row.get(column, "")
    key = key_of(text)
    if key not in known:
        names = ", ".join(sorted(name for name in known if name)[:_SHOWN])
        raise _RowError(f"{column}: {_shown(text)} is not known; one of {names}")
    return known[key]


def _count(row: Mapping[str, str], column: str, default: int) -> int:
    number = _number(row, column)
    if number is None:
        return default
    if number != int(number):
        raise _RowError(f"{column}: {_shown(row[column])} is no whole number")
    return int(number)


def _number(row: Mapping[str, str], column: str) -> float | None:
    """Return a number above 0; None where the cell is empty."""
    text = row.get(column, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MOST:
        raise _RowError(f"{column}: {_shown(text)} is no number above 0")
    return number


def _unknown(column: str, text: str, close: tuple[str, ...]) -> str:
    if not text:
        return f"{column}: is needed"
    return f"{column}: {_shown(text)} is not known" + (f"; close are {', '.join(close)}" if close else "")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
