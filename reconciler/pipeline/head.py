"""Everything that the sources of one revision mean: the compile stage, from a tree to rows and findings."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256

import msgspec
from msgspec import Struct

from reconciler.core.census import Row
from reconciler.core.census.ledger import ledgers, shapes_queues, without
from reconciler.core.intents.config import Cluster, Config
from reconciler.core.plan.inputs import Common
from reconciler.core.policy.references import judge
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.core.schemas import Catalogue
from reconciler.errors import ConfigError
from reconciler.pipeline.compile import Rendering, compile_file, compile_files
from reconciler.pipeline.context import Context, build_context
from reconciler.pipeline.layout import Layout, folders, layout, portability_problems
from reconciler.pipeline.readings import Contents, FileReading, Readings
from reconciler.pipeline.sides import Side
from reconciler.pipeline.sources import Progress, compile_all, read_files, read_fresh, silent
from reconciler.pipeline.state import Counted, FileState, State, digests_of, facts_of, load_state, save_state
from reconciler.pipeline.workers import in_parallel
from reconciler.ports import Cache, Entry, Repository, Tree
from reconciler.version import __version__


class Tools(Struct, frozen=True, kw_only=True):
    """What every run needs and no repository decides."""

    repository: Repository
    cache: Cache
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
    """A compiled revision. Rows and findings are there at once; manifests are made again when they are asked for."""

    def __init__(self, tools: Tools, side: Side, config: Config) -> None:
        self.tools = tools
        self.side = side
        self.config = config
        self.tree: Tree = side.tree(tools.repository, folders(self.config))
        self.layout: Layout = layout(self.config, self.tree)
        self.clusters = _chosen(self.config, tools.cluster)
        self._key = f"state:{tools.repository.root}:{tools.cluster}"
        self.context, self.states = self._compile()
        self.remember()
        self._files: dict[str, dict[str, Rendering]] = {}
        self._contents: dict[str, bytes] = {}

    def _compile(self) -> tuple[Context, dict[str, FileState]]:
        tools, repository = self.tools, self.tools.repository
        state = self._before = load_state(tools.cache, self._key)
        fresh = read_fresh(repository, self.layout.sources, state)
        context = self._context([path for path in self.layout.sources if fresh.defines[path]])
        states = compile_all(
            repository,
            context,
            self.layout.sources,
            state=state,
            fresh=fresh,
            processes=tools.processes,
            progress=tools.progress,
        )
        return context, states

    def _context(self, defining: list[str]) -> Context:
        tools = self.tools
        readings = Readings(tools.cache, str(tools.repository.root), tools.engine, tools.catalogue)

        def read(entries: Mapping[str, Entry], paths: Iterable[str]) -> tuple[FileReading, ...]:
            def contents(wanted: list[str]) -> Iterable[bytes]:
                return tools.repository.read([entries[path].oid for path in wanted])

            return readings.read([(path, entries[path].oid) for path in paths], contents)

        context = build_context(
            self.config,
            engine=tools.engine,
            object_format=tools.repository.object_format,
            catalogue=tools.catalogue,
            shipped=readings.read([(path, "shipped") for path in tools.shipped], tools.read_shipped),
            policies=read(self.layout.policies, self.layout.policies),
            evidence=read(self.layout.evidence, self.layout.evidence),
            defining=read(self.layout.sources, defining),
            clusters=self.clusters,
        )
        readings.save()
        return context

    @cached_property
    def digests(self) -> dict[str, str]:
        """Blob ids by path below the rendered folder. Of two objects with one path the first counts: `judge` tells."""
        return digests_of(self.states.values())

    @cached_property
    def sources(self) -> dict[str, str]:
        """Source files by path below the rendered folder."""
        sources: dict[str, str] = {}
        for source, held in self.states.items():
            for path in held.paths:
                sources.setdefault(path, source)
        return sources

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Rows by path below the rendered folder."""
        rows: dict[str, Row] = {}
        for held in self.states.values():
            for row in held.rows:
                rows.setdefault(row.path, row)
        return rows

    def common(self, changed: list[str]) -> Common:
        """Return what is the same on both sides of a plan: all rows but the changed ones."""
        names = set(changed)

        def rows() -> Iterator[Row]:
            return (row for path, row in self.rows.items() if path not in names)

        gone = self.some_rows(changed).values()
        counted = None if any(map(shapes_queues, gone)) else without(self.counted.ledgers, gone)
        return Common(count=len(self.digests) - len(names), rows=rows, ledgers=counted)

    def some_rows(self, paths: Iterable[str]) -> dict[str, Row]:
        """Rows of these paths: a few of them cost less than all."""
        wanted = list(paths)
        sources = {self.sources[path] for path in wanted}
        found = {row.path: row for source in sources for row in reversed(self.states[source].rows)}
        return {path: found[path] for path in wanted}

    def problems(self) -> tuple[Problem, ...]:
        """All problems of all files."""
        found = [*self.layout.problems, *portability_problems(self.layout), *self.context.problems]
        for held in self.states.values():
            found += held.findings.problems
        return tuple(sorted(dict.fromkeys(found), key=lambda problem: problem.sort_key))

    def verdicts(self) -> list[Verdict]:
        """Judge each object by itself, and all objects together, before exceptions."""
        found = [verdict for held in self.states.values() for verdict in held.findings.verdicts]
        return [*found, *self.counted.verdicts]

    @cached_property
    def counted(self) -> Counted:
        """What all rows say together: remembered from the last plan, unless the facts have changed."""
        return self._remembered or self._count()

    @property
    def _remembered(self) -> Counted | None:
        held = self._before.counted
        return held if held is not None and held.facts == self._facts else None

    @cached_property
    def _facts(self) -> bytes:
        names = " ".join(cluster.name for cluster in self.clusters)
        return facts_of(f"{self.context.digest} {names}", self.states)

    def _count(self) -> Counted:
        by_cluster: dict[str, list[Row]] = {cluster.name: [] for cluster in self.clusters}
        for held in self.states.values():
            for row in held.rows:
                by_cluster[row.cluster].append(row)
        verdicts: list[Verdict] = []
        for cluster in self.clusters:
            inventory = self.context.inventories.get(cluster.name)
            verdicts += judge(by_cluster[cluster.name], cluster, inventory, self.config.rules)
        return Counted(facts=self._facts, verdicts=tuple(verdicts), ledgers=ledgers(self.rows.values()))

    def remember(self) -> None:
        """Leave everything for the next plan."""
        if self._remembered and self.states == self._before.files:
            return
        needed = {held.needs for held in self.states.values()} - {""}
        after = State(
            context=self.context.digest,
            files=self.states,
            queues={needs: self.context.queue_digest(needs) for needs in sorted(needed)},
            counted=None if self._has_doubles else self.counted,
            saved=self._before.saved,
            stamp=self._before.stamp,
        )
        save_state(self.tools.cache, self._key, after)

    @property
    def _has_doubles(self) -> bool:
        """Whether two objects have one path: judging those looks at blob ids, which are no facts."""
        return sum(held.count for held in self.states.values()) != len(self.digests)

    def prepare(self, paths: list[str]) -> None:
        """Read at once the source files that `rendering` will be asked for."""
        sources = sorted({self.sources[path] for path in paths} - set(self._contents))
        self._contents.update(read_files(self.tools.repository, self.layout.sources, sources))

    def contents(self, paths: list[str]) -> dict[str, bytes]:
        """Return the bytes of many desired paths, in this order; the files they come from are compiled at once."""
        sources = sorted({self.sources[path] for path in paths})
        self.prepare(paths)

        def work(positions: range) -> list[bytes]:
            chosen = [(sources[position], self._contents[sources[position]]) for position in positions]
            return [
                msgspec.msgpack.encode({one.row.path: one.content for one in compiled.renderings})
                for compiled in compile_files(self.context, chosen)
            ]

        found: dict[str, bytes] = {}
        with self.tools.progress("rendering", len(sources)) as advance:
            results = in_parallel(work, len(sources), processes=self.tools.processes, advance=advance)
            for source, raw in zip(sources, results, strict=True):
                written = msgspec.msgpack.decode(raw, type=dict[str, bytes])
                found.update((path, content) for path, content in written.items() if self.sources[path] == source)
        return {path: found[path] for path in paths}

    def rendering(self, path: str) -> Rendering:
        """Return the manifest, bytes and row of one desired path."""
        source = self.sources[path]
        if source not in self._files:
            if source not in self._contents:
                self.prepare([path])
            compiled = compile_file(self.context, source, self._contents[source])
            self._files[source] = {rendering.row.path: rendering for rendering in compiled.renderings}
        return self._files[source][path]


def digest_of(entries: Mapping[str, Entry]) -> str:
    """Digest paths and contents, whatever their order."""
    paths = sorted(entries)
    text = "\0".join([*paths, *(entries[path].oid for path in paths)])
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _chosen(config: Config, name: str) -> tuple[Cluster, ...]:
    if not name:
        return config.clusters
    cluster = config.cluster(name)
    if cluster is None:
        known = ", ".join(cluster.name for cluster in config.clusters)
        raise ConfigError(f"there is no cluster {name!r} in reconciler.yaml", hint=f"known are: {known}")
    return (cluster,)
