"""Ownership: the label that tells our rendered objects from others, in Git and in the cluster, and annotations."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import annotation, value_at
from reconciler.kube.yaml import Document
from reconciler.repo.config import OnImmutableChange

LABEL = "app.kubernetes.io/managed-by"
OWNER = "gpu-reconciler"
LABEL_PATH: FieldPath = ("metadata", "labels", LABEL)
"""The field that makes an object ours."""

KEEP = "gpureconciler.io/keep"
"""Annotation of objects that stay when their source is removed (`"true"`)."""

IMMUTABLE = "gpureconciler.io/immutable"
"""Annotation of objects that must not change (`"true"`): a plan that changes one shows a risk."""

MOVED_FROM = "gpureconciler.io/moved-from"
"""Annotation that declares a move: the former `namespace/name` of an object, or its name in the same namespace."""

_ARGO_CD, _FLUX = "argocd.argoproj.io/sync-options", "kustomize.toolkit.fluxcd.io/prune"
_FORCE = "kustomize.toolkit.fluxcd.io/force"
_HOOK, _HOOK_DELETION = "argocd.argoproj.io/hook", "argocd.argoproj.io/hook-delete-policy"
_NOT_PRUNED = Reason(rule="ownership.keep", text=f"{KEEP} keeps the object: Argo CD and Flux must not prune it")

ON_IMMUTABLE_CHANGE = "gpureconciler.io/on-immutable-change"
"""Annotation of a source document: what happens to its objects if immutable fields change (refuse, replace, keep)."""

_OWNED = Reason(rule="ownership", text="marks rendered objects, so that no other object is pruned")


def own(manifest: Manifest, document: Document, *, is_shared: bool = False) -> Manifest:
    """Return the manifest with our label, and with the labels of its source document; kept objects are not pruned.

    A team's label on a job is then on every object that the job renders, and so is the annotation `MOVED_FROM`. Labels
    that rendering set are kept. An object that several documents render (`is_shared`) gets those of none of them, so
    that it never depends on which one is read.
    """
    metadata = manifest.body["metadata"]
    labels = dict(metadata.get("labels") or {})
    reasons = dict(manifest.reasons)
    for name, value in ({} if is_shared else document.metadata.get("labels") or {}).items():
        if name not in labels:
            labels[name] = value
            origin = Origin(document=document, field=("metadata", "labels", name))
            reasons["metadata", "labels", name] = Reason(rule="source", origins=(origin,), copied=True)
    labels[LABEL] = OWNER
    reasons[LABEL_PATH] = _OWNED
    metadata = {**metadata, "labels": labels}
    moved_from = None if is_shared else (document.metadata.get("annotations") or {}).get(MOVED_FROM)
    if moved_from is not None and MOVED_FROM not in (metadata.get("annotations") or {}):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), MOVED_FROM: moved_from}
        path: FieldPath = ("metadata", "annotations", MOVED_FROM)
        reasons[path] = Reason(rule="source", origins=(Origin(document=document, field=path),), copied=True)
    if is_kept(manifest.body):
        metadata["annotations"] = _not_pruned(metadata["annotations"])
        reasons |= dict.fromkeys((("metadata", "annotations", name) for name in (_ARGO_CD, _FLUX)), _NOT_PRUNED)
    return replace(
        manifest,
        body={**manifest.body, "metadata": metadata},
        reasons=reasons,
        on_immutable_change=on_immutable_change(document) or manifest.on_immutable_change,
    )


def _not_pruned(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return annotations with which Argo CD and Flux keep the object. Options that the user set are kept."""
    options = _words(annotations.get(_ARGO_CD))
    names = {option.partition("=")[0] for option in options}
    options += [f"{name}=false" for name in ("Prune", "Delete") if name not in names]
    return {_FLUX: "disabled", **annotations, _ARGO_CD: ",".join(options)}


def on_immutable_change(document: Document) -> str:
    """Return the value of the annotation of a source document; empty if there is none."""
    return annotation(document.data, ON_IMMUTABLE_CHANGE)


def why_recreated(body: Mapping[str, Any]) -> str:
    """Return the annotation of Flux or Argo CD that asks for a new object where an update is refused; empty if none.

    Argo CD deletes a hook before it creates it again, unless a deletion policy of the hook says otherwise.
    """
    annotations = body["metadata"].get("annotations") or {}
    words = {name: _words(annotations.get(name)) for name in (_ARGO_CD, _HOOK, _HOOK_DELETION)}
    if str(annotations.get(_FORCE)).lower() == "enabled":
        return f"{_FORCE}: enabled"
    if {"Force=true", "Replace=true"} <= set(words[_ARGO_CD]):
        return f"{_ARGO_CD}: Force=true,Replace=true"
    is_hook = bool(words[_HOOK]) and "BeforeHookCreation" in (words[_HOOK_DELETION] or ["BeforeHookCreation"])
    return f"{_HOOK}: {','.join(words[_HOOK])}" if is_hook else ""


def _words(value: object) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else []


def choice_problems(document: Document) -> Iterator[Problem]:
    """Report an annotation whose value is none of the choices."""
    value = on_immutable_change(document)
    choices = [choice.value for choice in OnImmutableChange] if value else []
    if value not in ("", *choices):
        path = ("metadata", "annotations", ON_IMMUTABLE_CHANGE)
        message = f"{value!r} is not one of {', '.join(choices)}"
        yield document.problem("immutable.choice", path, message, "use one of them, or remove the annotation")


def is_kept(body: Mapping[str, Any]) -> bool:
    """Return whether an object stays when its source is removed."""
    return annotation(body, KEEP) == "true"


def is_owned(body: Mapping[str, Any]) -> bool:
    """Return whether an object carries our label."""
    return bool(value_at(body, LABEL_PATH) == OWNER)


def without_ownership(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without the label that rendering adds, as a person would write it."""
    metadata = dict(body["metadata"])
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != LABEL}
    return {**body, "metadata": {**metadata, **({"labels": labels} if labels else {})}}
