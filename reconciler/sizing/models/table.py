"""The shipped table of models, and the lookup of a model by what a job calls it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.misspelled import misspelled
from reconciler.sizing.models.blocks import matrix
from reconciler.sizing.models.config import parse_decoder, vision_parameters
from reconciler.sizing.models.families import FamilyName, same_family
from reconciler.sizing.models.keys import ConfigKeys, UnsupportedModelError
from reconciler.sizing.training import Architecture, BlockRole, Linear, parameter_parts

# Decoders older than Llama (GPT-2, GPT-NeoX, BLOOM, OPT, Falcon ...), each with its own names and biases.


class _Family(Struct, frozen=True, kw_only=True):
    """The layout of one family. `vectors` are the parameters of norms in all layers, `positions` learned embeddings."""

    kv_heads: int
    width: int
    names: tuple[str, str, str, str]  # joined queries, keys and values; output; up; down
    tied: bool
    vectors: int
    bias: bool = True
    positions: int = 0
    narrow: int = 0  # width of the embeddings, if it differs from that of the layers
    head_bias: bool = False
    split: bool = False  # queries, keys and values are three matrices
    gate: str = ""  # name of the gate's matrix
    joined: bool = False  # gate and up are one matrix
    own_scores: int = 0  # see `Architecture`


class _Sizes(Struct, frozen=True, kw_only=True):
    layers: int
    hidden: int
    heads: int

    @property
    def head_dim(self) -> int:
        return max(1, self.hidden // self.heads)


def parse_gpt(config: ConfigKeys, name: str, kind: str) -> Architecture:
    """Return the architecture without its parameter counts; raise UnsupportedModelError."""
    sizes = _Sizes(
        layers=config.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000),
        hidden=config.count("hidden_size", "n_embd", "d_model", most=1_000_000),
        heads=config.count("num_attention_heads", "n_head", "n_heads", "num_heads", most=100_000),
    )
    family = GPT_FAMILIES[kind](config, sizes)
    vocabulary = config.count("padded_vocab_size", "vocab_size", most=100_000_000)
    words = vocabulary * (1 if family.tied else 2) * (family.narrow or sizes.hidden)
    return Architecture(
        name=name,
        layers=sizes.layers,
        hidden=sizes.hidden,
        intermediate=family.width,
        heads=sizes.heads,
        kv_heads=family.kv_heads,
        head_dim=sizes.head_dim,
        vocabulary=vocabulary,
        tied=family.tied,
        parameters=0,
        active_parameters=0,
        gated=family.joined or bool(family.gate),
        own_scores=family.own_scores,
        source=f"config.json of type {kind}",
        linears=_linears(sizes, family),
        embedding=words + (family.positions + 2 * family.narrow) * sizes.hidden,
        norms=family.vectors + (vocabulary if family.head_bias else 0),
    )


def _linears(sizes: _Sizes, family: _Family) -> tuple[Linear, ...]:
    first, output, up, down = family.names
    layers, hidden, bias = sizes.layers, sizes.hidden, family.bias
    queries, keys = sizes.heads * sizes.head_dim, family.kv_heads * sizes.head_dim
    role = BlockRole.ATTENTION
    if family.split:
        parts = (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
        attending = tuple(matrix(name, hidden, width, layers, role, bias=bias) for name, width in parts)
    else:
        attending = (matrix(first, hidden, queries + 2 * keys, layers, role, bias=bias),)
    widths = {family.gate: family.width} if family.gate else {}
    widths[up] = family.width * (2 if family.joined else 1)
    return (
        *attending,
        matrix(output, queries, hidden, layers, role, bias=bias),
        *(matrix(name, hidden, width, layers, BlockRole.FEED_FORWARD, bias=bias) for name, width in widths.items()),
        matrix(down, family.width, hidden, layers, BlockRole.FEED_FORWARD, bias=bias),
    )


def _layer_norms(sizes: _Sizes, of_layer: int) -> int:
    """Return the parameters of LayerNorms with bias: `of_layer` in each layer, and the final one."""
    return 2 * sizes.hidden * (of_layer * sizes.layers + 1)


def _gpt2(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("n_inner", default=4 * sizes.hidden),
        names=("c_attn", "c_proj", "c_fc", "c_proj"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 2),
        positions=config.count("n_positions", "n_ctx", default=1024),
    )


def _gpt_bigcode(config: ConfigKeys, sizes: _Sizes) -> _Family:
    family = _gpt2(config, sizes)
    shared = config.flag("multi_query", default=True)
    return replace(family, kv_heads=1 if shared else sizes.heads)


def _gpt_neox(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size", default=4 * sizes.hidden),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=_layer_norms(sizes, 2),
    )


def _bloom(config: ConfigKeys, sizes: _Sizes) -> _Family:
    family = _gpt_neox(config, sizes)
    tied = config.flag("tie_word_embeddings", default=True)
    return replace(family, width=4 * sizes.hidden, tied=tied, vectors=_layer_norms(sizes, 2) + 2 * sizes.hidden)


def _opt(config: ConfigKeys, sizes: _Sizes) -> _Family:
    last = config.flag("do_layer_norm_before", default=True)
    embedding_width = config.count("word_embed_proj_dim", default=sizes.hidden, most=1_000_000)
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("ffn_dim"),
        names=("", "out_proj", "fc1", "fc2"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 2) - (0 if last else 2 * sizes.hidden),
        positions=config.count("max_position_embeddings", default=2048) + 2,
        narrow=embedding_width if embedding_width != sizes.hidden else 0,
        split=True,
    )


def _falcon(config: ConfigKeys, sizes: _Sizes) -> _Family:
    newer = config.flag("new_decoder_architecture", default=False)
    shared = config.flag("multi_query", default=True)
    parallel = config.flag("parallel_attn", default=True)
    kept = config.count("num_kv_heads", "n_head_kv", default=sizes.heads, most=sizes.heads)
    return _Family(
        kv_heads=kept if newer else 1 if shared else sizes.heads,
        width=config.count("ffn_hidden_size", default=4 * sizes.hidden),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=_layer_norms(sizes, 1 if parallel and not newer else 2),
        bias=config.flag("bias", default=False),
    )


def _qwen(config: ConfigKeys, sizes: _Sizes) -> _Family:
    """Return what Qwen's first generation is: only queries, keys and values have a bias (counted with the norms)."""
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size") // 2,
        names=("c_attn", "c_proj", "w2", "c_proj"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1) + 3 * sizes.hidden * sizes.layers,
        bias=False,
        gate="w1",
    )


