"""The shipped table of models, and the lookup of a model by what a job calls it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.misspelled import misspelled
from reconciler.sizing.models.config import parse_decoder, vision_parameters
from reconciler.sizing.models.gpt import GPT_FAMILIES, parse_gpt
from reconciler.sizing.models.keys import ConfigKeys, UnsupportedModelError
from reconciler.sizing.training import Architecture, parameter_parts

_ENCODERS = frozenset({"bert", "roberta", "distilbert", "t5", "bart", "whisper", "clip", "vit", "electra", "marian"})


def parse_model_config(config: Mapping[str, Any], name: str) -> Architecture | str:
    """Return the architecture that a `config.json` describes, or the reason why it is not supported.

    The number of parameters follows the formula of the family (attention, feed-forward, experts, state-space layers,
    norms, embeddings) and is exact for the types in `blocks.TRAITS` and `gpt.GPT_FAMILIES`. An unknown type is read as
    a variant of Llama if it has Llama's keys and no key of experts, state-space layers and the like; `source` says so.
    """
    try:
        return _count_parameters(_parse(ConfigKeys(config), name))
    except UnsupportedModelError as error:
        return str(error)


def _parse(config: ConfigKeys, name: str) -> Architecture:
    text = config.section("text_config", "language_config", "llm_config") or config
    model_type = text.text("model_type")
    if not model_type:
        raise UnsupportedModelError("model_type is missing")
    if text.flag("is_encoder_decoder", default=False) or model_type in _ENCODERS:
        raise UnsupportedModelError(f"model type {model_type!r} is not a decoder")
    parse = parse_gpt if model_type in GPT_FAMILIES else parse_decoder
    architecture = parse(text, name, model_type)
    if config.section("audio_config") is not None:
        raise UnsupportedModelError("audio_config is not supported")
    return replace(architecture, vision=vision_parameters(config, architecture.hidden))


def _count_parameters(architecture: Architecture) -> Architecture:
    total = parameter_parts(architecture).total
    inactive = sum(linear.size * (linear.count - linear.active) for linear in architecture.linears)
    return replace(architecture, parameters=total, active_parameters=total - inactive)


_MAX_LENGTH = 512
_MAX_SUGGESTIONS = 5
_IGNORED_WORDS = frozenset(
    {
        *("instruct", "chat", "hf", "it", "pt", "base", "meta"),
        *("gptq", "awq", "bnb", "nf4", "fp8", "fp4", "nvfp4", "mxfp4", "int4", "int8", "4bit", "8bit"),
        *("w4a16", "w8a8", "w8a16", "bf16", "fp16", "dynamic", "quantized", "unsloth", "gguf", "mlx"),
    }
)
"""Words in names that do not change the architecture: tuning and file formats."""
_SEPARATOR = re.compile(r"[-_. ]")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[^a-z0-9]+(?=[0-9])")
_OTHER = re.compile(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])")
_REVISION = re.compile(r"final|latest|main|model|hf|checkpoint-\d+|[0-9a-f]{40}|r\d{6}\w?")
"""Folders below the folder of a model that name a checkpoint of it."""


class ModelRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of `data/models.json`.

    `repositories` are those on Hugging Face with this architecture, `config` the keys of `config.json` that determine
    it, `source` where they were read. `aliases` are other names in use, `autoconf` is the name in ado-autoconf.
    `approximate`: the vendor has not published all numbers.
    """

    name: str
    repositories: tuple[str, ...]
    config: Mapping[str, Any]
    source: str
    aliases: tuple[str, ...] = ()
    autoconf: str = ""
    approximate: bool = False


class _ModelFile(Struct, frozen=True):
    models: tuple[ModelRow, ...]


