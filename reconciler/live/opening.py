"""Applying plans: the inventory of each cluster, the decision log and the clock."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from reconciler.clock import SystemClock
from reconciler.errors import ConfigError
from reconciler.kube.client.port import LiveCluster
from reconciler.live.apply import ApplyRun
from reconciler.live.apply.results import StepResult
from reconciler.plan import decisions
from reconciler.plan.live import inventory
from reconciler.plan.live.inventory import Place
from reconciler.plan.opening import Run
from reconciler.settings import Settings


def places_of(run: Run, clusters: Iterable[str]) -> dict[str, Place]:
    """Return the place of a config repository's inventory in each cluster."""
    workspace, namespace = run.workspace, run.settings.inventory_namespace
    identity = inventory.identity_of(workspace.repository, workspace.tree)
    return {name: inventory.place_of(workspace.config.name, name, namespace, identity) for name in clusters}


def apply_runs(
    run: Run,
    clusters: Mapping[str, LiveCluster],
    environ: Mapping[str, str],
    *,
    wait_seconds: float | None = None,
    advance: Callable[[StepResult], None] = lambda _: None,
    tell: Callable[[int], None] = lambda _: None,
) -> dict[str, ApplyRun]:
    """Return the settings of the apply to each cluster of a run."""
    if run.workspace.repository.is_shallow:
        text = "the clone is shallow, so it is not known which repository it is, and whose objects it may delete"
        raise ConfigError(text, hint="git fetch --unshallow")
    log = decision_log(run.settings, environ)
    clock = SystemClock()
    places = places_of(run, clusters)
    return {
        name: ApplyRun(
            live=live,
            clock=clock,
            place=places[name],
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
