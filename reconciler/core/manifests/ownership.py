"""Ownership: the label that tells our rendered objects from others, in Git and in the cluster, and annotations."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.documents import Document
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import FieldPath
from reconciler.core.reasons import Origin, Reason

LABEL = "app.kubernetes.io/managed-by"
OWNER = "gpu-reconciler"

KEEP = "gpureconciler.io/keep"
"""Annotation of objects that stay when their source is removed (`"true"`)."""

IMMUTABLE = "gpureconciler.io/immutable"
"""Annotation of objects that must not change (`"true"`): a plan that changes one shows a risk."""

_OWNED = Reason(rule="ownership", text="marks rendered objects, so that no other object is pruned")


def own(manifest: Manifest, document: Document, *, is_shared: bool = False) -> Manifest:
    """Return the manifest with our label, and with the labels of its source document.

    A team's label on a job is then on every object that the job renders. Labels that rendering set are kept. An object
    that several documents render (`is_shared`) gets the labels of none of them, so that it never depends on which one
    is read.
    """
    metadata = manifest.body["metadata"]
    labels = dict(metadata.get("labels") or {})
    reasons = dict(manifest.reasons)
    for name, value in ({} if is_shared else document.metadata.get("labels") or {}).items():
        if name not in labels:
            labels[name] = value
            origin = Origin(document=document, field=("metadata", "labels", name))
            reasons[_label_path(name)] = Reason(rule="source", origins=(origin,), copied=True)
    labels[LABEL] = OWNER
    reasons[_label_path(LABEL)] = _OWNED
    return Manifest(
        cluster=manifest.cluster,
        key=manifest.key,
        body={**manifest.body, "metadata": {**metadata, "labels": labels}},
        source=manifest.source,
        tree=manifest.tree,
        reasons=reasons,
        sizing=manifest.sizing,
    )


def _label_path(label: str) -> FieldPath:
    return ("metadata", "labels", label)


def is_owned(body: Mapping[str, Any]) -> bool:
    """Return whether an object carries our label."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(LABEL) == OWNER
