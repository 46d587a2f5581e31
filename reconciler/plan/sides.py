"""The sides of a plan: the head, the base that judges it, what exists, and where they differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision, build_index, compile_again, compile_sources, store_key
from reconciler.index.compile import RenderedObject, serialize_object
from reconciler.index.renderer import Renderer
from reconciler.index.runtime import Runtime
from reconciler.index.store import ObjectTotals, Store, load_store, save_store
from reconciler.index.totals import evaluate_totals
from reconciler.index.validation import OF_VERSIONS
from reconciler.index.workers import WorkerPool
from reconciler.kinds.manifests.finished import RULE, mark_finished
from reconciler.kinds.manifests.generations import base_path, next_suffix
from reconciler.kube.objects import ObjectKey
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin
from reconciler.kube.yaml import read
from reconciler.plan.baseline import Baseline, RenderedTree
from reconciler.plan.comparison import NO_CAUSES, Causes, Comparison, needs_new_object
from reconciler.plan.findings import plan_date
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.moves import find_replacements
from reconciler.plan.replacements import is_kept
from reconciler.plan.tracing import find_causes
from reconciler.plan.updates import Update, accepted_by_server, compare_updates, refused_creations
from reconciler.repo.config import Config
from reconciler.repo.evidence.runs import FinishedRun
from reconciler.repo.files import below
from reconciler.repo.port import Cache, Repository
from reconciler.repo.revision import LoadedRevision, TreeReference, comparing, read_base, read_revision, resolve_base

if TYPE_CHECKING:
    from reconciler.kube.client.port import LiveCluster
    from reconciler.plan.live.baseline import LiveBaseline

    Clusters = Mapping[str, LiveCluster]


# New generations: jobs that a change must replace get a new name before the plan is made.
# The name depends on the sources and on the head's own `rendered/`, which holds the names that are in use: `plan`,
# `commit` and `verify` compute the same, whatever they compare with.


_suffixes = msgspec.msgpack.Decoder(dict[str, str])


def assign_generations(
    repository: Repository, workers: WorkerPool, index: CompiledRevision, own: Baseline
) -> tuple[CompiledRevision, tuple[Problem, ...]]:
    """Return the index with new names for jobs that must be replaced, and why some cannot get one.

    own: the head's `rendered/`.
    """
    paths = [path for path in own.differing(index.desired) if index.is_replaceable(path)]
    paths = [path for path, found in own.objects(paths).items() if found.is_owned]
    renderer = Renderer(repository, workers, index)
    contents = renderer.contents(paths) if paths else {}
    chosen = _find_replaced(workers, index, renderer, own, contents)
    if not chosen:
        return index, ()
    renamed = _rename(repository, workers, index, chosen)
    problems = {path: _new_errors(index, renamed, path) for path in sorted(chosen)}
    if any(problems.values()):
        chosen = {path: content for path, content in chosen.items() if not problems[path]}
        renamed = _rename(repository, workers, index, chosen) if chosen else index
    return renamed, tuple(dict.fromkeys(problem for found in problems.values() for problem in found))


def _find_replaced(
    workers: WorkerPool, index: CompiledRevision, renderer: Renderer, own: Baseline, contents: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return those of the changed jobs whose pods get the change only from a new object."""
    paths, kinds, schemas = list(contents), index.context.kinds, index.context.catalogue

    def is_replaced(path: str) -> bool:
        (after,) = read(path, contents[path]).documents
        before = own.body(path)
        return before is not None and needs_new_object(
            kinds,
            schemas,
            after.key,
            before,
            after.data,
            own_choice=lambda: renderer.object(path).manifest.on_immutable_change,
        )

    def work(positions: range) -> list[bytes]:
        return [b"replaced" if is_replaced(paths[position]) else b"" for position in positions]

    results = workers.run("comparing", work, len(paths))
    return {path: contents[path] for path, found in zip(paths, results, strict=True) if found}


def _rename(
    repository: Repository, workers: WorkerPool, index: CompiledRevision, chosen: Mapping[str, bytes]
) -> CompiledRevision:
    current = index.context.generations
    renamed = sorted(path for path in chosen if base_path(path) in current)
    new = {path: next_suffix(content, "") for path, content in chosen.items() if base_path(path) not in current}
    generations = {**current, **new, **_next_suffixes(repository, workers, index, renamed)}
    return compile_again(repository, workers, index, replace(index.context, generations=generations), chosen)


def _new_errors(before: CompiledRevision, after: CompiledRevision, path: str) -> list[Problem]:
    """Return the errors that a source file has only under a new name, such as a name that is too long."""
    source = before.sources[path]
    known = before.records[source].findings.problems
    found = after.records[source].findings.problems
    return [problem for problem in found if problem.severity is Severity.ERROR and problem not in known]


