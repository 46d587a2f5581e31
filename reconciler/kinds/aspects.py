"""The aspects of a `Kind`: what is particular to its documents, pods, life, queues and names. All fields are optional.

A row sets the aspects that it needs. The others are shared and empty, so that no reader asks whether there is one.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from reconciler.kinds.facts import Body, Controlled, Deletion, KindId, Loss, PodSet, QueueName, QueueRole, Refusal
from reconciler.kinds.progress import Progress
from reconciler.kinds.rendered import Rendered
from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.problems import Parsed, Problem
from reconciler.kube.reasons import Origin
from reconciler.kube.yaml import Document
from reconciler.repo.config import Backend, Cluster
from reconciler.repo.versions import ComponentVersion
from reconciler.sizing.inventory import Inventory
from reconciler.sizing.training_jobs.job import TrainingJob
from reconciler.sizing.training_jobs.reader import JobReader

# --- Documents ---------------------------------------------------------------------------------------------------


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
        """Return the intent of a definition (`Dependents.NAMED`) that the cluster selects; None if there is none."""
        ...

    def generation(self, key: ObjectKey) -> str:
        """Return the suffix of the generation in which an object runs; empty if it runs under its own name."""
        ...

    def has_runs(self) -> bool:
        """Return whether finished jobs of the cluster are recorded, so that they are not created again."""
        ...

    def version(self, component: str) -> ComponentVersion:
        """Return the version of a component (`kube.schemas.components`) that the cluster runs, as far as is known."""
        ...

    def defined_names(self, kind: KindId, namespace: str) -> tuple[str, ...]:
        """Return the sorted names of all definitions of a kind in a namespace, for hints."""
        ...


class EvidenceUse(StrEnum):
    """The use of the values of an evidence kind. Each cluster has at most one value for each use."""

    NONE = ""  # validated, and part of the digest of every plan
    INVENTORY = "inventory"  # `kube.inventory.Inventory`
    ANSWERS = "answers"  # `sizing.answers.Answers`
    RUNS = "runs"  # `kube.runs.FinishedRuns`
    QUEUES = "queues"  # `kube.active_queues.ActiveQueues`
    HEALTH = "health"  # `nodehealth.fleet.evidence.FleetHealth`
    DEFINITIONS = "definitions"  # `repo.evidence.definitions.ClusterDefinitions`
    UTILISATION = "utilisation"  # `repo.evidence.utilisation.GpuUtilisation`
    USAGE = "usage"  # `repo.evidence.usage.Usage`
    GPU_NODES = "gpu-nodes"  # `kinds.agentaflow.gpu_node.GpuNode`: any number for a cluster


class EvidenceReader(Struct, frozen=True, kw_only=True):
    """Reads a document of evidence about a cluster: a value and its use, or problems."""

    parse: Callable[[Document, str], tuple[Any | None, tuple[Problem, ...]]]
    use: EvidenceUse = EvidenceUse.NONE


class Dependents(StrEnum):
    """The other files that depend on a document, so that it is read before them."""

    NONE = ""
    NAMED = "named"  # those that look it up by its name: it is a definition (`Lookup.defined`)
    ALL = "all"  # a change of it compiles every file again


class Source(Struct, frozen=True, kw_only=True):
    """The documents of a kind in a repository. Without `render` they are rendered as they are written.

    crd: its CustomResourceDefinition, if no schema of the kind ships with the package.
    refusal: why the kind is not accepted among the sources; evidence, policies and approvals have their own folders.
    parse: reads a document that its schema has accepted.
    render: turns the intent, or without `parse` the document, into manifests for `lookup.cluster`; `Rendered()` is
        nothing.
    evidence: reads a document below evidence/<cluster>/.
    dependents: the other files that depend on a document.
    looked_up: words of which a file of a definition has one if others need it; empty: they may need any. Such files
        are read before all others only if one of these looks up the kind, or did so in the last run.
    training: reads the training job of a document, for sizing.
    """

    crd: dict[str, Any] | None = None
    refusal: Refusal | None = None
    parse: Callable[[Document], Parsed[Any]] | None = None
    render: Callable[[Any, Lookup], Rendered] | None = None
    evidence: EvidenceReader | None = None
    dependents: Dependents = Dependents.NONE
    looked_up: tuple[bytes, ...] = ()
    training: Callable[[JobReader], TrainingJob | None] | None = None


# --- Objects -----------------------------------------------------------------------------------------------------


class Pods(Struct, frozen=True):
    """The pods of an object, and the fields that start and stop them. Paths are empty where there is no such field.

    read: yields the pods of an object; its second argument is the prefix of the object's fields.
    provides: yields the pods that objects which name this one run, or one that requests what it adds to a pod.
    provided_as: returns the name by which pods name the object; without it, they name it by its own.
    components: yields the objects that a wrapper holds, each with its path.
    copies: how many of each of these objects, which have placeholders, there are at the same time; None: they are as
        they are written, one of each.
    declared: yields the pods that a wrapper declares for an object in it; without any, its kind says them.
    on_each_node: one pod runs on every matching node, so the number of pods is unknown.
    queued_one_by_one: a queue by flavor makes a workload of each of its `spec.replicas`, all alike.
    job_metadata: where an object that creates others on a schedule has their metadata. Suspended, it creates none.
    suspend: the field that suspends an object; Kueue sets it in one that names a queue of its own.
    scale: the field with the number of its pods, or of its groups of pods, which may be 0.
    """

    read: Callable[[Body, str], Iterable[PodSet]] | None = None
    provides: Callable[[Body, str], Iterable[PodSet]] | None = None
    provided_as: Callable[[Body], str] | None = None
    components: Callable[[Body], Iterable[tuple[FieldPath, Body]]] | None = None
    copies: Callable[[Body], int] | None = None
    declared: Callable[[Body, FieldPath], Sequence[PodSet]] | None = None
    on_each_node: bool = False
    queued_one_by_one: bool = False
    job_metadata: FieldPath = ()
    suspend: FieldPath = ()
    scale: FieldPath = ()

    @property
    def has_placeholders(self) -> bool:
        """True if a wrapper holds templates, which are no objects yet, so that they cannot be sized."""
        return self.copies is not None


class Life(Struct, frozen=True, kw_only=True):
    """The life of an object in a cluster: what becomes of it there, and what a change or a deletion does.

    immutable: names the fields that differ and that the API server accepts only on a new object.
    unapplied: names the fields that differ, are accepted, and reach no running pod.
    has_generations: a new generation may run under another name, because no other object names it.
    deletion: the risk of deleting or renaming an object.
    losses: names what a change of an object takes from its users; the second body is None where it is deleted.
    is_stateful: it holds data, or others depend on it: a rename counts as a deletion for budgets.
    never_moves: a deletion and a creation are never shown as one move.
    admitted: adds what a webhook makes of a new object.
    controlled: other fields than `Pods.suspend` that controllers write after people did.
    authored: returns an object of a cluster without what servers make up for each object.
    progress: reads how far a job of a live cluster is; only kinds that end have it.
    serving: the same of a service, which never ends.
    """

    immutable: Callable[[Body, Body], Sequence[str]] | None = None
    unapplied: Callable[[Body, Body], Sequence[str]] | None = None
    has_generations: bool = False
    deletion: Deletion | None = None
    losses: Callable[[Body, Body | None], Iterable[Loss]] | None = None
    is_stateful: bool = False
    never_moves: bool = False
    admitted: Callable[[Body], Body] | None = None
    controlled: tuple[Controlled, ...] = ()
    authored: Callable[[Body], Body] | None = None
    progress: Callable[[Body], Progress] | None = None
    serving: Callable[[Body], Progress] | None = None


class Holds(StrEnum):
    """The contents of an object that others depend on."""

    NOTHING = ""
    OBJECTS = "objects"  # a namespace: other objects are in it
    KINDS = "kinds"  # a CustomResourceDefinition: there are objects of the kind as long as it is there
    VOLUME = "volume"  # a claim of one, whose size is in `spec.resources.requests.storage`
    DATA = "data"  # under `data` and `binaryData`, whose size is limited
    SECRETS = "secrets"  # the same, also under `stringData`, and its values are never shown


# --- Queues and names --------------------------------------------------------------------------------------------


class Offer(Struct, frozen=True, kw_only=True):
    """A GPU product (the value of the node label) that a queue offers, and the field that says so."""

    product: str
    origin: Origin


class NamedQueue(Struct, frozen=True, kw_only=True):
    """The queue of its own family that a job names, and that spreads its GPUs over nodes.

    kind: the kind of the queue, a definition.
    field: the field of the job that names it.
    node_gpus: returns the GPUs per node of a definition; None if it does not set them.
    """

    kind: KindId
    field: FieldPath
    node_gpus: Callable[[Any], int | None]


class Queueing(Struct, frozen=True, kw_only=True):
    """The part that a kind takes in queueing. Definitions are intents, as `Lookup.defined` returns them.

    role: how objects of the kind take part.
    quota_fields: the fields of a queue with its guarantee and its limit, which messages name.
    follows_kai: workloads run as in KAI's queues: only below a parent, best at the bottom of the tree, and without
        preemption only on guaranteed GPUs.
    root: the queue above all others, of a tree in which only queues at the bottom accept workloads; empty: all do.
    offers: yields the GPU products that the definition of a queue offers.
    queue: the queue that a job names by a field of its own.
    named: returns the queue that a workload names by a field of its own, whatever its labels say; None if it does not.
    """

    role: QueueRole = QueueRole.NONE
    quota_fields: tuple[str, str] = ("", "")
    follows_kai: bool = False
    root: str = ""
    offers: Callable[[Any, Lookup], Iterable[Offer]] | None = None
    queue: NamedQueue | None = None
    named: Callable[[Body], QueueName | None] | None = None

    @property
    def is_shared(self) -> bool:
        """True if several documents may render the same object: every queue of the same nodes renders their flavor."""
        return self.role is QueueRole.FLAVOR


class Naming(Struct, frozen=True, kw_only=True):
    """The names of objects, and references to them.

    rule: the rule that checks references to the kind; empty if none does.
    labels: the labels by which workloads name an object of the kind.
    pod_annotations: annotations by which pods name a queue of the kind, each with the scheduler that reads it.
    existing: names that every cluster, or every namespace, has.
    existing_with: names that clusters of a backend have.
    has_group_in_path: the file name carries the group, although no other registered kind has the name.
    """

    rule: str = ""
    labels: tuple[str, ...] = ()
    pod_annotations: tuple[tuple[str, str], ...] = ()
    existing: tuple[str, ...] = ()
    existing_with: tuple[tuple[Backend, tuple[str, ...]], ...] = ()
    has_group_in_path: bool = False
