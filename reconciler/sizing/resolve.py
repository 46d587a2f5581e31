"""Resolve the model and the GPU products that a job names."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import NOT_JSON
from reconciler.launch import Diagnostic, FileReader
from reconciler.sizing.gpus import Gpu, GpuTable
from reconciler.sizing.models import ModelTable, parse_model_config
from reconciler.sizing.prices import NO_PRICES, Prices
from reconciler.sizing.training import Architecture

OFFERED = "what the cluster offers"
"""Origin of GPU products that neither the job nor the settings name."""
SELECTED = "node selection"
"""Origin of a GPU product that node selector or affinity name, so that the pods can get no other."""

_MAX_SHOWN_GPU = 60
_MAX_SHOWN_MODEL = 80
_MAX_LENGTH = 512
_CACHE_SIZE = 4096
_PATH_PART = re.compile(r"(?!\.\.?$)[^\x00-\x1f\\:*?\"<>|]+")


class GpuChoice(Struct, frozen=True, kw_only=True):
    """The GPU products to choose from, and what named them."""

    gpus: tuple[Gpu, ...]
    origin: str


def resolve_gpus(
    table: GpuTable,
    *,
    variable: str = "",
    selected: str = "",
    default: str = "",
    offered: Sequence[Gpu] = (),
    prices: Sequence[tuple[str, float]] = (),
    hours: Prices = NO_PRICES,
) -> GpuChoice | Diagnostic:
    """Return the GPU product that is named (several if a short name agrees with several), else all that are offered.

    The order is: `variable` (AUTOCONF_GPU_MODEL), `selected` (node selector, or an affinity that allows exactly one
    product), `default` of the settings, then `offered` (by the queue's flavors and the measured nodes). Measured values
    override the table, relative `prices` of the settings override both; `hours` are prices in money. An unknown name is
    an error; the search stops there.
    """
    named = (
        (variable, "env AUTOCONF_GPU_MODEL"),
        (selected, SELECTED),
        (default, "spec.sizing.defaultGpuModel"),
    )
    price_of = dict(prices)

    def priced(gpu: Gpu) -> Gpu:
        hour = hours.hour(gpu.product)
        gpu = gpu if hour is None else replace(gpu, hourly=hour, currency=hours.currency)
        return replace(gpu, price=price_of[gpu.product]) if gpu.product in price_of else gpu

    for product, origin in named:
        if product:
            known = table.find(product)
            gpus = tuple(gpu for gpu in offered if table.agree(gpu.product, product)) or ((known,) if known else ())
            return (
                GpuChoice(gpus=tuple(map(priced, gpus)), origin=origin)
                if gpus
                else _unknown_gpu(table, product, origin)
            )
    if offered:
        return GpuChoice(gpus=tuple(map(priced, offered)), origin=OFFERED)
    hint = "set the node selector nvidia.com/gpu.product, spec.sizing.defaultGpuModel, or --gpu"
    return Diagnostic(rule="sizing.gpu", message="the GPU product is unknown: nothing names it", hint=hint)


def _unknown_gpu(table: GpuTable, product: str, origin: str) -> Diagnostic:
    closest = table.closest(product)
    hint = (
        f"did you mean {', '.join(closest)}?" if closest else "use the value of the node label nvidia.com/gpu.product"
    )
    return Diagnostic(rule="sizing.gpu", message=f"unknown GPU {product[:_MAX_SHOWN_GPU]!r} in {origin}", hint=hint)


def resolve_model(
    table: ModelTable, written: str, files: FileReader, folder: str = ""
) -> tuple[Architecture, str] | Diagnostic:
    """Return the architecture of a model and where it was read.

    The order is: `config.json` under the path as written, relative to the root of the repository, to its `models/`, and
    to the job's `folder`; the table; last a `config.json` beside the job, for models that the table does not know.
    """
    file = find_config(table, written, files, folder)
    if file is not None:
        return _parse(table, file[1], file[0], written)
    known = table.find(written)
    if known is not None:
        return known, known.source
    closest = table.closest(written)
    hint = "add its config.json beside the job" + (f", or did you mean {', '.join(closest)}?" if closest else "")
    shown = written if len(written) <= _MAX_SHOWN_MODEL else written[:_MAX_SHOWN_MODEL] + "…"
    return Diagnostic(rule="sizing.model", message=f"unknown model {shown!r}", hint=hint, missing="architecture")


def find_config(table: ModelTable, written: str, files: FileReader, folder: str = "") -> tuple[str, bytes] | None:
    """Return the path and the bytes of the `config.json` that describes a model; None if the table does, or nothing."""
    for path in _config_paths(written, folder):
        raw = files(path)
        if raw is not None:
            return path, raw
    beside = _join(folder, "config.json")
    raw = files(beside) if table.find(written) is None else None
    return None if raw is None else (beside, raw)


@lru_cache(maxsize=_CACHE_SIZE)
def _config_paths(written: str, folder: str) -> tuple[str, ...]:
    """Return the possible paths of a model's configuration in the repository; none that leaves it."""
    if len(written) > _MAX_LENGTH or "://" in written:
        return ()
    parts = [part for part in written.split("/") if part not in ("", ".")]
    if not parts or not all(_PATH_PART.fullmatch(part) for part in parts):
        return ()
    name = "/".join(parts)
    paths = [_join(*start, parts[-1], "config.json") for start in (("models",), (folder,))]
    if not written.startswith("/"):
        paths = [_join(*start, name, "config.json") for start in ((), ("models",), (folder,))] + paths
    return tuple(dict.fromkeys(paths))


def _join(*parts: str) -> str:
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def describe_model(table: ModelTable, config: Mapping[str, Any], name: str) -> tuple[Architecture, str] | Diagnostic:
    """Return the architecture of a model that a launch line gives by its sizes, with the keys of a `config.json`.

    `vocabulary_of` names the model whose tokenizer is used, and `vocabulary_multiple` is what its size is padded to.
    """
    entries = config.get("vocab_size")
    if entries is None:
        known = table.find(str(config.get("vocabulary_of", "")))
        if known is None:
            message = f"the vocabulary of {str(config.get('vocabulary_of'))[:_MAX_SHOWN_MODEL]!r} is unknown"
            return Diagnostic(rule="sizing.model", message=message, hint="set it on the line: --vocab-size")
        entries = known.vocabulary
    multiple = int(config.get("vocabulary_multiple", 1))
    parsed = parse_model_config({**config, "vocab_size": -(-int(entries) // multiple) * multiple}, name)
    if isinstance(parsed, str):
        message = f"cannot size the model of the launch line: {parsed}"
        return Diagnostic(rule="sizing.model", message=message, hint="correct its flags")
    return parsed, "the launch line"


def _parse(table: ModelTable, raw: bytes, path: str, written: str) -> tuple[Architecture, str] | Diagnostic:
    try:
        data: Any = msgspec.json.decode(raw)
    except NOT_JSON as error:
        return _invalid_config(path, str(error))
    if not isinstance(data, dict):
        return _invalid_config(path, "it is not a JSON object")
    known = table.find(written)
    parsed = parse_model_config(data, known.name if known is not None else written.rstrip("/").rpartition("/")[2])
    return _invalid_config(path, parsed) if isinstance(parsed, str) else (parsed, f"file {path}")


def _invalid_config(path: str, reason: str) -> Diagnostic:
    message = f"cannot read the architecture of the model from {path}: {reason}"
    return Diagnostic(rule="sizing.model", message=message, hint="replace it with the model's own config.json")
