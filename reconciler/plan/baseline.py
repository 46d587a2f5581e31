"""The baseline: what exists before the plan. The `rendered/` folder of a revision is one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from reconciler.index.workers import in_parallel
from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.ownership import LABEL, OWNER, is_kept, is_owned
from reconciler.kinds.summary import ObjectSummary, summarize
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import read
from reconciler.kube.yaml.reader import CONFLICT
from reconciler.repo.config import Config
from reconciler.repo.config.external import is_external
from reconciler.repo.files import BlobIds


class ExistingObject(Struct, frozen=True, array_like=True):
    """One object that exists: whether we own it, and its summary, which names cluster, kind, namespace and name.

    `summary` is None where the content is not exactly one object; such content is never ours. `is_kept`: an annotation
    keeps the object when its source is removed.
    """

    is_owned: bool
    summary: ObjectSummary | None
    is_kept: bool = False

    def is_external(self, config: Config) -> bool:
        """Return whether a cluster names the object in `external`: others own it."""
        row = self.summary
        return row is not None and is_external(config, row.cluster, row.kind, row.namespace, row.name)

    def stays(self, config: Config) -> bool:
        """Return whether the object is not deleted when its source is removed."""
        return self.is_kept or self.is_external(config)


class Baseline(Protocol):
    """The objects that exist before the plan, by path: `<cluster>/<namespace>/<kind>-<name>.yaml`."""

    @property
    def versions(self) -> Mapping[str, str]:
        """A version of every existing object by path: what does not change has the same version."""
        ...

    @property
    def sources(self) -> Mapping[str, str]:
        """The source files of existing objects, where these have no files of their own."""
        ...

    def differing(self, desired: Mapping[str, str]) -> list[str]:
        """Return the paths of existing objects that are not as desired; `desired` holds blob ids by path."""
        ...

    def objects(self, paths: Iterable[str]) -> Mapping[str, ExistingObject]:
        """Load existing objects."""
        ...

    def body(self, path: str) -> Mapping[str, Any] | None:
        """Return the body of an existing object; None where the content is not exactly one object."""
        ...

    def foreign(self, path: str) -> Problem:
        """Return the problem of an object that is in the way and not ours: it is never replaced or deleted."""
        ...


def place_of(path: str, folder: str, sources: Mapping[str, str]) -> SourceRef:
    """Return the file of an existing object: the one in `folder`, or that of its source where there is none."""
    source = sources.get(path)
    return SourceRef(path=f"{folder}/{path}" if source is None else source.partition("#")[0])


ReadPaths = Callable[[list[str]], Iterable[bytes]]
"""Returns the contents of rendered paths, in order."""


class RenderedTree:
    """The rendered objects of one revision as a baseline; the version of an object is its blob id.

    They are the files in `rendered/`, or what the sources render to where no such folder is committed: then `sources`
    are the files that they are rendered from.
    """

    def __init__(
        self,
        kinds: Kinds,
        folder: str,
        blobs: BlobIds,
        contents: ReadPaths,
        sources: Mapping[str, str] | None = None,
        *,
        processes: int = 1,
    ) -> None:
        self._kinds = kinds
        self._folder = folder
        self._blobs = blobs
        self._contents = contents
        self._sources = sources or {}
        self._processes = processes
        self._raw: dict[str, bytes] = {}
        self._objects: dict[str, ExistingObject] = {}

    @property
    def versions(self) -> Mapping[str, str]:
        """Blob ids by path."""
        return self._blobs

    @property
    def sources(self) -> Mapping[str, str]:
        """The files that the objects are rendered from; empty for those in `rendered/`."""
        return self._sources

    def differing(self, desired: Mapping[str, str]) -> list[str]:
        """Return the paths whose blob id is not the desired one."""
        if self._blobs == desired:
            return []
        return [path for path, blob in self._blobs.items() if desired.get(path) != blob]

    def objects(self, paths: Iterable[str]) -> Mapping[str, ExistingObject]:
        """Load files, many of them with worker processes."""
        wanted = list(paths)
        missing = [path for path in wanted if path not in self._objects]
        self._raw.update(zip(missing, self._contents(missing), strict=True))

        def work(positions: range) -> list[bytes]:
            return [msgspec.msgpack.encode(self._parse(missing[position])) for position in positions]

        results = in_parallel(work, len(missing), processes=self._processes, advance=lambda _: None)
        self._objects.update(zip(missing, map(_object.decode, results), strict=True))
        return {path: self._objects[path] for path in wanted}

    def body(self, path: str) -> Mapping[str, Any] | None:
        """Return the object that a file holds. Parsed each time, because few are asked for twice."""
        if path not in self._raw:
            self.objects([path])
        documents = read(f"{self._folder}/{path}", self._raw[path]).documents
        return documents[0].data if len(documents) == 1 else None

    def _parse(self, path: str) -> ExistingObject:
        body = self.body(path)
        if body is None:
            return ExistingObject(is_owned=False, summary=None)
        summary = summarize(self._kinds, cluster=path.split("/", 1)[0], body=body, path=path, digest=self._blobs[path])
        return ExistingObject(is_owned=is_owned(body), summary=summary, is_kept=is_kept(body))

    def foreign(self, path: str) -> Problem:
        """Return the problem of a file that was not rendered by this tool."""
        place = SourceRef(path=f"{self._folder}/{path}")
        if CONFLICT.search(self._raw.get(path, b"")):
            hint = "render it again: reconciler resolve"
            return Problem(rule="rendered.conflict", place=place, message="the file has merge conflicts", hint=hint)
        return Problem(
            rule="rendered.foreign",
            place=place,
            message=f"was not rendered by this tool (no label {LABEL}: {OWNER})",
            hint=f"move it to a source folder, or out of {self._folder}/",
        )


_object = msgspec.msgpack.Decoder(ExistingObject)
