"""The causes of differences: the edited lines of the sources, found by what the base's sources render to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from itertools import islice

from reconciler.index.build import CompiledRevision
from reconciler.index.checking import PolicyChecker
from reconciler.index.compile import CompiledFile, compile_files
from reconciler.index.context import CarriedFiles, Context, build_context, may_define
from reconciler.index.dependencies import (
    AnswerDependency,
    DefinitionDependency,
    Dependency,
    FileDependency,
    FolderDependency,
    InventoryDependency,
    decode_dependencies,
)
from reconciler.index.parsed import ParsedFile
from reconciler.index.renderer import Renderer
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Origin, Why
from reconciler.kube.yaml import Document, read
from reconciler.plan.causes import (
    Cause,
    FileEdit,
    LineRange,
    Matters,
    SourcePart,
    cause_of,
    document_lines,
    is_new,
    read_edit,
    removed_document,
)
from reconciler.plan.comparison import NO_CAUSES, Causes
from reconciler.plan.differences import CauseFinder, differences
from reconciler.repo.config import Config, parse_config
from reconciler.repo.files import CONFIG_PATH, BlobIds, RevisionFiles
from reconciler.repo.port import Repository
from reconciler.repo.revision import LoadedRevision, read_earlier_files

# The sources that the base was rendered from, and what they render to, by themselves or beside those of the head.


Changed = Mapping[str, tuple[bytes | None, bytes | None]]
"""The contents of files that differ, before and after; None where a file does not exist."""


class InputPart(StrEnum):
    """A part of the sources that a rendered object depends on."""

    FILE = "file"  # the one that it is rendered from
    DEFINITIONS = "definitions"
    EVIDENCE = "evidence"
    SETTINGS = "settings"


ALL = frozenset(InputPart)

_MAX_KEPT = 16  # compiled files: those of the objects that are compared now


class PastSources:
    """Compiles source files with parts of the base in place of those of the head. The last results are kept."""

    def __init__(
        self,
        repository: Repository,
        index: CompiledRevision,
        renderer: Renderer,
        files: RevisionFiles,
        changed: Changed,
    ) -> None:
        self.files = files
        self.changed = changed
        self._repository = repository
        self._index = index
        self._renderer = renderer
        self._contexts: dict[frozenset[InputPart], Context] = {frozenset(): index.context}
        self._paths: dict[str, frozenset[str]] = {}
        self._compile = lru_cache(_MAX_KEPT)(self._compile_parts)

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
        """Return the context of source files, without policies."""
        parts &= self._parts
        if parts not in self._contexts:
            self._contexts[parts] = self._build(parts)
        return self._contexts[parts]

    def _build(self, parts: frozenset[InputPart]) -> Context:
        engine, now = self._index.engine, self._index.revision
        config = self._config if InputPart.SETTINGS in parts else now.config
        sources = self.files.sources if InputPart.DEFINITIONS in parts else now.files.sources
        evidence = self.files.evidence if InputPart.EVIDENCE in parts else now.files.evidence
        carried = self.files.carried if InputPart.EVIDENCE in parts else now.files.carried
        side = 0 if InputPart.DEFINITIONS in parts else 1
        return build_context(
            config,
            engine=engine.version,
            object_format=self._repository.object_format,
            kinds=engine.kinds,
            catalogue=engine.catalogue,
            tables=engine.tables,
            shipped=(),
            policies=(),
            evidence=self._parse(evidence, list(evidence)),
            approvals=(),
            definitions=self._parse(sources, [path for path in sources if self._is_definition(path, side)]),
            clusters=tuple(one for one in config.clusters if self._index.cluster in ("", one.name)),
            checker=PolicyChecker(),
            carried=CarriedFiles(blobs=carried, read=self._repository.read),
        )

    def _parse(self, blobs: BlobIds, paths: Sequence[str]) -> tuple[ParsedFile, ...]:
        def read_missing(missing: list[str]) -> Iterable[bytes]:
            return self._repository.read([blobs[path] for path in missing])

        return self._index.parser.parse([(path, blobs[path]) for path in paths], read_missing)

    def _is_definition(self, path: str, side: int) -> bool:
        if path in self.changed:
            return may_define(self.changed[path][side] or b"", self._index.engine.kinds, always=not self._looks_up)
        record = self._index.records.get(path)
        return record is not None and record.is_definition and (record.is_needed or self._looks_up)

    @cached_property
    def _looks_up(self) -> bool:
        """True if any file looks up definitions of kinds of which few do, or did so in the last run."""
        return any(map(self._index.engine.kinds.looks_up, (*self._index.store.digests, *self._index.saved.digests)))

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


_NOTHING = Why(rule="")

_NAME: FieldPath = ("metadata", "name")

_MAX_CAUSES = 1_000  # documents whose lines are remembered

_MAX_SEARCHED = 200  # source files of the base that are compiled to find where an object came from


def find_causes(repository: Repository, index: CompiledRevision, renderer: Renderer, before: LoadedRevision) -> Causes:
    """Return the causes of differences from the base. Reads the files that differ, in one call.

    Where the sources are equal, `rendered/` is behind them: they are compared with those at its last change.
    """
    past = before.files
    changed = _changed(past, index.revision.files)
    if not changed and before.tree.tip is not None:
        last = repository.last_change(before.tree.tip.oid, index.revision.config.rendered)
        if last is not None:
            past = read_earlier_files(repository, last, index.revision.config, index.engine.catalogue)
        changed = _changed(past, index.revision.files)
    if not changed:
        return NO_CAUSES
    blobs = list(dict.fromkeys(blob for sides in changed.values() for blob in sides if blob))
    contents = dict(zip(blobs, repository.read(blobs), strict=True))
    raw = {path: (contents.get(old), contents.get(new)) for path, (old, new) in changed.items()}
    return _SourceCauses(index, PastSources(repository, index, renderer, past, raw))


def _changed(before: RevisionFiles, after: RevisionFiles) -> dict[str, tuple[str, str]]:
    """Return the blob ids of files that differ and that objects are rendered from, before and after."""
    changed: dict[str, tuple[str, str]] = {}
    for old, new in zip(_rendered_from(before), _rendered_from(after), strict=True):
        if old != new:
            paths = (path for path in sorted({*old, *new}) if old.get(path) != new.get(path))
            changed.update((path, (old.get(path, ""), new.get(path, ""))) for path in paths)
    return changed


def _rendered_from(files: RevisionFiles) -> tuple[BlobIds, ...]:
    return files.settings, files.sources, files.evidence, files.carried


class _SourceCauses:
    """Answers for one plan. What only some differences need is compiled when they ask for it."""

    def __init__(self, index: CompiledRevision, past: PastSources) -> None:
        self._index = index
        self._past = past
        self._edits: dict[str, FileEdit] = {}
        self._document_lines = lru_cache(_MAX_CAUSES)(document_lines)

    def of_object(self, manifest: Manifest, old: str) -> CauseFinder | None:
        """Return what finds the causes of an object's fields; a new document has none besides itself."""
        source = manifest.source.path
        if not old and is_new(self._edit, manifest.source):
            return None

        @cache
        def before() -> Manifest | None:
            return self._object_of_base(old, source) if old else None

        @cache
        def used() -> tuple[SourcePart, ...]:
            return tuple(self._used(source, old, manifest, before()))

        def origins_before(path: FieldPath | None) -> Iterable[Origin]:
            found = before() if path is not None else None
            return () if found is None or path is None else found.origins(path)

        def find(after: FieldPath | None, path: FieldPath | None) -> Cause:
            head = () if after is None else manifest.origins(after)
            return cause_of(self._edit, head, lambda: origins_before(path), used, (after, path))

        return find

    def of_deletion(self, path: str) -> Cause:
        """Return the reason that an object of the base is not rendered any more."""
        before = self._search_base(path)
        if before is None:
            return Cause()
        gone = removed_document(self._edit, before.source)
        if gone:
            return gone
        used = tuple(self._used(before.source.path, path, None, before))
        return cause_of(self._edit, (), tuple, lambda: used, (None, _NAME))

    def _edit(self, path: str) -> FileEdit | None:
        if path not in self._edits and path in self._past.changed:
            self._edits[path] = read_edit(path, *self._past.changed[path])
        return self._edits.get(path)

    # Objects of the base.

    def _object_of_base(self, path: str, source: str) -> Manifest | None:
        """Return the manifest of a path as the base's sources render it, from `source` or a file that was renamed."""
        if source not in self._past.files.sources:
            return self._search_base(path)
        return self._rendered(path, source)

    def _rendered(self, path: str, source: str, part: InputPart | None = None) -> Manifest | None:
        """Return what a source file renders to a path with all parts of the base, or with one of them."""
        compiled = self._past.compile(source) if part is None else self._past.compile(source, frozenset({part}))
        return next((one.manifest for one in compiled.objects if one.summary.path == path), None)

    def _search_base(self, path: str) -> Manifest | None:
        """Return the manifest of a path from the files of the base that are likely to have rendered it."""
        changed, files = self._past.changed, self._past.files.sources
        removed = [source for source, (_, after) in changed.items() if after is None]
        edited = [source for source, (_, after) in changed.items() if after is not None]
        dependent = (source for source in files if source not in changed and self._depends(source))
        candidates = (source for sources in (removed, edited, dependent) for source in sources if source in files)
        source = next((one for one in islice(candidates, _MAX_SEARCHED) if path in self._past.paths(one)), None)
        return None if source is None else self._rendered(path, source)

    def _depends(self, source: str) -> bool:
        """Return whether an unchanged source file was rendered from a file that differs."""
        return CONFIG_PATH in self._past.changed or any(
            lines.path in self._past.changed
            for dependency in self._dependencies(source)
            for context in (self._index.context, self._past.context())
            for lines in self._dependency_lines(context, dependency)
        )

    # The parts of the sources that an object was rendered from.

    def _used(self, source: str, old: str, manifest: Manifest | None, before: Manifest | None) -> Iterator[SourcePart]:
        """Yield the lines of the parts that an object was rendered from, in the head and in the base."""
        cluster = next((one.cluster for one in (manifest, before) if one is not None), "")
        dependencies = {*self._dependencies(source), *self._past.compile(source).dependencies}
        own = [each for each in sorted(dependencies, key=repr) if getattr(each, "cluster", cluster) == cluster]
        settings = self._past.changed.get(CONFIG_PATH, (None, None))
        after, past = _document(manifest), _document(before)
        documents = (after or self._counterpart(past, 1), past or self._counterpart(after, 0))
        contexts = (self._index.context, self._past.context())

        def side(part: InputPart, number: int) -> list[LineRange]:
            if part is InputPart.FILE:
                return [*self._lines(documents[number])]
            if part is InputPart.SETTINGS:
                return [*_settings_lines(settings[1 - number] or b"", cluster)]
            return [
                lines
                for dependency in own
                if isinstance(dependency, DefinitionDependency | FileDependency) == (part is InputPart.DEFINITIONS)
                for lines in self._dependency_lines(contexts[number], dependency)
            ]

        for part in InputPart:
            yield SourcePart(side(part, 0), side(part, 1), self._matters(part, source, old, manifest))

    def _matters(self, part: InputPart, source: str, old: str, manifest: Manifest | None) -> Matters:
        """Return what tells whether a field would be another one with this part of the base."""

        @cache
        def fields() -> frozenset[FieldPath | None] | None:
            path = self._path_of(manifest) if manifest is not None else old
            reverted = self._rendered(path, source, part) or self._rendered(old or path, source, part)
            if manifest is None:
                return None if reverted is not None else frozenset()
            if reverted is None:
                return None
            found: set[FieldPath | None] = set()

            def note(after: FieldPath | None, before: FieldPath | None) -> Cause:
                found.update((after, before))
                return Cause()

            schemas, key = self._index.context.catalogue, manifest.key
            differences(
                reverted.body,
                manifest.body,
                list_keys=lambda at: schemas.list_keys(key.group, key.kind, at),
                why=lambda _: _NOTHING,
                cause=note,
            )
            return frozenset(found - {None})

        def matters(after: FieldPath | None, before: FieldPath | None) -> bool:
            known = fields()
            return known is None or (after or before) in known

        return matters

    def _path_of(self, manifest: Manifest) -> str:
        return self._index.context.kinds.manifest_path(manifest.cluster, manifest.key)

    def _counterpart(self, document: Document | None, side: int) -> Document | None:
        """Return the same document on the other side of its file: that of the same object, else the same position."""
        raw = self._past.changed.get(document.source.path, (None, None))[side] if document is not None else None
        if document is None or raw is None:
            return None
        others = read(document.source.path, raw).documents
        return next(
            (other for other in others if other.key == document.key),
            next((other for other in others if (other.index, other.root) == (document.index, document.root)), None),
        )

    def _dependencies(self, source: str) -> tuple[Dependency, ...]:
        record = self._index.records.get(source)
        return decode_dependencies(record.dependencies) if record is not None else ()

    def _dependency_lines(self, context: Context, dependency: Dependency) -> Iterator[LineRange]:
        match dependency:
            case DefinitionDependency():
                key = (dependency.cluster, (dependency.group, dependency.kind), dependency.namespace)
                definition = context.definitions.get(key, {}).get(dependency.name)
                yield from self._lines(definition.document if definition is not None else None)
            case InventoryDependency():
                inventory = context.evidence.inventories.get(dependency.cluster)
                yield from self._lines(inventory.document if inventory is not None else None)
            case AnswerDependency():
                folder = f"{context.config.evidence}/{dependency.cluster}/"
                yield from (_whole(path) for path in self._past.changed if path.startswith(folder))
            case FileDependency():
                yield _whole(dependency.path)
            case FolderDependency():
                yield from (_whole(path) for path in self._past.changed if path.startswith(f"{dependency.path}/"))
            case _:
                return

    def _lines(self, document: Document | None) -> Iterator[LineRange]:
        """Yield the lines of a document whose file differs; many objects depend on the same document."""
        if document is None or document.source.path not in self._past.changed:
            return
        yield self._document_lines(document)


def _document(manifest: Manifest | None) -> Document | None:
    origins = manifest.origins(()) if manifest is not None else ()
    return origins[0].document if origins else None


def _whole(path: str) -> LineRange:
    return LineRange(path, 1, 1 << 40)


def _settings_lines(raw: bytes, cluster: str) -> Iterator[LineRange]:
    """Yield the lines of the settings that decide what is rendered for a cluster."""
    for document in read(CONFIG_PATH, raw).documents:
        spec = document.data.get("spec")
        entries = spec.get("clusters") if isinstance(spec, dict) else None
        for position, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and cluster in ("", entry.get("name")):
                yield LineRange(CONFIG_PATH, *document.lines(("spec", "clusters", position)))
        for name in ("sizing", "sources"):
            if isinstance(spec, dict) and name in spec:
                yield LineRange(CONFIG_PATH, *document.lines(("spec", name)))
