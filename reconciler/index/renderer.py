"""`Renderer`: manifests and bytes of rendered paths, for the few that a plan compares or writes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.compile import RenderedObject, compile_files
from reconciler.index.workers import WorkerPool
from reconciler.kube.yaml.reader import read
from reconciler.repo.port import Repository

_MAX_KEPT = 1_000  # source files whose objects `object` keeps


class Renderer:
    """Gives manifests and bytes of rendered paths: compiles their source files again unless this run did so already."""

    def __init__(self, repository: Repository, workers: WorkerPool, index: CompiledRevision) -> None:
        self._repository = repository
        self._workers = workers
        self._index = index
        self._raw: dict[str, bytes] = {}
        self._compile_one = lru_cache(_MAX_KEPT)(self._compile_for_cluster)

    def group(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return rendered paths by source file, and read those files in one call."""
        groups: dict[str, list[str]] = {}
        for path in paths:
            groups.setdefault(self._index.sources[path], []).append(path)
        missing = sorted(groups.keys() - self._raw.keys() - self._index.compiled.keys())
        self._raw.update(read_files(self._repository, self._index.revision.files.sources, missing))
        return groups

    def raw(self, source: str) -> bytes:
        """Return the content of a source file."""
        if source not in self._raw:
            self._raw.update(read_files(self._repository, self._index.revision.files.sources, [source]))
        return self._raw[source]

    def compile(self, sources: list[str], *, cluster: str = "") -> list[dict[str, RenderedObject]]:
        """Return what grouped source files render, by path; `cluster`: for one cluster only.

        Policies are not evaluated, and nothing is kept.
        """
        known, context = self._index.compiled, self._index.context
        if cluster:
            context = replace(context, clusters=tuple(one for one in context.clusters if one.name == cluster))
        missing = [source for source in sources if source not in known]
        made = compile_files(context, [(source, self.raw(source)) for source in missing])
        files = {**known, **dict(zip(missing, made, strict=True))}
        settled = self._index.settled
        return [
            {one.summary.path: settled.get(one.summary.path, one) for one in reversed(files[source].objects)}
            for source in sources
        ]

    def object(self, path: str) -> RenderedObject:
        """Return one rendered object; those of its source file and cluster are kept for the next calls."""
        return self._compile_one(self._index.sources[path], path.partition("/")[0])[path]

    def _compile_for_cluster(self, source: str, cluster: str) -> dict[str, RenderedObject]:
        return self.compile([source], cluster=cluster)[0]

    def contents(self, paths: list[str]) -> dict[str, bytes]:
        """Return the bytes of rendered paths, in order: kept ones, those in `rendered/`, and the rest compiled."""
        index = self._index
        is_plain = not index.rendered.has_duplicates
        contents = {path: index.contents[path] for path in paths if path in index.contents} if is_plain else {}
        rendered = index.revision.files.rendered
        there = [path for path in paths if path not in contents and rendered.get(path) == index.desired[path]]
        contents.update(read_files(self._repository, index.desired, there))
        contents.update(self._render([path for path in paths if path not in contents]))
        return {path: contents[path] for path in paths}

    def body(self, path: str, content: bytes) -> Mapping[str, Any]:
        """Return the object that the bytes of a rendered path hold."""
        documents = read(f"{self._index.revision.config.rendered}/{path}", content).documents
        return documents[0].data if len(documents) == 1 else self.object(path).manifest.body

    def _render(self, paths: list[str]) -> dict[str, bytes]:
        groups = self.group(paths)
        sources = sorted(groups)

        def work(positions: range) -> list[bytes]:
            chosen = [sources[position] for position in positions]
            return [
                msgspec.msgpack.encode({path: objects[path].content for path in groups[source]})
                for source, objects in zip(chosen, self.compile(chosen), strict=True)
            ]

        contents: dict[str, bytes] = {}
        for raw in self._workers.run("rendering", work, len(sources)):
            contents.update(msgspec.msgpack.decode(raw, type=dict[str, bytes]))
        return contents
