"""How large an object may be before a cluster refuses to store it."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import FieldPath
from reconciler.core.problems import Problem

OBJECT_BYTES = 3 << 19
"""1.5 MiB: etcd's `--max-request-bytes` as it ships."""
DATA_BYTES = 1 << 20
"""Of all values of a ConfigMap or Secret: MaxSecretSize in k8s.io/kubernetes/pkg/apis/core/types.go."""
_DATA = ("data", "binaryData", "stringData")


def size_problems(manifest: Manifest, content: bytes) -> Iterator[Problem]:
    """Say that an object is too large; `content` is its YAML, never much shorter than what is sent."""
    if len(content) <= DATA_BYTES:
        return
    data = _data_bytes(manifest.body)
    if manifest.key.kind in {"ConfigMap", "Secret"} and not manifest.key.group and data > DATA_BYTES:
        yield _problem(manifest, ("data",), data, DATA_BYTES)
        return
    size = len(msgspec.json.encode(manifest.body))
    if size > OBJECT_BYTES:
        yield _problem(manifest, (), size, OBJECT_BYTES)


def _data_bytes(body: Mapping[str, Any]) -> int:
    maps = [body[name] for name in _DATA if isinstance(body.get(name), dict)]
    return sum(len(value.encode()) for values in maps for value in values.values() if isinstance(value, str))


def _problem(manifest: Manifest, field: FieldPath, size: int, most: int) -> Problem:
    return Problem(
        rule="schema.object-size",
        place=manifest.source,
        field=".".join(map(str, field)),
        message=f"{manifest.key} has {size:,} bytes, {most:,} are allowed",
        hint="split it, or keep the data in a volume or an object store",
    )
