"""What every source file is compiled against: settings, queues, evidence, policies, schemas. Small, read first."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from reconciler.core.config import Cluster, Config
from reconciler.core.documents import Document
from reconciler.core.inventory import Inventory
from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.torchrun.intent import TorchrunQueue, queue_intent
from reconciler.core.launch import is_configuration
from reconciler.core.policy.admission import PolicySet, load
from reconciler.core.policy.exceptions import PolicyException, load_exceptions
from reconciler.core.policy.switches import switch_problems
from reconciler.core.problems import Problem
from reconciler.core.schemas import Catalogue
from reconciler.index.evidence import read_evidence
from reconciler.index.offers import KUEUE_KINDS, Flavors, flavors_of
from reconciler.index.readings import FileReading
from reconciler.revision.layout import selects

if TYPE_CHECKING:
    from reconciler.core.sizing.answers import Answers

# A source file that defines one of these is read before all others. The kind is looked for in the raw bytes, which
# is why `compile_file` refuses these kinds where they are written with escapes.
CONTEXT_KINDS = ("TorchrunQueue", "Namespace", "CustomResourceDefinition", *KUEUE_KINDS)
_MARKS = tuple(kind.encode() for kind in CONTEXT_KINDS)
_FOR_ALL = frozenset({"Namespace", "CustomResourceDefinition"})  # whose change compiles every file again

ANY_QUEUE = ""
"""Needed by a job whose own queue is not there: what is said of that depends on all others."""

OFFERS = "cards on offer"
"""Needed by a job that is sized for whatever card its queue offers: Kueue's objects. No queue is called so."""

FILES = "files of launch lines"
"""Needed by a job whose launch line may name a file of the repository."""

QueueId = tuple[str, str, str]
"""Cluster, namespace and name."""


class QueueSource:
    """A queue that jobs inherit from, and the id of the file it stands in."""

    def __init__(self, document: Document, file_id: str) -> None:
        self._document = document
        self.file_id = file_id

    @cached_property
    def intent(self) -> TorchrunQueue:
        """The queue, read when the first job asks; None was left out as broken."""
        intent = queue_intent(self._document).intent
        if intent is None:
            raise TypeError(f"{self._document.source} is no sound queue")
        return intent


class Context(Struct, frozen=True, kw_only=True):
    """Everything a file needs besides its own bytes. `digest` covers all of it but what `queue_digest` does."""

    config: Config
    clusters: tuple[Cluster, ...]
    kinds: Kinds
    catalogue: Catalogue
    policies: PolicySet
    exceptions: tuple[PolicyException, ...]
    object_format: str
    digest: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    answers: "Mapping[str, Answers]" = field(default_factory=dict)  # of sizing engines, by cluster
    queues: Mapping[QueueId, QueueSource] = field(default_factory=dict)
    flavors: Mapping[str, Flavors] = field(default_factory=dict)  # Kueue's objects, by cluster
    files: Mapping[str, Document] = field(default_factory=dict)  # configurations that launch lines name, by path
    queue_ids: Mapping[str, list[tuple[str, ...]]] = field(default_factory=dict)  # all there is of a name
    namespaces: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)  # what `queue_digest` has told

    def queue_digest(self, needs: str) -> str:
        """Digest the definitions of what a file's jobs name: queues in any cluster and namespace, cards, files."""
        if needs in self.digests:
            return self.digests[needs]
        names = needs.split("\0")
        wanted = self.queue_ids if ANY_QUEUE in names else [name for name in names if name in self.queue_ids]
        found = [self.queue_ids[name] for name in sorted(wanted)]
        return self.digests.setdefault(needs, sha256(repr(found).encode()).hexdigest())


def holds_context(raw: bytes) -> bool:
    """Whether a file may define what other files depend on; may say yes too often, never no wrongly."""
    return any(mark in raw for mark in _MARKS) or b"apiVersion" not in raw


