"""The sources of schemas: the shipped archive, the schemas of our own kinds, and CustomResourceDefinitions.

`schemas/kubernetes/kinds.zip` contains `index.json` (the kinds a server serves) and one strict schema per kind and
version, so that a run decompresses only the schemas it needs. `schemas/<group>/<version>/<kind in lower case>.json`
are the schemas of our own kinds.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from reconciler.kube.schemas.components import COMPONENTS, component_of
from reconciler.kube.schemas.schema import Schema
from reconciler.kube.schemas.stored import KindForm
from reconciler.kube.schemas.strict import object_meta, strict_custom

_FORMS = "schemas/kubernetes/defaults.json"
_RESOURCES = "schemas/kubernetes/resources.json"
_VERSIONS = "schemas/kubernetes/versions.json"
_ARCHIVE = "schemas/kubernetes/kinds.zip"


class Bundle(Protocol):
    """The data that ships with the package."""

    def read(self, relative_path: str, /) -> bytes:
        """Return the bytes of one file."""
        ...

    def walk(self, folder: str, /) -> Iterator[str]:
        """Yield the paths of all files below a folder, sorted."""
        ...


class Served(Struct, frozen=True, kw_only=True):
    """A kind as an API server serves it. The preferred version comes first; `plural` is its name in URLs, or empty.

    is_custom: a CustomResourceDefinition defines it. is_renamed: its versions differ in their names alone.
    """

    versions: tuple[str, ...]
    namespaced: bool
    plural: str
    is_custom: bool = False
    is_renamed: bool = False


class Archive:
    """The shipped schemas, loaded on first use."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._cached: Mapping[str, bytes] = {}
        self.made: dict[str, bytes] = {}
        """Archive members that this run decompressed."""

    def recall(self, cached: Mapping[str, bytes]) -> None:
        """Use the `made` of an earlier run over the same archive, so that the archive stays closed."""
        self._cached = cached

    def _member(self, name: str) -> bytes:
        if name in self._cached:
            return self._cached[name]
        if name not in self.made:
            self.made[name] = self._zip.read(name)
        return self.made[name]

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(io.BytesIO(self._bundle.read(_ARCHIVE)))

    @cached_property
    def _index(self) -> dict[str, dict[str, Served]]:
        raw = json.loads(self._member("index.json"))
        return {
            group: {
                kind: Served(
                    versions=tuple(entry["versions"]),
                    namespaced=entry["namespaced"],
                    plural=self._plurals.get(group, {}).get(kind, ""),
                    is_custom=entry.get("custom", False),
                )
                for kind, entry in kinds.items()
            }
            for group, kinds in raw.items()
        }

    @cached_property
    def _plurals(self) -> dict[str, dict[str, str]]:
        return msgspec.json.decode(self._bundle.read(_RESOURCES), type=dict[str, dict[str, str]])

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions whose definitions ship, by the name of the component."""
        modules: dict[str, str] = json.loads(self._bundle.read(_VERSIONS))
        return {component.name: modules[component.module].removeprefix("v") for component in COMPONENTS}

    def is_fixed(self, group: str) -> bool:
        """Return whether no CustomResourceDefinition decides about a group: it is Kubernetes' or our own."""
        if group in self._own:
            return True
        kinds = self._index.get(group)
        return kinds is not None and not any(served.is_custom for served in kinds.values())

    def owner(self, group: str, kind: str) -> str:
        """Return the project that defines a shipped kind by a CustomResourceDefinition, and its version; else empty."""
        served = self._index.get(group, {}).get(kind) if group not in self._own else None
        component = component_of(group, kind) if served is not None and served.is_custom else None
        return f"{component.title} {self.versions[component.name]}" if component is not None else ""

    def resource(self, group: str, kind: str) -> Served | None:
        """Return the name in URLs of a well-known kind without a shipped schema. Its versions are not known."""
        plural = self._plurals.get(group, {}).get(kind)
        return Served(versions=(), namespaced=True, plural=plural) if plural else None

    @cached_property
    def _own(self) -> dict[str, dict[str, dict[str, Schema]]]:
        """The schemas of our own kinds by group, kind and version."""
        own: dict[str, dict[str, dict[str, Schema]]] = {}
        for path in self._bundle.walk("schemas"):
            folder, _, rest = path.removeprefix("schemas/").partition("/")
            if folder != "kubernetes" and rest.count("/") == 1 and rest.endswith(".json"):
                schema = json.loads(self._bundle.read(path))
                own.setdefault(folder, {}).setdefault(schema["title"], {})[rest.partition("/")[0]] = schema
        return own

    @cached_property
    def forms(self) -> dict[str, KindForm]:
        """The changes of an API server to objects of built-in kinds, by `apiVersion/kind`."""
        return msgspec.json.decode(self._bundle.read(_FORMS), type=dict[str, KindForm])

    def groups(self) -> tuple[str, ...]:
        """All groups, sorted."""
        return tuple(sorted({*self._index, *self._own}))

    def named_groups(self) -> tuple[str, ...]:
        """Return the groups with kinds whose names in URLs are known, also where no schema of theirs ships."""
        return tuple(self._plurals)

    def kinds(self, group: str) -> Mapping[str, Served] | None:
        """Return the kinds of a group by name, or None if the group is unknown."""
        if group not in self._own:
            return self._index.get(group)
        return {
            kind: Served(
                versions=tuple(versions),
                namespaced=next(iter(versions.values())).get("x-kubernetes-scope", "Namespaced") == "Namespaced",
                plural=own_plural(kind),
            )
            for kind, versions in self._own[group].items()
        }

    def load(self, group: str, kind: str, version: str) -> Schema:
        """Return the strict schema of a kind that `kinds` returned."""
        if group in self._own:
            return self._own[group][kind][version]
        return dict(json.loads(self._member(member_name(group, kind, version))))