def _next_suffixes(
    repository: Repository, workers: WorkerPool, index: CompiledRevision, paths: list[str]
) -> dict[str, str]:
    """Return the next suffixes of jobs that have one, by the path of each job under its own name."""
    current = index.context.generations
    bases = {path: base_path(path) for path in paths}
    others = {base: current[base] for base in current.keys() - set(bases.values())}
    as_new = replace(index, context=replace(index.context, generations=others), compiled={})
    plain = Renderer(repository, workers, as_new)
    groups = plain.group(bases)
    sources = list(groups)

    def work(positions: range) -> list[bytes]:
        chosen = [sources[position] for position in positions]
        compiled = zip(chosen, plain.compile(chosen), strict=True)
        return [
            msgspec.msgpack.encode(
                {
                    base: next_suffix(objects[base].content, current[base])
                    for base in (bases[path] for path in groups[source])
                    if base in objects
                }
            )
            for source, objects in compiled
        ]

    suffixes: dict[str, str] = {}
    for raw in workers.run("naming", work, len(sources)):
        suffixes.update(_suffixes.decode(raw))
    return suffixes


# Jobs that have ended stay in `rendered/` as they ran, with a mark: what changes in their sources runs nothing again.
# The head's own `rendered/` says what ran, so `plan`, `commit` and `verify` compute the same.


def settle_finished(
    repository: Repository, workers: WorkerPool, index: CompiledRevision, own: Baseline
) -> CompiledRevision:
    """Return the index in which the objects of finished jobs are those of the head's own `rendered/`, with the mark."""
    ended = index.context.finished()
    paths = [path for path in ended if path in index.desired and own.versions.get(path, "") != index.desired[path]]
    paths = [path for path in paths if path in own.versions]
    paths = [path for path, found in own.objects(paths).items() if found.is_owned]
    if not paths:
        return index
    renderer = Renderer(repository, workers, index)
    settled = {path: _settle(index, renderer.object(path), own, path, ended[path]) for path in paths}
    digests = {path: one.summary.digest for path, one in settled.items()}
    return replace(
        index,
        rendered=replace(index.rendered, desired={**index.desired, **digests}),
        contents={**index.contents, **{path: one.content for path, one in settled.items()}},
        settled=settled,
    )


def _settle(
    index: CompiledRevision, rendered: RenderedObject, own: Baseline, path: str, run: FinishedRun
) -> RenderedObject:
    body = own.body(path) or rendered.manifest.body
    document = index.context.evidence.runs[rendered.manifest.cluster].document
    origin = None if document is None else Origin(document=document, field=run.origin)
    return serialize_object(index.context, mark_finished(rendered.manifest, body, run.mark, origin))


def unused_edits(index: CompiledRevision, before: LoadedRevision) -> Iterator[Problem]:
    """Warn of edited jobs that have ended: the edit runs nothing."""
    old, new = before.files.sources, index.revision.files.sources
    ended = index.context.finished()
    for path, one in sorted(index.settled.items()):
        source = index.sources[path]
        if old.get(source) != new[source] and source in old and not _is_as_rendered(index, path):
            yield _unused(one.manifest.key, one, ended[path], index)


def _is_as_rendered(index: CompiledRevision, path: str) -> bool:
    """Return whether what ran is what the source renders now."""
    record = index.records[index.sources[path]]
    blobs = dict(zip(record.paths, record.blobs, strict=True))
    return blobs[path] == index.settled[path].summary.digest


def _unused(key: ObjectKey, one: RenderedObject, run: FinishedRun, index: CompiledRevision) -> Problem:
    document = index.context.evidence.runs[one.manifest.cluster].document
    recorded = f" ({document.at(run.origin)})" if document is not None else ""
    return Problem(
        rule=RULE,
        place=one.manifest.source,
        message=f"{key} has ended ({run.mark}), so the edit has no effect",
        hint=f"give the job another name to run it again, or remove its record{recorded}",
        severity=Severity.WARNING,
    )


def compile_tree(
    runtime: Runtime, tree: TreeReference, config: Config, *, keep_contents: bool = False
) -> CompiledRevision:
    """Return the index of a tree. `keep_contents` keeps the bytes of objects that differ from `rendered/`."""
    key = store_key(runtime.scope)
    with comparing(runtime.repository, tree, config):
        store = load_store(runtime.cache, key)
    revision = read_revision(runtime.repository, tree, config, runtime.engine.catalogue, runtime.cache)
    index = build_index(runtime, revision, store, keep=revision.files.rendered if keep_contents else None)
    save_store(runtime.cache, key, store, index.store)
    return index


