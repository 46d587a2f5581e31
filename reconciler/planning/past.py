"""The sources that the base was rendered from, and what they render to, by themselves or beside those of the head."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache

from reconciler.core.config import Config, parse_config
from reconciler.core.documents import read
from reconciler.index.build import CompiledRevision, Runtime
from reconciler.index.checking import PolicyChecker
from reconciler.index.compile import CompiledFile, compile_files
from reconciler.index.context import Context, build_context, may_define
from reconciler.index.parsed import ParsedFile
from reconciler.index.renderer import Renderer
from reconciler.revision.files import CONFIG_PATH, BlobIds, RevisionFiles

Changed = Mapping[str, tuple[bytes | None, bytes | None]]
"""The contents of files that differ, before and after; None where a file does not exist."""


class InputPart(StrEnum):
    """A part of the sources that a rendered object depends on."""

    FILE = "file"  # the one that it is rendered from
    DEFINITIONS = "definitions"
    EVIDENCE = "evidence"
    SETTINGS = "settings"


ALL = frozenset(InputPart)
_MOST_KEPT = 16  # compiled files: those of the objects that are compared now


class PastSources:
    """Compiles source files with parts of the base in place of those of the head. The last results are kept."""

    def __init__(
        self, runtime: Runtime, index: CompiledRevision, renderer: Renderer, files: RevisionFiles, changed: Changed
    ) -> None:
        self.files = files
        self.changed = changed
        self._runtime = runtime
        self._index = index
        self._renderer = renderer
        self._contexts: dict[frozenset[InputPart], Context] = {frozenset(): index.context}
        self._paths: dict[str, frozenset[str]] = {}
        self._compile = lru_cache(_MOST_KEPT)(self._compile_parts)

    def compile(self, source: str, parts: frozenset[InputPart] = ALL) -> CompiledFile:
        """Compile a source file; `parts` are those of the base. A file that does not exist renders to nothing."""
        return self._compile(source, parts & self._differing(source))

    def paths(self, source: str) -> frozenset[str]:
        """Return the paths that a source file of the base renders. They are kept for all files."""
        if source not in self._paths:
            self._paths[source] = frozenset(one.summary.path for one in self.compile(source).objects)
        return self._paths[source]

    def _compile_parts(self, source: str, parts: frozenset[InputPart]) -> CompiledFile:
        raw = self._read(source, 0 if InputPart.FILE in parts else 1) or b""
        return compile_files(self.context(parts), [(source, raw)])[0]

    def _read(self, source: str, side: int) -> bytes | None:
        return self.changed[source][side] if source in self.changed else self._renderer.raw(source)

    def context(self, parts: frozenset[InputPart] = ALL) -> Context:
        """Return what source files are compiled against, without policies."""
        parts &= self._parts
        if parts not in self._contexts:
            self._contexts[parts] = self._build(parts)
        return self._contexts[parts]

    def _build(self, parts: frozenset[InputPart]) -> Context:
        runtime, now = self._runtime, self._index.revision
        config = self._config if InputPart.SETTINGS in parts else now.config
        sources = self.files.sources if InputPart.DEFINITIONS in parts else now.files.sources
        evidence = self.files.evidence if InputPart.EVIDENCE in parts else now.files.evidence
        side = 0 if InputPart.DEFINITIONS in parts else 1
        return build_context(
            config,
            engine=runtime.engine,
            object_format=runtime.repository.object_format,
            kinds=runtime.kinds,
            catalogue=runtime.catalogue,
            tables=runtime.tables,
            shipped=(),
            policies=(),
            evidence=self._parse(evidence, list(evidence)),
            approvals=(),
            definitions=self._parse(sources, [path for path in sources if self._is_definition(path, side)]),
            clusters=tuple(one for one in config.clusters if runtime.cluster in ("", one.name)),
            checker=PolicyChecker(),
        )

    def _parse(self, blobs: BlobIds, paths: Sequence[str]) -> tuple[ParsedFile, ...]:
        def read_missing(missing: list[str]) -> Iterable[bytes]:
            return self._runtime.repository.read([blobs[path] for path in missing])

        return self._index.parser.parse([(path, blobs[path]) for path in paths], read_missing)

    def _is_definition(self, path: str, side: int) -> bool:
        if path in self.changed:
            return may_define(self.changed[path][side] or b"", self._runtime.kinds, always=not self._looks_up)
        record = self._index.records.get(path)
        return record is not None and record.is_definition and (record.is_needed or self._looks_up)

    @cached_property
    def _looks_up(self) -> bool:
        """Whether any file looks up definitions of kinds of which few do, or did so in the last run."""
        return any(map(self._runtime.kinds.looks_up, (*self._index.store.digests, *self._index.saved.digests)))

    @cached_property
    def _parts(self) -> frozenset[InputPart]:
        """The parts besides single files that differ."""
        found = {InputPart.SETTINGS} if CONFIG_PATH in self.changed else set()
        sources = [path for path in self.changed if path in self.files.sources or path in self._index.records]
        if any(self._is_definition(path, side) for path in sources for side in (0, 1)):
            found.add(InputPart.DEFINITIONS)
        if len(sources) < len(self.changed) - (CONFIG_PATH in self.changed):
            found.add(InputPart.EVIDENCE)
        return frozenset(found)

    def _differing(self, source: str) -> frozenset[InputPart]:
        return self._parts | ({InputPart.FILE} if source in self.changed else frozenset())

    @cached_property
    def _config(self) -> Config:
        """The settings of the base; those of the head where they are not valid."""
        own = self._index.revision.config
        raw = self.changed[CONFIG_PATH][0]
        documents = read(CONFIG_PATH, raw).documents if raw else ()
        if len(documents) != 1 or self._index.context.catalogue.validate(documents[0]):
            return own
        return parse_config(documents[0])[0] or own
