"""Composition root of external sizing engines: the adapter of each engine, and compiled tables."""

# ruff: noqa: PLC0415 - adapters are imported when they are used: each command pays only for its own

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.core.engines import AUTOCONF, AUTOCONF_TABLE, REST, WRAPPER, RestSettings, WrapperSettings
from reconciler.errors import ConfigError
from reconciler.settings import SIZING_HOST, SIZING_TOKEN

if TYPE_CHECKING:
    from reconciler.adapters.predictors.table import Table
    from reconciler.app.size.record import AskEngine, Reply
    from reconciler.core.config import Cluster
    from reconciler.core.sizing.answers import Answers
    from reconciler.core.sizing.question import Question
    from reconciler.ports import Predictor


def engine_asker(root: Path, environ: Mapping[str, str], *, python: str, table: Path | None) -> "AskEngine":
    """Return the function that asks the external sizing engine of a cluster. `root`: that of the config repository."""
    from reconciler.adapters.predictors.batch import predict_all
    from reconciler.outputs.terminal.progress import progress

    def ask(cluster: "Cluster", questions: "Sequence[Question]", recorded: "Answers") -> "Iterable[Reply]":
        with (
            predictor_of(cluster, root, environ, python=python, table=table) as predictor,
            progress(f"asking {cluster.sizing.engine.name}", total=len(questions)) as advance,
        ):
            yield from predict_all(
                predictor, questions, recorded=recorded, progress=lambda done, _: advance(1) if done else None
            )

    return ask


class _PredictorOptions(Struct, frozen=True, kw_only=True):
    """What the adapter of an engine is built from: the engine's own settings, and flags of `reconciler size`."""

    settings: Any
    root: Path
    token: str
    token_host: str
    python: str
    table: Path | None


def _wrapper(options: _PredictorOptions) -> "Predictor":
    from reconciler.adapters.predictors.wrapper import WrapperPredictor

    settings: WrapperSettings = options.settings
    return WrapperPredictor(options.root / settings.script, python=options.python, seconds=settings.timeout_seconds)


def _rest(options: _PredictorOptions) -> "Predictor":
    from reconciler.adapters.predictors.rest import RestPredictor

    settings: RestSettings = options.settings
    return RestPredictor(
        settings.url.rstrip("/"),
        token=options.token,
        token_host=options.token_host,
        call_seconds=settings.timeout_seconds,
        patience_seconds=settings.deadline_seconds,
    )


def _autoconf_table(options: _PredictorOptions) -> "Predictor":
    from reconciler.adapters.predictors.table import TablePredictor, read_table

    if options.table is None:
        hint = "pass --table FILE; `reconciler autoconf compile` writes one"
        raise ConfigError("engine autoconf-table needs a compiled table", hint=hint)
    return TablePredictor(read_table(options.table))


def _autoconf(options: _PredictorOptions) -> "Predictor":
    from reconciler.adapters.predictors.installed import InstalledPredictor

    return InstalledPredictor(options.python)


_PREDICTORS: Mapping[str, "Callable[[_PredictorOptions], Predictor]"] = {
    AUTOCONF.name: _autoconf,
    AUTOCONF_TABLE.name: _autoconf_table,
    REST.name: _rest,
    WRAPPER.name: _wrapper,
}
"""The adapter of each external sizing engine."""


def predictor_of(
    cluster: "Cluster", root: Path, environ: Mapping[str, str], *, python: str, table: Path | None
) -> "Predictor":
    """Build the adapter for the sizing engine of a cluster; `ConfigError` for an engine that is not external."""
    engine = cluster.sizing.engine
    if engine.name not in _PREDICTORS:
        raise ConfigError(f"cluster {cluster.name}: engine {engine.name} is not an external engine")
    options = _PredictorOptions(
        settings=cluster.sizing.engine_settings,
        root=root,
        token=environ.get(SIZING_TOKEN, ""),
        token_host=environ.get(SIZING_HOST, ""),
        python=python or sys.executable,
        table=table,
    )
    return _PREDICTORS[engine.name](options)


def compile_autoconf(python: str, output: Path, *, model_version: str, points: int) -> "Table":
    """Compile the model of an installed ado-autoconf into a file."""
    from reconciler.adapters.files import write_file
    from reconciler.adapters.predictors.compile import compile_table
    from reconciler.adapters.predictors.installed import InstalledPredictor
    from reconciler.outputs.terminal.progress import progress

    if not output.absolute().parent.is_dir():
        raise ConfigError(f"{output.absolute().parent}: folder does not exist", hint="create it, or name another file")
    with InstalledPredictor(python or sys.executable) as predictor, progress("questions") as advance:
        table = compile_table(predictor, version=model_version, points=points, progress=advance)
    write_file(output, table.to_bytes())
    return table


def read_autoconf_table(path: Path) -> "Table":
    """Read a compiled table and verify its digest."""
    from reconciler.adapters.predictors.table import read_table

    return read_table(path)
