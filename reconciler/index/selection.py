"""The selection of documents that are sized. Most files hold none, so that `index.sizing` is imported by few runs."""

from collections.abc import Callable

from msgspec.structs import replace

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.training import is_selected
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.values import metadata_map
from reconciler.kube.yaml import Document
from reconciler.repo.config import Cluster, Write
from reconciler.sizing.summary import SizingSummary

_SIZING = "gpureconciler.io/sizing"  # the annotation of `index.sized.fields`, which few runs import


def is_sized(kinds: Kinds, document: Document, cluster: Cluster, *, again: bool = False) -> bool:
    """Return whether a document is to be sized for a cluster; `again`: also one that is done."""
    settings, labels = cluster.sizing, metadata_map(document.data, "labels")
    if not settings.select.every and settings.select.label_key not in labels:
        return False
    return is_selected(kinds, document, settings, cluster.namespace, again=again)


def was_sized(kinds: Kinds, document: Document, cluster: Cluster) -> bool:
    """Return whether a document was sized by us and would be sized again if it did not say so."""
    annotations = metadata_map(document.data, "annotations")
    return (
        _SIZING in annotations
        and not is_sized(kinds, document, cluster)
        and is_sized(kinds, document, cluster, again=True)
    )


def mentions_server(raw: bytes) -> bool:
    """Return whether a file may hold a server of a language model."""
    return b"vllm" in raw or b"sglang" in raw


def unwritten(document: Document) -> Problem:
    """Return the warning about a job without numbers that the settings want in its own file."""
    return Problem(
        rule="sizing.unwritten",
        place=document.source,
        message="is not sized yet, and spec.sizing.write requires the numbers in this file",
        hint=f"write them: reconciler size write {document.source.path}",
        severity=Severity.WARNING,
    )


def writes_source(cluster: Cluster) -> bool:
    """Return whether the numbers go into the user's own files."""
    return cluster.sizing.write is Write.SOURCE


def with_note(kinds: Kinds, manifest: Manifest, summary: Callable[[], SizingSummary] | None) -> Manifest:
    """Attach the sizing note to the object that requests the GPUs, not to the job's volumes."""
    return manifest if kinds.pod_sets(manifest.body) is None else replace(manifest, sizing=summary)
