"""The main path: from a tree to a plan, one step after the other.

tree + configuration -> revision (files by role) -> index (compiled files) -> baseline (what exists) -> plan
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import Config
from reconciler.core.plan import Plan, Revision
from reconciler.core.plan.approvals import Approvals
from reconciler.core.plan.comparison import NO_CAUSES
from reconciler.core.plan.edits import MOST_DETAILED
from reconciler.core.plan.inputs import Common, Inputs
from reconciler.core.plan.make import make_plan
from reconciler.core.plan.replacements import is_kept
from reconciler.core.policy.changes import stricter_verdicts
from reconciler.core.problems import Problem, Severity
from reconciler.core.queues import defines_queues, subtract_workloads
from reconciler.core.summary import ObjectSummary
from reconciler.index.build import (
    CompiledRevision,
    Runtime,
    build_index,
    read_files,
    save_tools,
    store_key,
)
from reconciler.index.compile import compile_file
from reconciler.index.evaluator import PolicyFindings
from reconciler.index.renderer import Renderer
from reconciler.index.store import ObjectTotals, load_store, save_store
from reconciler.index.totals import evaluate_totals
from reconciler.planning.baseline import Baseline, RenderedTree
from reconciler.planning.behind import find_behind
from reconciler.planning.blame import blame
from reconciler.planning.causes import find_causes
from reconciler.planning.committed import CommittedEdits, find_edits, find_edits_in_old_folder
from reconciler.planning.evidence import inventories_before
from reconciler.planning.findings import ages_of_evidence, collect_findings, judge_evidence, own_verdicts, plan_date
from reconciler.planning.generations import assign_generations
from reconciler.planning.judging import judge, verdicts_of_base
from reconciler.planning.updates import compare_updates
from reconciler.planning.whole import judge_whole
from reconciler.revision.files import BlobIds, RevisionFiles, below, count_below, digest_files
from reconciler.revision.revision import (
    LoadedRevision,
    TreeReference,
    read_base,
    read_past_files,
    read_revision,
    resolve_base,
)


class Planned(Struct, frozen=True, kw_only=True):
    """A plan, and the index that it was made from."""

    plan: Plan
    index: CompiledRevision
    renderer: Renderer

    def contents(self) -> dict[str, bytes | None]:
        """Return what the plan writes, by path below the repository's root; None deletes."""
        folder = self.index.revision.config.rendered
        paths = [change.path.removeprefix(f"{folder}/") for change in self.plan.changes]
        written = self.renderer.contents([path for path in paths if path in self.index.desired])
        files: dict[str, bytes | None] = {}
        for change, path in zip(self.plan.changes, paths, strict=True):
            if change.moved_from:
                files[change.moved_from] = None
            files[change.path] = written.get(path)
        return files


def compile_tree(
    runtime: Runtime, tree: TreeReference, config: Config, *, keep_contents: bool = False
) -> CompiledRevision:
    """Return the index of a tree. `keep_contents` keeps the bytes of objects that differ from `rendered/`."""
    key = store_key(runtime)
    revision = read_revision(runtime.repository, tree, config, runtime.cache)
    store = load_store(runtime.cache, key)
    index = build_index(runtime, revision, store, keep=revision.files.rendered if keep_contents else None)
    save_store(runtime.cache, key, store, index.store)
    return index


def evaluate_tree(runtime: Runtime, index: CompiledRevision) -> ObjectTotals:
    """Return the verdicts over all objects and the GPUs of every queue, and save them for the next run."""
    totals = evaluate_totals(index)
    save_store(runtime.cache, store_key(runtime), index.store, replace(index.store, totals=totals))
    return totals


