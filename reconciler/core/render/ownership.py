"""Ownership: the label that tells our rendered objects from foreign ones, in Git and in the cluster."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.reasons import Reason
from reconciler.core.render.manifest import Manifest

LABEL = "app.kubernetes.io/managed-by"
OWNER = "gpu-reconciler"

_REASON = Reason(rule="ownership", text="marks what this repository renders, so that nothing else is ever pruned")


def owned(manifest: Manifest) -> Manifest:
    """Return the manifest with our label."""
    metadata = manifest.body["metadata"]
    labels = {**(metadata.get("labels") or {}), LABEL: OWNER}
    return Manifest(
        cluster=manifest.cluster,
        key=manifest.key,
        body={**manifest.body, "metadata": {**metadata, "labels": labels}},
        source=manifest.source,
        reasons={**manifest.reasons, ("metadata", "labels", LABEL): _REASON},
    )


def is_owned(body: Mapping[str, Any]) -> bool:
    """Whether an object read from `rendered/` carries our label."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(LABEL) == OWNER
