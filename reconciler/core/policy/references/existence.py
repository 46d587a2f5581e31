"""What objects refer to exists: in this repository, in the cluster by `external`, or in every cluster."""

from collections.abc import Iterable, Sequence

from reconciler.core.config import Backend, Cluster
from reconciler.core.objects import ObjectKey
from reconciler.core.policy.references.rules import Bench
from reconciler.core.summary import ObjectSummary, Reference
from reconciler.core.summary.queues import KAI_GROUP, KUEUE_GROUP

_RULE_OF = {
    "Queue": "reference.queue",
    "LocalQueue": "reference.queue",
    "ClusterQueue": "reference.cluster-queue",
    "ResourceFlavor": "reference.resource-flavor",
    "Topology": "reference.topology",
    "PersistentVolumeClaim": "reference.pvc",
    "ConfigMap": "reference.config-map",
    "Secret": "reference.secret",
    "ServiceAccount": "reference.service-account",
    "PriorityClass": "reference.priority-class",
    "WorkloadPriorityClass": "reference.priority-class",
    "StorageClass": "reference.storage-class",
}
_GROUP_OF = {
    "Queue": KAI_GROUP,  # Volcano has a Queue, too
    "LocalQueue": KUEUE_GROUP,
    "ClusterQueue": KUEUE_GROUP,
    "ResourceFlavor": KUEUE_GROUP,
    "WorkloadPriorityClass": KUEUE_GROUP,
    "Topology": KUEUE_GROUP,
    "PriorityClass": "scheduling.k8s.io",
    "StorageClass": "storage.k8s.io",
}
_CLUSTER_SCOPED = frozenset(
    ("Queue", "ClusterQueue", "ResourceFlavor", "Topology", "PriorityClass", "WorkloadPriorityClass", "StorageClass")
)
_IN_EVERY_NAMESPACE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_IN_EVERY_CLUSTER = frozenset(
    (("PriorityClass", "", "system-cluster-critical"), ("PriorityClass", "", "system-node-critical"))
)
_KAI_PRIORITIES = frozenset(
    ("PriorityClass", "", name) for name in ("train", "build-preemptible", "build", "inference")
)
_NAMESPACES = frozenset(("default", "kube-system", "kube-public", "kube-node-lease"))

_Name = tuple[str, str, str]


class External:
    """What `external` of a cluster names: whole kinds, or single objects."""

    __slots__ = ("anywhere", "kinds", "names")

    def __init__(self, cluster: Cluster) -> None:
        self.kinds: set[str] = set()
        self.names: set[_Name] = set()
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
        """Whether the cluster has the object."""
        return kind in self.kinds or (kind, namespace, name) in self.names or (kind, name) in self.anywhere

    def speaks_of(self, kind: str) -> bool:
        """Whether any object of a kind is named."""
        return kind in self.kinds or any(entry[0] == kind for entry in (*self.names, *self.anywhere))


def judge_existence(bench: Bench, rows: Sequence[ObjectSummary]) -> None:
    """Judge every reference, and every namespace that holds something."""
    external = External(bench.cluster)
    known: set[_Name] = {(row.kind, row.namespace, row.name) for row in rows if (row.kind, row.group) in _TARGETS}
    known |= _IN_EVERY_CLUSTER
    if bench.cluster.backend is Backend.KAI:
        known |= _KAI_PRIORITIES
    for row in rows:
        for reference in row.references:
            if (reference.kind, reference.namespace, reference.name) not in known:
                _judge(bench, row, reference, known, external)
    _namespaces(bench, rows, known, external)


_TARGETS = frozenset((kind, _GROUP_OF.get(kind, "")) for kind in (*_RULE_OF, "Namespace"))


def _judge(bench: Bench, row: ObjectSummary, reference: Reference, known: set[_Name], external: External) -> None:
    kind, namespace, name, field = reference.kind, reference.namespace, reference.name, reference.field
    if (kind, name) in _IN_EVERY_NAMESPACE or external.has(kind, namespace, name):
        return
    rule = "reference.parent" if kind == row.kind == "Queue" else _RULE_OF[kind]
    if not bench.is_on(rule):
        return
    whole = f"{namespace}/{name}" if namespace else name
    message = f"refers to {kind} {whole}, which neither this repository nor `external` of {bench.cluster.name} has"
    names = (known_name for known_kind, where, known_name in known if (known_kind, where) == (kind, namespace))
    elsewhere = [where for known_kind, where, known_name in known if (known_kind, known_name) == (kind, name)]
    declare = f"add the {kind}, or {kind}/{whole} to spec.clusters[].external if the cluster has it"
    if elsewhere and kind not in _CLUSTER_SCOPED:
        hint = f"namespace {min(elsewhere)} has one of this name, but references stay inside a namespace; {declare}"
    else:
        meant = bench.meant(name, (*names, *_external_names(external, kind)))
        hint = f"{meant} else {declare}" if meant else declare
    bench.rule(rule, row, message, hint=hint, field=field)


def _external_names(external: External, kind: str) -> Iterable[str]:
    return (name for known_kind, name in external.anywhere if known_kind == kind)


def _namespaces(bench: Bench, rows: Sequence[ObjectSummary], known: set[_Name], external: External) -> None:
    """Judge namespaces only where the repository cares for them: many leave them to somebody else."""
    managed = {name for kind, _, name in known if kind == "Namespace"}
    if not managed and not external.speaks_of("Namespace"):
        return
    for namespace in sorted({row.namespace for row in rows} - managed - _NAMESPACES - {""}):
        if external.has("Namespace", "", namespace):
            continue
        inside = [row for row in rows if row.namespace == namespace]
        first = min(inside, key=lambda row: row.place)
        hint = bench.meant(namespace, (*managed, *_external_names(external, "Namespace")))
        declare = f"add the Namespace, or Namespace/{namespace} to spec.clusters[].external if the cluster has it"
        bench.object(
            "reference.namespace",
            ObjectKey(group="", kind="Namespace", namespace="", name=namespace),
            first.place,
            f"holds {len(inside)} object{'' if len(inside) == 1 else 's'}, and nothing says that it exists",
            hint=f"{hint} else {declare}" if hint else declare,
        )
