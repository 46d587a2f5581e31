"""Build the index: from a revision and the store to compiled files. Only files that are stale are compiled."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, InvalidInput
from reconciler.index.checking import PolicyChecker
from reconciler.index.compile import CompiledFile, RenderedObject, compile_files
from reconciler.index.context import CarriedFiles, Context, build_context, may_define
from reconciler.index.dependencies import DependencyDigests, RunDependency, decode_dependencies
from reconciler.index.evaluator import PolicyEvaluator
from reconciler.index.parsed import CachedParser, ParsedFile, load_mapping, save_mapping
from reconciler.index.records import (
    SEPARATOR,
    CompiledRecord,
    FileRecord,
    RenderedPaths,
    decode_compiled,
    encode_compiled,
    rendered_paths,
    summarize_file,
)
from reconciler.index.runtime import PlanEngine, Runtime
from reconciler.index.store import ObjectTotals, Store, save_store
from reconciler.index.workers import WorkerPool
from reconciler.kinds.manifests.generations import find_generations
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.problems import Problem, Severity
from reconciler.policy.verdict import Verdict
from reconciler.repo.config import Cluster, Config
from reconciler.repo.files import BlobIds, portability_problems, report_files
from reconciler.repo.port import Cache, Repository
from reconciler.repo.revision import LoadedRevision


class CompiledRevision(Struct, frozen=True, kw_only=True, dict=True):
    """The index of one revision.

    engine: what compiled it. cluster: the chosen one; empty: all. scope: names what is cached of it.
    rendered: the paths of its objects below the rendered folder.
    contents: bytes of rendered objects that were asked to be kept, by path.
    compiled: the few files that this run compiled, whole: they are asked for again, to be compared.
    settled: objects of jobs that have ended, as they ran, by path: later changes of their sources do not matter.
    saved, store: what the last run saved, and what the next one needs.
    """

    revision: LoadedRevision
    engine: PlanEngine
    cluster: str
    scope: str
    clusters: tuple[Cluster, ...]
    context: Context
    rendered: RenderedPaths
    inventory_digests: Mapping[str, str]
    saved: Store
    store: Store
    parser: CachedParser
    contents: Mapping[str, bytes] = {}
    compiled: Mapping[str, CompiledFile] = {}
    settled: Mapping[str, RenderedObject] = {}

    @property
    def records(self) -> Mapping[str, FileRecord]:
        """Records by source file."""
        return self.rendered.records

    @property
    def desired(self) -> Mapping[str, str]:
        """Blob ids by path below the rendered folder. Of two objects with one path the first counts."""
        return self.rendered.desired

    @property
    def sources(self) -> Mapping[str, str]:
        """Source files by rendered path. Of two objects with one path the first counts."""
        return self.rendered.sources

    def summaries(self, paths: Iterable[str]) -> dict[str, ObjectSummary]:
        """Return the summaries of rendered paths, in order."""
        wanted = list(paths)
        found: dict[str, ObjectSummary] = {}
        for source in dict.fromkeys(self.sources[path] for path in wanted):
            for summary in self.records[source].summaries:
                if self.sources[summary.path] == source:
                    found.setdefault(summary.path, summary)
        return {path: self.settled[path].summary if path in self.settled else found[path] for path in wanted}

    def is_replaceable(self, path: str) -> bool:
        """Return whether a path is that of a job that `onImmutableChange` lets replace."""
        source = self.sources.get(path)
        return source is not None and path in self.records[source].replaceable.split(SEPARATOR)

    def first_summaries(self) -> Iterator[ObjectSummary]:
        """Yield the summaries of all objects. Of two objects with one path the first counts."""
        seen: set[str] = set()
        for record in self.records.values():
            for summary in record.summaries:
                if summary.path not in seen:
                    seen.add(summary.path)
                    yield summary

    def pending(self) -> frozenset[str]:
        """Return the rendered paths of jobs that wait for a sizing answer."""
        return frozenset(path for record in self._with_findings() for path in record.findings.pending)

    def problems(self) -> tuple[Problem, ...]:
        """Return all problems of all files, sorted."""
        _, sources, policies, evidence = self.revision.files.written
        problems = [
            *self.revision.files.problems,
            *portability_problems([*sources, *policies, *evidence, *self.revision.files.approvals]),
            *self.context.problems,
        ]
        for record in self._with_findings():
            problems += record.findings.problems
        return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.sort_key))

    def reject_broken_evidence(self) -> None:
        """Raise `InvalidInput` with the errors of files of evidence.

        For commands that show evidence: a broken file must not be taken for a missing one.
        """
        *_, evidence = self.revision.files.written
        if errors := [one for one in self.problems() if one.place.path in evidence and one.severity is Severity.ERROR]:
            raise InvalidInput(errors)

    def verdicts(self, totals: ObjectTotals) -> list[Verdict]:
        """Return the verdicts on single objects and on all objects together, before exceptions."""
        single = [verdict for record in self._with_findings() for verdict in record.findings.verdicts]
        return [*single, *totals.links, *totals.amounts]

    def exceeded(self) -> list[Verdict]:
        """Return the errors of policies that exceed a limit, in the order of evaluation."""
        return [verdict for record in self._with_findings() for verdict in record.findings.exceeded]

    def _with_findings(self) -> Iterator[FileRecord]:
        return (record for record in self.records.values() if record.encoded_findings)


def store_key(scope: str) -> str:
    """Return the key of the store: one for each engine, repository and choice of clusters."""
    return f"index:{scope}"


def build_index(
    runtime: Runtime, revision: LoadedRevision, store: Store, *, keep: Mapping[str, str] | None = None
) -> CompiledRevision:
    """Compile stale files, and take the others from the store.

    `keep` holds blob ids by rendered path: the bytes of compiled objects that differ from them are kept.
    """
    kinds, options = runtime.engine.kinds, runtime.options
    clusters, sources, known = _chosen(revision.config, options.cluster), revision.files.sources, store.records
    unknown = [path for path, blob in sources.items() if path not in known or known[path].blob != blob]
    definitions = {path: known[path].is_needed for path in sources.keys() - unknown if known[path].is_definition}
    changed: dict[str, bytes] = {}
    for path, raw in read_files(runtime.repository, sources, unknown):  # while git still unpacks the rest
        changed[path] = raw
        if may_define(raw, kinds):
            definitions[path] = may_define(raw, kinds, always=True)
    is_whole = options.reads_all or any(map(kinds.looks_up, store.digests))
    needed = sorted(path for path, is_needed in definitions.items() if is_whole or is_needed)
    parser = CachedParser(store.parsed, kinds, runtime.engine.catalogue)
    context = _load_context(runtime, revision, clusters, needed, parser, read=changed)
    context = replace(context, generations=find_generations(revision.files.rendered))
    digests = DependencyDigests(context)
    stale_sets = {each for each, digest in store.digests.items() if digests.of(each) != digest}
    stale = [path for path in sources if path in changed or known[path].dependencies in stale_sets]
    compilation = _compile(
        runtime.repository, runtime.workers, context, revision, stale, changed, definitions=definitions, keep=keep
    )
    records = {path: compilation.records.get(path) or known[path] for path in sources}
    dependencies = digests.of_all(record.dependencies for record in records.values())
    following = Store(records=records, digests=dependencies, parsed={**parser.used}, totals=store.totals)
    if not is_whole and any(map(kinds.looks_up, following.digests)):
        return replace(build_index(runtime, revision, following, keep=keep), saved=store)
    index = CompiledRevision(
        revision=revision,
        engine=runtime.engine,
        cluster=options.cluster,
        scope=runtime.scope,
        clusters=clusters,
        context=context,
        rendered=rendered_paths(records),
        inventory_digests=digests.inventories,
        contents=compilation.contents,
        compiled=compilation.compiled,
        saved=store,
        store=following,
        parser=parser,
    )
    return _up_to_date(runtime.repository, runtime.workers, index, digests, keep)


def _up_to_date(
    repository: Repository,
    workers: WorkerPool,
    index: CompiledRevision,
    digests: DependencyDigests,
    keep: Mapping[str, str] | None,
) -> CompiledRevision:
    """Compile again what was compiled before it had a suffix, or before its job ended."""
    outdated = [path for path in index.context.generations if path in index.desired] + _unmarked(index)
    if not outdated:
        return index
    index = compile_again(repository, workers, index, index.context, outdated, keep=keep)
    dependencies = digests.of_all(record.dependencies for record in index.records.values())
    return replace(index, store=replace(index.store, records=index.records, digests=dependencies))


def _unmarked(index: CompiledRevision) -> list[str]:
    """Return the paths of jobs that have ended, and that were compiled before that was recorded."""
    ended = [path for path in index.context.finished() if path in index.desired]
    known = {source: index.records[source].dependencies for source in {index.sources[path] for path in ended}}
    decoded = {source: set(decode_dependencies(encoded)) for source, encoded in known.items()}
    return [path for path in ended if RunDependency(path) not in decoded[index.sources[path]]]


def compile_again(
    repository: Repository,
    workers: WorkerPool,
    index: CompiledRevision,
    context: Context,
    paths: Iterable[str],
    *,
    keep: Mapping[str, str] | None = None,
) -> CompiledRevision:
    """Return an index in which the source files of rendered paths are compiled in another context."""
    return compile_sources(repository, workers, index, context, {index.sources[path] for path in paths}, keep=keep)


def compile_sources(
    repository: Repository,
    workers: WorkerPool,
    index: CompiledRevision,
    context: Context,
    sources: Iterable[str],
    *,
    keep: Mapping[str, str] | None = None,
) -> CompiledRevision:
    """Return an index in which source files are compiled in another context."""
    chosen = sorted(sources)
    definitions = {path: index.records[path].is_needed for path in chosen if index.records[path].is_definition}
    compilation = _compile(repository, workers, context, index.revision, chosen, {}, definitions=definitions, keep=keep)
    contents = {path: content for path, content in index.contents.items() if index.sources[path] not in chosen}
    return replace(
        index,
        context=context,
        rendered=index.rendered.after(compilation.records),
        contents={**contents, **compilation.contents},
        compiled={
            **{path: file for path, file in index.compiled.items() if path not in chosen},
            **compilation.compiled,
        },
    )


def _chosen(config: Config, name: str) -> tuple[Cluster, ...]:
    if not name:
        return config.clusters
    cluster = config.cluster(name)
    if cluster is None:
        known = ", ".join(cluster.name for cluster in config.clusters)
        raise ConfigError(f"cluster {name!r} does not exist in reconciler.yaml", hint=f"clusters: {known}")
    return (cluster,)


def _load_context(
    runtime: Runtime,
    revision: LoadedRevision,
    clusters: tuple[Cluster, ...],
    definitions: Iterable[str],
    parser: CachedParser,
    *,
    read: Mapping[str, bytes],
) -> Context:
    """Return the context; `read` holds files that have been read already."""
    repository, files, engine = runtime.repository, revision.files, runtime.engine

    def parse(blobs: BlobIds, paths: Iterable[str]) -> tuple[ParsedFile, ...]:
        def contents(missing: list[str]) -> Iterator[bytes]:
            others = repository.read([blobs[path] for path in missing if path not in read])
            return (read[path] if path in read else next(others) for path in missing)

        return parser.parse([(path, blobs[path]) for path in paths], contents)

    context = build_context(
        revision.config,
        engine=engine.version,
        object_format=repository.object_format,
        kinds=engine.kinds,
        catalogue=engine.catalogue,
        tables=engine.tables,
        shipped=engine.shipped.rules,
        policies=parse(files.policies, files.policies),
        evidence=parse(files.evidence, _without_reports(revision)),
        approvals=parse(files.approvals, files.approvals),
        definitions=parse(files.sources, definitions),
        clusters=clusters,
        checker=PolicyChecker(lambda: load_mapping(runtime.cache, _checks_key(engine))),
        carried=CarriedFiles(blobs=files.carried, read=repository.read),
    )
    context.policies.programs.recall(load_mapping(runtime.cache, _programs_key(context)))
    engine.shipped.recall(context.policies)
    return context


def _without_reports(revision: LoadedRevision) -> list[str]:
    """Return the files of evidence that every plan reads. Stored reports are read where a policy changes."""
    reports = report_files(revision.config, revision.files.evidence)
    return [path for path in revision.files.evidence if path not in reports]


def save_tools(cache: Cache, index: CompiledRevision) -> None:
    """Save the parsed files, compiled policies and unpacked schemas of this run, at its end: any stage may add one."""
    context, store = index.context, index.store
    index.engine.shipped.save()
    save_store(cache, store_key(index.scope), store, replace(store, parsed=index.parser.used))
    for key, new in (
        (_programs_key(context), context.policies.programs.made),
        (_checks_key(index.engine), context.checker.made),
    ):
        if new and not new.items() <= (known := load_mapping(cache, key)).items():
            save_mapping(cache, key, known, new)


def _programs_key(context: Context) -> str:
    return f"programs:{context.policies.digest}"


def _checks_key(engine: PlanEngine) -> str:
    return f"checks:{engine.version}"


class _Compilation(Struct, frozen=True, kw_only=True):
    records: Mapping[str, FileRecord]
    contents: Mapping[str, bytes]
    compiled: Mapping[str, CompiledFile]


_FEW = 20
"""So many compiled files are kept whole."""


def _compile(  # noqa: PLR0917
    repository: Repository,
    workers: WorkerPool,
    context: Context,
    revision: LoadedRevision,
    paths: list[str],
    changed: Mapping[str, bytes],
    *,
    definitions: Mapping[str, bool],
    keep: Mapping[str, str] | None,
) -> _Compilation:
    sources, rendered = revision.files.sources, revision.files.rendered
    contents = {**changed}
    contents.update(read_files(repository, sources, [path for path in paths if path not in contents]))
    compiled: dict[str, CompiledFile] = {}
    evaluator = PolicyEvaluator(context.policies)

    def needed(file: CompiledFile, one: RenderedObject) -> bool:
        path, blob = one.summary.path, one.summary.digest
        if keep is not None and keep.get(path) != blob:
            return True
        return path in file.replaceable and rendered.get(path, blob) != blob  # for `plan.sides`

    def work(positions: range) -> list[bytes]:
        chosen = [paths[position] for position in positions]
        files = compile_files(context, [(path, contents[path]) for path in chosen], evaluator)
        if len(paths) <= _FEW:
            compiled.update(zip(chosen, files, strict=True))
        return [
            encode_compiled(
                CompiledRecord(
                    summarize_file(
                        file,
                        blob="" if file.exceeded else sources[path],  # evaluated again by the next run
                        is_definition=path in definitions,
                        is_needed=definitions.get(path, False),
                    ),
                    {one.summary.path: one.content for one in file.objects if needed(file, one)},
                )
            )
            for path, file in zip(chosen, files, strict=True)
        ]

    results = workers.run("compiling", work, len(paths), starts_here=True)
    sent = {path: decode_compiled(raw) for path, raw in zip(paths, results, strict=True)}
    return _Compilation(
        records={path: one.record for path, one in sent.items()},
        contents={path: content for one in reversed(sent.values()) for path, content in one.contents.items()},
        compiled=compiled,
    )


def read_files(repository: Repository, blobs: BlobIds, paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read files by path."""
    return zip(paths, repository.read([blobs[path] for path in paths]), strict=True)
