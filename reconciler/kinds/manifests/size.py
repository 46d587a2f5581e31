"""The size of an object that a cluster accepts."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem

OBJECT_BYTES = 3 << 19
"""1.5 MiB: the default of etcd's `--max-request-bytes`."""
_DATA_BYTES = 1 << 20
"""What the values under these fields may have in all: MaxSecretSize of pkg/apis/core/types.go."""
_DATA = ("data", "binaryData", "stringData")


def size_problems(manifest: Manifest, content: bytes, *, has_data: bool = False) -> Iterator[Problem]:
    """Report an object that is too large; `content` is its YAML, `has_data`: its data has a limit of its own."""
    if len(content) <= (_DATA_BYTES if has_data else OBJECT_BYTES) // 2:
        return
    data = _data_bytes(manifest.body) if has_data else 0
    if data > _DATA_BYTES:
        yield _problem(manifest, ("data",), data, _DATA_BYTES)
        return
    size = len(msgspec.json.encode(manifest.body))
    if size > OBJECT_BYTES:
        yield _problem(manifest, (), size, OBJECT_BYTES)


def _data_bytes(body: Mapping[str, Any]) -> int:
    maps = [body[name] for name in _DATA if isinstance(body.get(name), dict)]
    return sum(len(value.encode()) for values in maps for value in values.values() if isinstance(value, str))


def _problem(manifest: Manifest, field: FieldPath, size: int, limit: int) -> Problem:
    return Problem(
        rule="schema.object-size",
        place=manifest.source,
        field=".".join(map(str, field)),
        message=f"{manifest.key} has {size:,} bytes; the limit is {limit:,}",
        hint="split it, or store the data in a volume or an object store",
    )
