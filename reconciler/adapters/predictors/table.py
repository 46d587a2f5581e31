"""`TablePredictor`: the predictions of ado-autoconf's trees, from one small file, without ado-autoconf.

A tree compares numbers with borders, so a forest gives the same answer for all numbers between two borders: a table of
all cells is equivalent to the model. The file has a line with the digest of the rest, a line of JSON, and compressed
probabilities.
"""

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from math import isfinite, prod
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from reconciler.adapters.predictors.recommender import (
    SAME_BATCH,
    candidate_layouts,
    recommender_name,
    requested_gpus,
    split_into_workers,
)
from reconciler.core.engines import AUTOCONF_TABLE, Outcome
from reconciler.core.sizing.question import EngineQuestion
from reconciler.errors import ConfigError, PredictorError
from reconciler.ports import Prediction

MAGIC = b"gpu-reconciler autoconf table 1 "
_MAX_BYTES = 32 << 20
_MAX_CELLS = 4_000_000
_RANGES = frozenset({"tokens", "batch", "gpus", "per_worker", "max_gpus"})
_HINT = "compile it again with `reconciler autoconf compile`"


class NumberRange(Struct, frozen=True, kw_only=True):
    """Numbers that the domain check accepts: from `low` to below `end`."""

    low: int
    end: int

    def contains(self, value: int) -> bool:
        """Return whether a value is in the range."""
        return self.low <= value < self.end


class TableHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the cells mean. `borders` are those of (total GPUs, tokens, batch over all GPUs), ascending.

    A cell's index is (model, method, GPU, and for each number the count of borders below it); the last varies fastest.
    `renamed` are models that `min_gpu_recommender` treats as others; `ranges` are the domain of its arguments.
    `points` is the number of random questions on which table and model agreed to the last bit.
    """

    versions: dict[str, str]
    model_version: str
    model_sha256: str
    models: tuple[str, ...]
    methods: tuple[str, ...]
    gpus: tuple[str, ...]
    renamed: dict[str, str]
    ranges: dict[str, NumberRange]
    borders: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    threshold: float
    points: int

    def __post_init__(self) -> None:
        """Reject values that no model has; reading a table reports them as an error of the file."""
        if set(self.ranges) != _RANGES or not all(1 <= numbers.low < numbers.end for numbers in self.ranges.values()):
            raise ValueError("the ranges are not those of ado-autoconf")
        for borders in self.borders:
            if list(borders) != sorted(set(borders)) or not all(map(isfinite, borders)):
                raise ValueError("the boundaries are not in ascending order")
        if not 0 < self.threshold < 1 or not set(self.renamed.values()) <= set(self.models):
            raise ValueError("the threshold or the model names are not valid")

    @property
    def cells(self) -> int:
        """The number of cells."""
        return prod(map(len, (self.models, self.methods, self.gpus))) * prod(
            len(borders) + 1 for borders in self.borders
        )


class Table:
    """A compiled model: probabilities by question. Immutable, so thread-safe."""

    def __init__(self, header: TableHeader, cells: "array[float]") -> None:
        if len(cells) != header.cells:
            raise PredictorError(f"the table has {len(cells)} cells, expected {header.cells}", hint=_HINT)
        self.header = header
        self._cells = cells
        self._models = {name: index for index, name in enumerate(header.models)}
        self._methods = {name: index for index, name in enumerate(header.methods)}
        self._gpus = {name: index for index, name in enumerate(header.gpus)}
        self._sizes = tuple(len(borders) + 1 for borders in header.borders)

    def probability(self, model: str, method: str, gpu: str, numbers: tuple[int, int, int]) -> float:
        """Return the probability that a run fits; `numbers` are (GPUs, tokens, batch), the batch over all GPUs.

        Raises `KeyError` for names that the model does not know.
        """
        index = (self._models[model] * len(self._methods) + self._methods[method]) * len(self._gpus) + self._gpus[gpu]
        for number, borders, size in zip(numbers, self.header.borders, self._sizes, strict=True):
            index = index * size + bisect_left(borders, number)
        return self._cells[index]

    def domain_error(self, question: EngineQuestion) -> str:
        """Return what is outside the model's domain; empty if the question is inside."""
        known = (
            ("model_name", question.model, self._models),
            ("method", question.method, self._methods),
            ("gpu_model", question.gpu_model, self._gpus),
        )
        unknown = [f"{field} {name!r}" for field, name, names in known if name not in names]
        if unknown:
            return f"ado-autoconf does not know {', '.join(unknown)}"
        numbers = {
            "tokens": question.tokens_per_sample,
            "per_worker": question.gpus_per_worker,
            "max_gpus": question.max_gpus,
        }
        if recommender_name(question) == SAME_BATCH:
            numbers["batch"] = question.batch_size
        else:
            numbers |= {"batch": question.per_device_batch_size, "gpus": requested_gpus(question)}
        is_inside = all(self.header.ranges[name].contains(value) for name, value in numbers.items())
        return "" if is_inside else "a number is out of range"

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return MAGIC + self.digest.encode() + b"\n" + self._rest

    @property
    def digest(self) -> str:
        """SHA-256 of the file without its first line, which holds the digest."""
        return sha256(self._rest).hexdigest()

    @cached_property
    def _rest(self) -> bytes:
        cells = self._cells
        if sys.byteorder == "big":
            cells = array("d", cells)
            cells.byteswap()
        return msgspec.json.encode(self.header, order="deterministic") + b"\n" + zlib.compress(cells.tobytes(), 9)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Table":
        """Parse the file. Raises `PredictorError` if it is not a table, is damaged, or has invalid values."""
        first, _, rest = raw.partition(b"\n")
        if not first.startswith(MAGIC):
            raise PredictorError("this is not a table of ado-autoconf, or one of another version", hint=_HINT)
        if first.removeprefix(MAGIC) != sha256(rest).hexdigest().encode():
            raise PredictorError("the table was changed after it was compiled: its digest differs", hint=_HINT)
        line, _, packed = rest.partition(b"\n")
        try:
            header = msgspec.json.decode(line, type=TableHeader)
            table = cls(header, _unpack(packed, header.cells))
        except (msgspec.MsgspecError, zlib.error, ValueError, RecursionError) as error:
            raise PredictorError(f"the table cannot be read: {error}", hint=_HINT) from error
        table.__dict__["_rest"] = rest  # as in the file: another zlib may compress differently
        return table


