"""The objects that a wrapper such as an AppWrapper creates, as manifests of their own."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath, ObjectKey, split_api_version
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import mapping, text, value_at


def wrapped_manifests(
    kinds: Kinds, manifest: Manifest, old: Mapping[str, Any] | None
) -> Iterator[tuple[FieldPath, Manifest]]:
    """Yield the objects that an API server gets to see when a manifest replaces `old`, with their paths in it.

    The controller of a wrapper creates them in its namespace, and names it as their owner. Those that `old` has, too,
    exist already.
    """
    owner = manifest.key
    for path, body in kinds.wrapped(manifest.body):
        if old is not None and value_at(old, path) == body:
            continue
        metadata = mapping(body.get("metadata"))
        namespace = text(metadata.get("namespace")) or owner.namespace
        reference = {
            "apiVersion": manifest.body["apiVersion"],
            "kind": owner.kind,
            "name": owner.name,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        group, kind = split_api_version(text(body.get("apiVersion")))[0], text(body.get("kind"))
        yield (
            path,
            Manifest(
                cluster=manifest.cluster,
                key=ObjectKey(group=group, kind=kind, namespace=namespace, name=text(metadata.get("name"))),
                body={**body, "metadata": {**metadata, "namespace": namespace, "ownerReferences": [reference]}},
                source=_source(manifest, path),
                reasons={(): Reason(rule="wrapped", origins=manifest.origins(path), copied=True)},
            ),
        )


def _source(manifest: Manifest, path: FieldPath) -> Any:
    origin: Origin | None = next(iter(manifest.origins(path)), None)
    return manifest.source if origin is None else origin.document.at(origin.field)
