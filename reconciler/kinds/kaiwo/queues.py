"""`KaiwoQueueConfig` as objects of Kueue: Topology, ResourceFlavor, ClusterQueue, LocalQueue, WorkloadPriorityClass."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.kinds.aspects import Lookup
from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kaiwo.config import FAMILY, default
from reconciler.kinds.kueue import GROUP
from reconciler.kinds.manifests.manifest import manifest
from reconciler.kinds.rendered import Rendered, has_errors
from reconciler.kinds.translated import QUEUEING_VERSION, local_queue
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Parsed, Problem
from reconciler.kube.reasons import Origin, Reason, Traced
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import Document
from reconciler.repo.config import Backend

KUEUE = f"{GROUP}/{QUEUEING_VERSION}"
_WORKER = default("true", "nodes of flavors without a topology are Kaiwo's workers")
_RENAMED = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Values of `flavorFungibility` that have other names in v1beta2."""
_HOSTNAME = "kubernetes.io/hostname"


class KaiwoQueueConfig(Struct, frozen=True, kw_only=True, eq=False):
    """The intent: the document, and what workloads look up in it.

    namespaces: those with a LocalQueue, by ClusterQueue; empty: those of its workloads.
    levels: node labels of all topologies.
    """

    document: Document
    namespaces: dict[str, tuple[str, ...]]
    levels: frozenset[str]


def queue_config_intent(document: Document) -> Parsed[KaiwoQueueConfig]:
    """Read a KaiwoQueueConfig."""
    fields = Fields(document, FAMILY)
    problems = [*_repeated(fields), *_checks(fields), *_uncovered(fields), *_levels(fields)]
    queues = map(mapping, sequence(fields.plain("spec", "clusterQueues")))
    topologies = map(mapping, sequence(fields.plain("spec", "topologies")))
    intent = KaiwoQueueConfig(
        document=document,
        namespaces={text(queue.get("name")): tuple(sequence(queue.get("namespaces"))) for queue in queues},
        levels=frozenset(
            text(level.get("nodeLabel")) for one in topologies for level in sequence(mapping(one["spec"]).get("levels"))
        ),
    )
    return Parsed(intent=None if has_errors(problems) else intent, problems=tuple(problems))


_NAMES: dict[str, FieldPath] = {
    "topologies": ("metadata", "name"),
    "resourceFlavors": ("name",),
    "clusterQueues": ("name",),
    "workloadPriorityClasses": ("metadata", "name"),
}


def _repeated(fields: Fields) -> Iterator[Problem]:
    for section, name in _NAMES.items():
        seen: set[str] = set()
        for index in range(len(sequence(fields.plain("spec", section)))):
            path = ("spec", section, index, *name)
            found = fields.plain(*path)
            if found in seen:
                yield fields.problem("repeated", path, f"{found!r} is there already", "rename it, or remove it")
            seen.add(found)


def _queues(fields: Fields) -> Iterator[FieldPath]:
    for index in range(len(sequence(fields.plain("spec", "clusterQueues")))):
        yield ("spec", "clusterQueues", index)


def _checks(fields: Fields) -> Iterator[Problem]:
    for path in _queues(fields):
        checks = (*path, "spec", "admissionChecks")
        if fields.plain(*checks) and fields.plain(*path, "spec", "admissionChecksStrategy"):
            message = "cannot be set together with admissionChecksStrategy"
            yield fields.problem("contradiction", checks, message, "name its checks in admissionChecksStrategy")


def _uncovered(fields: Fields) -> Iterator[Problem]:
    """Yield the quotas of resources that a group does not cover, and so does not grant."""
    for path in _queues(fields):
        for outer, group in enumerate(map(mapping, sequence(fields.plain(*path, "spec", "resourceGroups")))):
            covered = sequence(group.get("coveredResources"))
            for index, flavor in enumerate(map(mapping, sequence(group.get("flavors")))):
                for inner, quota in enumerate(map(mapping, sequence(flavor.get("resources")))):
                    if quota.get("name") in covered:
                        continue
                    at = (*path, "spec", "resourceGroups", outer, "flavors", index, "resources", inner, "name")
                    message = f"{quota.get('name')} is not in coveredResources, so its quota has no effect"
                    yield fields.problem("uncovered", at, message, "add it to coveredResources, in the same order")


