"""What `reconciler size` needs: files and tables of runs in, answers, edits and evidence out."""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from reconciler.app.sized_files import Around, Found, SizedFile, size_file, within
from reconciler.core.config import Cluster, Goal, SizedJobs, SizingSettings
from reconciler.core.problems import Severity
from reconciler.core.sized.sizing import Surroundings
from reconciler.core.sizing.answers import Answers
from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.decide import decide
from reconciler.core.sizing.gpus import closest_gpus, find_gpu
from reconciler.core.sizing.ladder import Bounds, ladder
from reconciler.core.sizing.memory import estimate, fits
from reconciler.core.sizing.models import architecture_of
from reconciler.core.sizing.note import note, reading
from reconciler.core.sizing.rows import training_of_row
from reconciler.errors import ConfigError, InvalidInput
from reconciler.outputs.sizes import SizeAnswer, row_json
from reconciler.revision.layout import CONFIG_PATH

if TYPE_CHECKING:
    from reconciler.core.documents import Document
    from reconciler.wiring import Session

_MOST_CONFIG_BYTES = 1 << 20
_SUFFIXES = (".json", ".yaml", ".yml")


def size_row(row: Mapping[str, str], bounds: Bounds, *, gpus: int | None) -> SizeAnswer:
    """Answer a question that was asked by flags; raises `ConfigError` with what is wrong with it."""
    found = ladder(row, bounds, gpus=gpus, architecture=_local_model(row["model"]))
    if isinstance(found, str):
        column, _, rest = found.partition("; gpu_mem_gib")[0].partition(": ")  # a column that no flag sets
        raise ConfigError(
            f"--{_FLAGS.get(column, column)}: {rest}" if rest else found, hint="see reconciler size --help"
        )
    told = note(found.decision, read=reading(found.question, ()))
    return SizeAnswer(question=found.question, decision=found.decision, note=told, requested=found.requested)


_FLAGS = {
    "gpu_model": "gpu",
    "per_gpu_batch": "batch",
    "grad_accum": "grad-accum",
}


