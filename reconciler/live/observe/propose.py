"""Propose flavors, quotas and node resources that fit the observed nodes, as edits of queue files."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.kind import Kinds
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY
from reconciler.kinds.kueue import GROUP as KUEUE
from reconciler.kinds.torchrun import QUEUE as TORCHRUN_QUEUE
from reconciler.kube.problems import Problem
from reconciler.kube.values import mapping, plural, sequence, text
from reconciler.kube.yaml import Document, read, write
from reconciler.live.observe.pools import HOSTNAME, POOL_LABEL, Pool, node_pools, topology_levels
from reconciler.live.observe.runs import key_of
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth, as_of_age
from reconciler.plan.workspace import Workspace
from reconciler.policy.references import evidence_ages
from reconciler.repo.config import Backend, Cluster
from reconciler.repo.files import selects
from reconciler.repo.port import Repository
from reconciler.sizing.inventory import Inventory, Node

# Flavors, quotas and topologies that fit the observed nodes, as new documents and edits of existing ones.


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


# Jobs that name bad nodes: other nodes for them, as edits of their documents.


_BAD = (CheckStatus.WARN, CheckStatus.FAIL)


class NodeSwap(Struct, frozen=True, kw_only=True):
    """A job with other nodes, and what changed in words. Without a free healthy node there is no proposal."""

    note: str
    proposal: Proposal | None = None


def bad_nodes(inventory: Inventory, health: FleetHealth) -> dict[str, Node]:
    """Return the nodes that jobs should leave: with a warning or a failure, or kept out of use by Git."""
    nodes = (node for node in inventory.nodes if node.gpus)
    return {node.name: node for node in nodes if node.quarantined or health.status(node.name) in _BAD}


def propose_moves(
    kinds: Kinds, documents: Sequence[Document], inventory: Inventory, health: FleetHealth
) -> Iterator[NodeSwap]:
    """Yield the jobs that name bad nodes, with healthy nodes of the same GPUs instead; each is given away once."""
    bad = bad_nodes(inventory, health)
    taken = {name for document in documents for name in _named(kinds, document.data)}
    for document in documents:
        data = deepcopy(document.data)
        swapped: dict[str, str] = {}
        for name in [name for name in dict.fromkeys(_named(kinds, data)) if name in bad]:
            other = _instead(bad[name], inventory, health, taken)
            where = f"{document.kind}/{document.key.name}"
            if other is None:
                old = _unknown(bad[name], inventory, health)
                note = f"{where} names {name}, {_why(name, health)}; no healthy node of its kind is free{old}"
                yield NodeSwap(note=note)
                continue
            taken.add(other)
            swapped[name] = other
        if swapped:
            _swap(kinds, data, swapped)
            moves = ", ".join(f"{old} ({_why(old, health)}) → {new}" for old, new in swapped.items())
            note = f"{document.kind}/{document.key.name} moves: {moves}"
            yield NodeSwap(note=note, proposal=Proposal(data=data, document=document))


def _why(name: str, health: FleetHealth) -> str:
    known = health.nodes.get(name)
    checks = ", ".join(dict.fromkeys(issue.check for issue in known.issues)) if known is not None else ""
    return f"{health.status(name)} {checks}".strip() if known is not None else "quarantined"


def _instead(bad: Node, inventory: Inventory, health: FleetHealth, taken: set[str]) -> str | None:
    """Return the healthy node most like a bad one: with the most labels in common, such as those of its rack."""
    free = [
        node
        for node in _alike(bad, inventory)
        if node.name not in taken and health.status(node.name) is CheckStatus.PASS
    ]
    common = bad.labels.items()
    return min(free, key=lambda node: (-len(common & node.labels.items()), node.name)).name if free else None


def _alike(bad: Node, inventory: Inventory) -> Iterator[Node]:
    """Yield the open nodes with the same GPUs."""
    mine = (bad.product, bad.gpus)
    return (node for node in inventory.nodes if node.is_open and (node.product, node.gpus) == mine)


def _unknown(bad: Node, inventory: Inventory, health: FleetHealth) -> str:
    """Say why the health of such nodes is unknown; empty if there is none with a reason."""
    known = (health.nodes.get(node.name) for node in _alike(bad, inventory))
    reasons = [one.why for one in known if one is not None and one.status is CheckStatus.UNKNOWN and one.why]
    return f" ({plural(len(reasons), 'node')} unknown: {reasons[0]})" if reasons else ""


def _specs(kinds: Kinds, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what binds pods to nodes: the specs of pods, and what a TorchrunJob says for all of its pods."""
    yield mapping(mapping(data.get("spec")).get("scheduling"))
    for pods in kinds.pod_sets(data) or ():
        yield mapping(pods.template.get("spec"))


