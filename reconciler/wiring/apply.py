"""Applying plans: the inventory of each cluster, the decision log and the clock."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.adapters import decisions
from reconciler.adapters.clock import SystemClock
from reconciler.app.apply import ApplyRun
from reconciler.errors import ConfigError
from reconciler.planning.live import inventory
from reconciler.planning.live.inventory import Place
from reconciler.settings import Settings

if TYPE_CHECKING:
    from reconciler.core.apply.results import StepResult
    from reconciler.ports.cluster import LiveCluster
    from reconciler.wiring import Run


def place_of(run: "Run", cluster: str) -> Place:
    """Return where a cluster keeps the inventory of a config repository."""
    repository, head = run.workspace.runtime.repository, inventory.head_of(run.workspace.tree)
    identity = repository.identity(head) if head else ""
    return inventory.place_of(run.workspace.config.name, cluster, run.settings.inventory_namespace, identity)


def apply_runs(
    run: "Run",
    clusters: "Mapping[str, LiveCluster]",
    environ: Mapping[str, str],
    *,
    wait_seconds: float,
    advance: "Callable[[StepResult], None]",
    tell: Callable[[int], None],
) -> dict[str, ApplyRun]:
    """Return how each cluster of a run is applied to."""
    if run.workspace.runtime.repository.is_shallow:
        text = "the clone is shallow, so it is not known which repository it is, and whose objects it may delete"
        raise ConfigError(text, hint="git fetch --unshallow")
    log = decision_log(run.settings, environ)
    clock = SystemClock()
    return {
        name: ApplyRun(
            live=live,
            clock=clock,
            place=place_of(run, name),
            log=lambda line: decisions.append_line(log, line),
            wait_seconds=wait_seconds,
            advance=advance,
            tell=tell,
        )
        for name, live in clusters.items()
    }


def decision_log(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return the file of the decision log."""
    path = Path(settings.decision_log).absolute() if settings.decision_log else decisions.default_path(environ)
    if path is None:
        raise ConfigError("there is no home folder for the decision log", hint="name a file with --decision-log")
    return path
