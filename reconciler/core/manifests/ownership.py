"""Ownership: the label that tells our rendered objects from foreign ones, in Git and in the cluster."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.documents import Document
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import FieldPath
from reconciler.core.reasons import Origin, Reason

LABEL = "app.kubernetes.io/managed-by"
OWNER = "gpu-reconciler"

SHARED = frozenset({"ResourceFlavor"})
"""Kinds of which several documents may ask for the same object: all queues of the same nodes, for their flavor."""

_OWNED = Reason(rule="ownership", text="marks what this repository renders, so that nothing else is ever pruned")


def owned(manifest: Manifest, document: Document) -> Manifest:
    """Return the manifest with our label, and with the labels of the document that asked for it.

    So a team's label on a job is on everything that the job is rendered to. What rendering set itself stays. An object
    that several documents ask for together carries none of theirs: it is the same whichever of them is read.
    """
    metadata = manifest.body["metadata"]
    labels = dict(metadata.get("labels") or {})
    reasons = dict(manifest.reasons)
    for name, value in ((document.metadata.get("labels") or {}) if manifest.key.kind not in SHARED else {}).items():
        if name not in labels:
            labels[name] = value
            origin = Origin(document=document, field=("metadata", "labels", name))
            reasons[_at(name)] = Reason(rule="source", origins=(origin,), copied=True)
    labels[LABEL] = OWNER
    reasons[_at(LABEL)] = _OWNED
    return Manifest(
        cluster=manifest.cluster,
        key=manifest.key,
        body={**manifest.body, "metadata": {**metadata, "labels": labels}},
        source=manifest.source,
        tree=manifest.tree,
        reasons=reasons,
        sizing=manifest.sizing,
    )


def _at(label: str) -> FieldPath:
    return ("metadata", "labels", label)


def is_owned(body: Mapping[str, Any]) -> bool:
    """Whether an object read from `rendered/` carries our label."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(LABEL) == OWNER