def _levels(fields: Fields) -> Iterator[Problem]:
    for index in range(len(sequence(fields.plain("spec", "topologies")))):
        at = ("spec", "topologies", index, "spec", "levels")
        names = [text(mapping(level).get("nodeLabel")) for level in sequence(fields.plain(*at))]
        for place, name in enumerate(names):
            if name in names[:place]:
                yield fields.problem("topology", (*at, place), f"level {name} is there already", "remove it")
            if name == _HOSTNAME and place != len(names) - 1:
                message = f"{_HOSTNAME} has levels below it, but no domain is smaller than a node"
                yield fields.problem("topology", (*at, place), message, "make it the last level")


# --- rendering ---------------------------------------------------------------------------------------------------


def render_queues(config: KaiwoQueueConfig, lookup: Lookup) -> Rendered:
    """Render the objects of Kueue."""
    fields, cluster = Fields(config.document, FAMILY), lookup.cluster
    if cluster.backend is not Backend.KUEUE:
        message = f"cluster {cluster.name} does not use Kueue, so nothing is rendered"
        hint = "set `backend` of the cluster to kueue, or select other clusters"
        return Rendered(problems=(fields.warning("no-queueing", ("kind",), message, hint),))
    reason = Reason(rule="kaiwo.queues", text="rendered for the queues", origins=(Origin(document=config.document),))
    trees = (*_topologies(fields), *_flavors(fields), *_cluster_queues(fields), *_priorities(fields))
    return Rendered(
        manifests=tuple(
            manifest(cluster=cluster.name, tree=tree, source=config.document.source, reason=reason) for tree in trees
        )
    )


def _topologies(fields: Fields) -> Iterator[Tree]:
    for index in range(len(sequence(fields.plain("spec", "topologies")))):
        at = ("spec", "topologies", index)
        own = fields.entries(*at, without=("apiVersion", "kind"))
        yield {"apiVersion": KUEUE, "kind": "Topology", **own, "metadata": fields.entries(*at, "metadata")}


def _flavors(fields: Fields) -> Iterator[Tree]:
    for index in range(len(sequence(fields.plain("spec", "resourceFlavors")))):
        at = ("spec", "resourceFlavors", index)
        spec = fields.entries(*at, without=("name", "nodeLabels", "taints"))
        labels = fields.entries(*at, "nodeLabels")
        if "topologyName" not in spec:
            labels = {"kaiwo/worker": _WORKER, **labels}
        taints = fields.get(*at, "taints")
        spec |= ({"nodeLabels": labels} if labels else {}) | ({"nodeTaints": taints} if taints else {})
        metadata = {"name": fields.get(*at, "name")}
        yield {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": metadata, "spec": spec}


def _cluster_queues(fields: Fields) -> Iterator[Tree]:
    for at in _queues(fields):
        name = fields.get(*at, "name")
        if name is None:
            continue
        spec = fields.entries(*at, "spec", without=("cohort", "admissionChecks", "flavorFungibility"))
        if cohort := fields.get(*at, "spec", "cohort"):
            spec["cohortName"] = cohort
        checks = [{"name": check} for check in fields.items(*at, "spec", "admissionChecks")]
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": checks}
        if fungibility := fields.entries(*at, "spec", "flavorFungibility"):
            spec["flavorFungibility"] = {key: _renamed(value) for key, value in fungibility.items()}
        yield {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
        for namespace in fields.items(*at, "namespaces"):
            yield local_queue(name, namespace)


def _renamed(value: Traced) -> Traced:
    if value.value not in _RENAMED:
        return value
    reason = Reason(rule="kaiwo.kueue", text=f"{value.value} of Kueue's v1beta1", origins=value.reason.origins)
    return Traced(_RENAMED[value.value], reason)


def _priorities(fields: Fields) -> Iterator[Tree]:
    for index in range(len(sequence(fields.plain("spec", "workloadPriorityClasses")))):
        at = ("spec", "workloadPriorityClasses", index)
        own = fields.entries(*at, without=("apiVersion", "kind"))
        metadata = fields.entries(*at, "metadata")
        yield {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", **own, "metadata": metadata}
