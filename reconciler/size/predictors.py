"""Opens external sizing engines, as the configuration of a cluster names them."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reconciler.console.progress import progress
from reconciler.errors import ConfigError
from reconciler.repo.config import Cluster
from reconciler.settings import SIZING_HOST, SIZING_TOKEN
from reconciler.size.record import AskEngine
from reconciler.sizing.answers import Answers, Reply
from reconciler.sizing.engine_registry import AUTOCONF, RestSettings, WrapperSettings
from reconciler.sizing.engines.batch import predict_all
from reconciler.sizing.engines.installed import InstalledPredictor
from reconciler.sizing.engines.port import Predictor
from reconciler.sizing.engines.rest import RestPredictor
from reconciler.sizing.engines.wrapper import WrapperPredictor
from reconciler.sizing.question import Question


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
