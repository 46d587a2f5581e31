"""`TablePredictor`: the answers of ado-autoconf's trees, from one small file, without ado-autoconf.

A tree only compares numbers with borders, so a forest says the same of all numbers between two of them: a table of all
cells is the model. The file is a line with the digest of the rest, a line of JSON, and compressed probabilities.
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

from reconciler.adapters.predictors.asked import SAME_BATCH, recommender, requested, spread, tried
from reconciler.core.config import Engine
from reconciler.core.sizing.question import Asked
from reconciler.errors import PredictorError
from reconciler.ports import Outcome, Prediction

MAGIC = b"gpu-reconciler autoconf table 1 "
_MOST_BYTES = 32 << 20
_MOST_CELLS = 4_000_000
_RANGES = frozenset({"tokens", "batch", "gpus", "per_worker", "max_gpus"})
_HINT = "compile it again with `reconciler autoconf compile`"


class Range(Struct, frozen=True, kw_only=True):
    """Numbers that the domain check lets pass: from `low` to below `end`."""

    low: int
    end: int

    def holds(self, value: int) -> bool:
        """Tell whether a value is in it."""
        return self.low <= value < self.end


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the cells mean. Borders are those of (GPUs in all, tokens, batch over all GPUs), ascending.

    A cell is found by (model, method, gpu, and for each number how many borders are below it), the last varying first.
    `renamed` are models that `min_gpu_recommender` takes for others; `ranges` are the domain of its arguments.
    `points` is the number of random questions on which table and model agreed, to the last bit.
    """

    versions: dict[str, str]
    model_version: str
    model_sha256: str
    models: tuple[str, ...]
    methods: tuple[str, ...]
    gpus: tuple[str, ...]
    renamed: dict[str, str]
    ranges: dict[str, Range]
    borders: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    threshold: float
    points: int

    def __post_init__(self) -> None:
        """Refuse what no model has; reading a table raises it as an error of the file."""
        if set(self.ranges) != _RANGES or not all(1 <= each.low < each.end for each in self.ranges.values()):
            raise ValueError("the ranges are not those of ado-autoconf")
        for borders in self.borders:
            if list(borders) != sorted(set(borders)) or not all(map(isfinite, borders)):
                raise ValueError("the borders are in no order")
        if not 0 < self.threshold < 1 or not set(self.renamed.values()) <= set(self.models):
            raise ValueError("threshold or names make no sense")

    @property
    def cells(self) -> int:
        """How many there are."""
        return prod(map(len, (self.models, self.methods, self.gpus))) * prod(len(each) + 1 for each in self.borders)


