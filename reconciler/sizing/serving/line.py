"""Read the command line of a server. A value that is unknown or not modelled is an error, never a guess."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kube.values import mapping, sequence, text
from reconciler.launch import Diagnostic, Fact, FileReader, find_launch_line
from reconciler.launch.container import expand_env
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import Setting, is_true, read_file
from reconciler.launch.shell.substitution import ALL_GPUS
from reconciler.sizing.resolve import find_config, resolve_model
from reconciler.sizing.serving.engines import HARMLESS, OTHER_MODELS, SERVERS
from reconciler.sizing.serving.server import Server, ServingEngine, WeightType
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training import Architecture, undivided_heads

_COUNTS = ("sequences", "batched", "tensor", "pipeline", "data")
_CACHES = {"auto": 2.0, "bfloat16": 2.0, "float16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")  # vLLM takes `16k` and `16K`
_UNITS = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}
_BY_HAND = "check the server by hand"
_HINT = f"remove the flag, or {_BY_HAND}"
_RAY = re.compile(r"\bray\s+(?:start|symmetric-run)\b|ray_cluster_size")
"""A script that starts Ray, or vLLM's `multi-node-serving.sh`."""
_OF_NODES = ("nnodes", "distributed_executor_backend", "data_parallel_address", "data_parallel_backend")
_ONE_NODE = frozenset({"1", "mp", "uni", "external_launcher"})
_MAX_DIGITS = 12
HEADS = "serving.heads"
"""Rule of a layout with which an engine starts on no GPU."""


class ParsedServer(Struct, frozen=True, kw_only=True):
    """A server, or the errors that keep it from being read. `warnings` are flags that widen the estimate."""

    server: Server | None = None
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def parse_server(
    command: Sequence[str],
    args: Sequence[str],
    env: Mapping[str, str | None],
    files: FileReader,
    tables: SizingTables,
    *,
    folder: str = "",
    gpus: int = 0,
) -> ParsedServer | None:
    """Return the server that a container starts; None if it starts none.

    `gpus` are those of the container, which its script may count (0: unknown).
    """
    line = find_launch_line(tuple(command), tuple(args), expand_env(env), files, SERVERS)
    if isinstance(line, Diagnostic):
        return None
    framework = line.invocation.framework or next(
        (row for row in SERVERS if row.programs is not None and row.programs.fullmatch(line.invocation.name)), None
    )
    if framework is None:
        return None
    starts_ray = any(_RAY.search(word) for word in (*command, *args))
    reader = _Reader(Extraction(line, framework, files), gpus=gpus, starts_ray=starts_ray)
    return reader.read(files, tables, folder)


def _config(tables: SizingTables, model: str, files: FileReader, folder: str) -> Mapping[str, Any]:
    """Return the `config.json` of a model whose architecture it describes; empty if the table does."""
    found = find_config(tables.models, model, files, folder)
    return {} if found is None else mapping(msgspec.json.decode(found[1]))


