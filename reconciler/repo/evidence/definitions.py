"""`ClusterDefinitions` (`evidence/<cluster>/definitions.yaml`): what a cluster serves of the kinds that matter here.

A schema is kept without descriptions, as JSON that is compressed (xz) and written in base64. It is read where a file
needs it, within limits, because a repository may be hostile: nothing in it is trusted before it is decoded.
"""

import base64
import binascii
import json
import lzma
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem, Violation
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.violations import foreign_cluster
from reconciler.kube.yaml import Document, write

KIND = "ClusterDefinitions"

_HEADER = b"# Definitions and versions that the cluster serves. `reconciler observe` writes this file.\n"
_API_VERSION = "gpureconciler.io/v1alpha1"
_FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20},)
_MEMORY = 16 << 20  # of the decoder
MAX_SIZE = 2 << 20
"""Bytes of one decoded schema: an API server stores less than 1.5 MiB of a definition, descriptions included."""
MAX_TOTAL = 32 << 20
"""Bytes of all decoded schemas of a cluster."""
_MAX_DEPTH = 200  # of JSON; definitions of pods have a third of it
_WORDS = frozenset(("description", "example", "externalDocs", "title"))
"""Keywords of a schema that decide nothing."""


class BrokenSchemaError(ValueError):
    """The schema of a kind in the evidence cannot be read."""


