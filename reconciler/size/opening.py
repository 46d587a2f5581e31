"""The files and the repository that a sizing question names, and the external engines that answer it."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from reconciler.console.progress import progress
from reconciler.errors import ConfigError
from reconciler.plan.opening import Run, open_run, read_input
from reconciler.repo.checkout_files import read_file
from reconciler.repo.config import Cluster
from reconciler.repo.files import CONFIG_PATH
from reconciler.settings import SIZING_HOST, SIZING_TOKEN
from reconciler.size.ask import parse_architecture
from reconciler.size.files import InputFile
from reconciler.size.record import AskEngine
from reconciler.sizing.answers import Answers, Reply
from reconciler.sizing.engine_registry import AUTOCONF, RestSettings, WrapperSettings
from reconciler.sizing.engines.batch import predict_all
from reconciler.sizing.engines.installed import InstalledPredictor
from reconciler.sizing.engines.port import Predictor
from reconciler.sizing.engines.rest import RestPredictor
from reconciler.sizing.engines.wrapper import WrapperPredictor
from reconciler.sizing.question import Question
from reconciler.sizing.training import Architecture

_CONFIG_SUFFIXES = (".json", ".toml", ".yaml", ".yml")

_MAX_CONFIG_BYTES = 1 << 20


def find_run(repo: str, flags: Mapping[str, Any], environ: Mapping[str, str], near: Sequence[Path]) -> Run | None:
    """Open the config repository that holds the first named file, or `repo`; None if there is none."""
    named = next((path for path in near if str(path) != "-"), None)
    start = Path(repo) if repo != "." or named is None else named.absolute().parent
    folder = start.absolute()
    if repo == "." and not any((parent / CONFIG_PATH).is_file() for parent in (folder, *folder.parents)):
        return None
    return open_run(str(start), flags, environ)


def input_file(path: Path, run: Run | None) -> InputFile:
    """Read a file that the user names (`-`: standard input)."""
    content = read_input(path)
    if str(path) == "-":
        return InputFile(path="-", content=content)
    folder = path.absolute().parent
    inside = ""
    if run is not None:
        root, resolved = run.workspace.repository.root.resolve(), path.resolve()
        inside = resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else ""
    siblings = cache(lambda: configurations(folder))
    return InputFile(path=str(path), content=content, inside=inside, folder=str(folder), siblings=siblings)


def configurations(folder: Path | None = None) -> dict[str, bytes]:
    """Return the configuration files of a folder (None: the current one) by name, without large ones."""
    folder = folder or Path()
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in _CONFIG_SUFFIXES and path.is_file()]
    return {path.name: path.read_bytes() for path in paths if path.stat().st_size <= _MAX_CONFIG_BYTES}


def nearby(written: str) -> bytes | None:
    """Read a file that a launch line names, as the launcher would from the current folder; None if there is none."""
    path = Path(written)
    try:
        is_readable = path.is_file() and path.stat().st_size <= _MAX_CONFIG_BYTES
        return path.read_bytes() if is_readable else None
    except (OSError, ValueError):  # a name that no file can have, or one that may not be read
        return None


def local_model(model: str) -> Architecture | None:
    """Read the `config.json` of a model in a folder or file of this machine; None for the name of a model."""
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json" or not path.is_file():
        if model.startswith((".", "/", "~")):  # no model has such a name
            raise ConfigError(f"--model: {model} has no config.json", hint="name the folder of a Hugging Face model")
        return None

    name = path.parent.absolute().name if path.name == "config.json" else path.stem
    return parse_architecture(read_file(path)[: _MAX_CONFIG_BYTES + 1], str(path), name)


def engine_asker(root: Path, environ: Mapping[str, str], *, python: str) -> AskEngine:
    """Return the function that asks the external sizing engine of a cluster. `root`: that of the config repository."""

    def ask(cluster: Cluster, questions: Sequence[Question], recorded: Answers) -> Iterable[Reply]:
        with (
            predictor_of(cluster, root, environ, python=python) as predictor,
            progress(f"asking {cluster.sizing.engine.name}", total=len(questions)) as advance,
        ):
            yield from predict_all(
                predictor, questions, recorded=recorded, progress=lambda done, _: advance(1) if done else None
            )

    return ask


def predictor_of(cluster: Cluster, root: Path, environ: Mapping[str, str], *, python: str) -> Predictor:
    """Build the adapter for the sizing engine of a cluster; `ConfigError` for an engine that is not external."""
    engine, settings = cluster.sizing.engine, cluster.sizing.engine_settings
    python = python or sys.executable
    match settings:
        case WrapperSettings():
            return WrapperPredictor(root / settings.script, python=python, seconds=settings.timeout_seconds)
        case RestSettings():
            return RestPredictor(
                settings.url.rstrip("/"),
                token=environ.get(SIZING_TOKEN, ""),
                token_host=environ.get(SIZING_HOST, ""),
                call_seconds=settings.timeout_seconds,
                patience_seconds=settings.deadline_seconds,
            )
        case None if engine == AUTOCONF:
            return InstalledPredictor(python)
    raise ConfigError(f"cluster {cluster.name}: engine {engine.name} is not an external engine")
