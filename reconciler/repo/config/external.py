"""The objects that `external` of a cluster declares: others own them, and references to them are valid."""

from collections.abc import Iterable
from itertools import chain

from reconciler.repo.config.config import Cluster, Config


class External:
    """The objects that `external` of a cluster declares: whole kinds, or single objects. Entries have no group."""

    __slots__ = ("anywhere", "kinds", "names")

    def __init__(self, cluster: Cluster) -> None:
        self.kinds: set[str] = set()
        self.names: set[tuple[str, str, str]] = set()  # kind, namespace, name
        self.anywhere: set[tuple[str, str]] = set()  # kind and name, in any namespace or none
        for entry in cluster.external:
            kind, _, rest = entry.partition("/")
            namespace, _, name = rest.rpartition("/")
            if not rest:
                self.kinds.add(kind)
            elif namespace:
                self.names.add((kind, namespace, name))
            else:
                self.anywhere.add((kind, name))

    def has(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether the cluster has the object."""
        return kind in self.kinds or self.declares(kind, namespace, name)

    def declares(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether an entry is about this very object. It is released then, and never deleted."""
        return (kind, namespace, name) in self.names or (kind, name) in self.anywhere

    def names_of(self, kind: str) -> Iterable[str]:
        """Return the declared names of a kind, in any namespace."""
        return (name for declared, name in self.anywhere if declared == kind)

    def names_in(self, kind: str, namespace: str) -> Iterable[str]:
        """Return the declared names of a kind that a namespace has."""
        own = (name for declared, where, name in self.names if (declared, where) == (kind, namespace))
        return chain(own, self.names_of(kind))


def is_external(config: Config, cluster: str, kind: str, namespace: str, name: str) -> bool:
    """Return whether an object of a cluster is named as external there."""
    return any(External(one).declares(kind, namespace, name) for one in config.clusters if one.name == cluster)
