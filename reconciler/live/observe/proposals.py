"""Flavors, quotas and topologies that fit the observed nodes, as new documents and edits of existing ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY
from reconciler.kinds.kueue import GROUP as KUEUE
from reconciler.kinds.torchrun import QUEUE as TORCHRUN_QUEUE
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import Document
from reconciler.live.observe.pools import POOL_LABEL, Pool, node_pools, topology_levels
from reconciler.repo.config import Cluster
from reconciler.sizing.inventory import Inventory

Data = dict[str, Any]

_VERSION = f"{KUEUE}/v1beta2"
_TOPOLOGY = "default-topology"


class Proposal(Struct, frozen=True, kw_only=True):
    """A document as it is proposed. `document` is the one to edit; None: it is new."""

    data: Data
    document: Document | None = None


class Proposed(Struct, frozen=True, kw_only=True):
    """Proposals for one cluster. patches: labels for nodes, to be applied by a person. notes: what was left alone."""

    cluster: str
    proposals: tuple[Proposal, ...] = ()
    patches: tuple[Data, ...] = ()
    notes: tuple[str, ...] = ()


def propose_kueue(cluster: Cluster, inventory: Inventory, known: Sequence[Document], *, share: float) -> Proposed:
    """Propose a flavor for each pool, the quotas of one ClusterQueue over all of them, and a topology.

    known: the documents of the repository that the cluster selects.
    """
    pools = node_pools(inventory)
    levels = topology_levels([node for pool in pools if pool.resource for node in pool.nodes])
    queues = [document for document in known if _id(document) == CLUSTER_QUEUE and _uses(document, pools)]
    wanted: list[Data] = []
    if levels:
        spec = {"levels": [{"nodeLabel": label} for label in levels]}
        wanted.append(_object(TOPOLOGY[1], _TOPOLOGY, spec))
    wanted += [_flavor(pool, is_tiered=bool(levels)) for pool in pools]
    notes = []
    if not queues and pools:
        wanted.append(_cluster_queue(cluster, pools, share))
        wanted.append(_object(LOCAL_QUEUE[1], cluster.name, {"clusterQueue": cluster.name}, cluster.namespace))
    elif len(queues) > 1:
        names = ", ".join(sorted(document.key.name for document in queues))
        notes.append(f"the quotas of {names} stay unchanged: several ClusterQueues share the flavors")
    proposals = [*_merged(wanted, known)]
    if len(queues) == 1:
        proposals += _edited(queues[0], pools, share)
    return Proposed(
        cluster=cluster.name,
        proposals=tuple(proposals),
        patches=tuple(patch for pool in pools for patch in _patches(pool)),
        notes=tuple(notes),
    )


def _id(document: Document) -> tuple[str, str]:
    return (document.group, document.kind)


def _object(kind: str, name: str, spec: Data, namespace: str = "") -> Data:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _flavor(pool: Pool, *, is_tiered: bool) -> Data:
    spec: Data = {"nodeLabels": dict(pool.selector)}
    if pool.taints:
        spec["nodeTaints"] = [
            {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
            for taint in pool.taints
        ]
    if is_tiered and pool.resource:
        spec["topologyName"] = _TOPOLOGY
    return _object(RESOURCE_FLAVOR[1], pool.name, spec)


def _cluster_queue(cluster: Cluster, pools: Sequence[Pool], share: float) -> Data:
    """Return one queue over all pools: every flavor covers every resource, with 0 of what its nodes lack."""
    covered = ["cpu", "memory", *sorted({pool.resource for pool in pools if pool.resource})]
    flavors = [_flavor_quotas(pool, covered, share) for pool in pools]
    group = {"coveredResources": covered, "flavors": flavors}
    return _object(CLUSTER_QUEUE[1], cluster.name, {"namespaceSelector": {}, "resourceGroups": [group]})


def _flavor_quotas(pool: Pool, covered: Sequence[str], share: float) -> Data:
    amounts = _amounts(pool, share)
    return {
        "name": pool.name,
        "resources": [{"name": name, "nominalQuota": amounts.get(name, 0)} for name in covered],
    }


def _amounts(pool: Pool, share: float) -> dict[str, int | str]:
    amounts: dict[str, int | str] = {"cpu": pool.cpus(share), "memory": f"{pool.memory_gib(share)}Gi"}
    return amounts | ({pool.resource: pool.gpus} if pool.resource else {})


def _uses(document: Document, pools: Sequence[Pool]) -> bool:
    names = {pool.name for pool in pools}
    return any(text(flavor.get("name")) in names for flavor in _flavors(document.data))


def _flavors(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in map(mapping, sequence(mapping(data.get("spec")).get("resourceGroups"))):
        yield from map(mapping, sequence(group.get("flavors")))


def _merged(wanted: Sequence[Data], known: Sequence[Document]) -> Iterator[Proposal]:
    """Yield new documents, and existing ones that differ in a proposed field; their other fields stay."""
    existing = {(document.kind, document.key.name): document for document in known if document.group == KUEUE}
    for data in wanted:
        document = existing.get((data["kind"], data["metadata"]["name"]))
        if document is None:
            yield Proposal(data=data)
            continue
        merged = {**document.data, "spec": {**mapping(document.data.get("spec")), **data["spec"]}}
        if merged != document.data:
            yield Proposal(data=merged, document=document)


def _edited(document: Document, pools: Sequence[Pool], share: float) -> Iterator[Proposal]:
    """Yield the queue with the quotas of the pools, if they differ; a pool that it does not name is added."""
    amounts = {pool.name: _amounts(pool, share) for pool in pools}
    spec = mapping(document.data.get("spec"))
    groups = []
    named = {text(flavor.get("name")) for flavor in _flavors(document.data)}
    for group in map(mapping, sequence(spec.get("resourceGroups"))):
        flavors = [_with_quotas(flavor, amounts) for flavor in map(mapping, sequence(group.get("flavors")))]
        if any(text(flavor.get("name")) in amounts for flavor in flavors):
            covered = [text(name) for name in sequence(group.get("coveredResources"))]
            flavors += [_flavor_quotas(pool, covered, share) for pool in pools if pool.name not in named]
            named |= amounts.keys()
        groups.append({**group, "flavors": flavors})
    data = {**document.data, "spec": {**spec, "resourceGroups": groups}}
    if data != document.data:
        yield Proposal(data=data, document=document)


def _with_quotas(flavor: Mapping[str, Any], amounts: Mapping[str, Mapping[str, int | str]]) -> Data:
    own = amounts.get(text(flavor.get("name")))
    if own is None:
        return dict(flavor)
    resources = [
        {**resource, "nominalQuota": own.get(text(resource.get("name")), resource.get("nominalQuota", 0))}
        for resource in map(mapping, sequence(flavor.get("resources")))
    ]
    return {**flavor, "resources": resources}


def _patches(pool: Pool) -> Iterator[Data]:
    """Yield a server-side apply patch for each node that lacks the label of its pool."""
    for name in pool.unlabelled:
        metadata = {"name": name, "labels": {POOL_LABEL: pool.name}}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def propose_torchrun(inventory: Inventory, known: Sequence[Document], *, share: float) -> Iterator[Proposal]:
    """Yield the torchrun queues whose `nodeResources` are not those of the smallest node that they select."""
    for document in known:
        if _id(document) != TORCHRUN_QUEUE:
            continue
        spec = mapping(document.data.get("spec"))
        selector = {
            key: value
            for key, value in mapping(mapping(spec.get("scheduling")).get("nodeSelector")).items()
            if isinstance(value, str)
        }
        found = inventory.gpu_nodes(selector)
        nodes = [node for node in found if node.allocatable_cpus and node.allocatable_memory_gib]
        if not selector or not nodes:
            continue
        resources = {
            "gpus": min(node.allocatable_gpus or node.gpus for node in nodes),
            "cpus": int(share * min(node.allocatable_cpus for node in nodes)),
            "memory": f"{int(share * min(node.allocatable_memory_gib for node in nodes))}Gi",
        }
        data = {**document.data, "spec": {**spec, "nodeResources": {**mapping(spec.get("nodeResources")), **resources}}}
        if data != document.data:
            yield Proposal(data=data, document=document)
