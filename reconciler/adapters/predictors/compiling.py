"""Compile the model of an installed ado-autoconf into a `Table`, and prove that both say the same."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from math import floor
from random import Random

from msgspec import field

from reconciler.adapters.predictors.asked import tried
from reconciler.adapters.predictors.installed import InstalledPredictor, Reply
from reconciler.adapters.predictors.table import Header, Range, Table, TablePredictor
from reconciler.core.config import Goal
from reconciler.core.sizing.question import Asked
from reconciler.errors import PredictorError

POINTS = 20_000  # random points on which table and model must agree
QUESTIONS = 300  # whole questions to its recommenders, which are slow
_ROWS = 10_000  # rows of one call
_LARGEST = 1 << 23  # the largest power of two within its ranges
_HINT = "this release of ado-autoconf cannot be compiled; use the engine `autoconf`"
_TREES = "CatBoostModel"
_SUM = "WeightedEnsembleModel"
Row = tuple[str, str, str, int, int, int]  # model, method, gpu, GPUs in all, tokens, batch over all GPUs
Progress = Callable[[int], object]
"""Called with the number of rows done since the last call."""


class _Described(Reply, frozen=True, kw_only=True):
    kinds: tuple[str, ...] = ()
    borders: dict[str, tuple[float, ...]] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    threshold: float = 0.5
    model_sha256: str = ""


class _Probabilities(Reply, frozen=True, kw_only=True):
    probabilities: tuple[float, ...] = ()


class _Verdicts(Reply, frozen=True, kw_only=True):
    verdicts: tuple[int, ...] = ()


def compile_table(
    predictor: InstalledPredictor, *, version: str = "3.1.0", points: int = POINTS, progress: Progress = lambda _: None
) -> Table:
    """Ask the model for every cell, then compare table and model on random points and whole questions.

    Raises `PredictorError` where the model is not of trees alone, or where both differ anywhere.
    """
    versions = dict(predictor.versions())
    described = predictor.ask("describe", [version], _Described, version=version)
    _refuse_other_models(described, versions)
    header = _header(described, versions, version, points)
    cells = array("d")
    for _, probabilities in _asked(predictor, version, _representatives(header), progress):
        cells.extend(probabilities)
    table = Table(header, cells)
    _compare_points(predictor, table, points, progress)
    _compare_questions(predictor, table, progress)
    return table


def _refuse_other_models(described: _Described, versions: dict[str, str]) -> None:
    others = [kind for kind in described.kinds if kind not in {_TREES, _SUM}]
    if others or _TREES not in described.kinds:
        release = versions.get("ado-autoconf", "of unknown version")
        raise PredictorError(
            f"the model of ado-autoconf {release} holds more than trees ({', '.join(others) or 'none'}): what a network"
            " says changes with every number, so that no table of cells can say the same",
            hint="compile model 3.1.0 of ado-autoconf 1.9.7, or use the engine `autoconf`",
        )


def _header(described: _Described, versions: dict[str, str], version: str, points: int) -> Header:
    number_gpus, tokens, batch = (
        described.borders[name] for name in ("number_gpus", "tokens_per_sample", "batch_size")
    )
    try:
        return Header(
            versions=versions,
            model_version=version,
            model_sha256=described.model_sha256,
            models=described.models,
            methods=described.methods,
            gpus=described.gpus,
            renamed=described.renamed,
            ranges={name: Range(low=low, end=end) for name, (low, end) in described.ranges.items()},
            borders=(number_gpus, tokens, batch),
            threshold=described.threshold,
            points=points,
        )
    except ValueError as error:
        raise PredictorError(f"the model cannot be compiled: {error}", hint=_HINT) from error


def _representatives(header: Header) -> Iterator[Row]:
    """One whole number of every cell, in the order of the cells."""
    axes = [
        # The largest whole number of a cell is that of its upper border; the last cell has none.
        [max(floor(border), 1) for border in borders] + [floor(borders[-1] if borders else 0) + 1]
        for borders in header.borders
    ]
    for model, method, gpu in product(header.models, header.methods, header.gpus):
        for gpus, tokens, batch in product(*axes):
            yield model, method, gpu, gpus, tokens, batch


def _asked(
    predictor: InstalledPredictor, version: str, rows: Iterable[Row], progress: Progress
) -> Iterator[tuple[Sequence[Row], Sequence[float]]]:
    """Ask for many probabilities."""
    rows = iter(rows)
    while chunk := list(islice(rows, _ROWS)):
        reply = predictor.ask("probabilities", [version, chunk], _Probabilities, version=version)
        if len(reply.probabilities) != len(chunk):
            raise PredictorError(f"ado-autoconf gave {len(reply.probabilities)} answers to {len(chunk)} questions")
        yield chunk, reply.probabilities
        progress(len(chunk))


def _random_rows(header: Header, points: int, chance: Random) -> Iterator[Row]:
    """Points of the whole domain; half of the numbers lie at a border, where a slip would show."""
    names = (header.models, header.methods, header.gpus)
    for _ in range(points):
        model, method, gpu = (chance.choice(each) for each in names)
        gpus, tokens, batch = (_number(chance, borders, _LARGEST) for borders in header.borders)
        yield model, method, gpu, gpus, tokens, batch


def _number(chance: Random, borders: Sequence[float], most: int) -> int:
    if borders and chance.random() < 0.5:  # noqa: PLR2004 - a coin
        return max(1, floor(chance.choice(borders)) + chance.randint(-1, 1))
    return int(2 ** chance.uniform(0, most.bit_length() - 1))


def _compare_points(predictor: InstalledPredictor, table: Table, points: int, progress: Progress) -> None:
    header = table.header
    chance = Random(header.model_sha256)  # noqa: S311 - the same points for the same model
    for rows, probabilities in _asked(predictor, header.model_version, _random_rows(header, points, chance), progress):
        reply = predictor.ask("verdicts", [header.model_version, rows], _Verdicts, version=header.model_version)
        if len(reply.verdicts) != len(rows):
            raise PredictorError(f"ado-autoconf gave {len(reply.verdicts)} verdicts on {len(rows)} questions")
        for row, probability, verdict in zip(rows, probabilities, reply.verdicts, strict=True):
            found = table.probability(*row[:3], row[3:])
            if found != probability or (found >= header.threshold) != bool(verdict):
                raise _differs(row, found, f"{probability} ({verdict})")


def _compare_questions(predictor: InstalledPredictor, table: Table, progress: Progress) -> None:
    """Put whole questions, some of them outside of the domain, to both."""
    header = table.header
    chance = Random(header.model_sha256)  # noqa: S311 - as above
    compiled = TablePredictor(table)
    same = ("outcome", "gpus", "workers", "chances", "text")
    for number in range(QUESTIONS):
        question = _question(header, chance, number)
        layouts = tried(question)
        said, found = predictor.predict(question, layouts), compiled.predict(question, layouts)
        if any(getattr(said, name) != getattr(found, name) for name in same):
            raise _differs(question, found, said)
        progress(1)


def _question(header: Header, chance: Random, number: int) -> Asked:
    """Make a question such as jobs ask; every tenth is of a model that there is not."""
    gpus = chance.randint(1, 64)
    each = chance.choice((chance.randint(1, 64), 1 << chance.randint(0, 6)))
    return Asked(
        model="no-such-model" if number % 10 == 0 else chance.choice(header.models),
        method=chance.choice(header.methods),
        gpu_model=chance.choice(header.gpus),
        tokens_per_sample=_number(chance, header.borders[1], 1 << 15),
        batch_size=each * chance.choice((1, 2, gpus)),
        per_device_batch_size=each,
        goal=Goal.AVOID_OOM if number % 2 else Goal.MIN_GPU,
        number_gpus=gpus,
        gpus_per_worker=chance.choice((1, 4, 8)),
        max_gpus=chance.choice((8, 64, chance.randint(1, 200))),
        model_version=header.model_version,
    )


def _differs(about: object, found: object, said: object) -> PredictorError:
    return PredictorError(
        f"the table does not say what the model says, and was not written: {about}: {found} instead of {said}",
        hint=_HINT,
    )