class ServedKind(Struct, frozen=True, kw_only=True):
    """A kind as a cluster serves it: its versions in the order of the definition, and the schemas, compressed.

    size: bytes of the schemas once they are decoded.
    """

    group: str
    kind: str
    plural: str
    scope: str
    versions: tuple[str, ...]
    storage: str
    size: int
    schema: str

    def definition(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition, without descriptions. Raises `BrokenSchemaError`."""
        names = {"kind": self.kind, "plural": self.plural}
        spec = {**_decoded(self.schema, self.size), "group": self.group, "names": names, "scope": self.scope}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}


class ClusterDefinitions(Struct, frozen=True, kw_only=True):
    """The definitions that a cluster serves, by group and kind, and the versions of its components by name."""

    cluster: str
    taken_at: str
    versions: Mapping[str, str] = {}
    kinds: Mapping[tuple[str, str], ServedKind] = {}
    document: Document | None = None

    def digest(self, group: str) -> str:
        """Return a digest of all kinds of a group; empty without any."""
        kinds = [one for (other, _), one in sorted(self.kinds.items()) if other == group]
        return sha256(repr(kinds).encode()).hexdigest() if kinds else ""

    def place(self, kind: ServedKind) -> FieldPath:
        """Return the field with the schema of a kind in the evidence."""
        return ("spec", "definitions", list(self.kinds.values()).index(kind), "schema")


def parse_definitions(document: Document, cluster: str) -> tuple[ClusterDefinitions | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    violations = list(foreign_cluster(spec, cluster))
    kinds: dict[tuple[str, str], ServedKind] = {}
    total = 0
    for index, entry in enumerate(spec["definitions"]):
        served = ServedKind(**{**entry, "versions": tuple(entry["versions"])})
        total += served.size
        if (served.group, served.kind) in kinds:
            path: FieldPath = ("spec", "definitions", index, "kind")
            message = f"{served.kind} of {served.group} is listed twice"
            violations.append(Violation(rule="evidence.duplicate", path=path, message=message, hint="remove one"))
        kinds[served.group, served.kind] = served
    if total > MAX_TOTAL:
        message = f"the schemas are {total} bytes in all; at most {MAX_TOTAL} are read"
        violations.append(_broken(("spec", "definitions"), message))
    problems = document.problems(violations)
    if problems:
        return None, problems
    return (
        ClusterDefinitions(
            cluster=cluster,
            taken_at=spec["takenAt"],
            versions=dict(spec.get("versions", {})),
            kinds=kinds,
            document=document,
        ),
        (),
    )


def _broken(path: FieldPath, message: str) -> Violation:
    return Violation(
        rule="evidence.schema", path=path, message=message, hint="run `reconciler observe` to record it again"
    )


def broken_schema(definitions: ClusterDefinitions, kind: ServedKind, message: str) -> tuple[Problem, ...]:
    """Return the problem of a schema that cannot be read, at its place in the evidence."""
    document = definitions.document
    return () if document is None else document.problems([_broken(definitions.place(kind), message)])


def write_definitions(definitions: ClusterDefinitions) -> bytes:
    """Write the evidence file. Equal definitions, versions and times give equal bytes."""
    entries = [
        {name: getattr(kind, name) for name in kind.__struct_fields__} | {"versions": list(kind.versions)}
        for _, kind in sorted(definitions.kinds.items())
    ]
    spec = {
        "cluster": definitions.cluster,
        "takenAt": definitions.taken_at,
        "versions": dict(definitions.versions),
        "definitions": entries,
    }
    metadata = {"name": definitions.cluster}
    return _HEADER + write({"apiVersion": _API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})


# --- schemas --------------------------------------------------------------------------------------------------------


def served_kind(definition: Mapping[str, Any], known: ServedKind | None = None) -> ServedKind | None:
    """Return the kind of a CustomResourceDefinition of a cluster; None if none of its versions is served.

    `known` is returned if it means the same: another build of xz may write the same schemas in other bytes.
    """
    spec = mapping(definition.get("spec"))
    versions = [_version(entry) for entry in map(mapping, sequence(spec.get("versions"))) if entry.get("served")]
    if not versions:
        return None
    strategy = mapping(spec.get("conversion")).get("strategy", "None")
    content = {"conversion": {"strategy": strategy}, "versions": versions}
    raw = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    names = mapping(spec.get("names"))
    found = ServedKind(
        group=text(spec.get("group")),
        kind=text(names.get("kind")),
        plural=text(names.get("plural")),
        scope=text(spec.get("scope")),
        versions=tuple(text(entry.get("name")) for entry in versions),
        storage=next((text(one.get("name")) for one in sequence(spec.get("versions")) if one.get("storage")), ""),
        size=len(raw),
        schema=base64.b64encode(lzma.compress(raw, filters=_FILTERS)).decode(),
    )
    return known if known is not None and _is_same(known, found, content) else found


def _is_same(known: ServedKind, found: ServedKind, content: Mapping[str, Any]) -> bool:
    if known == found:
        return True
    if any(getattr(known, name) != getattr(found, name) for name in found.__struct_fields__ if name != "schema"):
        return False
    try:
        return _decoded(known.schema, known.size) == content
    except BrokenSchemaError:
        return False


def _version(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: entry[name] for name in ("name", "served", "storage") if name in entry}
    scale = mapping(mapping(entry.get("subresources")).get("scale")).get("specReplicasPath")
    if scale:
        kept["subresources"] = {"scale": {"specReplicasPath": scale}}
    return {**kept, "schema": {"openAPIV3Schema": _bare(mapping(entry.get("schema")).get("openAPIV3Schema"))}}


def _bare(schema: Any) -> Any:
    """Return a schema without what decides nothing; names of properties are no keywords."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "properties" and isinstance(value, dict):
            kept[name] = {field: _bare(below) for field, below in value.items()}
        elif name in ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"):
            kept[name] = _bare(value)
        elif name not in _WORDS:
            kept[name] = value
    return kept


def _decoded(schema: str, size: int) -> dict[str, Any]:
    """Return what `schema` holds. Raises `BrokenSchemaError`."""
    if size > MAX_SIZE:
        raise BrokenSchemaError(f"the schema is {size} bytes; at most {MAX_SIZE} are read")
    try:
        packed = base64.b64decode(schema, validate=True)
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
        raw = decoder.decompress(packed, max_length=size + 1)
    except (binascii.Error, ValueError):
        raise BrokenSchemaError("the schema is not base64") from None
    except (lzma.LZMAError, EOFError):
        raise BrokenSchemaError("the schema is not compressed by xz, or damaged") from None
    if len(raw) != size or not decoder.eof or decoder.unused_data:
        raise BrokenSchemaError(f"the schema does not have the {size} bytes that the file says")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise BrokenSchemaError("the schema is not JSON") from None
    if not isinstance(found, dict):
        raise BrokenSchemaError("the schema is not a mapping")
    if not _is_flat(found):
        raise BrokenSchemaError(f"the schema is nested deeper than {_MAX_DEPTH} levels")
    return found


def _is_flat(root: Any) -> bool:
    """Return whether a value is nested less deep than is read; without recursion, whose depth is limited."""
    level = [root]
    for _ in range(_MAX_DEPTH):
        below = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [value for values in below for value in values]
        if not level:
            return True
    return False
