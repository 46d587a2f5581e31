"""Write a starter file for a job, a queue, a health policy or a quarantine, with what the repository already says."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision
from reconciler.kinds.agentaflow.starter import WORKLOAD_EXAMPLES, workload_document
from reconciler.kinds.agentaflow.wishes import strategy_problem
from reconciler.kinds.health.starter import POLICY_EXAMPLES, QUARANTINE_EXAMPLES, policy_document, quarantine_document
from reconciler.kinds.kai import QUEUE_LABELS
from reconciler.kinds.kueue import LOCAL_QUEUE
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.torchrun import QUEUE
from reconciler.kinds.torchrun.starter import (
    JOB_EXAMPLES,
    QUEUE_EXAMPLES,
    NodeFacts,
    job_document,
    queue_document,
    write_starter,
)
from reconciler.kube.problems import Severity
from reconciler.kube.values import mapping, text, value_at
from reconciler.kube.yaml import read
from reconciler.plan.workspace import Workspace
from reconciler.repo.config import Backend, Cluster
from reconciler.repo.files import SUFFIXES

_SCHEMAS = ".schemas"


class StartingFile(Struct, frozen=True, kw_only=True):
    """A new file: its path below the root of the repository, and its content."""

    path: str
    content: bytes


def new_job(workspace: Workspace, name: str, *, queue: str, gpus: int, team: str, path: str = "") -> StartingFile:
    """Return the file of a TorchrunJob. An empty `queue` is the only one of the repository, an empty `path` a default.

    Raises `ConfigError` for a name that Kubernetes rejects, and for a queue that the repository does not define.
    """
    index = workspace.compile()
    known = sorted({name for cluster in index.clusters for name in _queues(index, cluster)})
    if queue not in known and (queue or len(known) != 1):
        names = ", ".join(known) if known else "none; create one: reconciler new queue NAME"
        problem = f"queue {queue!r} does not exist" if queue else "is required"
        raise ConfigError(f"--queue: {problem}", hint=f"queues: {names}")
    document = job_document(name, queue=queue or known[0], gpus=gpus, team=team)
    return _file(index, document, JOB_EXAMPLES, path or source_path(index, "jobs", name))


def new_queue(
    workspace: Workspace, name: str, *, quota: int, product: str, parent: str, path: str = ""
) -> StartingFile:
    """Return the file of a TorchrunQueue.

    What is empty is taken from the repository: `product` from the measured nodes, `parent` from its other queues.
    Raises `ConfigError` for a name that Kubernetes rejects, and for a product that no measured node has.
    """
    index = workspace.compile()
    cluster = _cluster(index, product)
    others = [spec for _, spec in sorted(_queues(index, cluster).items())]
    document = queue_document(
        name,
        quota=quota,
        parent=parent or _first(others, ("queue", "parentQueue"), ("parentKaiQueue",)),
        image=_first(others, ("image",)),
        nodes=_nodes(index, cluster, product),
    )
    return _file(index, document, QUEUE_EXAMPLES, path or source_path(index, "queues", name))


def new_gpu_workload(
    workspace: Workspace, name: str, *, queue: str, gpus: int, team: str, namespace: str, strategy: str, path: str = ""
) -> StartingFile:
    """Return the file of a GPUWorkload. An empty `queue` is the only one of its namespace, an empty strategy the usual.

    Raises `ConfigError` for a name that Kubernetes rejects, a strategy that is none, and a queue that is to be chosen.
    """
    index = workspace.compile()
    cluster = index.clusters[0]
    wrong = strategy_problem(strategy or None)
    if wrong is not None:
        raise ConfigError(f"--strategy: {wrong[0]}", hint=wrong[1])
    known = _named_queues(index, cluster, namespace or cluster.namespace)
    if not queue and len(known) > 1:
        raise ConfigError("--queue: is required", hint=f"queues: {', '.join(known)}")
    label = {Backend.KUEUE: QUEUE_LABEL, Backend.KAI: QUEUE_LABELS[0]}.get(cluster.backend)
    labels = {"team": team, **({label: queue} if label and queue else {})}
    document = workload_document(
        name, namespace=namespace, labels=labels, gpus=gpus, strategy=strategy or cluster.placement.strategy.value
    )
    return _file(index, document, WORKLOAD_EXAMPLES, path or source_path(index, "jobs", name))


def _named_queues(index: CompiledRevision, cluster: Cluster, namespace: str) -> list[str]:
    kinds = (QUEUE, LOCAL_QUEUE) if cluster.backend is Backend.KUEUE else (QUEUE,)
    found = index.context.definitions
    return sorted({name for kind in kinds for name in found.get((cluster.name, kind, namespace), {})})


def new_policy(workspace: Workspace, name: str, *, path: str = "") -> StartingFile:
    """Return the file of a HealthPolicy that enforces nothing. Raises `ConfigError` for a name that is not valid."""
    index = workspace.compile()
    return _file(index, policy_document(name), POLICY_EXAMPLES, path or source_path(index, "health", name))


def new_quarantine(workspace: Workspace, node: str, *, reason: str, effect: str, path: str = "") -> StartingFile:
    """Return the file of a NodeQuarantine, with the UID that the recorded health has of the node.

    Raises `ConfigError` for a name or a reason that is not valid, and for a node with different UIDs in two clusters.
    """
    index = workspace.compile()
    recorded = (health.nodes.get(node) for health in index.context.evidence.health.values())
    uids = sorted({one.uid for one in recorded if one is not None and one.uid})
    if len(uids) > 1:
        raise ConfigError(f"several clusters have a node {node!r}", hint="choose one with --cluster")
    document = quarantine_document(node, uid="".join(uids), reason=reason, effect=effect)
    return _file(index, document, QUARANTINE_EXAMPLES, path or source_path(index, "quarantine", node))


def _cluster(index: CompiledRevision, product: str) -> Cluster:
    """Return the first cluster with nodes of a product, else the first one."""
    inventories = index.context.evidence.inventories
    having = (
        cluster
        for cluster in index.clusters
        if cluster.name in inventories and any(node.product == product for node in inventories[cluster.name].nodes)
    )
    return next(having, index.clusters[0])


def _queues(index: CompiledRevision, cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    """Return the specs of the queues that a job without a namespace can use, by name."""
    found = index.context.definitions.get((cluster.name, QUEUE, cluster.namespace), {})
    return {name: mapping(definition.document.data.get("spec")) for name, definition in found.items()}


def _first(specs: Sequence[Mapping[str, Any]], *fields: tuple[str, ...]) -> str:
    return next((found for spec in specs for field in fields if (found := text(value_at(spec, field)))), "")


def _nodes(index: CompiledRevision, cluster: Cluster, product: str) -> NodeFacts:
    """Return what the measured nodes of a product offer; of the most frequent product if none is named."""
    inventory = index.context.evidence.inventories.get(cluster.name)
    nodes = [node for node in (inventory.nodes if inventory else ()) if node.gpus]
    products = sorted(node.product for node in nodes)
    if product and products and product not in products:
        names = ", ".join(sorted(set(products)))
        raise ConfigError(f"--gpu: no measured node of {cluster.name} has {product!r}", hint=f"products: {names}")
    product = product or max(products, key=products.count, default="")
    chosen = [node for node in nodes if node.product == product]
    labels = [label for node in chosen[:1] for label in node.labels.items() if label[1] == product]
    gpus = max((node.gpus for node in chosen), default=NodeFacts().gpus)
    return NodeFacts(gpus=gpus, selector=tuple(labels[:1]))


def source_path(index: CompiledRevision, folder: str, name: str) -> str:
    """Return the path of a new file: in the source folder with the usual name, else in the first source folder."""
    folders = index.revision.config.sources
    usual = next((one for one in folders if posixpath.basename(one) == folder), folders[0])
    return posixpath.normpath(f"{usual}/{name}.yaml")


def _check_path(index: CompiledRevision, path: str) -> None:
    """Refuse a path below the root that no command reads. The writer refuses one that is not below the root."""
    plain = posixpath.normpath(path)
    if plain.startswith(("/", "../")):
        return
    if not path.endswith(SUFFIXES):
        raise ConfigError(f"--output: {path} would not be read", hint="end its name with .yaml")
    folders = index.revision.config.sources
    if not any(plain.startswith(f"{posixpath.normpath(folder)}/") for folder in folders):
        raise ConfigError(f"--output: {path} is in no source folder", hint=f"source folders: {', '.join(folders)}")


def _file(index: CompiledRevision, document: Mapping[str, Any], examples: Mapping[str, Any], path: str) -> StartingFile:
    catalogue = index.context.catalogue
    schema_path = posixpath.relpath(f"{_SCHEMAS}/{document['kind'].lower()}.json", posixpath.dirname(path) or ".")
    schema = catalogue.json_schema(document["kind"]) or {}
    content = write_starter(document, examples, schema, schema_path)
    for written in read(path, content).documents:
        row = index.context.kinds[written.group, written.kind]
        found = (*catalogue.validate(written), *(row.source.parse(written).problems if row.source.parse else ()))
        problems = [problem for problem in found if problem.severity is Severity.ERROR]
        if problems:
            raise ConfigError(f"{problems[0].field}: {problems[0].message}", hint=problems[0].hint)
    _check_path(index, path)
    return StartingFile(path=path, content=content)
