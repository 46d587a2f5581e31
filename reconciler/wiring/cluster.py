"""Live clusters: the adapter behind `LiveCluster`, from flags and the environment."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from reconciler.ports.cluster import LiveCluster


class ClusterFlags(Struct, frozen=True, kw_only=True):
    """How to find a cluster and who to act as, as for kubectl. No setting: a repository must not choose credentials."""

    kubeconfig: str = ""
    context: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()


def open_cluster(flags: ClusterFlags, environ: Mapping[str, str]) -> "LiveCluster":
    """Open the cluster that the flags name: a context of a kubeconfig, or the one that this process runs in."""
    from reconciler.adapters.kubernetes import KubernetesCluster, load_access  # noqa: PLC0415 - only for live commands

    return KubernetesCluster(
        load_access(environ, kubeconfig=flags.kubeconfig, context=flags.context, user=flags.user, groups=flags.groups)
    )