def _chatglm(config: ConfigKeys, sizes: _Sizes) -> _Family:
    """Return what ChatGLM2 and 3 are: only queries, keys and values have a bias (counted with the norms).

    Their code knows no flash attention. For a batch with a mask it makes scores in 2 bytes, their copy in fp32, that
    scaled, masked, the softmax, and its cast (modeling_chatglm.py, `CoreAttention`).
    """
    groups = config.count("multi_query_group_num", default=sizes.heads, most=sizes.heads)
    shared = config.flag("multi_query_attention", default=True)
    keys = groups if shared else sizes.heads
    return _Family(
        kv_heads=keys,
        width=config.count("ffn_hidden_size"),
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1) + sizes.layers * (sizes.heads + 2 * keys) * sizes.head_dim,
        bias=False,
        joined=True,
        own_scores=20,
    )


def _baichuan(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=config.count("intermediate_size"),
        names=("W_pack", "o_proj", "up_proj", "down_proj"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=sizes.hidden * (2 * sizes.layers + 1),
        bias=False,
        gate="gate_proj",
    )


def _gptj(config: ConfigKeys, sizes: _Sizes) -> _Family:
    """Return the layout of GPT-J. Its feed-forward blocks have biases (counted with the norms), attention has none."""
    width = config.count("n_inner", default=4 * sizes.hidden)
    return _Family(
        kv_heads=sizes.heads,
        width=width,
        names=("", "out_proj", "fc_in", "fc_out"),
        tied=config.flag("tie_word_embeddings", default=False),
        vectors=_layer_norms(sizes, 1) + sizes.layers * (width + sizes.hidden),
        bias=False,
        head_bias=True,
        split=True,
    )


def _mpt(config: ConfigKeys, sizes: _Sizes) -> _Family:
    return _Family(
        kv_heads=sizes.heads,
        width=sizes.hidden * config.count("expansion_ratio", default=4, most=1000),
        names=("Wqkv", "out_proj", "up_proj", "down_proj"),
        tied=config.flag("tie_word_embeddings", default=True),
        vectors=sizes.hidden * (2 * sizes.layers + 1),
        bias=not config.flag("no_bias", default=True),
    )


GPT_FAMILIES: Mapping[str, Callable[[ConfigKeys, _Sizes], _Family]] = MappingProxyType(
    {
        "gpt2": _gpt2,
        "gpt_bigcode": _gpt_bigcode,
        "gpt_neox": _gpt_neox,
        "gptj": _gptj,
        "bloom": _bloom,
        "opt": _opt,
        "falcon": _falcon,
        "qwen": _qwen,
        "chatglm": _chatglm,
        "baichuan": _baichuan,
        "mpt": _mpt,
    }
)
"""From the modelling files of Hugging Face transformers 4.57, by `model_type`; Qwen, ChatGLM and Baichuan from the
code in their repositories on the Hub."""

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
        self.found: dict[str, Architecture | None] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        self.by_family = False
        self.meant: dict[str, str] = {}

    def with_families(self) -> "ModelTable":
        """Return a table that also finds models by the family and size in their names, and keeps those in `meant`."""
        table = copy(self)
        table.by_family, table.found, table.meant = True, {}, {}
        return table

    def __iter__(self) -> Iterator[Architecture]:
        """Iterate over the architectures of all models, in the order of the table."""
        return map(self._architecture, self.rows)

    def find(self, written: str) -> Architecture | None:
        """Return the model that `written` names: a repository, a name of ado-autoconf or ours, a path that ends in one.

        Schemes (`hf://`, `s3://bucket/`), `@revision`, cache folders (`models--org--name/snapshots/<sha>`), words for
        tuning and quantization (`-Instruct`, `-GPTQ-Int4`) and separators are ignored. None if the name is unknown or
        may mean models with different architectures; `closest` then returns suggestions.
        """
        if written not in self.found:
            rows = self._rows(written)
            is_clear = bool(rows) and all(row.config == rows[0].config for row in rows)
            known = rows[0] if is_clear else self._family(written) if self.by_family else None
            self.found[written] = None if known is None else self._architecture(known)
            if known is not None and not is_clear:
                self.meant[written] = known.name
        return self.found[written]

    def _family(self, written: str) -> ModelRow | None:
        """Return the row of the family and the size that the last folder of a path says, or the one above it."""
        parts = _parts(written)
        for name in (*parts[-1:], "-".join(parts[-2:])):
            found = same_family(name, self._families)
            if found is not None:
                return self.rows[found]
        return None

    @cached_property
    def _families(self) -> Sequence[FamilyName]:
        return [FamilyName(row.name) for row in self.rows]

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
