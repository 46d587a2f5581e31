"""What a plan compares: the head, the base that judges it, what exists, and where they differ."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import Config
from reconciler.core.live.choices import NO_CHOICES, LiveChoices
from reconciler.core.plan.comparison import NO_CAUSES, Causes, Comparison
from reconciler.core.plan.moves import find_replacements
from reconciler.core.plan.replacements import is_kept
from reconciler.core.problems import Problem
from reconciler.index.build import (
    CompiledRevision,
    Runtime,
    build_index,
    store_key,
)
from reconciler.index.renderer import Renderer
from reconciler.index.store import ObjectTotals, Store, load_store, save_store
from reconciler.index.totals import evaluate_totals
from reconciler.planning.baseline import Baseline, RenderedTree
from reconciler.planning.causes import find_causes
from reconciler.planning.findings import plan_date
from reconciler.planning.jobs.finished import settle_finished, unused_edits
from reconciler.planning.jobs.generations import assign_generations
from reconciler.planning.updates import Update, compare_updates, refused_creations, taken_by_server
from reconciler.revision.files import below
from reconciler.revision.revision import (
    LoadedRevision,
    TreeReference,
    comparing,
    read_base,
    read_revision,
    resolve_base,
)

if TYPE_CHECKING:
    from reconciler.planning.live.baseline import LiveBaseline
    from reconciler.ports.cluster import LiveCluster

    Clusters = Mapping[str, LiveCluster]


def compile_tree(
    runtime: Runtime, tree: TreeReference, config: Config, *, keep_contents: bool = False
) -> CompiledRevision:
    """Return the index of a tree. `keep_contents` keeps the bytes of objects that differ from `rendered/`."""
    key = store_key(runtime)
    with comparing(runtime.repository, tree, config):
        store = load_store(runtime.cache, key)
    revision = read_revision(runtime.repository, tree, config, runtime.cache)
    index = build_index(runtime, revision, store, keep=revision.files.rendered if keep_contents else None)
    save_store(runtime.cache, key, store, index.store)
    return index


def evaluate_tree(runtime: Runtime, index: CompiledRevision) -> ObjectTotals:
    """Return the verdicts over all objects and the GPUs of every queue, and save them for the next run."""
    totals = evaluate_totals(index)
    save_store(runtime.cache, store_key(runtime), index.store, replace(index.store, totals=totals))
    return totals


class Sides(Struct, frozen=True, kw_only=True, eq=False):
    """What is compared.

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
        """Whether a revision is compared with its own `rendered/`."""
        return self.before is self.index.revision


class Differences(Struct, frozen=True, kw_only=True, eq=False):
    """Where the sides differ, by rendered path.

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
    of_head = rendered_tree(runtime, index.revision)
    totals = evaluate_tree(runtime, index)
    renamed, refusals = assign_generations(runtime, index, of_head)
    if renamed is not index:
        totals = evaluate_totals(replace(renamed, saved=Store(records=index.records, totals=totals)))
    index = settle_finished(runtime, renamed, of_head)
    judging = _resolve_base(runtime, index, base, or_itself=against_head)
    before = index.revision if against_head else judging
    baseline = of_head if before.files.rendered == index.revision.files.rendered else rendered_tree(runtime, before)
    of_base = baseline if before is judging else rendered_tree(runtime, judging)
    renderer = Renderer(runtime, index)
    live = None
    if clusters is not None:
        from reconciler.planning.live.baseline import read_live  # noqa: PLC0415 - few plans look at live clusters
        from reconciler.planning.live.settling import DriftRules  # noqa: PLC0415 - as above

        day = plan_date(index, judging.tree, date)
        rules = DriftRules(policy=config.drift, choices=choices, day=choices.today or (day.isoformat() if day else ""))
        rendered = {*of_head.versions, *of_base.versions}
        live = read_live(runtime, clusters, index, renderer, known=rendered, existing=of_base, rules=rules)
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


def compare(runtime: Runtime, sides: Sides) -> Differences:
    """Compare what the head renders to with what exists."""
    index, baseline, renderer = sides.index, sides.baseline, sides.renderer
    differing = baseline.differing(index.desired)
    foreign = _foreign(index, sides.of_head, baseline, differing)
    owned = {path: version for path, version in baseline.versions.items() if path not in foreign}
    differing = [path for path in differing if path in owned]
    changed = sorted(path for path, blob in index.desired.items() if owned.get(path) != blob)
    causes = find_causes(runtime, index, renderer, sides.before) if changed or differing else NO_CAUSES
    replacements = find_replacements(
        sorted(path for path in changed if path not in owned),
        sorted(path for path in differing if path not in index.desired),
    )
    replaced = {path: path for path in changed if path in owned} | {one.new: one.old for one in replacements}
    compared = compare_updates(runtime, index, renderer, baseline, replaced, causes=causes)
    for path in compared.keys() & sides.live.accepted if sides.live is not None else ():
        compared[path] = taken_by_server(compared[path])
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


def _resolve_base(runtime: Runtime, index: CompiledRevision, base: str, *, or_itself: bool) -> LoadedRevision:
    tree = resolve_base(runtime.repository, base, index.revision.tree, or_itself=or_itself)
    return read_base(runtime.repository, tree, index.revision, lambda: runtime.catalogue, runtime.cache)


def rendered_tree(runtime: Runtime, revision: LoadedRevision) -> Baseline:
    """Return the `rendered/` tree of a revision, of the chosen cluster only if there is one."""
    rendered = revision.files.rendered
    blobs = below(rendered, runtime.cluster) if runtime.cluster else rendered
    return RenderedTree(runtime.repository, runtime.kinds, revision.config.rendered, blobs, processes=runtime.processes)


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
