"""Training jobs among the sources: sized while they are rendered, or held back until they can be."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from reconciler.index.dependencies import RecordingLookup
from reconciler.index.sized.cards import Offered
from reconciler.index.sized.job import SizedJob, SizingContext, size_job
from reconciler.kinds.aspects import Offer
from reconciler.kinds.workloads import CONFIG_MAP
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin
from reconciler.kube.values import mapping, metadata_map, text, value_at
from reconciler.kube.yaml import Document
from reconciler.launch import resolve_file
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.serving import judge_servers


def size(document: Document, lookup: RecordingLookup) -> SizedJob | None:
    """Size a document for a cluster; None if it is not a known kind of training."""
    return size_job(document, sizing_context(document, lookup))


def judged_servers(document: Document, lookup: RecordingLookup) -> tuple[Problem, ...]:
    """Return warnings about servers that do not fit the memory of their GPUs."""

    def file(written: str) -> bytes | None:
        path = resolve_file(written, lookup.paths(), document.source.path)
        return _content(lookup, path) if path else None

    def measured() -> Sequence[Gpu]:
        inventory = lookup.inventory()
        return lookup.tables.gpus.offered(inventory) if inventory is not None else ()

    find = partial(_config_map, lookup, document.key.namespace or lookup.cluster.namespace)
    return tuple(judge_servers(document, lookup.tables, file, measured, find))


def outdated(document: Document, lookup: RecordingLookup) -> tuple[Problem, ...]:
    """Warn about a document whose numbers no longer fit what it trains."""
    job = size(document, lookup)
    if job is None or job.decision is None or job.waits:
        return ()
    key = lookup.cluster.sizing.labels.annotation_key
    before = metadata_map(document.data, "annotations").get(key)
    if job.sized is not None and mapping(mapping(job.sized.data["metadata"]).get("annotations")).get(key) == before:
        return ()
    return (
        Problem(
            rule="sizing.outdated",
            place=document.source,
            message=f"was sized for something else ({before}); what it trains now: {job.decision.text}",
            hint=f"size it again: reconciler size write --again {document.source.path}",
            severity=Severity.WARNING,
        ),
    )


def sizing_context(document: Document, lookup: RecordingLookup) -> "SizingContext":
    """Return the context in which a document is sized."""
    namespace, name = document.key.namespace or lookup.cluster.namespace, _queue_name(document, lookup)
    offered, evidence = _offered(lookup, namespace, name)
    return SizingContext(
        kinds=lookup.kinds,
        tables=lookup.tables,
        settings=_settings(lookup, document, namespace, name),
        answers=lookup.answers(),
        offered=offered,
        evidence=evidence,
        paths=lookup.paths(),
        file=partial(_content, lookup),
        config_map=partial(_config_map, lookup, namespace),
    )


def _content(lookup: RecordingLookup, path: str) -> bytes | None:
    found = lookup.file(path)
    return None if found is None else msgspec.json.encode(found.data)


def _config_map(lookup: RecordingLookup, namespace: str, name: str) -> Mapping[str, Any] | None:
    found = lookup.defined(CONFIG_MAP, namespace, name)
    return None if found is None else found.data


def _offered(lookup: RecordingLookup, namespace: str, name: str) -> "tuple[Offered, tuple[Origin, ...]]":
    """Return the GPUs of the job's queue, else all measured ones of the cluster's vendor, and where that is written."""
    table, inventory = lookup.tables.gpus, lookup.inventory()
    measured = table.offered(inventory) if inventory is not None else ()
    gpus: list[Gpu] = []
    origins: list[Origin] = []
    for offer in _offers(lookup, namespace, name):
        gpu = next((gpu for gpu in measured if gpu.product == offer.product), None) or table.find(offer.product)
        if gpu is not None:
            gpus.append(gpu)
            origins.append(offer.origin)
    by_queue = bool(gpus)
    if not gpus and inventory is not None and inventory.document is not None:
        gpus = [gpu for gpu in measured if gpu.vendor is lookup.cluster.vendor]
        origins = [Origin(document=inventory.document, field=("spec", "nodes"))]
    nodes = inventory.gpu_shapes if inventory is not None else ()
    return Offered(gpus=tuple(gpus), by_queue=by_queue, nodes=nodes), tuple(origins)


def _offers(lookup: RecordingLookup, namespace: str, name: str) -> tuple[Offer, ...]:
    """Return the products of the first queue of this name that offers any."""
    for row in lookup.kinds.offering if name else ():
        queue, read = lookup.defined(row.id, namespace, name), row.queueing.offers
        if read is not None and queue is not None and (offers := tuple(read(queue, lookup))):
            return offers
    return ()


def _queue_name(document: Document, lookup: RecordingLookup) -> str:
    """Return the job's queue; while a placeholder label keeps it from running, the queue that it will get."""
    labels = lookup.cluster.sizing.labels
    queue_labels = [label for label, _ in lookup.kinds.queue_labels]
    if labels.done_key in queue_labels:
        return labels.done_value
    own = metadata_map(document.data, "labels")
    named = next((text(own.get(label)) for label in queue_labels if text(own.get(label))), "")
    queue = lookup.kinds.find(document.group, document.kind).queueing.queue
    return named or (text(value_at(document.data, queue.field)) if queue is not None else "")


def _settings(lookup: RecordingLookup, document: Document, namespace: str, name: str) -> SizingSettings:
    """Use the GPUs per node of the queue for a job whose GPUs its queue spreads over nodes."""
    settings, queue = lookup.cluster.sizing, lookup.kinds.find(document.group, document.kind).queueing.queue
    if queue is None or not name:
        return settings
    definition = lookup.defined(queue.kind, namespace, name)
    gpus = None if definition is None else queue.node_gpus(definition)
    return settings if gpus is None else replace(settings, gpus_per_worker=gpus)
