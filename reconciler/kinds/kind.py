"""`Kind`, one row of the registry: everything that is particular to one group and kind. `Kinds`: the registry."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.aspects import Holds, Life, Naming, Pods, Queueing, Source
from reconciler.kinds.facts import Body, KindId, PodSet, QueueRole, Relations
from reconciler.kinds.pod_paths import reader
from reconciler.kinds.pods import replicated
from reconciler.kube.objects import FieldPath, ObjectKey, format_path, split_api_version
from reconciler.kube.problems import Problem
from reconciler.kube.values import mapping, metadata_map, text
from reconciler.repo.config.pod_paths import DeclaredPods

ANY_KIND = "*"
"""The `kind` of a row that stands for all kinds of its group that have no row of their own."""

MAX_WRAPPERS = 4
"""Wrappers inside wrappers. What is deeper is not counted, and said to be unknown."""


class Kind(Struct, frozen=True, kw_only=True):
    """One row of the registry: a group and kind, and what is particular to it, by aspect (`kinds.aspects`).

    is_cluster_scoped: objects of the kind have no namespace.
    holds: what an object holds for others.
    relations: reads quotas, parents and references of an object without pods.
    """

    group: str
    kind: str
    is_cluster_scoped: bool = False
    holds: Holds = Holds.NOTHING
    relations: Callable[[Body], Relations] | None = None
    source: Source = Source()
    pods: Pods = Pods()
    life: Life = Life()
    queueing: Queueing = Queueing()
    naming: Naming = Naming()

    @property
    def id(self) -> KindId:
        """The key of the registry."""
        return (self.group, self.kind)


_UNKNOWN = Kind(group="", kind="")


class FaultyRowError(ValueError):
    """A row of the registry, whose kind it names, breaks its contract: what its functions return contradicts it."""

    def __init__(self, message: str, kind: KindId) -> None:
        super().__init__(message, kind)  # both, so that the error of a worker process can be raised here
        self.kind = kind

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class Kinds(Mapping[KindId, Kind]):
    """A registry of kinds, immutable. `versions` names the installed packages that added families."""

    def __init__(self, *families: Iterable[Kind], versions: tuple[tuple[str, str], ...] = ()) -> None:
        self._rows: dict[KindId, Kind] = {}
        self._first_groups: dict[str, str] = {}
        self.versions = versions
        for row in (row for family in families for row in family):
            if row.id in self._rows:
                raise ValueError(f"{row.kind} of group {row.group!r} is registered twice")
            self._rows[row.id] = row
            self._first_groups.setdefault(row.kind, row.group)

    def __getitem__(self, key: KindId) -> Kind:
        """Return the row of a kind."""
        return self._rows[key]

    def __iter__(self) -> Iterator[KindId]:
        """Yield the keys in the order of registration."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Count the kinds."""
        return len(self._rows)

    def extend(self, *families: Iterable[Kind], versions: tuple[tuple[str, str], ...] = ()) -> "Kinds":
        """Return a registry that has these families, too."""
        return Kinds(self._rows.values(), *families, versions=(*self.versions, *versions))

    def with_pods(self, declared: Iterable[DeclaredPods]) -> "Kinds":
        """Return a registry in which these kinds have their pods where a repository declares them."""
        pods = {(one.group, one.kind): reader(*one.paths) for one in declared}
        if not pods:
            return self
        rows = {key: (self.find(*key), read) for key, read in pods.items()}
        changed = {
            (group, kind): replace(row, group=group, kind=kind, pods=replace(row.pods, read=read))
            for (group, kind), (row, read) in rows.items()
        }
        return Kinds((self._rows | changed).values(), versions=self.versions)

    def undeclarable(self, declared: Iterable[DeclaredPods]) -> Iterator[Problem]:
        """Yield the declarations without an effect: of kinds whose objects are known to run no pods themselves."""
        for one in declared:
            row = self.find(one.group, one.kind)
            if not (row.relations or row.pods.provides or row.source.parse or row.source.refusal):
                continue
            others = "the objects that name it run the pods" if row.pods.provides else "its pods are known"
            runs_none = row.relations or row.source.refusal
            message = f"{one.kind} is read in its own way: {'it runs no pods' if runs_none else others}"
            yield Problem(
                rule="config.pod-paths",
                place=one.place,
                field="spec.podPaths[].kind",
                message=message,
                hint="remove the entry",
            )

    def find(self, group: str, kind: str) -> Kind:
        """Return the row of a kind, that of its whole group, or a row that knows nothing of it."""
        return self._rows.get((group, kind)) or self._rows.get((group, ANY_KIND)) or _UNKNOWN

    def is_known(self, group: str, kind: str) -> bool:
        """Return whether a row, or the declaration of a repository, says of this very kind what its pods are."""
        return self.find(group, kind).kind not in ("", ANY_KIND)

    def of(self, body: Body) -> Kind:
        """Return the row of an object."""
        return self.find(split_api_version(text(body.get("apiVersion")))[0], text(body.get("kind")))

    def pod_sets(self, body: Body, prefix: str = "", depth: int = 0) -> list[PodSet] | None:
        """Return the pods of an object, with those of the objects that it wraps; None if the kind runs no pods.

        A kind without a row runs pods if it has `spec.template.spec.containers`, as most kinds with pods have.
        """
        row = self.of(body)
        if row.pods.read is not None:
            return list(row.pods.read(body, prefix))
        if row.pods.components is not None:
            if depth == MAX_WRAPPERS:
                return [PodSet(1, {}, prefix, unknown=f"what is more than {MAX_WRAPPERS} wrappers deep")]
            inner = [
                self._wrapped(row, body, path, component, prefix, depth + 1)
                for path, component in row.pods.components(body)
            ]
            copies = 1 if row.pods.copies is None else row.pods.copies(body)
            return [pods.times(copies) for group in inner if group for pods in group]
        return _guess_pods(body, prefix) if row.relations is None and row.pods.provides is None else None

    def _wrapped(  # noqa: PLR0917 - one component of a wrapper
        self, row: Kind, body: Body, path: FieldPath, component: Body, prefix: str, depth: int
    ) -> list[PodSet] | None:
        """Return the pods of an object in a wrapper: those that the wrapper declares, or those of its kind."""
        inner = f"{prefix}{format_path(path)}."
        declared = row.pods.declared(body, path) if row.pods.declared is not None else None
        if declared:
            return [each._replace(prefix=f"{inner}{each.prefix}") for each in declared]
        return self.pod_sets(component, inner, depth)

    def wrapped(self, body: Body, path: FieldPath = (), depth: int = 0) -> Iterator[tuple[FieldPath, Body]]:
        """Yield the objects that a wrapper creates as they are written, also those in inner wrappers, with paths."""
        row = self.of(body)
        if row.pods.components is None or row.pods.has_placeholders or depth == MAX_WRAPPERS:
            return
        for inner, component in row.pods.components(body):
            yield (*path, *inner), component
            yield from self.wrapped(component, (*path, *inner), depth + 1)

    def manifest_path(self, cluster: str, key: ObjectKey) -> str:
        """Return the path of a manifest below `rendered/`: `<cluster>/<namespace or _cluster>/<kind>-<name>.yaml`.

        The file name of a kind whose name is registered first for another group carries its group, so that
        `batch/Job` and `batch.volcano.sh/Job` of one name have two files.
        """
        kind, naming = key.kind.lower(), self.find(key.group, key.kind).naming
        if naming.has_group_in_path or self._first_groups.get(key.kind, key.group) != key.group:
            kind = f"{kind}.{key.group or 'core'}"
        # ":" is legal in RBAC names, but not in a file name on every system.
        return f"{cluster}/{key.namespace or '_cluster'}/{kind}-{key.name.replace(':', '~')}.yaml"

    @cached_property
    def queue_labels(self) -> tuple[tuple[str, Kind], ...]:
        """The labels by which workloads name queues, with the queue's kind; the first that a workload has wins."""
        return tuple((label, row) for label, row in self._naming_labels() if row.queueing.role)

    @cached_property
    def queue_annotations(self) -> tuple[tuple[str, str, Kind], ...]:
        """The annotations by which pods name queues: scheduler, annotation, kind of the queue."""
        return tuple((*entry, row) for row in self._rows.values() for entry in row.naming.pod_annotations)

    def is_queued(self, body: Body) -> bool:
        """Return whether an object names a queue of Kueue by a label of its own, so that Kueue starts and stops it."""
        labels = metadata_map(body, "labels")
        aliases = (label for label, row in self.queue_labels if row.queueing.role is QueueRole.ALIAS)
        return bool(labels) and any(text(labels.get(label)) for label in aliases)

    @cached_property
    def other_labels(self) -> tuple[tuple[str, Kind], ...]:
        """The labels by which workloads name other objects, with the kind of the object."""
        return tuple((label, row) for label, row in self._naming_labels() if not row.queueing.role)

    def _naming_labels(self) -> Iterator[tuple[str, Kind]]:
        return ((label, row) for row in self._rows.values() for label in row.naming.labels)

    @cached_property
    def offering(self) -> tuple[Kind, ...]:
        """The kinds of queues that offer GPU products."""
        return tuple(row for row in self._rows.values() if row.queueing.offers is not None)

    @cached_property
    def own_groups(self) -> frozenset[str]:
        """The groups whose documents are read here or refused, and never sent to a cluster as they are written."""
        return frozenset(row.group for row in self._rows.values() if row.source.parse or row.source.refusal)

    @cached_property
    def definitions(self) -> tuple[Kind, ...]:
        """The kinds whose documents other files depend on."""
        return tuple(row for row in self._rows.values() if row.source.dependents)

    @cached_property
    def definition_words(self) -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
        """Names of these kinds, and words of which a document has one where others depend on it (empty: always)."""
        return tuple((row.kind.encode(), row.source.looked_up) for row in self.definitions)

    def looks_up(self, dependencies: bytes) -> bool:
        """Return whether encoded dependencies may name a definition that few files look up (`Source.looked_up`)."""
        return any(kind in dependencies for kind, words in self.definition_words if words)


def _guess_pods(body: Body, prefix: str) -> list[PodSet] | None:
    spec = mapping(body.get("spec"))
    template = spec.get("template")
    if type(template) is not dict or type(mapping(template.get("spec")).get("containers")) is not list:
        return None
    return list(replicated(spec, f"{prefix}spec."))
