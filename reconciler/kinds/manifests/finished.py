"""The mark of a finished job: annotations with which Argo CD, Flux and our own apply never create it again."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Lookup
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import metadata_map, value_at
from reconciler.kube.yaml import Document

FINISHED = "gpureconciler.io/finished"
"""Annotation of a job that has ended: how and when. Such a job is not applied; what exists of it stays."""

_NOT_APPLIED = {
    "argocd.argoproj.io/hook": "Skip",
    "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
}
RULE = "run.finished"


_TTL: FieldPath = ("spec", "ttlSecondsAfterFinished")
_HOOK = "argocd.argoproj.io/hook"
_ARGO_CD, _ARGO_CD_USER = "argocd.argoproj.io/", "argocd"


def ttl_problems(document: Document, lookup: Lookup) -> Iterator[Problem]:
    """Yield a warning if Argo CD syncs a job whose time to live deletes it: the next sync runs it again."""
    annotations = metadata_map(document.data, "annotations")
    if value_at(document.data, _TTL) is None or _HOOK in annotations:  # a hook runs at every sync
        return
    requester = lookup.cluster.applied_by
    is_synced = requester is not None and _ARGO_CD_USER in requester.user
    is_synced = is_synced or any(str(name).startswith(_ARGO_CD) for name in annotations)
    if is_synced and not lookup.has_runs():
        message = "when this time is over, the job is deleted, and the next sync of Argo CD runs it again"
        hint = "remove the field, or let `reconciler observe` record finished jobs, which are not created again"
        yield document.problem("run.again", _TTL, message, hint, severity=Severity.WARNING)


def is_finished(body: Mapping[str, Any]) -> bool:
    """Return whether a rendered object is a job that has ended, and so is never applied."""
    return isinstance(value_at(body, ("metadata", "annotations", FINISHED)), str)


def mark_finished(manifest: Manifest, body: Mapping[str, Any], mark: str, origin: Origin | None) -> Manifest:
    """Return a manifest of a finished job with this body and the mark (`Succeeded 2026-01-31T12:00:00Z`)."""
    metadata = body["metadata"]
    added = {FINISHED: mark, **_NOT_APPLIED}
    reason = Reason(
        rule=RULE,
        text="the job has ended, so it is not created again, even after its TTL removed it",
        origins=(origin,) if origin is not None else (),
    )
    return replace(
        manifest,
        body={**body, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **added}}},
        reasons={**manifest.reasons, **{("metadata", "annotations", name): reason for name in added}},
    )
