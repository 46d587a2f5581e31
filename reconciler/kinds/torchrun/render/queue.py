"""A TorchrunQueue as manifests: the scheduler's own queue, shared datasets, and the objects that come with it."""

from collections.abc import Iterator
from typing import Any

from reconciler.kinds.manifests.manifest import manifest
from reconciler.kinds.manifests.ownership import IMMUTABLE
from reconciler.kinds.rendered import Rendered, has_errors, problem_at
from reconciler.kinds.torchrun.intent.queue import ExtraResource
from reconciler.kinds.torchrun.render.backends import kai_queue, kueue_objects
from reconciler.kinds.torchrun.render.storage import size_of, volume_claim
from reconciler.kinds.torchrun.render.template import Template
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason, Traced, copied
from reconciler.repo.config import Backend

_CLUSTER_SCOPED = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ClusterQueue",
        "ResourceFlavor",
        "WorkloadPriorityClass",
        "Topology",
    }
)
"""Cluster-scoped kinds that a queue may bring."""

_KEPT = Traced(
    "true", Reason(rule="torchrun.default", text="datasets are kept after the queue, unless persist is false")
)


def render(template: Template) -> Rendered:
    """Render a queue."""
    problems = list(template.problems)
    queue = template.queue
    reason = Reason(rule="torchrun.queue", text="rendered for the queue", origins=(Origin(document=queue.document),))
    trees = [*_backend(template, problems), *_datasets(template, problems), *_resources(template)]
    manifests = tuple(
        manifest(cluster=template.cluster.name, tree=tree, source=queue.document.source, reason=reason)
        for tree in trees
    )
    return Rendered(manifests=() if has_errors(problems) else manifests, problems=tuple(problems))


def _labels(template: Template) -> dict[str, Any]:
    return {"torchrun.ai/jobqueue": template.job_queue}


def _backend(template: Template, problems: list[Problem]) -> list[dict[str, Any]]:
    backend = template.cluster.backend
    topology = template.queue.topology
    if topology and backend is not Backend.KUEUE:
        message = f"cluster {template.cluster.name} does not use Kueue, so the topology has no effect"
        hint = "for KAI, set the annotations kai.scheduler/topology and kai.scheduler/topology-required-placement"
        found = problem_at(topology, "torchrun.unsupported", message, hint, severity=Severity.WARNING)
        problems.append(found)
    if template.queue.multikueue and backend is not Backend.KUEUE:
        message = f"cluster {template.cluster.name} does not use Kueue, so its jobs run in this cluster"
        found = problem_at(template.queue.multikueue, "torchrun.unsupported", message, severity=Severity.WARNING)
        problems.append(found)
    if backend is Backend.KAI:
        return [kai_queue(template.queue, _labels(template))]
    if backend is Backend.KUEUE:
        return kueue_objects(template, _labels(template), problems)
    for resource, share in template.queue.shares:
        given = share.quota or share.limit or share.weight
        if given:
            message = f"cluster {template.cluster.name} has no queueing, so the share of {resource} is not enforced"
            hint = "set `backend` of the cluster to kai or kueue"
            problems.append(problem_at(given, "torchrun.no-queueing", message, hint, severity=Severity.WARNING))
    if template.queue.parent:
        message = f"cluster {template.cluster.name} has no queueing, so the parent queue has no effect"
        found = problem_at(template.queue.parent, "torchrun.no-queueing", message, severity=Severity.WARNING)
        problems.append(found)
    return []


def _datasets(template: Template, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """Yield the claim that all jobs of the queue read, sized for the GPUs of a whole node."""
    queue, claim = template.queue, template.queue.storage.datasets
    if not claim.wanted or claim.claim is not None:
        return
    gpus = template.per_node or Traced(0, Reason(rule="torchrun.cpu-only"))
    size = size_of(claim, gpus, "datasets, for a whole node", problems)
    if size is None:
        message = "datasets have no size"
        hint = "set size, sizePerGPU, or claimName of an existing volume"
        problems.append(problem_at(claim.enabled or queue.queue_name, "torchrun.size", message, hint))
        return
    keep = claim.persist is None or claim.persist.value
    yield volume_claim(
        name=f"{queue.name}-datasets",
        namespace=template.namespace,
        claim=claim,
        labels={**_labels(template), "torchrun.ai/type": "datasets"},
        size=size,
        shared=True,
        keep=_KEPT if keep else None,
    )


def _resources(template: Template) -> Iterator[dict[str, Any]]:
    for extra in template.queue.resources:
        yield _resource(template, extra)


def _resource(template: Template, extra: ExtraResource) -> dict[str, Any]:
    """Return an object that comes with the queue, with the queue's name before its own if nameMode says so."""
    queue, body = template.queue, extra.template.value
    origin = extra.template.reason.origins[0]
    tree: dict[str, Any] = {
        key: copied(origin.document, (*origin.field, key), value) for key, value in body.items() if key != "metadata"
    }
    written = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    metadata: dict[str, Any] = {
        key: copied(origin.document, (*origin.field, "metadata", key), value)
        for key, value in written.items()
        if key not in ("name", "labels", "annotations")
    }
    metadata["name"] = extra.name
    if extra.prefixed:
        text = "nameMode prefix: the name of the queue precedes that of the object"
        origins = (*extra.name.reason.origins, *template.job_queue.reason.origins)
        reason = Reason(rule="torchrun.prefix", text=text, origins=origins)
        metadata["name"] = Traced(f"{queue.name}-{extra.name.value}", reason)
    if "namespace" not in metadata and body["kind"] not in _CLUSTER_SCOPED:
        metadata["namespace"] = template.namespace
    metadata["labels"] = _below(origin, written, "labels") | {"torchrun.ai/queue": template.job_queue}
    annotations = _below(origin, written, "annotations")
    if extra.immutable:
        annotations[IMMUTABLE] = "true"
    if annotations:
        metadata["annotations"] = annotations
    return tree | {"metadata": metadata}


def _below(origin: Origin, metadata: dict[str, Any], key: str) -> dict[str, Any]:
    entries = metadata.get(key)
    at = (*origin.field, "metadata", key)
    items = entries.items() if isinstance(entries, dict) else ()
    return {name: copied(origin.document, (*at, name), value) for name, value in items}
