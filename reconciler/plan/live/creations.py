"""Creations that need no dry run: those that cannot be made yet, and those that a saved plan made."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from reconciler.kinds.aspects import Holds
from reconciler.kinds.kind import Kinds
from reconciler.kube.client.port import ClusterError, LiveCluster, UnknownKind
from reconciler.kube.objects import ObjectKey
from reconciler.kube.problems import Severity
from reconciler.plan import Operation, Plan
from reconciler.plan.live.probe import Probe, ServerReply, missed_names
from reconciler.plan.live.reading import FEW


class Places(Struct, frozen=True, kw_only=True):
    """Objects that the plan itself creates and others wait for, so that those cannot be checked before.

    namespaces, groups: of the definitions of kinds. names: of all objects, which admission webhooks may look for.
    """

    namespaces: frozenset[ObjectKey]
    groups: frozenset[str]
    names: frozenset[str]

    def has(self, key: ObjectKey) -> bool:
        """Return whether an object may wait for one of them."""
        return key.group in self.groups or any(one.name == key.namespace for one in self.namespaces)

    def explain(self, cluster: LiveCluster, key: ObjectKey, answer: Probe) -> bool:
        """Return whether a creation was refused because something does not exist yet."""
        is_placeless = answer.reply is ServerReply.NO_PLACE and self.has(key)
        if is_placeless and key.group not in self.groups and _is_unknown(cluster, key.group, key.kind):
            return False  # nothing here defines its kind
        return is_placeless or not self.names.isdisjoint(missed_names(answer.message))

    def missing(self, cluster: LiveCluster, keys: Mapping[str, ObjectKey]) -> set[str]:
        """Return the paths of objects whose namespace or kind does not exist yet."""
        namespaces = {one.name for one in self.namespaces if _is_absent(cluster, one)}
        groups = {(key.group, key.kind) for key in keys.values() if key.group in self.groups}
        kinds = {kind for kind in groups if _is_unknown(cluster, *kind)}
        return {path for path, key in keys.items() if key.namespace in namespaces or (key.group, key.kind) in kinds}


def created_places(kinds: Kinds, keys: Iterable[ObjectKey]) -> Places:
    """Return the namespaces, groups and names that desired objects provide for others."""
    rows = [(kinds.find(key.group, key.kind), key) for key in keys]
    return Places(
        namespaces=frozenset(key for row, key in rows if row.holds is Holds.OBJECTS),
        groups=frozenset(key.name.partition(".")[2] for row, key in rows if row.holds is Holds.KINDS),
        names=frozenset(key.name for _, key in rows),
    )


def reviewed_creations(saved: Plan, folder: str) -> dict[str, str]:
    """Return the objects that a saved plan creates and that the server accepted in its dry run: blob ids by path.

    None of a plan with errors: it cannot be carried out.
    """
    if any(problem.severity is Severity.ERROR for problem in saved.problems):
        return {}
    unchecked = {(state.cluster, name) for state in saved.clusters for name in state.unchecked}
    return {
        change.path.removeprefix(f"{folder}/"): change.digest_after
        for change in saved.changes
        if change.operation is Operation.CREATE and not change.moved_from
        if (change.cluster, str(change.key)) not in unchecked
    }


def still_absent(cluster: LiveCluster, keys: Mapping[str, ObjectKey]) -> set[str]:
    """Return the paths of objects that do not exist, whoever they belong to.

    Only of many objects of one kind in a namespace, for which a list costs less than a dry run of each.
    """
    groups: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for path, key in keys.items():
        groups[key.group, key.kind, key.namespace][key.name] = path
    absent: set[str] = set()
    for (group, kind, namespace), paths in groups.items():
        if len(paths) > FEW:
            taken = _names(cluster, group, kind, namespace)
            absent |= {path for name, path in paths.items() if taken is not None and name not in taken}
    return absent


def _names(cluster: LiveCluster, group: str, kind: str, namespace: str) -> AbstractSet[str] | None:
    """Return the names of all objects of a kind; None if they cannot be read."""
    try:
        listing = cluster.list(cluster.resource(group, kind), namespace=namespace, metadata_only=True)
        return {body["metadata"]["name"] for body in listing.objects}
    except ClusterError:
        return None


def _is_absent(cluster: LiveCluster, key: ObjectKey) -> bool:
    """Return whether an object surely does not exist."""
    try:
        return cluster.get(key) is None
    except ClusterError:
        return False


def _is_unknown(cluster: LiveCluster, group: str, kind: str) -> bool:
    try:
        cluster.resource(group, kind)
    except UnknownKind:
        return True
    except ClusterError:
        return False
    return False