def evaluate_tree(cache: Cache, index: CompiledRevision) -> ObjectTotals:
    """Return the verdicts over all objects and the GPUs of every queue, and save them for the next run."""
    totals = evaluate_totals(index)
    save_store(cache, store_key(index.scope), index.store, replace(index.store, totals=totals))
    return totals


def left_to_servers(repository: Repository, workers: WorkerPool, index: CompiledRevision) -> CompiledRevision:
    """Return an index in which dry runs decide about fields and versions that the definitions here lack."""
    sources = index.revision.files.sources
    found = {one.place.path for one in index.problems() if one.rule in OF_VERSIONS and one.severity is Severity.ERROR}
    if not (chosen := found & sources.keys()):
        return index
    return compile_sources(repository, workers, index, replace(index.context, asks_servers=True), chosen)


class Sides(Struct, frozen=True, kw_only=True, eq=False):
    """The two sides of a comparison.

    index: the head. base: what the head is judged by. before: the revision whose `rendered/` is what exists; the head
    itself if it is compared with its own. of_head, of_base: what is in `rendered/` of head and base. baseline: what
    exists, in `rendered/` of `before` or, as `live`, on live clusters.
    """

    index: CompiledRevision
    totals: ObjectTotals
    renderer: Renderer
    refusals: tuple[Problem, ...]
    base: LoadedRevision
    before: LoadedRevision
    of_head: Baseline
    of_base: Baseline
    baseline: Baseline
    live: "LiveBaseline | None" = None

    @property
    def is_against_head(self) -> bool:
        """True if a revision is compared with its own `rendered/`."""
        return self.before is self.index.revision


class Differences(Struct, frozen=True, kw_only=True, eq=False):
    """The differences of the sides, by rendered path.

    changed: objects of the head that are new or different. differing: existing objects that the head changes or lacks.
    owned: the versions of existing objects that are ours. foreign: the problems of the others. causes: the edited lines
    behind a difference. updates: the objects that both sides have. comparisons: those of updates and of new
    generations, by the paths before and after. kept_specs: objects that keep their current spec. refused: problems of
    new objects.
    """

    changed: Sequence[str]
    differing: Sequence[str]
    owned: Mapping[str, str]
    foreign: Mapping[str, Problem]
    causes: Causes
    updates: Mapping[str, Update]
    comparisons: Mapping[tuple[str, str], Comparison]
    kept_specs: frozenset[str]
    refused: tuple[Problem, ...] = ()


def load_sides(
    runtime: Runtime,
    tree: TreeReference,
    config: Config,
    *,
    base: str,
    against_head: bool,
    clusters: "Clusters | None" = None,
    choices: LiveChoices = NO_CHOICES,
    date: str = "",
) -> Sides:
    """Compile the head, and find the base and what exists: in `rendered/`, or on live clusters."""
    index = compile_tree(runtime, tree, config, keep_contents=against_head)
    repository, workers = runtime.repository, runtime.workers
    if clusters is not None:
        index = left_to_servers(repository, workers, index)
    of_head = _existing_tree(runtime, index.revision, index)
    totals = evaluate_tree(runtime.cache, index)
    renamed, refusals = assign_generations(repository, workers, index, of_head)
    if renamed is not index:
        totals = evaluate_totals(replace(renamed, saved=Store(records=index.records, totals=totals)))
    index = settle_finished(repository, workers, renamed, of_head)
    judging = _resolve_base(repository, runtime.cache, index, base, or_itself=against_head)
    before = index.revision if against_head else judging
    baseline = of_head if _have_equal_objects(before, index.revision) else _existing_tree(runtime, before, index)
    of_base = baseline if before is judging else _existing_tree(runtime, judging, index)
    renderer = Renderer(repository, workers, index)
    live = None
    if clusters is not None:
        day = choices.today or str(plan_date(index, judging.tree, date) or "")
        live = _read_clusters(runtime, clusters, index, renderer, of_head, of_base, choices, day)
    return Sides(
        index=index,
        totals=totals,
        renderer=renderer,
        refusals=(*refusals, *unused_edits(index, before)),
        base=judging,
        before=before,
        of_head=of_head,
        of_base=of_base,
        baseline=live or baseline,
        live=live,
    )


def _read_clusters(  # noqa: PLR0917
    runtime: Runtime,
    clusters: "Clusters",
    index: CompiledRevision,
    renderer: Renderer,
    of_head: Baseline,
    of_base: Baseline,
    choices: LiveChoices,
    day: str,
) -> "LiveBaseline":
    """Return what exists on live clusters. day: at which rules about drift expire."""
    from reconciler.plan.live.comparing import read_live  # noqa: PLC0415 - few plans look at live clusters
    from reconciler.plan.live.drift import DriftRules  # noqa: PLC0415 - as above

    return read_live(
        runtime.repository,
        runtime.cache,
        clusters,
        index,
        renderer,
        namespace=runtime.options.inventory_namespace,
        known={*of_head.versions, *of_base.versions},
        existing=of_base,
        rules=DriftRules(policy=index.revision.config.drift, choices=choices, day=day),
    )


