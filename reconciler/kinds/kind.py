"""`Kind`, one row of the registry: everything that is particular to one group and kind. `Kinds`: the registry."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.facts import (
    NO_KIND,
    Controlled,
    Deletion,
    KindId,
    Loss,
    PodSet,
    QueueRole,
    Refusal,
    Relations,
    Users,
)
from reconciler.kinds.pod_paths import reader
from reconciler.kinds.pods import replicated
from reconciler.kinds.rendered import Rendered
from reconciler.kube.objects import FieldPath, ObjectKey, format_path, split_api_version
from reconciler.kube.problems import Parsed, Problem
from reconciler.kube.reasons import Origin
from reconciler.kube.values import mapping, text
from reconciler.kube.yaml import Document
from reconciler.repo.config import Backend, Cluster
from reconciler.repo.config.pod_paths import DeclaredPods
from reconciler.sizing.inventory import Inventory
from reconciler.sizing.training_jobs.job import TrainingJob
from reconciler.sizing.training_jobs.reader import JobReader

if TYPE_CHECKING:
    from reconciler.kinds.progress import Progress

Body = Mapping[str, Any]
"""A Kubernetes object as plain data."""

ANY_KIND = "*"
"""The `kind` of a row that stands for all kinds of its group that have no row of their own."""

MAX_WRAPPERS = 4
"""Wrappers inside wrappers. What is deeper is not counted, and said to be unknown."""


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

    def generation(self, key: ObjectKey) -> str:
        """Return the suffix of the generation in which an object runs; empty if it runs under its own name."""
        ...

    def has_runs(self) -> bool:
        """Return whether finished jobs of the cluster are recorded, so that they are not created again."""
        ...

    def defined_names(self, kind: KindId, namespace: str) -> tuple[str, ...]:
        """Return the sorted names of all definitions of a kind in a namespace, for hints."""
        ...


class Offer(Struct, frozen=True, kw_only=True):
    """A GPU product (the value of the node label) that a queue offers, and the field that says so."""

    product: str
    origin: Origin


class EvidenceUse(StrEnum):
    """The use of the values of an evidence kind. Each cluster has at most one value for each use."""

    NONE = ""  # validated, and part of the digest of every plan
    INVENTORY = "inventory"  # `kube.inventory.Inventory`
    ANSWERS = "answers"  # `sizing.answers.Answers`
    RUNS = "runs"  # `kube.runs.FinishedRuns`
    QUEUES = "queues"  # `kube.active_queues.ActiveQueues`
    HEALTH = "health"  # `nodehealth.fleet.evidence.FleetHealth`


class EvidenceReader(Struct, frozen=True, kw_only=True):
    """Reads a document of evidence about a cluster: a value and its use, or problems."""

    parse: Callable[[Document, str], tuple[Any | None, tuple[Problem, ...]]]
    use: EvidenceUse = EvidenceUse.NONE


class Role(StrEnum):
    """The place of the documents of a kind in a config repository."""

    SOURCE = "source"
    CONFIGURATION = "configuration"  # reconciler.yaml
    EVIDENCE = "evidence"  # below evidence/<cluster>/
    POLICY = "policy"  # below policies/
    APPROVAL = "approval"  # below approvals/


class Kind(Struct, frozen=True, kw_only=True):
    """One row of the registry. A kind without `render` is rendered as it is written.

    Documents:
        crd: its CustomResourceDefinition, if no schema of the kind ships with the package.
        role: where documents of the kind belong.
        refusal: why the kind is not accepted among the sources.
        parse: reads a document that its schema has accepted.
        render: turns the intent, or without `parse` the document, into manifests for `lookup.cluster`; `Rendered()` is
            nothing.
        evidence: how a document of evidence is read, and what the value is used as.
        is_definition: other documents look it up (`Lookup.defined`), so its files are read before all others.
        looked_up: words of which a file of a definition has one if others need it; empty: they may need any. Such files
            are read before all others only if one of these looks up the kind, or did so in the last run.
        affects_all_files: a change of it compiles every file again.
        defines_kinds: its documents are CustomResourceDefinitions.
        training: reads the training job of a document, for sizing.
        progress: reads how far a job of a live cluster is; only kinds that end have it.

    Rendered objects:
        pods: yields the pods of an object; its second argument is the prefix of the object's fields.
        provides: yields the pods that objects which name this one run, or one that requests what it adds to a pod.
        components: yields the objects that a wrapper holds, each with its path.
        copies: how many of each of these objects there are at the same time; None: one.
        has_parameters: these objects have placeholders, so that they cannot be sized.
        declared: yields the pods that a wrapper declares for an object in it; without any, its kind says them.
        relations: reads quotas, parents and references of an object without pods.
        immutable: names the fields that differ and that the API server accepts only on a new object.
        admitted: adds what a webhook makes of a new object.
        unapplied: names the fields that differ, are accepted, and reach no running pod.
        has_generations: a new generation may run under another name, because no other object names it.
        deletion: the risk of deleting or renaming an object.
        losses: names what a change of an object takes from its users; the second body is None where it is deleted.
        users: how to find the live objects that run in an object, and keep it from being deleted.
        is_stateful: it holds data, or others depend on it: a rename counts as a deletion for budgets.
        never_moves: a deletion and a creation are never shown as one move.
        suspend: the field that suspends an object; Kueue sets it in one that names a queue of its own.
        scale: the field with the number of its pods, or of its groups of pods, which may be 0.
        deadline: the field with the time after which it ends, which runs also while it has no pods.
        controlled: other fields that controllers write after people did.
        authored: returns an object of a cluster without what servers make up for each object.
        job_metadata: where an object that creates others on a schedule has their metadata. Suspended, it creates none.
        workloads: how many workloads a queue by flavor makes of an object, all alike; None: one.
        runs_on_each_node: one pod runs on every matching node, so the number of pods is unknown.
        is_namespace: other objects are in it.
        is_shared: several documents may render the same object.
        is_secret: values are never shown.
        has_group_in_path: the file name carries the group, although no other registered kind has the name.
        data_limit: bytes of all values under `data`, `binaryData` and `stringData`.
        storage: the field that requests the size of a volume.

    References:
        reference_rule: the rule that checks references to the kind; empty if none does.
        is_cluster_scoped: objects of the kind have no namespace.
        existing: names that every cluster, or every namespace, has.
        existing_with: names that clusters of a backend have.
        naming_labels: labels by which workloads name an object of the kind.

    Queueing (definitions are intents, as `Lookup.defined` returns them):
        offers: yields the GPU products that the definition of a queue offers.
        node_gpus: the GPUs per node of the definition of a queue; None if it does not set them.
        queue_kind: the kind of the queue that spreads the GPUs of a job over nodes.
        queue_field: the field of the job that names that queue.
        queue_role: how objects of the kind take part.
        parent_kind: the kind that `Relations.parent` names.
        quota_fields: the fields of a queue with its guarantee and its limit, which messages name.
        follows_kai: workloads run as in KAI's queues: only below a parent, best at the bottom of the tree, and without
            preemption only on guaranteed GPUs.
    """

    group: str
    kind: str

    crd: dict[str, Any] | None = None
    role: Role = Role.SOURCE
    refusal: Refusal | None = None
    parse: Callable[[Document], Parsed[Any]] | None = None
    render: Callable[[Any, Lookup], Rendered] | None = None
    evidence: EvidenceReader | None = None
    is_definition: bool = False
    looked_up: tuple[bytes, ...] = ()
    affects_all_files: bool = False
    defines_kinds: bool = False
    training: Callable[[JobReader], TrainingJob | None] | None = None
    progress: "Callable[[Body], Progress] | None" = None

    pods: Callable[[Body, str], Iterable[PodSet]] | None = None
    provides: Callable[[Body, str], Iterable[PodSet]] | None = None
    components: Callable[[Body], Iterable[tuple[FieldPath, Body]]] | None = None
    copies: Callable[[Body], int] | None = None
    has_parameters: bool = False
    declared: Callable[[Body, FieldPath], Sequence[PodSet]] | None = None
    relations: Callable[[Body], Relations] | None = None
    immutable: Callable[[Body, Body], Sequence[str]] | None = None
    admitted: Callable[[Body], Body] | None = None
    unapplied: Callable[[Body, Body], Sequence[str]] | None = None
    has_generations: bool = False
    deletion: Deletion | None = None
    losses: Callable[[Body, Body | None], Iterable[Loss]] | None = None
    users: Callable[[Body], Users] | None = None
    is_stateful: bool = False
    never_moves: bool = False
    suspend: FieldPath = ()
    scale: FieldPath = ()
    deadline: FieldPath = ()
    controlled: tuple[Controlled, ...] = ()
    authored: Callable[[Body], Body] | None = None
    job_metadata: FieldPath = ()
    workloads: Callable[[Body], int] | None = None
    runs_on_each_node: bool = False
    is_namespace: bool = False
    is_shared: bool = False
    is_secret: bool = False
    has_group_in_path: bool = False
    data_limit: int | None = None
    storage: FieldPath | None = None

    reference_rule: str = ""
    is_cluster_scoped: bool = False
    existing: tuple[str, ...] = ()
    existing_with: tuple[tuple[Backend, tuple[str, ...]], ...] = ()
    naming_labels: tuple[str, ...] = ()

    offers: Callable[[Any, Lookup], Iterable[Offer]] | None = None
    node_gpus: Callable[[Any], int | None] | None = None
    queue_kind: KindId = NO_KIND
    queue_field: FieldPath = ()
    queue_role: QueueRole = QueueRole.NONE
    parent_kind: KindId = NO_KIND
    quota_fields: tuple[str, str] = ("", "")
    follows_kai: bool = False

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
        changed = {
            (group, kind): replace(self.find(group, kind), group=group, kind=kind, pods=read)
            for (group, kind), read in pods.items()
        }
        return Kinds((self._rows | changed).values(), versions=self.versions)

    def undeclarable(self, declared: Iterable[DeclaredPods]) -> Iterator[Problem]:
        """Yield the declarations without an effect: of kinds whose objects are known to run no pods themselves."""
        for one in declared:
            row = self.find(one.group, one.kind)
            if row.relations is None and row.provides is None and row.parse is None and row.role is Role.SOURCE:
                continue
            others = "the objects that name it run the pods" if row.provides else "its pods are known"
            message = f"{one.kind} is read in its own way: {'it runs no pods' if row.relations else others}"
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

    def of(self, body: Body) -> Kind:
        """Return the row of an object."""
        return self.find(split_api_version(text(body.get("apiVersion")))[0], text(body.get("kind")))

    def pod_sets(self, body: Body, prefix: str = "", depth: int = 0) -> list[PodSet] | None:
        """Return the pods of an object, with those of the objects that it wraps; None if the kind runs no pods.

        A kind without a row runs pods if it has `spec.template.spec.containers`, as most kinds with pods have.
        """
        row = self.of(body)
        if row.pods is not None:
            return list(row.pods(body, prefix))
        if row.components is not None:
            if depth == MAX_WRAPPERS:
                return [PodSet(1, {}, prefix, unknown=f"what is more than {MAX_WRAPPERS} wrappers deep")]
            inner = [
                self._wrapped(row, body, path, component, prefix, depth + 1) for path, component in row.components(body)
            ]
            copies = 1 if row.copies is None else row.copies(body)
            return [pods.times(copies) for group in inner if group for pods in group]
        return _guess_pods(body, prefix) if row.relations is None and row.provides is None else None

    def _wrapped(  # noqa: PLR0917 - one component of a wrapper
        self, row: Kind, body: Body, path: FieldPath, component: Body, prefix: str, depth: int
    ) -> list[PodSet] | None:
        """Return the pods of an object in a wrapper: those that the wrapper declares, or those of its kind."""
        inner = f"{prefix}{format_path(path)}."
        declared = row.declared(body, path) if row.declared is not None else None
        if declared:
            return [each._replace(prefix=f"{inner}{each.prefix}") for each in declared]
        return self.pod_sets(component, inner, depth)

    def wrapped(self, body: Body, path: FieldPath = (), depth: int = 0) -> Iterator[tuple[FieldPath, Body]]:
        """Yield the objects that a wrapper creates as they are written, also those in inner wrappers, with paths."""
        row = self.of(body)
        if row.components is None or row.has_parameters or depth == MAX_WRAPPERS:
            return
        for inner, component in row.components(body):
            yield (*path, *inner), component
            yield from self.wrapped(component, (*path, *inner), depth + 1)

    def manifest_path(self, cluster: str, key: ObjectKey) -> str:
        """Return the path of a manifest below `rendered/`: `<cluster>/<namespace or _cluster>/<kind>-<name>.yaml`.

        The file name of a kind whose name is registered first for another group carries its group, so that
        `batch/Job` and `batch.volcano.sh/Job` of one name have two files.
        """
        kind = key.kind.lower()
        if self._first_groups.get(key.kind, key.group) != key.group or self.find(key.group, key.kind).has_group_in_path:
            kind = f"{kind}.{key.group or 'core'}"
        # ":" is legal in RBAC names, but not in a file name on every system.
        return f"{cluster}/{key.namespace or '_cluster'}/{kind}-{key.name.replace(':', '~')}.yaml"

    @cached_property
    def queue_labels(self) -> tuple[tuple[str, Kind], ...]:
        """The labels by which workloads name queues, with the queue's kind; the first that a workload has wins."""
        return tuple((label, row) for label, row in self._naming_labels() if row.queue_role)

    def is_queued(self, body: Body) -> bool:
        """Return whether an object names a queue of Kueue by a label of its own, so that Kueue starts and stops it."""
        labels = mapping(mapping(body.get("metadata")).get("labels"))
        aliases = (label for label, row in self.queue_labels if row.queue_role is QueueRole.ALIAS)
        return bool(labels) and any(text(labels.get(label)) for label in aliases)

    @cached_property
    def other_labels(self) -> tuple[tuple[str, Kind], ...]:
        """The labels by which workloads name other objects, with the kind of the object."""
        return tuple((label, row) for label, row in self._naming_labels() if not row.queue_role)

    def _naming_labels(self) -> Iterator[tuple[str, Kind]]:
        return ((label, row) for row in self._rows.values() for label in row.naming_labels)

    @cached_property
    def offering(self) -> tuple[Kind, ...]:
        """The kinds of queues that offer GPU products."""
        return tuple(row for row in self._rows.values() if row.offers is not None)

    @cached_property
    def own_groups(self) -> frozenset[str]:
        """The groups whose documents are read here, and never sent to a cluster as they are written."""
        return frozenset(row.group for row in self._rows.values() if row.parse or row.role is not Role.SOURCE)

    @cached_property
    def definitions(self) -> tuple[Kind, ...]:
        """The kinds whose documents other files depend on."""
        return tuple(
            row for row in self._rows.values() if row.is_definition or row.affects_all_files or row.defines_kinds
        )

    @cached_property
    def definition_words(self) -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
        """Names of these kinds, and words of which a document has one where others depend on it (empty: always)."""
        return tuple((row.kind.encode(), row.looked_up) for row in self.definitions)

    def looks_up(self, dependencies: bytes) -> bool:
        """Return whether encoded dependencies may name a definition that few files look up (`Kind.looked_up`)."""
        return any(kind in dependencies for kind, words in self.definition_words if words)


def _guess_pods(body: Body, prefix: str) -> list[PodSet] | None:
    spec = mapping(body.get("spec"))
    template = spec.get("template")
    if type(template) is not dict or type(mapping(template.get("spec")).get("containers")) is not list:
        return None
    return list(replicated(spec, f"{prefix}spec."))
