"""Workloads of other systems as plain objects: the parts that those of Kaiwo and AgentaFlow have in common."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Lookup
from reconciler.kinds.distribution import (
    Distribution,
    DistributionFailure,
    NodeKind,
    computation,
    distribute,
    refusal,
)
from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kueue import LOCAL_QUEUE
from reconciler.kinds.manifests.generations import generation_reason
from reconciler.kinds.manifests.manifest import manifest
from reconciler.kinds.rendered import Rendered, has_errors
from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason, Traced
from reconciler.kube.values import mapping, sequence
from reconciler.repo.config.external import External
from reconciler.sizing.devices import Vendor, vendor_in
from reconciler.sizing.inventory import Node

QUEUEING_VERSION = "v1beta2"
_REQUIRED, _PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
_TOOLS = ("gpureconciler.io/", "kubectl.kubernetes.io/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")


def render_trees(fields: Fields, lookup: Lookup, rule: str, trees: Iterable[Tree], problems: list[Problem]) -> Rendered:
    """Return the manifests of a document; none if an error is among the problems, which `trees` may add to.

    LocalQueues are shared: workloads of one namespace render the same one.
    """
    document, found = fields.document, list(trees)
    if has_errors(problems):
        return Rendered(problems=tuple(problems))
    text = f"rendered for the {document.kind}"
    reason = Reason(rule=f"{fields.family}.{rule}", text=text, origins=(Origin(document=document),))
    made = [manifest(cluster=lookup.cluster.name, tree=tree, source=document.source, reason=reason) for tree in found]
    shared = [replace(one, is_shared=(one.key.group, one.key.kind) == LOCAL_QUEUE) for one in made]
    return Rendered(manifests=tuple(shared), problems=tuple(problems))


def local_queue(name: str | Traced, namespace: str | Traced) -> Tree:
    """Return the LocalQueue by which a namespace uses a ClusterQueue of the same name."""
    group, kind = LOCAL_QUEUE
    metadata = {"name": name, "namespace": namespace}
    api = f"{group}/{QUEUEING_VERSION}"
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {"clusterQueue": name}}


def has_local_queue(lookup: Lookup, namespace: str, name: str) -> bool:
    """Return whether the repository defines a LocalQueue, or its cluster has it from elsewhere."""
    is_external = External(lookup.cluster).has(LOCAL_QUEUE[1], namespace, name)
    return is_external or lookup.defined(LOCAL_QUEUE, namespace, name) is not None


def name_of(fields: Fields, lookup: Lookup, key: ObjectKey) -> Traced | None:
    """Return the name of the workload, with the suffix of the generation in which its object runs."""
    name, suffix = fields.get("metadata", "name"), lookup.generation(key)
    if name is None or not suffix:
        return name
    return Traced(f"{key.name}{suffix}", generation_reason(key.name, name.reason.origins))


def own_annotations(fields: Fields, *kept: str) -> Tree:
    """Return the annotations of the document, except those of tools that apply or render it. kept: some of them."""
    found = fields.entries("metadata", "annotations")
    return {key: value for key, value in found.items() if not key.startswith(_TOOLS) or key in kept}


def offers(node: Node, resource: str) -> bool:
    """Return whether a node may have GPUs of an extended resource: its product is not one of another vendor."""
    vendor = vendor_in((node.product,))
    return vendor is None or vendor.resource == resource or resource not in {one.resource for one in Vendor}


def spread(  # noqa: PLR0917 - a request, and what it is spread over
    fields: Fields,
    path: FieldPath,
    gpus: Traced,
    free: Sequence[NodeKind],
    every: Sequence[NodeKind],
    problems: list[Problem],
) -> Distribution | None:
    """Spread GPUs over the free nodes, else over all of them, with a warning; None with a problem if neither works."""
    found = distribute(gpus.value, free)
    if isinstance(found, DistributionFailure) and free != every:
        later = distribute(gpus.value, every)
        if isinstance(later, Distribution):
            message = "the workload fits the nodes, but not now: some of them are cordoned or quarantined"
            problems.append(fields.warning("not-now", path, message, "it waits until they are back"))
            found = later
    if isinstance(found, DistributionFailure):
        problems.append(fields.problem("distribution", path, *refusal(found)))
        return None
    return found


def pods_and_gpus(fields: Fields, found: Distribution, gpus: Traced) -> tuple[Traced, Traced]:
    """Return the pods of a distribution, and the GPUs of each, with the computation as their reason."""
    reason = Reason(rule=f"{fields.family}.gpus", text=computation(found), origins=gpus.reason.origins)
    return Traced(found.nodes, reason), Traced(found.per_node, reason)


def node_affinity(fields: Fields, at: FieldPath, needed: Sequence[Traced], liked: Sequence[Tree] = ()) -> Tree:
    """Return the affinity at a path, in which each alternative requires what is needed, too. liked: preferences."""
    node_at = (*at, "nodeAffinity")
    terms_at = (*node_at, _REQUIRED, "nodeSelectorTerms")
    terms = [
        {
            **fields.entries(*terms_at, index, without=("matchExpressions",)),
            "matchExpressions": [*fields.items(*terms_at, index, "matchExpressions"), *needed],
        }
        for index, term in enumerate(sequence(fields.plain(*terms_at)))
        if mapping(term)  # an empty term matches no node
    ]
    node = fields.entries(*node_at, without=(_REQUIRED, _PREFERRED))
    node[_REQUIRED] = {"nodeSelectorTerms": terms or [{"matchExpressions": [*needed]}]}
    if preferences := [*fields.items(*node_at, _PREFERRED), *liked]:
        node[_PREFERRED] = preferences
    return {**fields.entries(*at, without=("nodeAffinity",)), "nodeAffinity": node}


def default(family: str, value: Any, text: str) -> Traced:
    """Return a value that nobody wrote, and why it is this one."""
    return Traced(value, Reason(rule=f"{family}.default", text=text))
