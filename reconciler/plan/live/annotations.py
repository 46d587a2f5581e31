"""Annotations of Argo CD, Flux and kubectl with which people exclude objects from being changed or deleted."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.kinds.manifests.ownership import KEEP
from reconciler.kube.values import metadata_map, text

Body = Mapping[str, Any]

_WAVE = "argocd.argoproj.io/sync-wave"
_HOOK = "argocd.argoproj.io/hook"
_OPTIONS = "argocd.argoproj.io/sync-options"
_DELETION_APPROVED = "argocd.argoproj.io/deletion-approved"
_FLUX = "kustomize.toolkit.fluxcd.io/"
_MUTATION = "client.lifecycle.config.k8s.io/mutation"
_INVENTORY = "config.k8s.io/owning-inventory"
_APPLY_SET = "applyset.kubernetes.io/part-of"

_CREATED_ONCE = {f"{_FLUX}ssa": ("IfNotPresent",), _MUTATION: ("ignore",)}
HOOK_STAGES = {"PreSync": -1, "Sync": 0, "PostSync": 1}
"""Hooks of Argo CD that are applied before, with and after everything else; other hooks are not applied."""


def wave(body: Body) -> tuple[int, int]:
    """Return the position of an object among the others: the stage of its hook, and its sync wave."""
    annotations = metadata_map(body, "annotations")
    stages = [HOOK_STAGES[hook] for hook in _listed(annotations, _HOOK) if hook in HOOK_STAGES]
    number = text(annotations.get(_WAVE)).strip()
    is_number = number.removeprefix("-").isdecimal() and number.isascii() and len(number) <= 9  # noqa: PLR2004 - digits
    return min(stages, default=0), int(number) if is_number else 0


def may_set_wave(content: bytes) -> bool:
    """Return whether `wave` can be other than (0, 0) for the object that the bytes of a file hold, without reading it.

    A backslash can start an escape that hides the name of an annotation.
    """
    return b"argocd.argoproj.io" in content or b"\\" in content


def may_not_apply(content: bytes) -> bool:
    """Return whether `why_not_applied` can be other than empty for the object that the bytes of a file hold."""
    return may_set_wave(content) or _FLUX.encode() in content


def why_not_applied(desired: Body, live: Body | None) -> str:
    """Return the annotation that keeps an object from being created (`live` is None) or updated; empty if none does."""
    hooks = _listed(metadata_map(desired, "annotations"), _HOOK)
    if hooks and not any(hook in HOOK_STAGES for hook in hooks):
        return f"{_HOOK}: {','.join(hooks)}"
    for annotations in (metadata_map(desired, "annotations"), metadata_map(live or {}, "annotations")):
        found = _first(annotations, {f"{_FLUX}reconcile": ("disabled",), f"{_FLUX}ssa": ("Ignore",)})
        if not found and live is not None:
            found = _first(annotations, _CREATED_ONCE)
        if found:
            return found
    return ""


def is_created_once(desired: Body) -> bool:
    """Return whether an object says that what exists of it is never updated."""
    return bool(_first(metadata_map(desired, "annotations"), _CREATED_ONCE))


def why_not_deleted(live: Body) -> str:
    """Return the annotation or label that keeps an existing object from being deleted; empty if there is none."""
    annotations, labels = metadata_map(live, "annotations"), metadata_map(live, "labels")
    found = _first(annotations, {KEEP: ("true",), f"{_FLUX}prune": ("disabled",), f"{_FLUX}reconcile": ("disabled",)})
    if found:
        return found
    options = dict(option.partition("=")[::2] for option in _listed(annotations, _OPTIONS))
    for name in ("Prune", "Delete"):
        needs_approval = options.get(name) == "confirm" and not annotations.get(_DELETION_APPROVED)
        if options.get(name) == "false" or needs_approval:
            return f"{_OPTIONS}: {name}={options[name]}"
    return next((f"{name}: {value}" for name, value in _sets(annotations, labels) if value), "")


def _sets(annotations: Body, labels: Body) -> Sequence[tuple[str, str]]:
    """Return the marks of sets of objects that other tools prune."""
    return (_INVENTORY, text(annotations.get(_INVENTORY))), (_APPLY_SET, text(labels.get(_APPLY_SET)))


def _listed(annotations: Body, name: str) -> list[str]:
    return [word.strip() for word in text(annotations.get(name)).split(",") if word.strip()]


def _first(annotations: Body, values: Mapping[str, Sequence[str]]) -> str:
    found = (f"{name}: {annotations[name]}" for name, known in values.items() if annotations.get(name) in known)
    return next(found, "")
