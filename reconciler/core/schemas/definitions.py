"""CustomResourceDefinitions: the kinds that a repository or a server brings along, as closed schemas."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from reconciler.core.schemas.archive import Served
from reconciler.core.schemas.closing import close_custom, object_meta_of
from reconciler.core.schemas.shape import Schema


class Defined(Struct, frozen=True, kw_only=True):
    """A kind that a CustomResourceDefinition defines; `schemas` by served version."""

    group: str
    kind: str
    served: Served
    schemas: dict[str, Schema]


def defined(body: dict[str, Any], configmap: Callable[[], Schema]) -> Defined | None:
    """Return the kind that a definition defines, None where `body` is no definition or holds no usable schema.

    `configmap` returns the closed schema of a built-in kind, from which the definition of ObjectMeta is taken.
    """
    if body.get("kind") != "CustomResourceDefinition" or body.get("apiVersion") != "apiextensions.k8s.io/v1":
        return None
    try:
        spec = body["spec"]
        group, kind = str(spec["group"]), str(spec["names"]["kind"])
        meta = object_meta_of(configmap())
        versions = sorted((entry for entry in spec["versions"] if entry["served"]), key=lambda e: not e["storage"])
        schemas = {
            str(entry["name"]): close_custom(
                _scaled(entry), group=group, version=entry["name"], kind=kind, object_meta=meta
            )
            for entry in versions
        }
        namespaced = spec["scope"] == "Namespaced"
    except (KeyError, TypeError, AttributeError, ValueError):
        return None  # the schema of CustomResourceDefinition itself tells what is wrong with it
    if not schemas:
        return None
    served = Served(versions=tuple(schemas), namespaced=namespaced)
    return Defined(group=group, kind=kind, served=served, schemas=schemas)


def any_object(configmap: Callable[[], Schema]) -> Schema:
    """Return the closed schema of an object of which nothing is known but that it is one."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["metadata"]}
    return close_custom(free, group="", version="", kind="", object_meta=object_meta_of(configmap()))


def _scaled(entry: Schema) -> Schema:
    """Return the schema of a version; where it can be scaled, the server takes no negative number of replicas."""
    schema: Schema = entry["schema"]["openAPIV3Schema"]
    path = ((entry.get("subresources") or {}).get("scale") or {}).get("specReplicasPath", "")
    return _at_least_zero(schema, path.strip(".").split(".")) if path else schema


def _at_least_zero(schema: Schema, path: list[str]) -> Schema:
    if not path:
        return {"minimum": 0} | schema
    known = schema.get("properties", {})
    if path[0] in known:
        return schema | {"properties": known | {path[0]: _at_least_zero(known[path[0]], path[1:])}}
    inner = schema.get("additionalProperties")
    return schema | {"additionalProperties": _at_least_zero(inner, path[1:])} if isinstance(inner, dict) else schema