def plan_tree(
    runtime: Runtime,
    tree: TreeReference,
    config: Config,
    *,
    base: str = "",
    date: str = "",
    against_head: bool = False,
) -> Planned:
    """Plan a tree against a base; `against_head` compares a revision with its own `rendered/`.

    date: current date, for exceptions that expire (empty: date of the head commit).
    """
    index = compile_tree(runtime, tree, config, keep_contents=against_head)
    own = _baseline(runtime, index.revision)
    index, refusals = assign_generations(runtime, index, own)
    totals = evaluate_tree(runtime, index)
    renderer = Renderer(runtime, index)
    base_revision = _resolve_base(runtime, index, base, or_itself=against_head)
    before = index.revision if against_head else base_revision
    baseline = own if before.files.rendered == index.revision.files.rendered else _baseline(runtime, before)
    judged = judge(runtime, index, base_revision)
    differing = baseline.differing(index.desired)
    foreign = _foreign(index, own, baseline, differing)
    owned = {path: version for path, version in baseline.versions.items() if path not in foreign}
    differing = [path for path in differing if path in owned]
    changed = [path for path, blob in index.desired.items() if owned.get(path) != blob]
    causes = find_causes(runtime, index, renderer, before) if changed or differing else NO_CAUSES
    updated = [path for path in changed if path in owned]
    updates = compare_updates(runtime, index, renderer, baseline, updated, causes=causes)
    day = plan_date(index, base_revision.tree, date)
    inventories = inventories_before(runtime, index, base_revision)
    verdicts, exceeded = own_verdicts(index, totals, updates, inventories, judged.config, day, is_dated=bool(date))
    existing = baseline if before is base_revision else _baseline(runtime, base_revision)
    if judged.rules is not None:
        by_base = verdicts_of_base(runtime, index, renderer, existing, judged.rules)
        evidence = judge_evidence(index, inventories, judged.config, judged.rules.settings, day, is_dated=bool(date))
        verdicts = tuple(stricter_verdicts(verdicts, [*by_base.verdicts, *evidence]))
        exceeded = (*exceeded, *by_base.exceeded)
    findings = collect_findings(index, PolicyFindings(verdicts, exceeded), (*foreign.values(), *refusals), day)
    waiting = index.pending()
    kept_specs = frozenset(path for path, update in updates.items() if is_kept(update.comparison, config))
    is_itself = against_head or base_revision.tree.commit == tree.commit
    edits = _committed_edits(runtime, index, base_revision, existing, waiting | kept_specs)
    renderer.group(_creations(changed, owned, moves=bool(differing)))
    inputs = Inputs(
        engine=runtime.engine,
        base=_describe(before.tree, before.files.rendered),
        head=_describe(tree, *index.revision.files.written),
        evidence=digest_files(index.revision.files.evidence),
        policies=index.context.policies.digest,
        config=judged.config,
        kinds=runtime.kinds,
        desired=index.summaries(path for path in changed if path not in foreign),
        existing={path: owned[path] for path in differing},
        existing_rows=_existing_summaries(baseline, differing),
        common=_common(index, totals, changed),
        manifest=lambda path: renderer.object(path).manifest,
        body=baseline.body,
        comparisons={path: update.comparison for path, update in updates.items()},
        causes=causes,
        kept_specs=kept_specs,
        schemas=index.context.catalogue,
        origins=_origins(runtime, index, before.files, findings.problems),
        waiting=waiting,
        inventories=index.context.evidence.inventories,
        inventories_before=inventories,
        evidence_ages=ages_of_evidence(index, judged.config, day),
        verdicts=blame(runtime, index, renderer, findings.verdicts),
        problems=findings.problems,
        exceptions=findings.exceptions,
        edited=() if against_head else _not_foreign(edits.edited, foreign.values()),
        lost=edits.lost,
        behind=None if against_head else find_behind(runtime.repository, index.revision, base_revision),
        settings=judged.changes,
        folders=_folder_sizes(index, base_revision, _last_rendered(runtime, index) if is_itself else before.files),
        judged_by=digest_files(*index.revision.files.judging),
        approvals=_approvals(index, base_revision, day),
    )
    made = make_plan(inputs)
    whole = judge_whole(made, index.context.policies, *([judged.rules.policies] if judged.rules else []))
    if whole:
        made = make_plan(replace(inputs, verdicts=tuple(stricter_verdicts(inputs.verdicts, whole))))
    planned = Planned(plan=made, index=index, renderer=renderer)
    save_tools(runtime, index.context)
    return planned


def lint_tree(runtime: Runtime, tree: TreeReference, config: Config, *, date: str = "") -> Plan:
    """Check a tree by itself: a plan without changes."""
    index = compile_tree(runtime, tree, config)
    totals = evaluate_tree(runtime, index)
    baseline = _baseline(runtime, index.revision)
    day = plan_date(index, tree, date)
    evaluation = own_verdicts(index, totals, {}, index.context.evidence.inventories, config, day, is_dated=bool(date))
    foreign = _foreign_in(baseline, baseline.differing(index.desired))
    findings = collect_findings(index, evaluation, foreign.values(), day)
    head = _describe(tree, *index.revision.files.written)
    return Plan(
        engine=runtime.engine,
        base=head,
        head=head,
        evidence=digest_files(index.revision.files.evidence),
        policies=index.context.policies.digest,
        unchanged=len(index.desired),
        verdicts=blame(runtime, index, Renderer(runtime, index), findings.verdicts),
        problems=findings.problems,
        exceptions=findings.exceptions,
    )


# The base and what exists there.


def _resolve_base(runtime: Runtime, index: CompiledRevision, base: str, *, or_itself: bool) -> LoadedRevision:
    tree = resolve_base(runtime.repository, base, index.revision.tree, or_itself=or_itself)
    return read_base(runtime.repository, tree, index.revision, lambda: runtime.catalogue, runtime.cache)


def _baseline(runtime: Runtime, revision: LoadedRevision) -> Baseline:
    rendered = revision.files.rendered
    blobs = below(rendered, runtime.cluster) if runtime.cluster else rendered
    return RenderedTree(runtime.repository, runtime.kinds, revision.config.rendered, blobs, processes=runtime.processes)


