"""Pod templates in a rendered object, and the object with changes in them."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Reason

_DEPTH = 12

Data = dict[str, Any]


def pod_templates(kinds: Kinds, body: Data) -> Iterator[tuple[FieldPath, Data]]:
    """Yield the pod templates of an object, or those of the jobs that name it, with their paths: parts of the body."""
    provides = kinds.of(body).pods.provides
    for pods in kinds.pod_sets(body) or (provides(body, "") if provides is not None else ()):
        path = _path_to(body, pods.template)
        if path is not None:
            yield path, pods.template


def _path_to(data: Any, target: Mapping[str, Any], path: FieldPath = ()) -> FieldPath | None:
    """Return the path of a template in its object; None if it is not part of it."""
    if data is target:
        return path
    if len(path) < _DEPTH:
        items = data.items() if type(data) is dict else enumerate(data) if type(data) is list else ()
        for key, inner in items:
            if type(inner) in (dict, list):
                found = _path_to(inner, target, (*path, key))
                if found is not None:
                    return found
    return None


def with_changes(manifest: Manifest, body: Data, reasons: Mapping[FieldPath, Reason]) -> Manifest:
    """Return the manifest with another body, and the reasons of what changed in it."""
    return replace(manifest, body=body, reasons={**manifest.reasons, **reasons})
