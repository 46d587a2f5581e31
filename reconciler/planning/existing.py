"""What `rendered/` holds: read only where it differs from what we render, and only what we own."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.documents import read
from reconciler.core.kinds.kind import Kinds
from reconciler.core.manifests.ownership import LABEL, OWNER, is_owned
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem
from reconciler.core.summary import ObjectSummary, summarize
from reconciler.index.workers import in_parallel
from reconciler.ports import Repository
from reconciler.revision.listing import Listing


class Existing:
    """The rendered files of one revision, by path below the rendered folder."""

    def __init__(self, repository: Repository, kinds: Kinds, folder: str, oids: Listing) -> None:
        self._repository = repository
        self._kinds = kinds
        self._folder = folder
        self._prefix = f"{folder}/"
        self.oids = oids
        self._raw: dict[str, bytes] = {}
        self._bodies: dict[str, Mapping[str, Any] | None] = {}
        self._looks: dict[str, _Look] = {}

    def differing(self, desired: Listing) -> list[str]:
        """Return the paths whose content is not the desired one, by blob id."""
        return [path for path in self.oids.differing(desired) if path in self.oids]

    def load(self, paths: Iterable[str], *, processes: int = 1) -> None:
        """Read these files at once, and look at what they hold; of many, no body is kept."""
        wanted = [path for path in paths if path not in self._raw]
        self._raw.update(zip(wanted, self._repository.read([self.oids[path] for path in wanted]), strict=True))
        if len(wanted) < _MANY:
            return

        def work(positions: range) -> list[bytes]:
            bodies = ((wanted[position], self._parsed(wanted[position])) for position in positions)
            return [msgspec.msgpack.encode(self._looked(path, body)) for path, body in bodies]

        results = in_parallel(work, len(wanted), processes=processes, advance=lambda _: None)
        self._looks.update(zip(wanted, map(_looks.decode, results), strict=True))

    def body(self, path: str) -> Mapping[str, Any] | None:
        """Return the object that a file holds; None where it holds none, or several."""
        if path not in self._bodies:
            self.load([path])
            body = self._parsed(path)
            if len(self._raw) >= _MANY:
                return body
            self._bodies[path] = body
        return self._bodies[path]

    def _parsed(self, path: str) -> Mapping[str, Any] | None:
        documents = read(self._prefix + path, self._raw[path]).documents
        return documents[0].data if len(documents) == 1 else None

    def _look(self, path: str) -> "_Look":
        if path not in self._looks:
            self._looks[path] = self._looked(path, self.body(path))
        return self._looks[path]

    def _looked(self, path: str, body: Mapping[str, Any] | None) -> "_Look":
        if body is None:
            return _Look(is_owned=False, row=None)
        found = summarize(self._kinds, cluster=path.split("/", 1)[0], body=body, path=path, digest=self.oids[path])
        return _Look(is_owned=is_owned(body), row=found)

    def foreign(self, paths: Iterable[str]) -> dict[str, Problem]:
        """Return a problem for each of these files that we did not render: they are never removed nor overwritten."""
        found = {}
        for path in paths:
            if not self._look(path).is_owned:
                found[path] = Problem(
                    rule="rendered.foreign",
                    place=SourceRef(path=self._prefix + path),
                    message=f"was not rendered by this tool (no label {LABEL}: {OWNER})",
                    hint=f"move it among the sources, or out of {self._folder}/",
                )
        return found

    def summary(self, path: str) -> ObjectSummary | None:
        """Return the row of an object that differs from what is desired."""
        return self._look(path).row


class _Look(Struct, frozen=True, array_like=True):
    """Whether we own what a file holds, and its row."""

    is_owned: bool
    row: ObjectSummary | None


_looks = msgspec.msgpack.Decoder(_Look)
_MANY = 400
"""From so many files on, workers look at them, and bodies are made again when they are asked for."""