def compare(repository: Repository, workers: WorkerPool, sides: Sides) -> Differences:
    """Compare what the head renders to with what exists."""
    index, baseline, renderer = sides.index, sides.baseline, sides.renderer
    differing = baseline.differing(index.desired)
    foreign = _foreign(index, sides.of_head, baseline, differing)
    owned = {path: version for path, version in baseline.versions.items() if path not in foreign}
    differing = [path for path in differing if path in owned]
    changed = sorted(path for path, blob in index.desired.items() if owned.get(path) != blob)
    causes = find_causes(repository, index, renderer, sides.before) if changed or differing else NO_CAUSES
    replacements = find_replacements(
        sorted(path for path in changed if path not in owned),
        sorted(path for path in differing if path not in index.desired),
    )
    replaced = {path: path for path in changed if path in owned} | {one.new: one.old for one in replacements}
    compared = compare_updates(workers, index, renderer, baseline, replaced, causes=causes)
    if sides.live is not None:
        compared |= {path: accepted_by_server(one) for path, one in compared.items() if sides.live.is_accepted(path)}
    updates = {path: update for path, update in compared.items() if path in owned}
    config = index.revision.config
    return Differences(
        changed=changed,
        differing=differing,
        owned=owned,
        foreign=foreign,
        causes=causes,
        updates=updates,
        comparisons={(replaced[path], path): update.comparison for path, update in compared.items()},
        kept_specs=frozenset(path for path, update in updates.items() if is_kept(update.comparison, config)),
        refused=refused_creations(index, renderer, (path for path in changed if path not in baseline.versions)),
    )


def _resolve_base(
    repository: Repository, cache: Cache, index: CompiledRevision, base: str, *, or_itself: bool
) -> LoadedRevision:
    tree = resolve_base(repository, base, index.revision.tree, or_itself=or_itself)
    return read_base(repository, tree, index.revision, lambda: index.engine.catalogue, cache)


def rendered_tree(
    repository: Repository, workers: WorkerPool, index: CompiledRevision, revision: LoadedRevision
) -> Baseline:
    """Return the `rendered/` tree of a revision, of the cluster that an index was made for if there is one."""
    rendered, kinds = revision.files.rendered, index.engine.kinds
    blobs = below(rendered, index.cluster) if index.cluster else rendered

    def contents(paths: list[str]) -> Iterable[bytes]:
        return repository.read([blobs[path] for path in paths])

    return RenderedTree(kinds, revision.config.rendered, blobs, contents, processes=workers.processes)


def _existing_tree(runtime: Runtime, revision: LoadedRevision, index: CompiledRevision) -> Baseline:
    """Return the objects of a revision: those in `rendered/`, or those that its sources render to where none is kept.

    index: that of the head, from whose records those of other revisions are taken where their files are equal.
    """
    repository, workers = runtime.repository, runtime.workers
    if revision.config.is_rendered:
        return rendered_tree(repository, workers, index, revision)
    built = index if revision is index.revision else build_index(runtime, revision, index.store)
    renderer = Renderer(repository, workers, built)

    def contents(paths: list[str]) -> Iterable[bytes]:
        return renderer.contents(paths).values()

    sources = built.rendered.sources
    return RenderedTree(index.engine.kinds, revision.config.rendered, built.desired, contents, sources)


def _have_equal_objects(one: LoadedRevision, other: LoadedRevision) -> bool:
    """Return whether the objects of two revisions are known to be equal."""
    if one is other or not (one.config.is_rendered and other.config.is_rendered):
        return one is other
    return one.files.rendered == other.files.rendered


def _foreign(
    index: CompiledRevision, own: Baseline, baseline: Baseline, differing: Sequence[str]
) -> dict[str, Problem]:
    """Return the problems of objects that are not ours: in the baseline, and in the head's own `rendered/`."""
    foreign = foreign_in(baseline, differing)
    if baseline is not own:
        new = [path for path in own.differing(index.desired) if baseline.versions.get(path) != own.versions[path]]
        foreign |= foreign_in(own, new)
    return foreign


def foreign_in(baseline: Baseline, paths: Sequence[str]) -> dict[str, Problem]:
    """Return the problems of those objects in a baseline that are not ours."""
    return {path: baseline.foreign(path) for path, found in baseline.objects(paths).items() if not found.is_owned}