class _Reader:
    """Reads the settings of one line, and collects what is wrong with them."""

    def __init__(self, extraction: Extraction, *, gpus: int, starts_ray: bool) -> None:
        self._from = extraction
        self._gpus = gpus
        self._starts_ray = starts_ray
        self._engine = ServingEngine(extraction.framework.name)
        self._errors: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []

    def read(self, files: FileReader, tables: SizingTables, folder: str) -> ParsedServer:
        extraction = self._from
        self._read_file()
        word = next(iter(extraction.arguments.words), None)
        if word is not None and self._engine is ServingEngine.VLLM:
            extraction.script.add_word("model_tag", word.text, word)
        model = extraction.resolve("model", extraction.find("model"))
        if model is None and not extraction.unresolved:
            self._error(None, "the line does not name the model", "name it with --model")
        for name in _COUNTS:
            setting = extraction.find(name)
            if setting is not None and setting.text == ALL_GPUS and self._gpus:
                extraction.add(name, setting, str(self._gpus))
            else:
                extraction.add_number(name, setting)
        found = resolve_model(tables.models, model.text, files, folder) if model is not None else None
        if isinstance(found, Diagnostic):
            self._errors.append(found)
        config = _config(tables, model.text, files, folder) if model is not None and isinstance(found, tuple) else {}
        name = "" if model is None else model.text.rstrip("/").rpartition("/")[2]
        weights = self._weights(name, found[0].name if isinstance(found, tuple) else "", type_of_config(config))
        cache, length, fraction = self._cache(), self._length(), self._fraction()
        experts = extraction.find("experts")
        eager = extraction.find("eager")
        self._judge_flags()
        if isinstance(found, tuple):
            self._judge_heads(found[0])
        errors = (*extraction.diagnostics, *extraction.unresolved.values(), *self._errors)
        if errors or not isinstance(found, tuple) or model is None:
            return ParsedServer(errors=tuple(dict.fromkeys(errors)), warnings=tuple(self._warnings))
        counts = {name: int(extraction.facts[name].value) for name in _COUNTS if name in extraction.facts}
        server = Server(
            model=model.text,
            architecture=found[0],
            engine=self._engine,
            weights=weights,
            cache_width=cache,
            length=length,
            fraction=fraction,
            divides_experts=experts is not None and experts.text not in {"1", "false"},
            captures=not is_true(eager),
            spans_nodes=self._starts_ray or self._joins_nodes(),
            is_uncertain=bool(self._warnings),
            **counts,
        )
        return ParsedServer(server=server, warnings=tuple(self._warnings))

    def _read_file(self) -> None:
        """Read the file of `--config`, whose keys are the names of flags with hyphens."""
        extraction = self._from
        config = extraction.script.find(extraction.framework.config_flags)
        if config is None:
            return
        values, problem = read_file(config.text, extraction.read_bytes, "configuration of the server")
        extraction.script.add_file({name.replace("-", "_"): text for name, text in values.items()}, config.text)
        if problem is not None:
            self._errors.append(problem)

    def _weights(self, name: str, known: str, stated: WeightType | str | None) -> WeightType:
        """Return the type of the weights: by the flag, the model's files, its name, and what its vendor publishes."""
        setting = self._from.resolve("weights", self._from.find("weights"))
        dtype = self._from.resolve("dtype", self._from.find("dtype"))
        if "gguf" in name.lower() or (setting is not None and setting.text == "gguf"):
            self._error(setting, "GGUF files have weights of several types, which are not modelled", _HINT)
        stored = stated if isinstance(stated, WeightType) else type_of_name(name)
        if stated is not None and stored is None:
            self._error(None, f"config.json: the format of the weights, {stated!r}, is not modelled", _BY_HAND)
        if setting is not None and setting.text.lower() not in {"", "none", "null"}:
            found = type_of_flag(setting.text.lower(), stored)
            if found is None:
                self._error(setting, f"`{setting.fact.snippet}`: the format is not modelled", _HINT)
            return found or WeightType.BF16
        found = stored or published_type(name, known) or WeightType.BF16
        is_wide = dtype is not None and dtype.text in {"float", "float32"}
        return WeightType.FP32 if is_wide and found is WeightType.BF16 else found

    def _cache(self) -> float:
        setting = self._from.resolve("cache", self._from.find("cache"))
        width = 2.0 if setting is None else _CACHES.get(setting.text.lower())
        if width is None and setting is not None:
            self._error(setting, f"`{setting.fact.snippet}`: the format of the cache is not modelled", _HINT)
        return width or 2.0

    def _length(self) -> int:
        """Return the longest request in tokens (`32k` is 32,000, `32K` is 32,768); 0 if the engine decides."""
        setting = self._from.resolve("length", self._from.find("length"))
        if setting is None or setting.text in {"auto", "-1"}:
            return 0
        match = _LENGTH.fullmatch(setting.text) if len(setting.text) < _MAX_DIGITS else None
        length = int(float(match[1]) * _UNITS[match[2]]) if match is not None else 0
        if length <= 0:
            self._error(setting, f"`{setting.fact.snippet}`: expected a number of tokens", "correct the value")
        return length

    def _fraction(self) -> float:
        setting = self._from.resolve("fraction", self._from.find("fraction"))
        if setting is None:
            return 0.0
        try:
            value = float(setting.text)
        except ValueError:
            value = 0.0
        if not 0 < value <= 1:
            self._error(setting, f"`{setting.fact.snippet}`: expected a fraction from 0 to 1", "correct the value")
        return value

    def _joins_nodes(self) -> bool:
        """Return whether flags join the engine with processes on other nodes."""
        found = {name: self._from.script.find((name,)) for name in _OF_NODES}
        return any(one is not None and one.text not in _ONE_NODE for one in found.values())

    def _judge_flags(self) -> None:
        """Judge the flags that nobody read: an error, nothing, or a warning by name."""
        unknown: list[str] = []
        place: Fact | None = None
        for name, written, fact in self._from.script.unread():
            if written.lower() in {"false", "none", "0", ""} or HARMLESS.fullmatch(name):
                continue
            if OTHER_MODELS.fullmatch(name):
                self._errors.append(
                    _diagnostic(fact, f"`{fact.snippet}` changes the memory in a way that is not modelled")
                )
            else:
                unknown.append(name)
                place = place or fact
        if unknown and place is not None:
            named = ", ".join(f"`--{name.replace('_', '-')}`" for name in unknown)
            message = f"{named}: the effect on memory is unknown; the range of the estimate is wider"
            self._warnings.append(_diagnostic(place, message))

    def _judge_heads(self, model: Architecture) -> None:
        """Refuse tensor parallelism that the engine refuses."""
        fact, framework = self._from.facts.get("tensor"), self._from.framework
        ways = 1 if fact is None else int(fact.value)
        heads = undivided_heads(model, ways)
        if not heads or fact is None:
            return
        smaller = [str(1 << power) for power in range(ways.bit_length()) if 1 << power < ways]
        possible = [size for size in smaller if not undivided_heads(model, int(size))]
        message = f"{heads} cannot be divided among {ways} GPUs, so {framework.source} does not start"
        flag = framework.settings["tensor"][0].replace("_", "-")
        hint = f"set --{flag} to {', '.join(possible)}"
        self._errors.append(Diagnostic(rule=HEADS, message=message, hint=hint, span=fact.span))

    def _error(self, setting: Setting | None, message: str, hint: str) -> None:
        span = None if setting is None else setting.fact.span
        self._errors.append(Diagnostic(rule="serving.line", message=message, hint=hint, span=span))


