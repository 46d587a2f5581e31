"""The live clusters of a repository: which of them flags and contexts name."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.console.access import ClusterFlags, open_cluster
from reconciler.errors import ConfigError
from reconciler.plan.live.choices import LiveChoices
from reconciler.plan.opening import Run
from reconciler.repo.config import Cluster, Config
from reconciler.settings import Settings

if TYPE_CHECKING:
    from reconciler.kube.client.port import LiveCluster


def cluster_opener(
    flags: ClusterFlags, environ: Mapping[str, str], config: Config, settings: Settings
) -> "Callable[[Cluster], LiveCluster]":
    """Return what opens a cluster of the repository.

    Of several clusters each has a context of its own name. The flags name the only cluster, or the chosen one.
    """
    is_only = len(config.clusters) == 1
    if flags.context and not (is_only or settings.cluster):
        raise ConfigError("--context names one cluster, but several are chosen", hint="choose one with --cluster")

    def opener(cluster: Cluster) -> "LiveCluster":
        from reconciler.kube.client import has_kubeconfig  # noqa: PLC0415 - only for live commands

        is_named = is_only or bool(flags.context)
        is_pod = bool(settings.cluster) and not has_kubeconfig(environ, kubeconfig=flags.kubeconfig)
        named = flags if is_named or is_pod else replace(flags, context=cluster.name)
        return open_cluster(named, environ, patience=settings.server_patience)

    return opener


def live_choices(settings: Settings, *, adopt: frozenset[str] = frozenset()) -> LiveChoices:
    """Return what decides about live objects besides the repository. Rules about drift expire by the clock."""
    return LiveChoices(adopt=adopt, today=settings.date or dt.datetime.now(dt.UTC).date().isoformat())


@contextmanager
def open_clusters(flags: ClusterFlags, environ: Mapping[str, str], run: Run) -> "Iterator[Mapping[str, LiveCluster]]":
    """Open the clusters of a run, by name, while the block runs: all of them, or the chosen one."""
    chosen, config = run.settings.cluster, run.workspace.config
    opener = cluster_opener(flags, environ, config, run.settings)
    with ExitStack() as stack:
        clusters = [cluster for cluster in config.clusters if chosen in ("", cluster.name)]
        yield {cluster.name: stack.enter_context(opener(cluster)) for cluster in clusters}