def _local_model(model: str) -> Architecture | None:
    """Read a model's `config.json` where `model` is a folder or file of this machine."""
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json" or not path.is_file():
        return None
    from reconciler.adapters.files import read_file  # noqa: PLC0415 - most models are named

    raw = read_file(path)
    try:
        config = msgspec.json.decode(raw[: _MOST_CONFIG_BYTES + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}", hint="give the model's own config.json") from error
    name = path.parent.absolute().name if path.name == "config.json" else path.stem
    found = architecture_of(config, name) if isinstance(config, dict) else "it is no mapping"
    if isinstance(found, str):
        raise ConfigError(f"{path} does not tell the model's shape: {found}", hint="give the model's own config.json")
    return found


def size_table(text: str, safety: float) -> Iterator[dict[str, Any]]:
    """Answer each row of a table of runs; a row that cannot be read gives its `error`."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if "model" not in (reader.fieldnames or ()):
        hint = "columns are those of docs/sizing.md: id, model, method, gpu_model, gpus, seq, per_gpu_batch …"
        raise ConfigError("the table has no column `model`", hint=hint)
    try:
        for number, row in enumerate(reader, 1):
            cells = {key: value for key, value in row.items() if isinstance(key, str) and isinstance(value, str)}
            yield _answer(cells.get("id") or str(number), cells, safety)
    except csv.Error as error:
        raise ConfigError(f"the table cannot be read: after line {reader.line_num}: {error}") from error


def _answer(identity: str, row: Mapping[str, str], safety: float) -> dict[str, Any]:
    read = training_of_row(row)
    if isinstance(read, str):
        return {"id": identity, "error": read}
    training, layout, gpu = read
    predicted = estimate(training, layout, gpu)
    return row_json(identity, predicted, fits=fits(predicted, gpu, safety))


def table_lines(path: Path, safety: float) -> Iterator[str]:
    """Yield a JSON object a line for each row of a table of runs (`-`: standard input)."""
    from reconciler.adapters.files import read_file  # noqa: PLC0415 - late, as all adapters

    raw = sys.stdin.buffer.read() if str(path) == "-" else read_file(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}") from error
    for answer in size_table(text, safety):
        yield msgspec.json.encode(answer).decode() + "\n"


def bounds_of(flags: Mapping[str, Any]) -> Bounds:
    """Read how far to look from flags; `--nodes` spreads `--gpus` (or eight on each)."""
    each = 8
    if flags["nodes"] and flags["gpus"]:
        each = -(-flags["gpus"] // flags["nodes"])
    return Bounds(
        gpus_per_worker=each,
        max_gpus=max(flags["max_gpus"], flags["gpus"] or 1),
        safety=flags["safety"],
        allow_paged=flags["allow_paged"],
    )


def open_desk(
    repo: str,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    settings: SizingSettings,
    *,
    near: Sequence[Path] = (),
    again: bool,
) -> "tuple[Desk, Session | None]":
    """Open the config repository where there is one; `settings` are for files that lie in none.

    Where `repo` is not given (`.`), it is looked for from the first of the files that were named.
    """
    from reconciler.wiring import open_session  # noqa: PLC0415 - a circle otherwise

    named = next((path for path in near if str(path) != "-"), None)
    start = Path(repo) if repo != "." or named is None else named.absolute().parent
    within_one = repo != "." or any((folder / CONFIG_PATH).is_file() for folder in _upwards(start.absolute()))
    session = open_session(str(start), flags, environ) if within_one else None
    return Desk(session, settings, again=again), session


def _upwards(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.parents


def raise_if_wrong(files: Iterable[SizedFile], named: Sequence[str]) -> None:
    """Say all that is wrong with files that were named; `ConfigError` where none holds a training job."""
    held = list(files)
    wrong = [problem for file in held for problem in file.problems]
    errors = [problem for problem in wrong if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    if not any(file.jobs for file in held):
        kinds = "PyTorchJob, AppWrapper, Job, JobSet, TrainJob, RayJob, TorchrunJob"
        raise ConfigError(f"there is no training job in {', '.join(named)}", hint=f"kinds that can be sized: {kinds}")


class Desk:
    """Sizes files: as the config repository that they lie in says, or on their own."""

    def __init__(self, session: "Session | None", settings: SizingSettings, *, again: bool) -> None:
        self._session = session
        self._settings = settings
        self._again = again

    def named(self, path: Path, raw: bytes | None = None, *, again: bool = True) -> SizedFile:
        """Size a file that a person has named; `raw` where it came by standard input."""
        from reconciler.adapters.files import read_file  # noqa: PLC0415 - late, as all adapters
        from reconciler.wiring.shipped import Shipped  # noqa: PLC0415 - late, as all that reads

        content = read_file(path) if raw is None else raw
        inside = self._path_in_repository(path) if raw is None else None
        if self._session is None or inside is None:
            folder = None if raw is not None else path.absolute().parent
            shown = "-" if raw is not None else str(path)
            return size_file(shown, content, _alone(self._settings, folder), Shipped().catalogue, again=again)
        context = self._session.head.context
        around = _on_card(within(context, chosen=False), self._settings.default_gpu_model)
        return size_file(inside, content, around, context.catalogue, again=again)

    def holds(self, path: Path) -> bool:
        """Whether a file is a source of the config repository, so that its settings hold."""
        return str(path) != "-" and self._path_in_repository(path) is not None

    def chosen(self) -> list[SizedFile]:
        """Size all jobs of the repository's sources that its settings choose."""
        if self._session is None:
            raise ConfigError("this is no config repository", hint="name a file, or give --repo DIR")
        head = self._session.head
        repository, around = self._session.tools.repository, within(head.context, chosen=True, again=self._again)
        paths = sorted(head.layout.sources)
        contents = repository.read([head.layout.sources[path] for path in paths])
        found = [
            size_file(path, raw, around, head.context.catalogue, again=self._again, named=False)
            for path, raw in zip(paths, contents, strict=True)
        ]
        return [file for file in found if file.jobs]

    def to_write(self, files: Sequence[Path]) -> list[SizedFile]:
        """Size what is to be edited: the named files, or all that the settings choose."""
        if not files:
            return self.chosen()
        return [self.named(path, again=self._again) for path in files]

    def _path_in_repository(self, path: Path) -> str | None:
        """Return the path of a source file below the repository's root; None where it is none."""
        if self._session is None:
            return None
        head = self._session.head
        root = head.tools.repository.root.resolve()
        resolved = path.resolve()
        inside = resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else ""
        return inside if inside in head.layout.sources else None


def _on_card(around: Around, product: str) -> Around:
    """Size for the card that a person asks about (empty: none), where the job itself names none."""
    if not product:
        return around

    def asked(document: "Document") -> Iterator[tuple[Cluster | None, Surroundings]]:
        for cluster, surrounding in around(document):
            yield cluster, replace(surrounding, settings=replace(surrounding.settings, default_gpu_model=product))

    return asked


def _alone(settings: SizingSettings, folder: Path | None) -> Any:
    """Size documents without a repository: the files beside the job are all that its line may name."""
    beside = _beside(folder) if folder is not None else {}
    name = "" if folder is None else f"{folder}/"

    def around(_: "Document") -> Iterable[tuple[Cluster | None, Surroundings]]:
        offered = tuple(filter(None, [find_gpu(settings.default_gpu_model)]))
        yield (
            None,
            Surroundings(
                settings=settings,
                answers=Answers(),
                offered=offered,
                paths=tuple(beside),
                file=lambda path: beside.get(path) or beside.get(path.removeprefix(name)),
            ),
        )

    return around


def _beside(folder: Path) -> dict[str, bytes]:
    """Return the configurations beside a file; large files are none."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _MOST_CONFIG_BYTES:
            found[path.name] = path.read_bytes()
    return found


def standalone_settings(gpu: str, goal: str, bounds: Bounds) -> SizingSettings:
    """Return the settings of files that lie in no config repository; raises `ConfigError` for an unknown card."""
    if gpu and find_gpu(gpu) is None:
        near = closest_gpus(gpu)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "write it as the node label nvidia.com/gpu.product says"
        )
        raise ConfigError(f"--gpu {gpu} is not known", hint=hint)
    return SizingSettings(
        select=SizedJobs(every=True),
        goal=Goal(goal),
        gpus_per_worker=bounds.gpus_per_worker,
        max_gpus=bounds.max_gpus,
        safety=bounds.safety,
        allow_paged=bounds.allow_paged,
        default_gpu_model=gpu,
    )


def answers_of(file: SizedFile, gpus: int | None) -> list[SizeAnswer]:
    """Return the answers of a file's jobs, with the whole table of candidates; `gpus` is the user's own choice."""
    return [_told(found, gpus) for found in file.jobs if found.job.decision is not None]


def _told(found: Found, gpus: int | None) -> SizeAnswer:
    job = found.job
    decision = job.decision
    if decision is None or job.told is None:
        raise TypeError(f"{job.document.source} has no decision")
    card = decision.chosen.gpu if decision.chosen else job.questions[0].gpu
    question = next(one for one in job.questions if one.gpu == card)
    requested = None
    if gpus is not None:
        own = replace(question, processes=gpus, requested_gpus=gpus, max_gpus=gpus, goal=Goal.AVOID_OOM)
        requested = next(iter(decide(own).candidates), None)
    where = f" on {found.cluster.name}" if found.cluster else ""
    return SizeAnswer(
        question=question,
        decision=decision,
        note=job.told(),
        name=f"{job.document.key}{where}  {job.document.source}",
        requested=requested,
    )


def write_files(files: Iterable[SizedFile], root: Path) -> list[str]:
    """Write the numbers into the files, below `root`; returns those that changed.

    Raises `InvalidInput`, and writes nothing, where any of them is wrong.
    """
    from reconciler.adapters.files import write_file  # noqa: PLC0415 - late, as all adapters

    edited = [(file, *file.edited()) for file in files]
    wrong = [problem for file, _, problems in edited for problem in (*file.problems, *problems)]
    errors = [problem for problem in wrong if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    changed = [(file, content) for file, content, _ in edited if content != file.raw]
    for file, content in changed:
        write_file(root / file.path, content)
    return [file.path for file, _ in changed]
