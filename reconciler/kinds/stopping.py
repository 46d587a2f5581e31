"""The start and stop of a workload: by its queue, or by the person who stops it in Git.

Kueue suspends and resumes what names a queue. A `suspend` that is written there would fight it, so it is not rendered.
A person stops a workload by an annotation of its source, which no queue undoes.
"""

from typing import Any

from msgspec.structs import replace

from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.kueue.labels import MIN_PARALLELISM
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.pods import SUSPEND, is_stopped
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import mapping, value_at, with_value, without_value
from reconciler.kube.yaml import Document

_PLACE: FieldPath = ("metadata", "annotations", SUSPEND)
_DEADLINE: FieldPath = ("spec", "activeDeadlineSeconds")  # of a Job; it runs also while there are no pods


def stopped_or_started(
    kinds: Kinds, manifest: Manifest, document: Document
) -> tuple[Manifest | None, tuple[Problem, ...]]:
    """Return an object as it is rendered: without pods if a person stops it, without what its queue sets.

    None: a person stops it, and there is no form of it without pods, so that it is not rendered.
    """
    row = kinds.of(manifest.body)
    if is_stopped(manifest.body):
        return _stopped(kinds, row, manifest, document)
    if row.pods.suspend and value_at(manifest.body, row.pods.suspend) is not None and kinds.is_queued(manifest.body):
        return replace(manifest, body=without_value(manifest.body, row.pods.suspend)), ()
    return manifest, ()


def _stopped(
    kinds: Kinds, row: Kind, manifest: Manifest, document: Document
) -> tuple[Manifest | None, tuple[Problem, ...]]:
    body, is_queued = manifest.body, kinds.is_queued(manifest.body)
    if row.pods.suspend and not is_queued:
        return _with(manifest, document, row.pods.suspend, value=True, text="the annotation suspends it"), ()
    is_elastic = MIN_PARALLELISM in mapping(body["metadata"]["annotations"])
    if row.pods.scale and not (is_queued and is_elastic):  # Kueue sets the number of pods of an elastic job
        for path in (row.pods.suspend, _DEADLINE) if is_queued and row.pods.suspend else (_DEADLINE,):
            body = without_value(body, path)
        reason = "the annotation stops it: without pods it needs no quota, and no queue starts any"
        return _with(replace(manifest, body=body), document, row.pods.scale, value=0, text=reason), ()
    if kinds.pod_sets(body) is None:
        message = f"a {row.kind or manifest.key.kind} runs no pods, so nothing is stopped"
        return manifest, (_problem(document, message, "remove the annotation"),)
    why = f"Kueue resumes a suspended {row.kind}" if is_queued else f"a {row.kind or 'workload'} cannot be suspended"
    message = f"suspended by Git: {why}, so the object is deleted until the annotation is removed"
    return None, (_problem(document, message, "make sure that it can resume from a checkpoint; its claims stay"),)


def _with(manifest: Manifest, document: Document, path: FieldPath, *, value: Any, text: str) -> Manifest:
    reason = Reason(rule="suspend", text=text, origins=(Origin(document=document, field=_PLACE),))
    body = with_value(manifest.body, path, value)
    return replace(manifest, body=body, reasons={**manifest.reasons, path: reason})


def _problem(document: Document, message: str, hint: str) -> Problem:
    return document.problem("suspend.annotation", _PLACE, message, hint, severity=Severity.WARNING)