def _lists(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the expressions of the required node affinity that list host names."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in map(mapping, sequence(required.get("nodeSelectorTerms"))):
        for expression in map(mapping, sequence(term.get("matchExpressions"))):
            if expression.get("key") == HOSTNAME and expression.get("operator") == "In":
                yield expression


def _named(kinds: Kinds, data: dict[str, Any]) -> Iterator[str]:
    for spec in _specs(kinds, data):
        yield from filter(None, (text(mapping(spec.get("nodeSelector")).get(HOSTNAME)), text(spec.get("nodeName"))))
        for expression in _lists(spec):
            yield from (text(value) for value in sequence(expression.get("values")))


def _swap(kinds: Kinds, data: dict[str, Any], names: dict[str, str]) -> None:
    for spec in _specs(kinds, data):
        selector = mapping(spec.get("nodeSelector"))
        if text(selector.get(HOSTNAME)) in names:
            selector[HOSTNAME] = names[selector[HOSTNAME]]
        if text(spec.get("nodeName")) in names:
            spec["nodeName"] = names[spec["nodeName"]]
        for expression in _lists(spec):
            expression["values"] = [names.get(value, value) for value in sequence(expression.get("values"))]


class ProposedEdit(Struct, frozen=True, kw_only=True):
    """The content of a file before and after; it is new if there is nothing before."""

    path: str
    before: bytes
    after: bytes


class ClusterProposals(Struct, frozen=True, kw_only=True):
    """The edits for one cluster. problems: documents that could not be edited in place."""

    cluster: str
    edits: tuple[ProposedEdit, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def propose(workspace: Workspace, *, share: float, today: dt.date) -> Iterator[ClusterProposals]:
    """Return the edits for every chosen cluster. They depend on the repository alone: observe first."""
    index = workspace.compile()
    for cluster in index.clusters:
        inventory = index.context.evidence.inventories.get(cluster.name)
        if inventory is None:
            hint = f"there is no evidence; run `reconciler observe --cluster {cluster.name}` first"
            yield ClusterProposals(cluster=cluster.name, notes=(hint,))
            continue
        known = _known(index, cluster)
        found = Proposed(cluster=cluster.name)
        if cluster.backend is Backend.KUEUE:
            found = propose_kueue(cluster, inventory, known, share=share)
        moves = _moves(workspace.repository, index, cluster, inventory, today)
        found = replace(found, notes=(*found.notes, *(move.note for move in moves)))
        moved = (move.proposal for move in moves if move.proposal is not None)
        proposals = (*found.proposals, *propose_torchrun(inventory, known, share=share), *moved)
        yield _edits(workspace.repository, index, cluster, proposals, found)


def _moves(
    repository: Repository, index: CompiledRevision, cluster: Cluster, inventory: Inventory, today: dt.date
) -> list[NodeSwap]:
    """Return other nodes for the jobs that name bad ones. Only files that name such a node are parsed."""
    health = index.context.evidence.health.get(cluster.name) or FleetHealth(cluster=cluster.name, taken_at="")
    age = evidence_ages({cluster.name: health}, today).get(cluster.name)
    health = as_of_age(health, age, index.context.config.evidence_days)
    names = [name.encode() for name in bad_nodes(inventory, health)]
    if not names:
        return []
    files = index.revision.files.sources
    raw = read_files(repository, files, sorted(files))
    readings = [read(path, content) for path, content in raw if any(name in content for name in names)]
    documents = [
        document
        for reading in readings
        for document in reading.documents
        if selects(cluster, document.source.path, document.metadata.get("labels"))
    ]
    return list(propose_moves(index.context.kinds, documents, inventory, health))


def _known(index: CompiledRevision, cluster: Cluster) -> list[Document]:
    """Return the definitions that the cluster selects."""
    return [
        one.document
        for (name, _, _), group in index.context.definitions.items()
        if name == cluster.name
        for one in group.values()
    ]


def _edits(
    repository: Repository, index: CompiledRevision, cluster: Cluster, proposals: Sequence[Proposal], found: Proposed
) -> ClusterProposals:
    sources = index.revision.files.sources
    changes: dict[str, list[tuple[Document, Data]]] = {}
    for proposal in proposals:
        if proposal.document is not None:
            changes.setdefault(proposal.document.source.path, []).append((proposal.document, proposal.data))
    new = [_selected(proposal.data, cluster) for proposal in proposals if proposal.document is None]
    new = [data for data in new if _path(index, cluster, data) not in index.desired]
    notes = list(found.notes)
    path = _new_file(index, cluster)
    if new and not path:
        notes.append("new objects are left out: the cluster has no select, so every cluster would get them")
        new = []
    wanted = sorted({*changes, *([path] if new else [])})
    before = dict(read_files(repository, sources, [one for one in wanted if one in sources]))
    edits: list[ProposedEdit] = []
    problems: list[Problem] = []
    for one in wanted:
        edited = edit_source(before.get(one, b""), changes.get(one, []))
        problems += edited.problems
        content = edited.content + (_appended(edited.content, new) if one == path else b"")
        edits.append(ProposedEdit(path=one, before=before.get(one, b""), after=content))
    if found.patches:
        edits.append(_node_labels(repository, cluster, found.patches))
    return ClusterProposals(
        cluster=cluster.name,
        edits=tuple(edit for edit in edits if edit.before != edit.after),
        notes=tuple(notes),
        problems=tuple(problems),
    )


def _path(index: CompiledRevision, cluster: Cluster, data: Data) -> str:
    return index.context.kinds.manifest_path(cluster.name, key_of(data))


def _selected(data: Data, cluster: Cluster) -> Data:
    """Return a new document with the labels that the cluster selects by."""
    labels = dict(cluster.select.labels)
    return {**data, "metadata": {**data["metadata"], "labels": labels}} if labels else data


def _new_file(index: CompiledRevision, cluster: Cluster) -> str:
    """Return the path of new documents; empty if they would be rendered for other clusters, too."""
    config = index.context.config
    if len(config.clusters) > 1 and not cluster.select.folders and not cluster.select.labels:
        return ""
    folder = next(iter(cluster.select.folders), config.sources[0])
    return f"{folder}/{cluster.name}-pools.yaml"


def _appended(before: bytes, new: Sequence[Data]) -> bytes:
    text = b"---\n".join(write(data) for data in new)
    return (b"---\n" if before else b"# Proposed by `reconciler propose` from the observed nodes.\n") + text


def _node_labels(repository: Repository, cluster: Cluster, patches: Sequence[Data]) -> ProposedEdit:
    """Return the labels for nodes as a file that nothing syncs: a GitOps tool would create missing nodes."""
    head = (
        "# Labels that distinguish the nodes of a pool. Nothing applies this file by itself. After a review:\n"
        f"# kubectl apply --server-side --field-manager=reconciler -f node-labels/{cluster.name}.yaml\n"
    )
    after = head.encode() + b"---\n".join(write(patch) for patch in patches)
    path = f"node-labels/{cluster.name}.yaml"
    entry = repository.work_file(path)
    before = next(iter(repository.read([entry.oid])), b"") if entry is not None and entry.is_file else b""
    return ProposedEdit(path=path, before=before, after=after)