def build_context(
    config: Config,
    *,
    engine: str,
    object_format: str,
    kinds: Kinds,
    catalogue: Catalogue,
    shipped: Iterable[FileReading],
    policies: Sequence[FileReading],
    evidence: Sequence[FileReading],
    defining: Sequence[FileReading],
    clusters: tuple[Cluster, ...],
) -> Context:
    """Read the small files that matter to all others. Problems in them are collected, never raised."""
    users = [document for file in policies for document in file.valid]
    shipped_policies = [document for file in shipped for document in file.documents]
    definitions = [(document, file) for file in defining for document in file.documents]
    catalogue = catalogue.with_crds([document for document, _ in definitions if document.kind == CONTEXT_KINDS[2]])
    policy_set, policy_problems = load(users, config.rules, shipped=shipped_policies)
    written = {one.key.name for one in (*users, *shipped_policies) if one.kind == "ValidatingAdmissionPolicy"}
    exceptions, exception_problems = load_exceptions(users)
    measured = read_evidence(config, clusters, evidence)
    queues = _queues(clusters, defining)
    others = sorted({(file.path, file.oid) for document, file in definitions if document.kind in _FOR_ALL})
    files = sorted((file.path, file.oid) for file in (*policies, *evidence))
    return Context(
        config=config,
        clusters=clusters,
        kinds=kinds,
        catalogue=catalogue,
        policies=policy_set,
        exceptions=exceptions,
        object_format=object_format,
        digest=sha256(repr((engine, config, policy_set.digest, files, others)).encode()).hexdigest(),
        inventories=measured.inventories,
        answers=measured.answers,
        queues=queues,
        flavors={cluster.name: _flavors(cluster, definitions) for cluster in clusters},
        files={file.path: document for document, file in definitions if is_configuration(document.data)},
        queue_ids=_queue_ids(queues) | _sizing_ids(definitions),
        namespaces=_namespaces(clusters, definitions),
        problems=(
            *(problem for file in policies for problem in file.problems),
            *measured.problems,
            *switch_problems(config.rules, written),
            *policy_problems,
            *exception_problems,
        ),
    )


_Definitions = Sequence[tuple[Document, FileReading]]


def _namespaces(clusters: tuple[Cluster, ...], definitions: _Definitions) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (cluster.name, document.key.name): document.data
        for document, _ in definitions
        if document.kind == "Namespace"
        for cluster in clusters
        if selects(cluster, document.source.path, document.metadata.get("labels"))
    }


def _sizing_ids(definitions: _Definitions) -> dict[str, list[tuple[str, ...]]]:
    """Name the files that sized jobs depend on: Kueue's objects, and configurations."""
    return {
        OFFERS: sorted((file.path, file.oid) for document, file in definitions if document.kind in KUEUE_KINDS),
        FILES: sorted((file.path, file.oid) for document, file in definitions if is_configuration(document.data)),
    }


def _flavors(cluster: Cluster, definitions: _Definitions) -> Flavors:
    chosen = (
        document
        for document, _ in definitions
        if document.kind in KUEUE_KINDS and selects(cluster, document.source.path, document.metadata.get("labels"))
    )
    return flavors_of(chosen, cluster.namespace)


def _queues(clusters: tuple[Cluster, ...], defining: Iterable[FileReading]) -> dict[QueueId, QueueSource]:
    """Queues by identity. Broken ones are left out here; `compile_file` reports them in their own file."""
    queues: dict[QueueId, QueueSource] = {}
    for file in defining:
        for document in file.valid:
            if document.kind != "TorchrunQueue":
                continue
            source = QueueSource(document, f"{file.path}:{file.oid}:{document.index}")
            for cluster in clusters:
                if selects(cluster, document.source.path, document.metadata.get("labels")):
                    key = (cluster.name, document.key.namespace or cluster.namespace, document.key.name)
                    queues.setdefault(key, source)
    return queues


def _queue_ids(queues: Mapping[QueueId, QueueSource]) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for key, source in sorted(queues.items(), key=lambda item: item[0]):
        found.setdefault(key[2], []).append((*key, source.file_id))
    return found