def member_name(group: str, kind: str, version: str) -> str:
    """Return the name of a schema in the archive."""
    return f"{group or 'core'}/{version}/{kind}.json"


def own_plural(kind: str) -> str:
    """Return the plural of a kind of our own: its definitions are generated with it (`tools/crds.py`)."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


class CustomKind(Struct, frozen=True, kw_only=True):
    """A kind from a CustomResourceDefinition, with a schema per served version."""

    group: str
    kind: str
    served: Served
    schemas: dict[str, Schema]


def parse_definition(body: dict[str, Any], configmap: Callable[[], Schema]) -> CustomKind | None:
    """Return the kind of a CustomResourceDefinition; None for other kinds and for unusable schemas.

    `configmap` returns the strict schema of a built-in kind, from which the schema of ObjectMeta is taken. What is
    wrong with an unusable definition is reported by the schema of CustomResourceDefinition itself.
    """
    if body.get("kind") != "CustomResourceDefinition" or body.get("apiVersion") != "apiextensions.k8s.io/v1":
        return None
    try:
        spec = body["spec"]
        group, kind = str(spec["group"]), str(spec["names"]["kind"])
        meta = object_meta(configmap())
        versions = [entry for entry in spec["versions"] if entry["served"]]
        versions.sort(key=lambda entry: not entry["storage"])
        schemas = {
            str(entry["name"]): strict_custom(
                _version_schema(entry), group=group, version=entry["name"], kind=kind, meta=meta
            )
            for entry in versions
        }
        namespaced, plural = spec["scope"] == "Namespaced", str(spec["names"]["plural"])
        is_renamed = (spec.get("conversion") or {}).get("strategy", "None") == "None"
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    if not schemas:
        return None
    served = Served(
        versions=tuple(schemas), namespaced=namespaced, plural=plural, is_custom=True, is_renamed=is_renamed
    )
    return CustomKind(group=group, kind=kind, served=served, schemas=schemas)


def metadata_only(configmap: Callable[[], Schema]) -> Schema:
    """Return the schema of an object of an unknown kind, which constrains nothing but its metadata."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["metadata"]}
    return strict_custom(free, group="", version="", kind="", meta=object_meta(configmap()))


def _version_schema(entry: Schema) -> Schema:
    """Return the schema of a version. The replicas of a `scale` subresource cannot be negative."""
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
