"""Which model a line means: a `config.json` of the repository wins over the table of known models."""

import re
from functools import lru_cache
from typing import Any

import msgspec

from reconciler.core.launch import Diagnostic, FileReader
from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.models import architecture_of, closest_models, find_architecture

_SHOWN = 80
_LONGEST = 512
_MEMO = 4096  # a team trains a few models, over and over
_PART = re.compile(r"(?!\.\.?$)[^\x00-\x1f\\:*?\"<>|]+")


def find_model(written: str, files: FileReader, folder: str = "") -> tuple[Architecture, str] | Diagnostic:
    """Return the architecture and where it was read; or why there is none.

    Looked for in this order: `config.json` under the path as it is written, from the repository's root, from its
    `models/`, and from the job's `folder`; the table; at last a `config.json` beside the job, which speaks for models
    that the table does not know.
    """
    for path in _paths(written, folder):
        raw = files(path)
        if raw is not None:
            return _read(raw, path, written)
    known = _known(written)
    if known is not None:
        return known, known.source
    beside = _join(folder, "config.json")
    raw = files(beside)
    if raw is not None:
        return _read(raw, beside, written)
    return _unknown(written)


@lru_cache(maxsize=_MEMO)
def _known(written: str) -> Architecture | None:
    return find_architecture(written)


@lru_cache(maxsize=_MEMO)
def _paths(written: str, folder: str) -> tuple[str, ...]:
    """Return where a model's configuration may lie in the repository; a path that leaves it lies nowhere."""
    if len(written) > _LONGEST or "://" in written:
        return ()
    parts = [part for part in written.split("/") if part not in ("", ".")]
    if not parts or not all(_PART.fullmatch(part) for part in parts):
        return ()
    name = "/".join(parts)
    found = [_join(*start, parts[-1], "config.json") for start in (("models",), (folder,))]
    if not written.startswith("/"):
        found = [_join(*start, name, "config.json") for start in ((), ("models",), (folder,))] + found
    return tuple(dict.fromkeys(found))


def _join(*parts: str) -> str:
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def _read(raw: bytes, path: str, written: str) -> tuple[Architecture, str] | Diagnostic:
    try:
        data: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _bad(path, str(error))
    if not isinstance(data, dict):
        return _bad(path, "it is no mapping")
    known = _known(written)
    found = architecture_of(data, known.name if known is not None else written.rstrip("/").rpartition("/")[2])
    return _bad(path, found) if isinstance(found, str) else (found, f"file {path}")


def _bad(path: str, why: str) -> Diagnostic:
    message = f"{path} does not tell the model's shape: {why}"
    return Diagnostic(rule="sizing.model", message=message, hint="put the model's own config.json there")


def _unknown(written: str) -> Diagnostic:
    close = closest_models(written)
    hint = "put its config.json beside the job" + (f", or write one of {', '.join(close)}" if close else "")
    shown = written if len(written) <= _SHOWN else written[:_SHOWN] + "…"
    return Diagnostic(rule="sizing.model", message=f"the model {shown!r} is not known", hint=hint)
