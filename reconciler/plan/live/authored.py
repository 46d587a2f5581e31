"""The source that a person would have written of a live object, so that an apply of it changes nothing.

Left out is what others say again: defaults, what servers make up for each object, status, fields of other controllers,
and what tools such as kubectl and Helm note about their own work.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import reduce
from typing import Any

from reconciler.kinds.aspects import Holds
from reconciler.kinds.facts import Body
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.manifests.ownership import LABEL, is_owned
from reconciler.kinds.progress import ENDED
from reconciler.kinds.records import RECORDS
from reconciler.kube.objects import FieldPath, split_api_version
from reconciler.kube.printed_paths import find_path
from reconciler.kube.schemas.catalogue import Catalogue
from reconciler.kube.schemas.stored import without_nulls
from reconciler.kube.values import annotation, mapping, pruned, sequence, text, value_at, with_value
from reconciler.plan.live.controlled import PLACEMENT, controlled_fields
from reconciler.plan.live.managers import OURS, controllers_fields, writers

_RESERVED = "kube-"
"""Namespaces with this prefix are those of Kubernetes itself."""

NOTES = (
    "autoscaling.alpha.kubernetes.io/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "meta.helm.sh/",
    "pv.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/",
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
    "helm.toolkit.fluxcd.io/",
    "kustomize.toolkit.fluxcd.io/name",
    "kubernetes.io/metadata.name",
    "kueue.x-k8s.io/managed",
    "kueue.x-k8s.io/role-hash",
    LABEL,
)
"""The beginnings of labels and annotations in which controllers and tools note what they did. Ours is set anyway."""

_COUNTS: tuple[FieldPath, ...] = (("spec", "parallelism"), ("spec", "completions"))
"""Fields that Kueue lowers of a Job that it starts with fewer pods; its Workload keeps how many were written."""
_KUEUE = "kueue.x-k8s.io/"
RESTARTED: FieldPath = ("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
_METADATA = ("name", "namespace", "labels", "annotations")
_PLACED = tuple(path for path in PLACEMENT if path[0] == "spec")
"""What Kueue adds to pods in the update that starts them, after which nothing tells who set which part."""


class LeftOut(StrEnum):
    """The reason for which no source is written for a live object."""

    MANAGED = "managed by gpu-reconciler already"
    DEFINED = "defined in the repository already"
    OWNED = "made from another object"
    CONTROLLED = "written by controllers alone"
    SYSTEM = "part of every cluster"
    SECRET = "Secret"  # noqa: S105 - a reason
    ENDED = "ended"
    TERMINATING = "being deleted"


def why_left_out(kinds: Kinds, live: Body) -> LeftOut | None:
    """Return the reason that no source is written for a live object; None if one is."""
    row, metadata, wrote = kinds.of(live), mapping(live.get("metadata")), writers(live)
    is_record = (split_api_version(text(live.get("apiVersion")))[0], live.get("kind")) in RECORDS
    reasons = {
        LeftOut.MANAGED: is_owned(live) or {one.name for one in wrote} == {OURS},
        LeftOut.OWNED: bool(metadata.get("ownerReferences") or annotation(live, "pv.kubernetes.io/provisioned-by")),
        LeftOut.SYSTEM: _is_of_system(row, metadata),
        LeftOut.CONTROLLED: is_record or (bool(wrote) and all(one.is_controller for one in wrote)),
        LeftOut.SECRET: row.holds is Holds.SECRETS,
        LeftOut.TERMINATING: "deletionTimestamp" in metadata,
        LeftOut.ENDED: row.life.progress is not None and row.life.progress(live).phase in ENDED,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _is_of_system(row: Kind, metadata: Mapping[str, Any]) -> bool:
    is_reserved = text(metadata.get("namespace")).startswith(_RESERVED) or metadata.get("name") in row.naming.existing
    return is_reserved or "kubernetes.io/bootstrapping" in mapping(metadata.get("labels"))


def authored(
    kinds: Kinds, catalogue: Catalogue, live: Body, queued: Body | None = None, *, has_defaults: bool = False
) -> dict[str, Any]:
    """Return the source of a live object.

    queued: the Workload in which Kueue keeps the pods as they were written. has_defaults: defaults stay.
    """
    row = kinds.of(live)
    body = _without_controlled(kinds, live, dict(_as_queued(kinds, live, queued)) if queued is not None else {})
    body = _without_queue(kinds, body) if not row.pods.suspend and kinds.is_queued(body) else body
    body = row.life.authored(body) if row.life.authored is not None else body
    body = pruned(pruned(body, RESTARTED), ("status",))
    found: dict[str, Any] = without_nulls({**body, "metadata": _metadata(mapping(body.get("metadata")))})
    return found if has_defaults else catalogue.without_defaults(found)


def _without_queue(kinds: Kinds, body: Body) -> Body:
    """Return a Deployment or the like without the notes by which Kueue lets its pods wait for their queue."""
    for pods in kinds.pod_sets(body) or ():
        template, _ = find_path(body, pods.prefix.removesuffix("."), lambda _: None)
        for field in ("labels", "annotations") if template else ():
            notes: FieldPath = (*template, "metadata", field)
            added = [name for name in mapping(value_at(body, notes)) if name.startswith(_KUEUE)]
            body = reduce(pruned, ((*notes, name) for name in added), body)
    return body


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an object's metadata that people write."""
    found = {name: metadata.get(name) for name in _METADATA}
    for field in ("labels", "annotations"):
        found[field] = {name: value for name, value in mapping(found[field]).items() if not name.startswith(NOTES)}
    return {name: value for name, value in found.items() if value}


def _without_controlled(kinds: Kinds, live: Body, queued: Mapping[FieldPath, Any]) -> Body:
    """Return a live object without what other controllers wrote. `queued`: values that Kueue added to, as before."""
    body = live
    for path, value in queued.items():
        body = with_value(body, path, value)
    theirs = {field.path for field in controlled_fields(kinds, live) if not field.adds}
    theirs |= set(controllers_fields(live))
    return reduce(pruned, sorted(theirs - queued.keys(), key=from_the_end), body)


def from_the_end(path: FieldPath) -> list[tuple[int, str]]:
    """Return what sorts later items of lists first: they keep their positions while others are removed."""
    return [(-step, "") if isinstance(step, int) else (0, step) for step in path]


def _as_queued(kinds: Kinds, live: Body, queued: Body) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the values that the pods of an object had before Kueue started it."""
    sets, kept = kinds.pod_sets(live) or (), sequence(mapping(queued.get("spec")).get("podSets"))
    for pods, other in zip(sets, kept, strict=False) if len(sets) == len(kept) else ():
        template, rest = find_path(live, pods.prefix.removesuffix("."), lambda _: None)
        for path in _PLACED if not rest else ():
            before, now = value_at(mapping(other).get("template"), path), value_at(live, (*template, *path))
            if before != now and _contains(now, before):
                yield (*template, *path), before
    counted = [field.path for field in controlled_fields(kinds, live) if field.path in _COUNTS]
    started, count = value_at(live, _COUNTS[0]), mapping(next(iter(kept), None)).get("count")
    for path in counted if count is not None else ():
        now = value_at(live, path)
        yield path, count if now == started else now


def _contains(now: Any, before: Any) -> bool:
    if isinstance(now, dict):
        return mapping(before).items() <= now.items()
    return isinstance(now, list) and all(item in now for item in sequence(before))
