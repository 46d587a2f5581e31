"""Which model a job means: from what stands after `--model_name_or_path` to a row of the table. Never a guess."""

import re
from functools import cache, lru_cache

from msgspec.structs import replace

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.models.reading import architecture_of
from reconciler.core.sizing.models.rows import ROWS
from reconciler.core.sizing.models.rows.row import Row

_LONGEST = 512
_CLOSE = 5
_LIKENESS = 0.6
_TAILS = frozenset(
    {
        *("instruct", "chat", "hf", "it", "pt", "base", "meta"),
        *("gptq", "awq", "bnb", "nf4", "fp8", "fp4", "nvfp4", "mxfp4", "int4", "int8", "4bit", "8bit"),
        *("w4a16", "w8a8", "w8a16", "bf16", "fp16", "dynamic", "quantized", "unsloth", "gguf", "mlx"),
    }
)
"""Words that name a tuning or a format of the same shape."""
_SEPARATOR = re.compile(r"[-_. ]")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[^a-z0-9]+(?=[0-9])")
_OTHER = re.compile(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])")
_REVISION = re.compile(r"final|latest|main|model|hf|checkpoint-\d+|[0-9a-f]{40}|r\d{6}\w?")
"""Folders below a model's own that name a state of it."""


@lru_cache(maxsize=1024)
def find_architecture(written: str) -> Architecture | None:
    """Return the model that is meant: a repository, ado-autoconf's or our name, or a path that ends in one.

    `hf://`, `s3://bucket/` and other schemes, `@revision`, the cache's `models--org--name/snapshots/<sha>`, words of
    tuning and quantisation (`-Instruct`, `-GPTQ-Int4`) and separators make no difference. None where no model or more
    than one shape is meant; `closest_models` then has hints.
    """
    rows = _rows(written)
    return _architecture(rows[0].name) if rows and _one_shape(rows) else None


def closest_models(written: str) -> tuple[str, ...]:
    """Return names of models that may have been meant, the likeliest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for messages

    meant = _rows(written)
    parts = _parts(written)
    if meant or not parts:
        return tuple(row.name for row in meant)[:_CLOSE]
    key = _key(_without_tails(parts[-1]))
    longer = [row.name for row in ROWS if key and _key(row.name).startswith(key)]
    within = sorted((row.name for row in ROWS if _key(row.name) in key), key=len, reverse=True)
    alike = get_close_matches(parts[-1].lower(), [row.name for row in ROWS], _CLOSE, _LIKENESS)
    return tuple(dict.fromkeys((*longer, *within, *alike)))[:_CLOSE]


def all_models() -> tuple[Architecture, ...]:
    """Return every model of the table."""
    return tuple(_architecture(row.name) for row in ROWS)


@cache
def _architecture(name: str) -> Architecture:
    row = _by_name()[name]
    read = architecture_of(row.config, row.name)
    if isinstance(read, str):
        raise TypeError(f"row {row.name}: {read}")
    source = row.source or f"huggingface.co/{row.repositories.split()[0]}: config.json"
    return replace(read, autoconf=row.autoconf, source=source, approximate=row.approximate)


@cache
def _by_name() -> dict[str, Row]:
    return {row.name: row for row in ROWS}


@cache
def _exact() -> dict[str, Row]:
    """Return rows by whole name."""
    found: dict[str, Row] = {}
    for row in ROWS:
        for name in (row.name, *row.also.split(), *row.repositories.split()):
            found.setdefault(_key(name), row)
    for row in ROWS:  # last, so that a name of autoconf's never hides a model's own
        if row.autoconf:
            found.setdefault(_key(row.autoconf), row)
    return found


@cache
def _loose() -> dict[str, tuple[Row, ...]]:
    """Return rows by name without maker, and without the words that make no difference."""
    found: dict[str, tuple[Row, ...]] = {}
    for row in ROWS:
        for key in {_key(_without_tails(name.split("/")[-1])) for name in (row.name, *row.repositories.split())}:
            found[key] = (*found.get(key, ()), row)
    return found


def _rows(written: str) -> tuple[Row, ...]:
    parts = _parts(written)
    for count in (4, 3, 2, 1):  # `LLaMa/models/hf/7B`, `granite-13b-base-v2/step_300000_ckpt`, `org/name`, `name`
        found = _exact().get(_key("/".join(parts[-count:]))) if len(parts) >= count else None
        if found is not None:
            return (found,)
    return _loose().get(_key(_without_tails(parts[-1])), ()) if parts else ()


def _one_shape(rows: tuple[Row, ...]) -> bool:
    return all(row.config == rows[0].config for row in rows)


def _parts(written: str) -> list[str]:
    """Split what is written into folders and name, without scheme, revision, and the folders of a cache."""
    if len(written) > _LONGEST:
        return []
    path = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://", "", written.strip())
    path = re.sub(r"(?<=[^/])@.*$", "", path)
    parts = [part for part in path.replace("\\", "/").split("/") if part and part != "."]
    if "snapshots" in parts[1:]:
        parts = parts[: parts.index("snapshots", 1)]
    while len(parts) > 1 and _REVISION.fullmatch(parts[-1].lower()):
        parts.pop()
    if parts and parts[-1].startswith("models--"):
        parts[-1:] = parts[-1].removeprefix("models--").split("--", 1)
    return parts


def _without_tails(name: str) -> str:
    words = _SEPARATOR.split(name.lower())
    return "-".join(word for word in words if word not in _TAILS) if len(words) > 1 else words[0]


def _key(name: str) -> str:
    """Return the name as letters and numbers: separators count only between two digits (3.1-8b is not 31-8b)."""
    return _OTHER.sub("", _BETWEEN_DIGITS.sub(".", name.lower()))
