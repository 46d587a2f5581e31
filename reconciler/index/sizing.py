"""Training jobs among the sources: sized on their way to `rendered/`, or held back until they can be."""

# ruff: noqa: PLC0415 - most files hold no job that is sized, and must not pay for the import of what sizes it

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from reconciler.core.config import Cluster, SizedKind, SizingSettings, Write
from reconciler.core.documents import Document
from reconciler.core.kinds.kind import Kinds
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin
from reconciler.core.values import mapping, text
from reconciler.index.context import FILES, OFFERS, Context, QueueSource
from reconciler.index.offers import QUEUE_LABELS, Offer, offer_of, queue_named

if TYPE_CHECKING:
    from reconciler.core.sized.sizing import SizedJob, SizingContext
    from reconciler.core.sizing.gpus import Gpu

_SIZING = "gpureconciler.io/sizing"  # the annotation of `render.sized.protocol`, which only sizing imports
_KINDS = frozenset(kind.value for kind in SizedKind)


def is_sized(document: Document, cluster: Cluster, *, again: bool = False) -> bool:
    """Whether a document is to be sized for a cluster; `again`: also one that is done."""
    if document.kind.lower() not in _KINDS:
        return False
    settings, labels = cluster.sizing, mapping(document.metadata.get("labels"))
    if not settings.select.every and settings.select.label_key not in labels:
        return False
    from reconciler.core.training import is_selected

    return is_selected(document, settings, cluster.namespace, again=again)


def size(context: Context, document: Document, cluster: Cluster) -> "SizedJob | None":
    """Size a document for a cluster; None where it trains nothing that we know of."""
    from reconciler.core.sized.sizing import size_job

    return size_job(document, surroundings(context, document, cluster))


def unwritten(document: Document) -> Problem:
    """Say that a job waits for its numbers, which the settings want in its own file."""
    message = "is not sized yet, and spec.sizing.write wants the numbers in this file"
    return Problem(
        rule="sizing.unwritten",
        place=document.source,
        message=message,
        hint=f"write them: reconciler size --write {document.source.path}",
        severity=Severity.WARNING,
    )


def was_sized(document: Document, cluster: Cluster) -> bool:
    """Whether the numbers of a document are ours: it says how it was sized, and would be sized if it did not."""
    annotations = mapping(document.metadata.get("annotations"))
    return _SIZING in annotations and not is_sized(document, cluster) and is_sized(document, cluster, again=True)


def outdated(context: Context, document: Document, cluster: Cluster) -> tuple[Problem, ...]:
    """Warn of a document whose numbers are no longer those of what it trains."""
    job = size(context, document, cluster)
    if job is None or job.decision is None or job.waits:
        return ()
    key = cluster.sizing.labels.annotation_key
    before = mapping(document.metadata.get("annotations")).get(key)
    if job.sized is not None and mapping(mapping(job.sized.data["metadata"]).get("annotations")).get(key) == before:
        return ()
    message = f"was sized for something else ({before}); what it trains now: {job.decision.text}"
    hint = f"size it anew: reconciler size --write --again {document.source.path}"
    warning = Severity.WARNING
    return (Problem(rule="sizing.outdated", place=document.source, message=message, hint=hint, severity=warning),)


def needs_of(document: Document, cluster: Cluster) -> tuple[str, ...]:
    """Return what the sizing of a job depends on besides its file, its queue and the evidence."""
    queue = _queue(document, cluster)
    return (OFFERS, FILES, queue) if queue else (OFFERS, FILES)


def writes_source(cluster: Cluster) -> bool:
    """Whether the numbers go into the user's own files."""
    return cluster.sizing.write is Write.SOURCE


def with_note(kinds: Kinds, manifest: Manifest, job: "SizedJob") -> Manifest:
    """Let the object that asks for the GPUs tell how they were sized; a job's volumes have nothing to tell."""
    return manifest if kinds.pod_sets(manifest.body) is None else replace(manifest, sizing=job.told)


def surroundings(context: Context, document: Document, cluster: Cluster) -> "SizingContext":
    """Return what a document is sized against in a cluster."""
    from reconciler.core.sized.sizing import SizingContext
    from reconciler.core.sizing.answers import Answers

    answers = context.answers.get(cluster.name, Answers())

    def file(path: str) -> bytes | None:
        found = context.files.get(path)
        return None if found is None else msgspec.json.encode(found.data)

    queue = context.queues.get((cluster.name, document.key.namespace or cluster.namespace, _queue(document, cluster)))
    offered, evidence = _offered(context, document, cluster, queue)
    return SizingContext(
        settings=_of_nodes(cluster.sizing, document, queue),
        answers=answers.for_engine(cluster.sizing.engine),
        offered=offered,
        evidence=evidence,
        paths=tuple(context.files),
        file=file,
    )


def _offered(
    context: Context, document: Document, cluster: Cluster, queue: QueueSource | None
) -> "tuple[tuple[Gpu, ...], tuple[Origin, ...]]":
    """Return the cards of the job's queue, else all of the cluster's vendor that were measured, and who says so."""
    from reconciler.core.sizing.gpus import find_gpu, offered_gpus

    inventory = context.inventories.get(cluster.name)
    measured = offered_gpus(inventory) if inventory is not None else ()
    found: list[Gpu] = []
    origins: list[Origin] = []
    for offer in _offers(context, document, cluster, queue):
        gpu = next((gpu for gpu in measured if gpu.product == offer.product), None) or find_gpu(offer.product)
        if gpu is not None:
            found.append(gpu)
            origins.append(offer.origin)
    if not found and inventory is not None and inventory.document is not None:
        found = [gpu for gpu in measured if gpu.vendor is cluster.vendor]
        origins = [Origin(document=inventory.document, field=("spec", "nodes"))]
    return tuple(found), tuple(origins)


def _offers(context: Context, document: Document, cluster: Cluster, queue: QueueSource | None) -> Iterator[Offer]:
    """Yield the products that the job's queue is made of: a TorchrunQueue's, else those of Kueue's flavors."""
    offer = offer_of(queue.intent) if queue is not None else None
    if offer is not None:
        yield offer
    elif cluster.name in context.flavors:
        namespace = document.key.namespace or cluster.namespace
        yield from context.flavors[cluster.name].offers(namespace, _queue(document, cluster))


def _queue(document: Document, cluster: Cluster) -> str:
    """Name the job's queue; while another label keeps it from running (`queue-name: fake`), the one it will get."""
    marks = cluster.sizing.labels
    if marks.done_key in QUEUE_LABELS:
        return marks.done_value
    return queue_named(_labels(document)) or text(mapping(document.data.get("spec")).get("jobQueue"))


def _of_nodes(settings: SizingSettings, document: Document, queue: QueueSource | None) -> SizingSettings:
    """Let the nodes of a TorchrunJob be those of its queue, which spreads the GPUs in the end."""
    gpus = queue.intent.node.gpus if queue is not None and document.kind == "TorchrunJob" else None
    return replace(settings, gpus_per_worker=gpus.value) if gpus is not None and gpus.value > 0 else settings


def _labels(document: Document) -> dict[str, str]:
    labels = mapping(document.metadata.get("labels"))
    return {name: value for name, value in labels.items() if isinstance(value, str)}
