"""The mark of a finished job: annotations with which Argo CD, Flux and our own apply never create it again."""

from collections.abc import Mapping
from typing import Any

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.reasons import Origin, Reason

FINISHED = "gpureconciler.io/finished"
"""Annotation of a job that has ended: how and when. Such a job is not applied; what exists of it stays."""

_NOT_APPLIED = {
    "argocd.argoproj.io/hook": "Skip",
    "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
}
RULE = "run.finished"


def is_finished(body: Mapping[str, Any]) -> bool:
    """Return whether a rendered object is a job that has ended, and so is never applied."""
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and isinstance(annotations.get(FINISHED), str)


def mark_finished(manifest: Manifest, body: Mapping[str, Any], mark: str, origin: Origin | None) -> Manifest:
    """Return a manifest of a finished job with this body and the mark (`Succeeded 2026-01-31T12:00:00Z`)."""
    metadata = body["metadata"]
    added = {FINISHED: mark, **_NOT_APPLIED}
    reason = Reason(
        rule=RULE,
        text="the job has ended, so it is not created again, even after its TTL removed it",
        origins=(origin,) if origin is not None else (),
    )
    return Manifest(
        cluster=manifest.cluster,
        key=manifest.key,
        body={**body, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **added}}},
        source=manifest.source,
        tree=manifest.tree,
        reasons={**manifest.reasons, **{("metadata", "annotations", name): reason for name in added}},
        sizing=manifest.sizing,
        on_immutable_change=manifest.on_immutable_change,
    )
