"""Where schemas come from: the shipped archive of Kubernetes kinds, and the files of kinds that we define.

`schemas/kubernetes/kinds.zip` holds `index.json` (what is served) and one closed schema a kind and version, so that a
run unpacks what it meets and nothing else. `schemas/<group>/<version>/<kind in lower case>.json` are read as they are.
"""

import io
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from reconciler.core.schemas.shape import Schema

if TYPE_CHECKING:
    import zipfile

ARCHIVE = "schemas/kubernetes/kinds.zip"


class Bundle(Protocol):
    """The shipped data: contents by relative path, and the sorted paths below a folder."""

    def read(self, relative_path: str, /) -> bytes:
        """Return the bytes of one file."""
        ...

    def walk(self, folder: str, /) -> Iterator[str]:
        """Yield the paths of all files below a folder."""
        ...


class Served(Struct, frozen=True, kw_only=True):
    """A kind as a server serves it. `versions` are preferred first."""

    versions: tuple[str, ...]
    namespaced: bool


Kinds = Mapping[str, Served]
"""The kinds of one group by name."""


class Archive:
    """Schemas by group, kind and version, unpacked when they are asked for."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._unpacked: Mapping[str, bytes] = {}
        self.made: dict[str, bytes] = {}

    def recall(self, unpacked: Mapping[str, bytes]) -> None:
        """Take what `made` held after an earlier run over the same archive, so that it need not be opened."""
        self._unpacked = unpacked

    def _member(self, name: str) -> bytes:
        """Return what the archive holds under a name."""
        if name in self._unpacked:
            return self._unpacked[name]
        if name not in self.made:
            self.made[name] = self._zip.read(name)
        return self.made[name]

    @cached_property
    def _zip(self) -> "zipfile.ZipFile":
        import zipfile  # noqa: PLC0415 - a run over cached results opens no archive

        return zipfile.ZipFile(io.BytesIO(self._bundle.read(ARCHIVE)))

    @cached_property
    def _index(self) -> dict[str, dict[str, Served]]:
        raw = json.loads(self._member("index.json"))
        return {
            group: {
                kind: Served(versions=tuple(entry["versions"]), namespaced=entry["namespaced"])
                for kind, entry in kinds.items()
            }
            for group, kinds in raw.items()
        }

    @cached_property
    def _own_groups(self) -> frozenset[str]:
        folders = {path.split("/")[1] for path in self._bundle.walk("schemas") if path.count("/") == 3}  # noqa: PLR2004
        return frozenset(folders - {"kubernetes"})

    @cached_property
    def _own(self) -> dict[str, dict[str, dict[str, Schema]]]:
        """Group, kind, version to schema: few and small, so that all of them are read at once."""
        own: dict[str, dict[str, dict[str, Schema]]] = {}
        for group in sorted(self._own_groups):
            for path in self._bundle.walk(f"schemas/{group}"):
                if path.endswith(".json"):
                    schema = json.loads(self._bundle.read(path))
                    own.setdefault(group, {}).setdefault(schema["title"], {})[path.split("/")[2]] = schema
        return own

    def groups(self) -> tuple[str, ...]:
        """All groups, sorted."""
        return tuple(sorted({*self._index, *self._own_groups}))

    def kinds(self, group: str) -> Kinds | None:
        """Return the kinds of a group, None where the group is not known."""
        if group in self._own_groups:
            return {
                kind: Served(versions=tuple(versions), namespaced=_is_namespaced(next(iter(versions.values()))))
                for kind, versions in self._own.get(group, {}).items()
            }
        return self._index.get(group)

    def load(self, group: str, kind: str, version: str) -> Schema:
        """Return the closed schema of a kind that `kinds` told of."""
        if group in self._own_groups:
            return self._own[group][kind][version]
        return dict(json.loads(self._member(member(group, kind, version))))


def _is_namespaced(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-scope", "Namespaced") == "Namespaced")


def member(group: str, kind: str, version: str) -> str:
    """Name of a schema in the archive."""
    return f"{group or 'core'}/{version}/{kind}.json"
