"""`ServedKinds`: the kinds that clusters serve, as the evidence says, each as a catalogue that validates by it."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.facts import KindId
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.values import mapping, text
from reconciler.repo.evidence.definitions import BrokenSchemaError, ClusterDefinitions, ServedKind, broken_schema


class KnownKind(Struct, frozen=True, kw_only=True, eq=False):
    """A kind as a cluster serves it. catalogue: validates its objects. versions: those that are served.

    problems: why the evidence cannot be read; then nothing else is known.
    """

    catalogue: Catalogue
    versions: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class ServedKinds:
    """The definitions that clusters serve, read where a file needs them. What equals is compiled once.

    defined: kinds whose definition the repository has, which decides instead.
    """

    def __init__(
        self, catalogue: Catalogue, definitions: Mapping[str, ClusterDefinitions], defined: Iterable[Mapping[str, Any]]
    ) -> None:
        self._catalogue, self._definitions = catalogue, definitions
        self._defined = frozenset(_kind_of(mapping(body.get("spec"))) for body in defined)
        self._known: dict[ServedKind, KnownKind] = {}

    def is_observed(self, group: str, kind: str) -> bool:
        """Return whether the evidence of a cluster decides about a kind, if there is any."""
        return (group, kind) not in self._defined and not self._catalogue.archive.is_fixed(group)

    def digest(self, cluster: str, group: str) -> str:
        """Return a digest of what a cluster serves of a group; empty if that is not known."""
        known = self._definitions.get(cluster)
        return "" if known is None else known.digest(group)

    def find(self, cluster: str, group: str, kind: str) -> KnownKind | None:
        """Return a kind as a cluster serves it; None if the evidence does not have it."""
        definitions = self._definitions.get(cluster)
        served = definitions.kinds.get((group, kind)) if definitions is not None else None
        if definitions is None or served is None:
            return None
        if served not in self._known:
            self._known[served] = self._read(definitions, served)
        return self._known[served]

    def lacks(self, cluster: str, group: str, kind: str) -> bool:
        """Return whether a cluster serves other kinds of a group, and not this one."""
        return bool(self.digest(cluster, group)) and self.find(cluster, group, kind) is None

    def is_namespaced(self, cluster: str, group: str, kind: str) -> bool | None:
        """Return whether a kind is namespaced; None if that is not known."""
        known = self.find(cluster, group, kind) if self.is_observed(group, kind) else None
        return None if known is None else known.catalogue.is_namespaced(group, kind)

    def _read(self, definitions: ClusterDefinitions, served: ServedKind) -> KnownKind:
        try:
            catalogue = self._catalogue.with_definitions([served.definition()])
        except (BrokenSchemaError, RecursionError) as error:
            return KnownKind(catalogue=self._catalogue, problems=broken_schema(definitions, served, str(error)))
        if not catalogue.defines(served.group, served.kind):
            message = "the schema is not that of a CustomResourceDefinition"
            return KnownKind(catalogue=self._catalogue, problems=broken_schema(definitions, served, message))
        return KnownKind(catalogue=catalogue, versions=served.versions)


def _kind_of(spec: Mapping[str, Any]) -> KindId:
    return text(spec.get("group")), text(mapping(spec.get("names")).get("kind"))