def _committed_edits(
    runtime: Runtime, index: CompiledRevision, base: LoadedRevision, existing: Baseline, staying: frozenset[str]
) -> CommittedEdits:
    """Compare the head's own `rendered/` with its sources and the base."""
    head, folder = index.revision, base.config.rendered
    commit = head.tree.commit
    if folder != head.config.rendered:
        repository = runtime.repository
        after = repository.tree(commit.oid, (folder,)) if commit else repository.work_tree((folder,))
        return find_edits_in_old_folder(folder, base.files.rendered, after)
    committed = _baseline(runtime, head).versions
    return find_edits(folder, committed, index.desired, existing, staying, is_commit=commit is not None)


def _foreign(
    index: CompiledRevision, own: Baseline, baseline: Baseline, differing: Sequence[str]
) -> dict[str, Problem]:
    """Return the problems of objects that are not ours: in the baseline, and in the head's own `rendered/`."""
    foreign = _foreign_in(baseline, differing)
    if baseline is not own:
        new = [path for path in own.differing(index.desired) if baseline.versions.get(path) != own.versions[path]]
        foreign |= _foreign_in(own, new)
    return foreign


def _not_foreign(paths: Sequence[str], foreign: Iterable[Problem]) -> tuple[str, ...]:
    """Return the files that have no problem already."""
    reported = {problem.place.path for problem in foreign}
    return tuple(path for path in paths if path not in reported)


def _foreign_in(baseline: Baseline, paths: Sequence[str]) -> dict[str, Problem]:
    return {path: baseline.foreign(path) for path, found in baseline.objects(paths).items() if not found.is_owned}


def _existing_summaries(baseline: Baseline, paths: Sequence[str]) -> dict[str, ObjectSummary]:
    objects = baseline.objects(paths)
    return {path: found.summary for path, found in objects.items() if found.summary is not None}


# What is the same on both sides, and what is compared in detail.


def _common(index: CompiledRevision, totals: ObjectTotals, changed: Sequence[str]) -> Common:
    """Return what both sides have: all objects but the changed ones."""
    names = set(changed)

    def rows() -> Iterator[ObjectSummary]:
        return (row for row in index.first_summaries() if row.path not in names)

    gone = index.summaries(changed).values()
    usage = None if any(map(defines_queues, gone)) else subtract_workloads(totals.usage, gone)
    return Common(count=len(index.desired) - len(names), rows=rows, usage=usage)


def _creations(changed: Sequence[str], owned: Mapping[str, str], *, moves: bool) -> list[str]:
    """Return the creations whose manifests a plan needs: it lists the first ones, and looks for moves among all."""
    created = sorted(path for path in changed if path not in owned)
    return created if moves else created[:MOST_DETAILED]


def _origins(
    runtime: Runtime, index: CompiledRevision, before: RevisionFiles, problems: tuple[Problem, ...]
) -> dict[str, str] | None:
    """Return the source files of existing objects, for files that now have errors, by compiling their base version.

    None if that version had errors too, so that it is not known what came from it.
    """
    broken = {problem.place.path for problem in problems if problem.severity is Severity.ERROR}
    paths = [path for path in sorted(broken) if path in before.sources]
    origins: dict[str, str] = {}
    for path, raw in read_files(runtime.repository, before.sources, paths):
        compiled = compile_file(index.context, path, raw)
        if any(problem.severity is Severity.ERROR for problem in compiled.problems):
            return None
        origins.update((rendered.summary.path, path) for rendered in compiled.objects)
    return origins


def _last_rendered(runtime: Runtime, index: CompiledRevision) -> RevisionFiles:
    """Return the sources of the commit that last changed `rendered/`, to count folders that are empty since then.

    A revision that is compared with itself would otherwise not show that its sources vanished.
    """
    commit, config, files = index.revision.tree.commit, index.revision.config, index.revision.files
    if commit is None or all(below(files.sources, folder) for folder in config.sources):
        return files
    last = runtime.repository.last_change(commit.oid, config.rendered)
    return files if last is None else read_past_files(runtime.repository, last, config)


def _folder_sizes(index: CompiledRevision, base: LoadedRevision, before: RevisionFiles) -> dict[str, tuple[int, int]]:
    after = index.revision.files.sources
    folders = sorted({*base.config.sources, *index.revision.config.sources})
    return {folder: (count_below(before.sources, folder), count_below(after, folder)) for folder in folders}


def _approvals(index: CompiledRevision, base: LoadedRevision, day: dt.date | None) -> Approvals:
    own, known = index.revision.files.approvals, base.files.approvals
    return Approvals(
        approvals=index.context.approvals,
        folder=base.config.approvals,
        merged=[path for path, blob in own.items() if known.get(path) == blob],
        date=day.isoformat() if day else "",
    )


def _describe(tree: TreeReference, *files: BlobIds) -> Revision:
    """Describe one side with the digest of its files: what people write for a head, what is rendered for a base.

    So a plan of the working tree and the plan that commits it have the same digest.
    """
    return Revision(label=tree.label, commit=tree.commit_id, tree=digest_files(*files))
