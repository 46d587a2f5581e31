"""What every source file is compiled against: settings, queues, evidence, policies, schemas. Small, read first."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from reconciler.core.documents import Document, read
from reconciler.core.intents.config import Cluster, Config
from reconciler.core.intents.inventory import Inventory, parse_inventory
from reconciler.core.intents.torchrun import TorchrunQueue, queue_intent
from reconciler.core.objects import SourceRef
from reconciler.core.policy.admission import PolicySet, load
from reconciler.core.policy.exceptions import PolicyException, load_exceptions
from reconciler.core.policy.switches import switch_problems
from reconciler.core.problems import Problem, Severity
from reconciler.core.schemas import Catalogue
from reconciler.pipeline.layout import selects

# A source file that defines one of these is read before all others. The kind is looked for in the raw bytes, which
# is why `compile_file` refuses these kinds where they are written with escapes.
CONTEXT_KINDS = ("TorchrunQueue", "Namespace", "CustomResourceDefinition")
_MARKS = tuple(kind.encode() for kind in CONTEXT_KINDS)

ANY_QUEUE = ""
"""Needed by a job whose own queue is not there: what is said of that depends on all others."""

QueueId = tuple[str, str, str]
"""Cluster, namespace and name."""


class QueueSource(Struct, frozen=True, kw_only=True):
    """A queue that jobs inherit from, and the id of the file it stands in."""

    intent: TorchrunQueue
    file_id: str


class Context(Struct, frozen=True, kw_only=True):
    """Everything a file needs besides its own bytes. `digest` covers all of it but the queues."""

    config: Config
    clusters: tuple[Cluster, ...]
    catalogue: Catalogue
    policies: PolicySet
    exceptions: tuple[PolicyException, ...]
    object_format: str
    digest: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    queues: Mapping[QueueId, QueueSource] = field(default_factory=dict)
    namespaces: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def queue_digest(self, needs: Iterable[str]) -> str:
        """Digest the definitions of the queues that a file's jobs name, in any cluster and namespace."""
        names = set(needs)
        found = sorted(
            (*key, source.file_id) for key, source in self.queues.items() if key[2] in names or ANY_QUEUE in names
        )
        return sha256(repr(found).encode()).hexdigest()


def holds_context(raw: bytes) -> bool:
    """Whether a file may define what other files depend on; may say yes too often, never no wrongly."""
    return any(mark in raw for mark in _MARKS)


class File(Struct, frozen=True, kw_only=True):
    """A file of the repository: path, blob id, bytes."""

    path: str
    oid: str
    raw: bytes


def build_context(
    config: Config,
    *,
    engine: str,
    object_format: str,
    catalogue: Catalogue,
    shipped_policies: Sequence[Document],
    policies: Iterable[File],
    evidence: Iterable[File],
    defining: Iterable[File],
    clusters: tuple[Cluster, ...],
) -> Context:
    """Read the small files that matter to all others. Problems in them are collected, never raised."""
    own = _Reader(catalogue)
    policy_files, evidence_files, defining_files = tuple(policies), tuple(evidence), tuple(defining)
    users = [document for file in policy_files for document in own.documents(file)]
    definitions = [(document, file) for file in defining_files for document in read(file.path, file.raw).documents]
    catalogue = catalogue.with_crds([document for document, _ in definitions if document.kind == CONTEXT_KINDS[2]])
    policy_set, policy_problems = load(users, config.rules, shipped=shipped_policies)
    written = {one.key.name for one in (*users, *shipped_policies) if one.kind == "ValidatingAdmissionPolicy"}
    exceptions, exception_problems = load_exceptions(users)
    inventories = _inventories(config, clusters, evidence_files, own)
    namespaces = {
        (cluster.name, document.key.name): document.data
        for document, _ in definitions
        if document.kind == "Namespace"
        for cluster in clusters
        if selects(cluster, document.source.path, document.metadata.get("labels"))
    }
    others = sorted((file.path, file.oid) for document, file in definitions if document.kind != CONTEXT_KINDS[0])
    files = sorted((file.path, file.oid) for file in (*policy_files, *evidence_files))
    return Context(
        config=config,
        clusters=clusters,
        catalogue=catalogue,
        policies=policy_set,
        exceptions=exceptions,
        object_format=object_format,
        digest=sha256(repr((engine, config, policy_set.digest, files, others)).encode()).hexdigest(),
        inventories=inventories,
        queues=_queues(clusters, definitions, catalogue),
        namespaces=namespaces,
        problems=(*own.problems, *switch_problems(config.rules, written), *policy_problems, *exception_problems),
    )


def _failed(problems: Iterable[Problem]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


class _Reader:
    """Reads and validates files, keeping their problems."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.problems: list[Problem] = []

    def documents(self, file: File) -> list[Document]:
        reading = read(file.path, file.raw)
        self.problems += reading.problems
        valid = []
        for document in reading.documents:
            problems = self._catalogue.validate(document)
            self.problems += problems
            if not _failed(problems):
                valid.append(document)
        return valid


def _inventories(
    config: Config, clusters: tuple[Cluster, ...], files: Iterable[File], own: _Reader
) -> dict[str, Inventory]:
    names = {cluster.name for cluster in clusters}
    known = {cluster.name for cluster in config.clusters}
    inventories: dict[str, Inventory] = {}
    for file in files:
        cluster, _, rest = file.path.removeprefix(f"{config.evidence}/").partition("/")
        if not rest or cluster not in known:
            message = f"there is no cluster {cluster!r} in reconciler.yaml" if rest else "lies in no cluster's folder"
            hint = f"move the file to {config.evidence}/<cluster>/; the clusters are: {', '.join(sorted(known))}"
            place = SourceRef(path=file.path)
            own.problems.append(Problem(rule="evidence.cluster", place=place, message=message, hint=hint))
        if cluster not in names:
            continue
        for document in own.documents(file):
            if document.kind != "NodeInventory":
                message = f"a {document.kind} is no evidence, so nothing reads it"
                place, hint = document.source, "move it among the sources, or remove it"
                own.problems.append(Problem(rule="layout.kind", place=place, field="kind", message=message, hint=hint))
                continue
            inventory, problems = parse_inventory(document, cluster)
            own.problems += problems
            if inventory is not None and cluster in inventories:
                message = f"a second NodeInventory of cluster {cluster}"
                own.problems.append(
                    Problem(rule="evidence.duplicate", place=document.source, message=message, hint="keep one of them")
                )
            elif inventory is not None:
                inventories[cluster] = inventory
    return inventories


def _queues(
    clusters: tuple[Cluster, ...], definitions: Iterable[tuple[Document, File]], catalogue: Catalogue
) -> dict[QueueId, QueueSource]:
    """Queues by identity. Broken ones are left out here; `compile_file` reports them in their own file."""
    queues: dict[QueueId, QueueSource] = {}
    for document, file in definitions:
        if document.kind != "TorchrunQueue" or _failed(catalogue.validate(document)):
            continue
        intent = queue_intent(document).intent
        if intent is None:
            continue
        for cluster in clusters:
            if selects(cluster, document.source.path, document.metadata.get("labels")):
                key = (cluster.name, document.key.namespace or cluster.namespace, document.key.name)
                queues.setdefault(key, QueueSource(intent=intent, file_id=f"{file.path}:{file.oid}:{document.index}"))
    return queues
