"""`Site`: what a config repository says about where a workload may run; empty outside of a repository."""

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision
from reconciler.kinds.facts import KindId, QueueRole
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from reconciler.kinds.torchrun import QUEUE
from reconciler.kinds.workloads import NAMESPACE
from reconciler.repo.config import Backend
from reconciler.repo.config.external import External
from reconciler.submit.new import source_path

DEFAULT_QUEUE = "kaiwo"
DEFAULT_NAMESPACE = "kaiwo"

NODE_GPUS = 8
"""The GPUs of a node where none is measured."""


class Site(Struct, frozen=True, kw_only=True):
    """Queues and namespaces of the clusters of a repository.

    namespaces: those that exist, as far as the repository says. torchrun_queues, aliases: namespace and name.
    externals: what else the clusters have. gpus_per_node: of the largest measured node; 0: not known.
    """

    namespace: str = ""
    namespaces: frozenset[str] = frozenset()
    torchrun_queues: frozenset[tuple[str, str]] = frozenset()
    cluster_queues: frozenset[str] = frozenset()
    aliases: frozenset[tuple[str, str]] = frozenset()
    externals: tuple[External, ...] = ()
    has_kueue: bool = False
    is_open: bool = True  # outside of a repository, any queue and namespace may exist
    gpus_per_node: int = 0

    def queue_for(self, named: str, namespace: str) -> str:
        """Return the queue of a workload: the named one, else `kaiwo`, else the only one. Raises `ConfigError`."""
        torchrun = {name for where, name in self.torchrun_queues if where == namespace}
        known = sorted(self.cluster_queues | torchrun)
        if self.is_open or named in known or (named and not self.has_kueue and not torchrun):
            return named or DEFAULT_QUEUE
        if named and (self._has(LOCAL_QUEUE, namespace, named) or self._has(CLUSTER_QUEUE, "", named)):
            return named
        if not named and DEFAULT_QUEUE in known:
            return DEFAULT_QUEUE
        if not named and len(known) == 1:
            return known[0]
        if not named and not known:
            return ""
        problem = f"queue {named!r} does not exist" if named else "is required"
        raise ConfigError(f"--queue: {problem}", hint=f"queues: {', '.join(known) or 'none'}")

    def is_torchrun(self, queue: str, namespace: str) -> bool:
        """Return whether a queue runs TorchrunJobs."""
        return (namespace, queue) in self.torchrun_queues

    def namespace_for(self, named: str) -> str:
        """Return the namespace of a workload: the named one, else `kaiwo` if it exists, else that of the cluster."""
        if named:
            return named
        return DEFAULT_NAMESPACE if self.is_open or DEFAULT_NAMESPACE in self.namespaces else self.namespace

    def lacks_namespace(self, namespace: str) -> bool:
        """Return whether nothing says that a namespace exists."""
        return not self.is_open and namespace not in self.namespaces and not self._has(NAMESPACE, "", namespace)

    def lacks_alias(self, queue: str, namespace: str) -> bool:
        """Return whether a namespace cannot use a ClusterQueue yet."""
        is_known = (namespace, queue) in self.aliases or self._has(LOCAL_QUEUE, namespace, queue)
        return self.is_open or (queue in self.cluster_queues and not is_known)

    def _has(self, kind: KindId, namespace: str, name: str) -> bool:
        return any(one.has(kind[1], namespace, name) for one in self.externals)


NOWHERE = Site()


def site_of(index: CompiledRevision) -> Site:
    """Return what a compiled repository says."""
    clusters, rows = index.clusters, list(index.first_summaries())
    externals = tuple(map(External, clusters))
    inventories = index.context.evidence.inventories
    aliases = {(row.namespace, row.name) for row in rows if row.queue_role is QueueRole.ALIAS and not row.is_workload}
    return Site(
        is_open=False,
        namespace=clusters[0].namespace,
        namespaces=frozenset(
            {cluster.namespace for cluster in clusters}
            | {name for _, name in index.context.namespaces}
            | {row.namespace for row in rows if row.namespace}
            | {name for one in externals for name in one.names_of(NAMESPACE[1])}
        ),
        torchrun_queues=frozenset(
            (namespace, name)
            for (_, kind, namespace), found in index.context.definitions.items()
            if kind == QUEUE
            for name in found
        ),
        cluster_queues=frozenset(
            {row.name for row in rows if row.queue_role is QueueRole.FLAVORED and not row.is_workload}
            | {name for one in externals for name in one.names_of(CLUSTER_QUEUE[1])}
        ),
        aliases=frozenset(aliases),
        externals=externals,
        has_kueue=any(cluster.backend is Backend.KUEUE for cluster in clusters),
        gpus_per_node=max((node.gpus for found in inventories.values() for node in found.nodes), default=0),
    )


def path_of(index: CompiledRevision | None, folder: str, name: str) -> str:
    """Return the path of a new file; outside of a repository, one that only messages name."""
    return f"{folder}/{name}.yaml" if index is None else source_path(index, folder, name)