class Table:
    """A compiled model: probabilities by question. Safe for threads: nothing in it changes."""

    def __init__(self, header: Header, cells: "array[float]") -> None:
        if len(cells) != header.cells:
            raise PredictorError(f"the table holds {len(cells)} cells instead of {header.cells}", hint=_HINT)
        self.header = header
        self._cells = cells
        self._models = {name: at for at, name in enumerate(header.models)}
        self._methods = {name: at for at, name in enumerate(header.methods)}
        self._gpus = {name: at for at, name in enumerate(header.gpus)}
        self._sizes = tuple(len(each) + 1 for each in header.borders)

    def probability(self, model: str, method: str, gpu: str, numbers: tuple[int, int, int]) -> float:
        """Return the share of 1 that a run goes through; `numbers` are (GPUs, tokens, batch), the latter over all GPUs.

        Raises `KeyError` for names that the model does not know.
        """
        at = (self._models[model] * len(self._methods) + self._methods[method]) * len(self._gpus) + self._gpus[gpu]
        for number, borders, size in zip(numbers, self.header.borders, self._sizes, strict=True):
            at = at * size + bisect_left(borders, number)
        return self._cells[at]

    def foreign(self, question: Asked) -> str:
        """Say what of a question is outside of the model's domain; empty where all is inside."""
        known = (
            ("model_name", question.model, self._models),
            ("method", question.method, self._methods),
            ("gpu_model", question.gpu_model, self._gpus),
        )
        unknown = [f"{what} {name!r}" for what, name, names in known if name not in names]
        if unknown:
            return f"ado-autoconf does not know {', '.join(unknown)}"
        numbers = {
            "tokens": question.tokens_per_sample,
            "per_worker": question.gpus_per_worker,
            "max_gpus": question.max_gpus,
        }
        if recommender(question) == SAME_BATCH:
            numbers["batch"] = question.batch_size
        else:
            numbers |= {"batch": question.per_device_batch_size, "gpus": requested(question)}
        inside = all(self.header.ranges[what].holds(value) for what, value in numbers.items())
        return "" if inside else "a number is out of its range"

    def to_bytes(self) -> bytes:
        """Write the file."""
        return MAGIC + self.digest.encode() + b"\n" + self._rest

    @property
    def digest(self) -> str:
        """SHA-256 of all but the first line of the file, in which it stands."""
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
        """Read the file. Raises `PredictorError` where it is none, is damaged, or makes no sense."""
        first, _, rest = raw.partition(b"\n")
        if not first.startswith(MAGIC):
            raise PredictorError("this is no table of ado-autoconf (or one of another version)", hint=_HINT)
        if first.removeprefix(MAGIC) != sha256(rest).hexdigest().encode():
            raise PredictorError("the table is not what was compiled: its digest differs", hint=_HINT)
        line, _, packed = rest.partition(b"\n")
        try:
            header = msgspec.json.decode(line, type=Header)
            table = cls(header, _unpack(packed, header.cells))
        except (msgspec.MsgspecError, zlib.error, ValueError) as error:
            raise PredictorError(f"the table cannot be read: {error}", hint=_HINT) from error
        table.__dict__["_rest"] = rest  # as it is in the file: another zlib may compress otherwise
        return table


def _unpack(packed: bytes, cells: int) -> "array[float]":
    if not 0 < cells <= _MOST_CELLS:
        raise ValueError(f"{cells} cells")
    unpacked = array("d")
    unpacked.frombytes(zlib.decompressobj().decompress(packed, cells * unpacked.itemsize + 1))
    if sys.byteorder == "big":
        unpacked.byteswap()
    if not all(isfinite(value) and 0 <= value <= 1 for value in unpacked):
        raise ValueError("a cell is no probability")
    return unpacked


def read_table(path: Path) -> Table:
    """Read a table's file. Raises `PredictorError` where that fails."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise PredictorError(f"{path} cannot be read: {error.strerror}", hint="name the file with its path") from error
    if len(raw) > _MOST_BYTES:
        raise PredictorError(f"{path} is too large for a table", hint=_HINT)
    try:
        return Table.from_bytes(raw)
    except PredictorError as error:
        raise PredictorError(f"{path}: {error.message}", hint=error.hint) from error


class TablePredictor:
    """ado-autoconf's recommendations out of a table."""

    engine = Engine.AUTOCONF_TABLE

    def __init__(self, table: Table) -> None:
        self._table = table
        self._versions = tuple(sorted({**table.header.versions, "model": table.header.model_version}.items()))

    def versions(self) -> Mapping[str, str]:
        """Name the versions of the release that was compiled, and of its model."""
        return dict(self._versions)

    def predict(self, question: Asked, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:
        """Answer as the release that was compiled does."""
        header = self._table.header
        if question.model_version != header.model_version:
            message = f"the table is of model {header.model_version}, asked was {question.model_version}"
            raise PredictorError(message, hint=_HINT)
        foreign = self._table.foreign(question)
        if foreign:
            return self._prediction(Outcome.OUT_OF_DOMAIN, text=foreign)
        chances = tuple((*layout, self._probability(question, layout)) for layout in layouts)
        for layout in tried(question):
            if self._probability(question, layout) >= header.threshold:
                gpus, workers = spread(layout[0], question.gpus_per_worker)
                return self._prediction(Outcome.OK, gpus=gpus, workers=workers, chances=chances)
        return self._prediction(Outcome.NO_RECOMMENDATION, chances=chances)

    def _probability(self, question: Asked, layout: tuple[int, int]) -> float:
        model = question.model
        if recommender(question) == SAME_BATCH:  # the other one looks names up as they are
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
        """Nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
