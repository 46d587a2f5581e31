"""Compile the model of an installed ado-autoconf into a `Table`, and verify that both give the same answers."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from math import floor
from random import Random

from msgspec import field

from reconciler.adapters.predictors.installed import ChildReply, InstalledPredictor
from reconciler.adapters.predictors.recommender import candidate_layouts
from reconciler.adapters.predictors.table import NumberRange, Table, TableHeader, TablePredictor
from reconciler.core.config import Goal
from reconciler.core.sizing.question import EngineQuestion
from reconciler.errors import PredictorError

POINTS = 20_000  # random points on which table and model must agree
QUESTIONS = 300  # complete questions; its recommenders are slow
_ROWS_PER_CALL = 10_000
_MAX_NUMBER = 1 << 23  # the largest power of two within its ranges
_HINT = "this release of ado-autoconf cannot be compiled; use the engine `autoconf`"
_TREE_MODEL = "CatBoostModel"
_ENSEMBLE = "WeightedEnsembleModel"
Row = tuple[str, str, str, int, int, int]  # model, method, gpu, GPUs in all, tokens, batch over all GPUs
Progress = Callable[[int], object]
"""Called with the number of rows done since the last call."""


class _DescribeReply(ChildReply, frozen=True, kw_only=True):
    kinds: tuple[str, ...] = ()
    borders: dict[str, tuple[float, ...]] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    threshold: float = 0.5
    model_sha256: str = ""


class _ProbabilitiesReply(ChildReply, frozen=True, kw_only=True):
    probabilities: tuple[float, ...] = ()


class _VerdictsReply(ChildReply, frozen=True, kw_only=True):
    verdicts: tuple[int, ...] = ()


def compile_table(
    predictor: InstalledPredictor, *, version: str = "3.1.0", points: int = POINTS, progress: Progress = lambda _: None
) -> Table:
    """Evaluate the model for every cell, then compare table and model on random points and complete questions.

    Raises `PredictorError` if the model has more than trees, or if the two ever differ.
    """
    versions = dict(predictor.versions())
    described = predictor.ask("describe", [version], _DescribeReply, version=version)
    _reject_other_models(described, versions)
    header = _header(described, versions, version, points)
    cells = array("d")
    for _, probabilities in _evaluate(predictor, version, _representatives(header), progress):
        cells.extend(probabilities)
    table = Table(header, cells)
    _compare_points(predictor, table, points, progress)
    _compare_questions(predictor, table, progress)
    return table


def _reject_other_models(described: _DescribeReply, versions: dict[str, str]) -> None:
    other_kinds = [kind for kind in described.kinds if kind not in {_TREE_MODEL, _ENSEMBLE}]
    if other_kinds or _TREE_MODEL not in described.kinds:
        release = versions.get("ado-autoconf", "of unknown version")
        raise PredictorError(
            f"the model of ado-autoconf {release} is not only decision trees ({', '.join(other_kinds) or 'no model'}):"
            " the output of other models changes with every number, so no table can replace them",
            hint="compile model 3.1.0 of ado-autoconf 1.9.7, or use the engine `autoconf`",
        )


def _header(described: _DescribeReply, versions: dict[str, str], version: str, points: int) -> TableHeader:
    number_gpus, tokens, batch = (
        described.borders[name] for name in ("number_gpus", "tokens_per_sample", "batch_size")
    )
    try:
        return TableHeader(
            versions=versions,
            model_version=version,
            model_sha256=described.model_sha256,
            models=described.models,
            methods=described.methods,
            gpus=described.gpus,
            renamed=described.renamed,
            ranges={name: NumberRange(low=low, end=end) for name, (low, end) in described.ranges.items()},
            borders=(number_gpus, tokens, batch),
            threshold=described.threshold,
            points=points,
        )
    except ValueError as error:
        raise PredictorError(f"the model cannot be compiled: {error}", hint=_HINT) from error


def _representatives(header: TableHeader) -> Iterator[Row]:
    """Yield one whole number of every cell, in the order of the cells."""
    axes = [
        # The largest whole number of a cell is that of its upper border; the last cell has none.
        [max(floor(border), 1) for border in borders] + [floor(borders[-1] if borders else 0) + 1]
        for borders in header.borders
    ]
    for model, method, gpu in product(header.models, header.methods, header.gpus):
        for gpus, tokens, batch in product(*axes):
            yield model, method, gpu, gpus, tokens, batch


def _evaluate(
    predictor: InstalledPredictor, version: str, rows: Iterable[Row], progress: Progress
) -> Iterator[tuple[Sequence[Row], Sequence[float]]]:
    """Yield the probabilities of many rows, in chunks."""
    rows = iter(rows)
    while chunk := list(islice(rows, _ROWS_PER_CALL)):
        reply = predictor.ask("probabilities", [version, chunk], _ProbabilitiesReply, version=version)
        if len(reply.probabilities) != len(chunk):
            raise PredictorError(f"ado-autoconf sent {len(reply.probabilities)} probabilities for {len(chunk)} rows")
        yield chunk, reply.probabilities
        progress(len(chunk))


def _random_rows(header: TableHeader, points: int, random: Random) -> Iterator[Row]:
    """Yield points of the whole domain; half of the numbers lie at a border, where an error would show."""
    names = (header.models, header.methods, header.gpus)
    for _ in range(points):
        model, method, gpu = (random.choice(values) for values in names)
        gpus, tokens, batch = (_number(random, borders, _MAX_NUMBER) for borders in header.borders)
        yield model, method, gpu, gpus, tokens, batch


def _number(random: Random, borders: Sequence[float], maximum: int) -> int:
    if borders and random.random() < 0.5:  # noqa: PLR2004 - a coin
        return max(1, floor(random.choice(borders)) + random.randint(-1, 1))
    return int(2 ** random.uniform(0, maximum.bit_length() - 1))


def _compare_points(predictor: InstalledPredictor, table: Table, points: int, progress: Progress) -> None:
    header = table.header
    random = Random(header.model_sha256)  # noqa: S311 - the same points for the same model
    for rows, probabilities in _evaluate(
        predictor, header.model_version, _random_rows(header, points, random), progress
    ):
        reply = predictor.ask("verdicts", [header.model_version, rows], _VerdictsReply, version=header.model_version)
        if len(reply.verdicts) != len(rows):
            raise PredictorError(f"ado-autoconf sent {len(reply.verdicts)} verdicts for {len(rows)} rows")
        for row, probability, verdict in zip(rows, probabilities, reply.verdicts, strict=True):
            compiled = table.probability(*row[:3], row[3:])
            if compiled != probability or (compiled >= header.threshold) != bool(verdict):
                raise _difference(row, compiled, f"{probability} ({verdict})")


def _compare_questions(predictor: InstalledPredictor, table: Table, progress: Progress) -> None:
    """Compare the predictions for complete questions, some of them outside the domain."""
    header = table.header
    random = Random(header.model_sha256)  # noqa: S311 - as above
    compiled = TablePredictor(table)
    compared = ("outcome", "gpus", "workers", "chances", "text")
    for number in range(QUESTIONS):
        question = _question(header, random, number)
        layouts = candidate_layouts(question)
        expected, actual = predictor.predict(question, layouts), compiled.predict(question, layouts)
        if any(getattr(expected, name) != getattr(actual, name) for name in compared):
            raise _difference(question, actual, expected)
        progress(1)


def _question(header: TableHeader, random: Random, number: int) -> EngineQuestion:
    """Return a random question; every tenth names a model that does not exist."""
    gpus = random.randint(1, 64)
    per_gpu = random.choice((random.randint(1, 64), 1 << random.randint(0, 6)))
    return EngineQuestion(
        model="no-such-model" if number % 10 == 0 else random.choice(header.models),
        method=random.choice(header.methods),
        gpu_model=random.choice(header.gpus),
        tokens_per_sample=_number(random, header.borders[1], 1 << 15),
        batch_size=per_gpu * random.choice((1, 2, gpus)),
        per_device_batch_size=per_gpu,
        goal=Goal.AVOID_OOM if number % 2 else Goal.MIN_GPU,
        number_gpus=gpus,
        gpus_per_worker=random.choice((1, 4, 8)),
        max_gpus=random.choice((8, 64, random.randint(1, 200))),
        model_version=header.model_version,
    )


def _difference(subject: object, actual: object, expected: object) -> PredictorError:
    return PredictorError(
        f"the table differs from the model and was not written: {subject}: got {actual}, expected {expected}",
        hint=_HINT,
    )