def _diagnostic(fact: Fact, message: str) -> Diagnostic:
    return Diagnostic(rule="serving.flag", message=message, hint=_HINT, span=fact.span)


_ENTRY_POINTS = (
    (re.compile(r"(?:.*/)?vllm(?:-openai\w*|-inference)?(?:[:@].*)?"), ("vllm", "serve")),
    (re.compile(r"(?:.*/)?sglang(?:[:@].*)?"), ("python3", "-m", "sglang.launch_server")),
)
"""Images whose entry point is the server, so that a container has arguments alone."""


def server_command(image: str, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a container, with the entry point of a known image if it has none."""
    has_arguments = bool(args) and (args[0].startswith("-") or "/" in args[0])
    if command or not has_arguments:
        return tuple(command)
    return next((words for pattern, words in _ENTRY_POINTS if pattern.fullmatch(image)), ())


_NAMES = (
    (re.compile(r".*(?:fp8|int8|w8a8|w8a16|8bit|8-bit)(?:[-_.].*)?", re.IGNORECASE), WeightType.INT8),
    (re.compile(r".*(?:mxfp4)(?:[-_.].*)?", re.IGNORECASE), WeightType.MXFP4),
    (re.compile(r".*(?:awq|gptq|int4|w4a16|4bit|4-bit|nvfp4|fp4)(?:[-_.].*)?", re.IGNORECASE), WeightType.INT4),
    (re.compile(r"(?:.*[-_.])?(?:bf16|fp16)(?:[-_.].*)?", re.IGNORECASE), WeightType.BF16),
)
"""Names of repositories by the type of their weights; the first that matches counts."""
_NATIVE = {
    "deepseek-v3": WeightType.INT8,
    "deepseek-r1": WeightType.INT8,
    "kimi-k2": WeightType.INT8,
    "gpt-oss-20b": WeightType.MXFP4,
    "gpt-oss-120b": WeightType.MXFP4,
}
"""Models that are published in fewer bits (`quantization_config` of their files)."""
_KIMI_THINKING = re.compile(r"kimi-k2-thinking(?:[-_.].*)?", re.IGNORECASE)
"""Published with experts in 4 bits, in contrast to the other repositories of its architecture."""
_FLAGS = {
    WeightType.INT8: "fp8 w8a8_int8 w8a8_fp8 fbgemm_fp8 modelopt modelopt_fp8 ptpc_fp8 experts_int8 int8",
    WeightType.INT4: "awq awq_marlin gptq_marlin_24 bitsandbytes modelopt_fp4 nvfp4 marlin moe_wna16 petit_nvfp4",
    WeightType.MXFP4: "mxfp4",
}
_OF_FLAG = {word: kind for kind, words in _FLAGS.items() for word in words.split()}
_FOUR_BITS = frozenset({"gptq", "gptq_marlin", "auto-round"})
_BY_FILES = frozenset({"compressed-tensors", "quark"})
_OF_BITS = {4: WeightType.INT4, 8: WeightType.INT8}


def type_of_flag(flag: str, stored: WeightType | None) -> WeightType | None:
    """Return the type that `--quantization` selects, for a model whose files or name say `stored`; None if unknown.

    Some methods have 4 or 8 bits, which the files tell.
    """
    if flag in _OF_FLAG:
        return _OF_FLAG[flag]
    if flag in _FOUR_BITS:
        return stored or WeightType.INT4
    return stored if flag in _BY_FILES else None


def type_of_name(name: str) -> WeightType | None:
    """Return the type that the name of a repository or folder tells."""
    return next((kind for pattern, kind in _NAMES if pattern.fullmatch(name)), None)


def published_type(name: str, known: str) -> WeightType | None:
    """Return the type in which the vendor publishes a model of the table; None for 16 bits."""
    if known == "kimi-k2" and _KIMI_THINKING.fullmatch(name):
        return WeightType.INT4_EXPERTS
    return _NATIVE.get(known)


def type_of_config(config: Mapping[str, Any]) -> WeightType | str | None:
    """Return the type that a `config.json` states, the name of one that is not modelled, or None if it states none."""
    stated = mapping(config.get("quantization_config"))
    method = text(stated.get("quant_method")).lower()
    if not method:
        return None
    if method in {"bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"}:
        return WeightType.INT8 if stated.get("load_in_8bit") is True else WeightType.INT4
    if method == "compressed-tensors":
        found = _OF_BITS.get(_widest_group(stated))
        is_partial = found is WeightType.INT4 and any("self_attn" in str(one) for one in sequence(stated.get("ignore")))
        return WeightType.INT4_EXPERTS if is_partial else found or method
    if method == "modelopt":
        algorithm = text(stated.get("quant_algo")).upper()
        return {"FP8": WeightType.INT8, "NVFP4": WeightType.INT4}.get(algorithm, method)
    if method in {"gptq", "awq", "auto-round", "intel/auto-round"}:
        bits = stated.get("bits", stated.get("w_bit", 4))
        return _OF_BITS.get(bits if isinstance(bits, int) else 0, method)
    return _OF_FLAG.get(method, method)


def _widest_group(stated: Mapping[str, Any]) -> int:
    """Return the bits of the widest group of weights that compressed-tensors lists."""
    groups = [mapping(mapping(group).get("weights")) for group in mapping(stated.get("config_groups")).values()]
    return max((bits for group in groups if isinstance(bits := group.get("num_bits"), int)), default=0)