def _unpack(packed: bytes, cells: int) -> "array[float]":
    if not 0 < cells <= _MAX_CELLS:
        raise ValueError(f"{cells} cells")
    unpacked = array("d")
    unpacked.frombytes(zlib.decompressobj().decompress(packed, cells * unpacked.itemsize + 1))
    if sys.byteorder == "big":
        unpacked.byteswap()
    if not all(isfinite(value) and 0 <= value <= 1 for value in unpacked):
        raise ValueError("a cell is not a probability")
    return unpacked


def read_table(path: Path) -> Table:
    """Read the file of a table. Raises `ConfigError` if there is none, `PredictorError` if it is not valid."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist", hint="name the file with its path") from error
    except OSError as error:
        raise PredictorError(f"{path} cannot be read: {error.strerror}", hint="name the file with its path") from error
    if len(raw) > _MAX_BYTES:
        raise PredictorError(f"{path} is too large for a table", hint=_HINT)
    try:
        return Table.from_bytes(raw)
    except PredictorError as error:
        raise PredictorError(f"{path}: {error.message}", hint=error.hint) from error


class TablePredictor:
    """The recommendations of ado-autoconf, from a table."""

    engine = AUTOCONF_TABLE

    def __init__(self, table: Table) -> None:
        self._table = table
        self._versions = tuple(sorted({**table.header.versions, "model": table.header.model_version}.items()))

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the compiled release and of its model."""
        return dict(self._versions)

    def predict(self, question: EngineQuestion, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:
        """Answer as the compiled release does."""
        header = self._table.header
        if question.model_version != header.model_version:
            message = (
                f"the table is for model {header.model_version}; the question is for model {question.model_version}"
            )
            raise PredictorError(message, hint=_HINT)
        domain_error = self._table.domain_error(question)
        if domain_error:
            return self._prediction(Outcome.REFUSAL, text=domain_error)
        chances = tuple((*layout, self._probability(question, layout)) for layout in layouts)
        for layout in candidate_layouts(question):
            if self._probability(question, layout) >= header.threshold:
                gpus, workers = split_into_workers(layout[0], question.gpus_per_worker)
                return self._prediction(Outcome.RECOMMENDATION, gpus=gpus, workers=workers, chances=chances)
        return self._prediction(Outcome.REFUSAL, chances=chances)

    def _probability(self, question: EngineQuestion, layout: tuple[int, int]) -> float:
        model = question.model
        if recommender_name(question) == SAME_BATCH:  # the other recommender looks up names unchanged
            model = self._table.header.renamed.get(model, model)
        gpus, batch = layout
        return self._table.probability(
            model, question.method, question.gpu_model, (gpus, question.tokens_per_sample, batch)
        )

    def _prediction(
        self,
        outcome: Outcome,
        *,
        gpus: int = 0,
        workers: int = 0,
        chances: tuple[tuple[int, int, float], ...] = (),
        text: str = "",
    ) -> Prediction:
        return Prediction(
            engine=self.engine,
            outcome=outcome,
            gpus=gpus,
            workers=workers,
            chances=chances,
            versions=self._versions,
            text=text,
        )

    def close(self) -> None:
        """Do nothing: no process was started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
