"""One live cluster from the flags of kubectl and the environment: the adapter behind `LiveCluster`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.settings import Settings

if TYPE_CHECKING:
    from reconciler.kube.client.port import Discovery, LiveCluster


class ClusterFlags(Struct, frozen=True, kw_only=True):
    """The flags of kubectl for a cluster and an identity. No setting: a repository must not choose credentials."""

    kubeconfig: str = ""
    context: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()


def open_cluster(
    flags: ClusterFlags,
    environ: Mapping[str, str],
    *,
    patience: float = Settings().server_patience,
    is_expected: bool = False,
    known: "Discovery | None" = None,
) -> "LiveCluster":
    """Open the cluster that the flags name: a context of a kubeconfig, or the one that this process runs in.

    patience: seconds to ask a busy or restarting server again. is_expected: also one that never answered before.
    known: kinds that need not be discovered.
    """
    from reconciler.kube.client import KubernetesCluster, load_access  # noqa: PLC0415 - only for live commands

    return KubernetesCluster(
        load_access(environ, **asdict(flags)), patience_seconds=patience, is_expected=is_expected, known=known
    )


def access_flags(flags: Mapping[str, Any]) -> ClusterFlags:
    """Return the flags of `console.options.access`."""
    return ClusterFlags(
        kubeconfig=flags["kubeconfig"], context=flags["context"], user=flags["as_user"], groups=flags["as_groups"]
    )
