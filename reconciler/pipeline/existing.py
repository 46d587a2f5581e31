"""What `rendered/` holds: read only where it differs from what we render, and only what we own."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.core.census import Row, row
from reconciler.core.documents import read
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem
from reconciler.core.render.ownership import LABEL, OWNER, is_owned
from reconciler.pipeline.listing import Listing
from reconciler.ports import Repository


class Existing:
    """The rendered files of one revision, by path below the rendered folder."""

    def __init__(self, repository: Repository, folder: str, oids: Listing) -> None:
        self._repository = repository
        self._folder = folder
        self._prefix = f"{folder}/"
        self.oids = oids
        self._bodies: dict[str, Mapping[str, Any] | None] = {}

    def differing(self, desired: Listing) -> list[str]:
        """Return the paths whose content is not the desired one, by blob id."""
        return [path for path in self.oids.differing(desired) if path in self.oids]

    def load(self, paths: Iterable[str]) -> None:
        """Read these files at once."""
        wanted = [path for path in paths if path not in self._bodies]
        contents = self._repository.read([self.oids[path] for path in wanted])
        for path, raw in zip(wanted, contents, strict=True):
            documents = read(self._prefix + path, raw).documents
            self._bodies[path] = documents[0].data if len(documents) == 1 else None

    def body(self, path: str) -> Mapping[str, Any] | None:
        """Return the object that a file holds; None where it holds none, or several."""
        if path not in self._bodies:
            self.load([path])
        return self._bodies[path]

    def foreign(self, paths: Iterable[str]) -> dict[str, Problem]:
        """Return a problem for each of these files that we did not render: they are never removed nor overwritten."""
        found = {}
        for path in paths:
            body = self.body(path)
            if body is None or not is_owned(body):
                found[path] = Problem(
                    rule="rendered.foreign",
                    place=SourceRef(path=self._prefix + path),
                    message=f"was not rendered by this tool (no label {LABEL}: {OWNER})",
                    hint=f"move it among the sources, or out of {self._folder}/",
                )
        return found

    def row(self, path: str) -> Row | None:
        """Return the row of an object that differs from what is desired."""
        body = self.body(path)
        if body is None:
            return None
        return row(cluster=path.split("/", 1)[0], body=body, path=path, digest=self.oids[path])
