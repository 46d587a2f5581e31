"""Composition root of external sizing engines: the adapter of each engine."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reconciler.adapters.predictors.batch import predict_all
from reconciler.adapters.predictors.installed import InstalledPredictor
from reconciler.adapters.predictors.rest import RestPredictor
from reconciler.adapters.predictors.wrapper import WrapperPredictor
from reconciler.app.size.record import AskEngine
from reconciler.core.config import Cluster
from reconciler.core.engines import AUTOCONF, RestSettings, WrapperSettings
from reconciler.core.sizing.answers import Answers, Reply
from reconciler.core.sizing.question import Question
from reconciler.errors import ConfigError
from reconciler.outputs.terminal.progress import progress
from reconciler.ports import Predictor
from reconciler.settings import SIZING_HOST, SIZING_TOKEN


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
