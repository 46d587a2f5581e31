"""Everything that the sources of one revision mean: the compile stage, from a tree to rows and findings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import Cluster, Config
from reconciler.core.kinds.kind import Kinds
from reconciler.core.plan.inputs import Common
from reconciler.core.policy.references import evaluate_amounts, evaluate_links
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.core.queues import defines_queues, subtract_workloads, usage_by_cluster
from reconciler.core.schemas import Catalogue
from reconciler.core.summary import ObjectSummary
from reconciler.errors import ConfigError
from reconciler.index.compile import Compiled, Rendering, compile_files
from reconciler.index.compiles import Compiles, Forgotten
from reconciler.index.context import Context, build_context
from reconciler.index.kept import Kept
from reconciler.index.readings import Contents, FileReading, Readings
from reconciler.index.sources import Progress, compile_all, nothing, read_files, read_fresh, silent
from reconciler.index.state import Counted, State, load_counted, load_state, save_counted, save_state
from reconciler.index.summary import decode_findings, digest
from reconciler.index.workers import in_parallel
from reconciler.ports import Cache, Repository
from reconciler.revision.layout import Layout, are_usual, portability_problems
from reconciler.revision.listing import Listing
from reconciler.revision.sides import Layouts, Side
from reconciler.version import __version__

_Answer = TypeVar("_Answer")


class Tools(Struct, frozen=True, kw_only=True):
    """What every run needs and no repository decides."""

    repository: Repository
    cache: Cache
    kinds: Kinds
    catalogue: Catalogue
    shipped: tuple[str, ...]  # paths of policies
    read_shipped: Contents
    bundle_digest: str
    processes: int = 1
    cluster: str = ""
    progress: Progress = silent

    @property
    def engine(self) -> str:
        """The version of everything that decides on output."""
        return f"{__version__}+{self.bundle_digest[:12]}"


class Head:
    """A compiled revision. Rows and findings are there at once; manifests are made again when they are asked for.

    `writes` says that the bytes of what differs from `rendered/` will be asked for, so that they are kept.
    """

    def __init__(self, tools: Tools, side: Side, config: Config, *, writes: bool = False) -> None:
        self.tools = tools
        self.side = side
        self.config = config
        self.layouts = Layouts(tools.repository, config, tools.cache)
        self.layout: Layout = self.layouts.of(side, "head")
        self.clusters = _chosen(self.config, tools.cluster)
        self._key = f"state:{tools.repository.root}:{tools.cluster}"
        self._existing = dict(self.layout.rendered.items()) if writes else None
        self._written: Mapping[str, bytes] = {}
        self._compiled: Mapping[str, Compiled] = {}
        self._before = load_state(tools.cache, self._key)
        try:
            self.context, self.state = self._compile(self._before)
        except Forgotten:
            self._before = State()
            self.context, self.state = self._compile(self._before)
        self.remember()
        self._files: dict[str, dict[str, Rendering]] = {}
        self._contents: dict[str, bytes] = {}

    def _compile(self, state: State) -> tuple[Context, State]:
        tools, sources = self.tools, self.layout.sources
        fresh = read_fresh(tools.repository, sources, state)
        context = self._context(fresh.defining)
        done = compile_all(
            tools.repository,
            context,
            sources,
            state=state,
            fresh=fresh,
            keeps=self._differs if self._existing is not None else nothing,
            processes=tools.processes,
            progress=tools.progress,
        )
        self._written, self._compiled = done.contents, done.compiled
        return context, done.state

    def _differs(self, path: str, digest: str) -> bool:
        return self._existing is not None and self._existing.get(path) != digest

    def _context(self, defining: Iterable[str]) -> Context:
        tools = self.tools
        readings = Readings(tools.cache, str(tools.repository.root), tools.engine, tools.catalogue)

        def read(oids: Mapping[str, str], paths: Iterable[str]) -> tuple[FileReading, ...]:
            def contents(wanted: list[str]) -> Iterable[bytes]:
                return tools.repository.read([oids[path] for path in wanted])

            return readings.read([(path, oids[path]) for path in paths], contents)

        context = build_context(
            self.config,
            engine=tools.engine,
            object_format=tools.repository.object_format,
            kinds=tools.kinds,
            catalogue=tools.catalogue,
            shipped=readings.read([(path, "shipped") for path in tools.shipped], tools.read_shipped),
            policies=read(self.layout.policies, self.layout.policies),
            evidence=read(self.layout.evidence, self.layout.evidence),
            defining=read(self.layout.sources, defining),
            clusters=self.clusters,
        )
        readings.save()
        self._programs = Kept(tools.cache, f"programs:{context.policies.digest}")
        context.policies.programs.recall(self._programs.known)
        self._schemas = Kept(tools.cache, f"schemas:{tools.bundle_digest}")
        tools.catalogue.archive.recall(self._schemas.known)
        return context

    @property
    def digests(self) -> Listing:
        """Blob ids by path below the rendered folder. Of two objects with one path the first counts: `judge` tells."""
        return self.state.desired

    @cached_property
    def sources(self) -> dict[str, str]:
        """Source files by path below the rendered folder."""
        sources: dict[str, str] = {}
        for source, held in self._ask(lambda files: files.items()):
            for path in held.paths:
                sources.setdefault(path, source)
        return sources

    def _sources_of(self, paths: list[str]) -> dict[str, str]:
        """Find the source files of some rendered paths: a few of them without looking at all."""
        if len(paths) <= _FEW and not self.state.has_doubles:
            found = self._ask(lambda files: {path: files.origin(path) for path in paths})
            return {path: source for path, source in found.items() if source}
        return {path: self.sources[path] for path in paths}

    @cached_property
    def rows(self) -> dict[str, ObjectSummary]:
        """Rows by path below the rendered folder."""
        rows: dict[str, ObjectSummary] = {}
        for row in self._all_rows:
            rows.setdefault(row.path, row)
        return rows

    @cached_property
    def _all_rows(self) -> list[ObjectSummary]:
        return self._ask(lambda files: [row for rows in files.all_rows() for row in rows])

    def _ask(self, ask: Callable[[Compiles], _Answer]) -> _Answer:
        """Ask all compiled files; once they are compiled again, if what the last plan left has been taken away."""
        try:
            return ask(self.state.files)
        except Forgotten:
            self._before = State()
            self.context, self.state = self._compile(self._before)
            return ask(self.state.files)

    def common(self, changed: list[str]) -> Common:
        """Return what is the same on both sides of a plan: all rows but the changed ones."""
        names = set(changed)

        def rows() -> Iterator[ObjectSummary]:
            return (row for path, row in self.rows.items() if path not in names)

        gone = self.some_rows(changed).values()
        counted = None if any(map(defines_queues, gone)) else subtract_workloads(self.counted.usage, gone)
        return Common(count=len(self.digests) - len(names), rows=rows, usage=counted)

    def some_rows(self, paths: Iterable[str]) -> dict[str, ObjectSummary]:
        """Rows of these paths: a few of them cost less than all."""
        wanted = list(paths)
        sources = self._sources_of(wanted)
        rows = self._ask(lambda files: [files.rows(source) for source in {*sources.values()}])
        found = {row.path: row for of_file in rows for row in reversed(of_file)}
        return {path: found[path] for path in wanted}

    def waiting(self) -> frozenset[str]:
        """Paths below the rendered folder of jobs that wait for an answer: what is there stays."""
        return frozenset(path for raw in self.state.noted.values() for path in decode_findings(raw).held)

    def problems(self) -> tuple[Problem, ...]:
        """All problems of all files."""
        found = [*self.layout.problems, *self._portability_problems(), *self.context.problems]
        for raw in self.state.noted.values():
            found += decode_findings(raw).problems
        return tuple(sorted(dict.fromkeys(found), key=lambda problem: problem.sort_key))

    def _portability_problems(self) -> Iterator[Problem]:
        _, sources, policies, evidence = self.layout.written
        if not self.state.usual or not are_usual([*policies, *evidence]):
            yield from portability_problems([*sources, *policies, *evidence])

    def verdicts(self) -> list[Verdict]:
        """Judge each object by itself, and all objects together, before exceptions."""
        found = [verdict for raw in self.state.noted.values() for verdict in decode_findings(raw).verdicts]
        return [*found, *self.counted.linked, *self.counted.verdicts]

    @cached_property
    def counted(self) -> Counted:
        """What all rows say together: remembered from an earlier plan, unless the facts have changed."""
        if self.state.has_doubles:
            return self._count(None)  # judging those looks at blob ids, which are no facts
        held = load_counted(self.tools.cache, self._key)
        if held is None or held.facts != self._under(self.state.facts):
            held = self._count(held)
            save_counted(self.tools.cache, self._key, held)
        return held

    def _under(self, facts: bytes) -> bytes:
        """Digest facts of all files, and what else they are counted and judged by."""
        names = " ".join(cluster.name for cluster in self.clusters)
        return digest(f"{self.context.digest} {names}".encode() + facts)

    def _count(self, before: Counted | None) -> Counted:
        tools = self.tools
        by_cluster: dict[str, list[ObjectSummary]] = {cluster.name: [] for cluster in self.clusters}
        for row in self._all_rows:
            by_cluster[row.cluster].append(row)
        doubles, facts, links = self.state.has_doubles, self._under(self.state.facts), self._under(self.state.links)
        counted = usage_by_cluster(self.rows.values() if doubles else self._all_rows)
        linked = before.linked if before is not None and before.links == links else None
        verdicts: list[Verdict] = []
        for cluster in self.clusters:
            inventory = self.context.inventories.get(cluster.name)
            usage = None if doubles else counted.get(cluster.name)
            verdicts += evaluate_amounts(
                tools.kinds, by_cluster[cluster.name], cluster, inventory, self.config.rules, usage
            )
        if linked is None:
            rules = self.config.rules
            linked = tuple(
                one for each in self.clusters for one in evaluate_links(tools.kinds, by_cluster[each.name], each, rules)
            )
        return Counted(facts=facts, verdicts=tuple(verdicts), usage=counted, links=links, linked=linked)

    def remember(self) -> None:
        """Leave everything for the next plan."""
        before, state = self._before, self.state
        needed = {*before.queues, *(held.needs for held in state.files.changed.values())} - {""}
        queues = {needs: self.context.queue_digest(needs) for needs in sorted(needed)}
        if state is not before or (state.context, state.queues) != (self.context.digest, queues):
            after = replace(state, context=self.context.digest, queues=queues)
            save_state(self.tools.cache, self._key, after)

    def remember_tools(self) -> None:
        """Leave the programs and schemas that this run has prepared; called at its end: any stage may need one."""
        self._schemas.keep(self.tools.catalogue.archive.made)
        self._programs.keep(self.context.policies.programs.made)

    def prepare(self, paths: list[str]) -> None:
        """Read at once the source files that `rendering` will be asked for."""
        sources = sorted({*self._sources_of(paths).values()} - set(self._contents))
        self._contents.update(read_files(self.tools.repository, self.layout.sources, sources))

    def contents(self, paths: list[str]) -> dict[str, bytes]:
        """Return the bytes of desired paths, in order: those kept, those in `rendered/`, and the rest made again."""
        found = {} if self.state.has_doubles else {path: self._written[path] for path in paths if path in self._written}
        there = [path for path in paths if path not in found and self.layout.rendered.get(path) == self.digests[path]]
        found.update(read_files(self.tools.repository, self.digests, there))
        missing = [path for path in paths if path not in found]
        if missing:
            found.update(self._made_again(missing))
        return {path: found[path] for path in paths}

    def _made_again(self, paths: list[str]) -> dict[str, bytes]:
        sources = sorted({self.sources[path] for path in paths})
        self.prepare(paths)

        def work(positions: range) -> list[bytes]:
            chosen = [(sources[position], self._contents[sources[position]]) for position in positions]
            return [
                msgspec.msgpack.encode({one.row.path: one.content for one in compiled.renderings})
                for compiled in compile_files(self.context, chosen, judged=False)
            ]

        found: dict[str, bytes] = {}
        with self.tools.progress("rendering", len(sources)) as advance:
            results = in_parallel(work, len(sources), processes=self.tools.processes, advance=advance)
            for source, raw in zip(sources, results, strict=True):
                written = msgspec.msgpack.decode(raw, type=dict[str, bytes])
                found.update((path, content) for path, content in written.items() if self.sources[path] == source)
        return found

    def grouped(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return rendered paths by the source file that they come from; those files are read at once."""
        wanted = list(paths)
        self.prepare(wanted)
        groups: dict[str, list[str]] = {}
        for path, source in self._sources_of(wanted).items():
            groups.setdefault(source, []).append(path)
        return groups

    def compiled(self, sources: list[str]) -> list[dict[str, Rendering]]:
        """Return what source files render, by path; nothing of it is kept, and no policy is asked."""
        if all(source in self._compiled for source in sources):
            found = [self._compiled[source] for source in sources]
        else:
            chosen = [(source, self._contents[source]) for source in sources]
            found = compile_files(self.context, chosen, judged=False)
        return [{rendering.row.path: rendering for rendering in one.renderings} for one in found]

    def rendering(self, path: str) -> Rendering:
        """Return the manifest, bytes and row of one desired path."""
        source = self._sources_of([path])[path]
        if source not in self._files:
            if source not in self._contents:
                self.prepare([path])
            (self._files[source],) = self.compiled([source])
        return self._files[source][path]


_FEW = 20
"""So many rendered paths are looked up one by one."""


def _chosen(config: Config, name: str) -> tuple[Cluster, ...]:
    if not name:
        return config.clusters
    cluster = config.cluster(name)
    if cluster is None:
        known = ", ".join(cluster.name for cluster in config.clusters)
        raise ConfigError(f"there is no cluster {name!r} in reconciler.yaml", hint=f"known are: {known}")
    return (cluster,)
