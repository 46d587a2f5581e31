"""`Kind`: one row of the registry, with everything that is particular to one group and kind."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from reconciler.core.config import Cluster
from reconciler.core.documents import Document
from reconciler.core.inventory import Inventory
from reconciler.core.kinds.rendered import Rendered
from reconciler.core.problems import Parsed

KindId = tuple[str, str]
"""API group and kind, e.g. `("batch", "Job")`; the group of the core API is empty."""


class Lookup(Protocol):
    """Everything rendering may ask for besides its own document. Each question becomes a dependency of the file."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that is rendered for."""
        ...

    def inventory(self) -> Inventory | None:
        """Return the measured nodes of the cluster; None without evidence."""
        ...

    def defined(self, kind: KindId, namespace: str, name: str) -> Any | None:
        """Return the intent of a definition (`Kind.is_definition`) that the cluster selects; None if there is none."""
        ...

    def defined_names(self, kind: KindId, namespace: str) -> tuple[str, ...]:
        """Return the sorted names of all definitions of a kind in a namespace, for hints."""
        ...


class Kind(Struct, frozen=True, kw_only=True):
    """One row of the registry. A kind without `parse` and `render` is rendered as it is written.

    parse: reads a document that its schema has accepted.
    render: turns the intent into manifests for `lookup.cluster`.
    is_definition: other documents look it up (`Lookup.defined`), so its files are read before all others.
    """

    group: str
    kind: str
    parse: Callable[[Document], Parsed[Any]] | None = None
    render: Callable[[Any, Lookup], Rendered] | None = None
    is_definition: bool = False

    @property
    def id(self) -> KindId:
        """The key of the registry."""
        return (self.group, self.kind)


class Kinds(Mapping[KindId, Kind]):
    """A registry of kinds, immutable. `versions` names the installed packages that added families."""

    def __init__(self, *families: tuple[Kind, ...], versions: tuple[tuple[str, str], ...] = ()) -> None:
        self._rows: dict[KindId, Kind] = {}
        self.versions = versions
        for row in (row for family in families for row in family):
            if row.id in self._rows:
                raise ValueError(f"{row.kind} of group {row.group!r} is registered twice")
            self._rows[row.id] = row

    def __getitem__(self, key: KindId) -> Kind:
        """Return the row of a kind."""
        return self._rows[key]

    def __iter__(self) -> Iterator[KindId]:
        """Yield the keys in the order of registration."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Count the kinds."""
        return len(self._rows)