class ModelTable:
    """The models of `data/models.json`, by name. An architecture is computed when it is first asked for."""

    def __init__(self, raw: bytes) -> None:
        self.rows = msgspec.json.decode(raw, type=_ModelFile).models
        self._architectures: dict[str, Architecture] = {}
        self._found: dict[str, Architecture | None] = {}
        self._near: dict[str, tuple[str, ...]] = {}

    def __iter__(self) -> Iterator[Architecture]:
        """Iterate over the architectures of all models, in the order of the table."""
        return map(self._architecture, self.rows)

    def find(self, written: str) -> Architecture | None:
        """Return the model that `written` names: a repository, a name of ado-autoconf or ours, a path that ends in one.

        Schemes (`hf://`, `s3://bucket/`), `@revision`, cache folders (`models--org--name/snapshots/<sha>`), words for
        tuning and quantization (`-Instruct`, `-GPTQ-Int4`) and separators are ignored. None if the name is unknown or
        may mean models with different architectures; `closest` then returns suggestions.
        """
        if written not in self._found:
            rows = self._rows(written)
            is_clear = bool(rows) and all(row.config == rows[0].config for row in rows)
            self._found[written] = self._architecture(rows[0]) if is_clear else None
        return self._found[written]

    def closest(self, written: str) -> tuple[str, ...]:
        """Return names of models that `written` may mean, for a hint: completions, its start, misspellings.

        Another version or size of a model is not what was meant, so that names with other numbers are never returned.
        """
        if written not in self._near:
            self._near[written] = self._closest(written)
        return self._near[written]

    def _closest(self, written: str) -> tuple[str, ...]:
        rows, parts = self._rows(written), _parts(written)
        if rows or not parts:
            return tuple(row.name for row in rows)[:_MAX_SUGGESTIONS]
        key, names = _key(_strip_ignored(parts[-1])), dict(self._keys)
        longer = [name for known, name in self._keys if key and known.startswith(key)]
        starts = sorted((name for known, name in self._keys if _begins(key, known)), key=len, reverse=True)[:1]
        similar = [names[near] for near in misspelled(key, names)]
        return tuple(dict.fromkeys((*longer, *starts, *similar)))[:_MAX_SUGGESTIONS]

    def _architecture(self, row: ModelRow) -> Architecture:
        if row.name not in self._architectures:
            parsed = parse_model_config(row.config, row.name)
            if isinstance(parsed, str):
                raise TypeError(f"models.json: {row.name}: {parsed}")
            known = replace(parsed, autoconf=row.autoconf, source=row.source, approximate=row.approximate)
            self._architectures[row.name] = known
        return self._architectures[row.name]

    @cached_property
    def _keys(self) -> Sequence[tuple[str, str]]:
        """The key and the name of each row."""
        return [(_key(row.name), row.name) for row in self.rows]

    @cached_property
    def _by_name(self) -> Mapping[str, ModelRow]:
        """Rows by full name."""
        rows: dict[str, ModelRow] = {}
        for row in self.rows:
            for name in (row.name, *row.aliases, *row.repositories):
                rows.setdefault(_key(name), row)
        for row in self.rows:  # last, so that a name of ado-autoconf never hides a model's own name
            if row.autoconf:
                rows.setdefault(_key(row.autoconf), row)
        return rows

    @cached_property
    def _by_short_name(self) -> Mapping[str, tuple[ModelRow, ...]]:
        """Rows by name without organization and ignored words."""
        rows: dict[str, tuple[ModelRow, ...]] = {}
        for row in self.rows:
            for key in {_key(_strip_ignored(name.split("/")[-1])) for name in (row.name, *row.repositories)}:
                rows[key] = (*rows.get(key, ()), row)
        return rows

    def _rows(self, written: str) -> tuple[ModelRow, ...]:
        parts = _parts(written)
        for count in (4, 3, 2, 1):  # `LLaMa/models/hf/7B`, `granite-13b-base-v2/step_300000_ckpt`, `org/name`, `name`
            row = self._by_name.get(_key("/".join(parts[-count:]))) if len(parts) >= count else None
            if row is not None:
                return (row,)
        return self._by_short_name.get(_key(_strip_ignored(parts[-1])), ()) if parts else ()


def _begins(key: str, name: str) -> bool:
    """Return whether a name is the start of another, as `llama3.1-8b` of `llama3.1-8b-my-data`, with its size."""
    return key.startswith(name) and name[-1:].isalpha() and any(map(str.isdigit, name))


def _parts(written: str) -> list[str]:
    """Split a path into folders and name, without scheme, revision and cache folders."""
    if len(written) > _MAX_LENGTH:
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


def _strip_ignored(name: str) -> str:
    words = _SEPARATOR.split(name.lower())
    return "-".join(word for word in words if word not in _IGNORED_WORDS) if len(words) > 1 else words[0]


def _key(name: str) -> str:
    """Return letters and digits only; a separator counts between two digits (3.1-8b is not 31-8b)."""
    return _OTHER.sub("", _BETWEEN_DIGITS.sub(".", name.lower()))
