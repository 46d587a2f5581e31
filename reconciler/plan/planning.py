"""The main path: from a tree to a plan, one step after the other.

tree + configuration -> sides: revision (files by role), index (compiled files), baseline (what exists) -> differences
-> judgement (settings and rules of head and base) -> findings -> inputs -> plan
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision, read_files, save_tools
from reconciler.index.compile import compile_file
from reconciler.index.evaluator import PolicyEvaluator, PolicyFindings, join
from reconciler.index.renderer import Renderer
from reconciler.index.runtime import Runtime
from reconciler.index.store import ObjectTotals
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.problems import Problem, Severity
from reconciler.plan import Change, Operation, Plan, Revision
from reconciler.plan.admissions import with_topology
from reconciler.plan.approvals import NO_APPROVALS, Approvals, GitChanges
from reconciler.plan.attribution import at_their_causes
from reconciler.plan.baseline import Baseline, place_of
from reconciler.plan.committed import committed_edits
from reconciler.plan.edits import MOST_DETAILED
from reconciler.plan.findings import (
    PlanFindings,
    ages_of_evidence,
    collect_findings,
    fold_consequences,
    inventories_before,
    judge_evidence,
    own_verdicts,
    plan_date,
    usage_evidence,
)
from reconciler.plan.health.effect import PolicyEffect
from reconciler.plan.health.policies import policy_effects, refused_policies
from reconciler.plan.health.quarantines import changed_quarantines, inventories_of_base, quarantine_lines
from reconciler.plan.inputs import Common, Inputs, LiveFacts
from reconciler.plan.judging import Judgement, judge, verdicts_of_base
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.make import make_plan
from reconciler.plan.places import lead_back
from reconciler.plan.plan import Behind
from reconciler.plan.plan_policies import judge_whole
from reconciler.plan.sides import (
    Differences,
    Sides,
    compare,
    compile_tree,
    evaluate_tree,
    foreign_in,
    load_sides,
    rendered_tree,
)
from reconciler.plan.updates import Update
from reconciler.policy.admission import PolicySet, Subject
from reconciler.policy.changes import stricter_verdicts
from reconciler.queues.queues import defines_queues, subtract_workloads
from reconciler.repo.config import Config
from reconciler.repo.config.placement import PlacementSettings
from reconciler.repo.files import BlobIds, RevisionFiles, below, count_below, digest_files, read_paths
from reconciler.repo.port import Cache, Repository
from reconciler.repo.revision import LoadedRevision, TreeReference, read_earlier_files
from reconciler.sizing.inventory import Inventory

if TYPE_CHECKING:
    from reconciler.kube.client.port import LiveCluster
    from reconciler.plan.live.baseline import LiveBaseline
    from reconciler.plan.placement import ClusterForecast


# What admission policies say about objects that a plan deletes.


def in_place(differences: Differences) -> dict[str, Update]:
    """Return the updates of objects that are not deleted and created again under their names."""
    kept = differences.kept_specs
    return {path: one for path, one in differences.updates.items() if path in kept or not one.comparison.recreated}


def judge_deletions(sides: Sides, differences: Differences, policies: PolicySet) -> PolicyFindings:
    """Return the verdicts on the deletion of existing objects.

    Few repositories have policies about deletions: without one, nothing is looked up.
    """
    chosen = policies.about_deletions
    if not chosen.rules:
        return PolicyFindings()
    paths = _deleted_paths(sides, differences)
    return join(PolicyEvaluator(chosen).evaluate(_subjects(sides.index, sides.baseline, paths)))


def _deleted_paths(sides: Sides, differences: Differences) -> list[str]:
    """Return the paths of the objects that a plan deletes, or that it deletes and creates again.

    While a file has errors nothing is deleted for sure: the plan is refused, and what came from that file stays.
    """
    index = sides.index
    if any(problem.severity is Severity.ERROR for problem in index.problems()):
        return []
    waiting = index.pending()
    gone = [path for path in differences.differing if path not in index.desired and path not in waiting]
    config = index.revision.config
    kept = {path for path, found in sides.baseline.objects(gone).items() if found.stays(config)}
    staying = in_place(differences)
    recreated = [path for path in differences.updates if path not in staying]
    return [*(path for path in gone if path not in kept), *recreated]


def _subjects(index: CompiledRevision, baseline: Baseline, paths: Sequence[str]) -> list[Subject]:
    subjects = []
    for path, found in baseline.objects(paths).items():
        body = baseline.body(path)
        if body is None or found.summary is None:
            continue
        row, place = found.summary, place_of(path, index.revision.config.rendered, baseline.sources)
        manifest = Manifest(cluster=row.cluster, key=row.key, body=dict(body), source=place)
        subjects.append(index.context.deletion(manifest))
    return subjects


# Whether the base branch has moved since the merge base, so that the plan is not that of the merge.


_MAX_NAMES = 20


def find_behind(repository: Repository, head: LoadedRevision, base: LoadedRevision) -> Behind | None:
    """Return what the base branch changed since the merge base; None if nothing that a plan reads."""
    start, tip = base.tree.commit, base.tree.branch_tip
    if start is None or tip is None or start.oid == tip.oid:
        return None
    changed = repository.changed(start.oid, tip.oid, read_paths(base.config))
    if not changed:
        return None
    prefix = f"{base.config.rendered}/"
    both = sorted(path for path in changed if _blob(head, path, prefix) != _blob(base, path, prefix))
    return Behind(
        commit=tip.oid,
        files=len(changed),
        rendered=sum(path.startswith(prefix) for path in changed),
        both=tuple(both[:_MAX_NAMES]),
        more=max(0, len(both) - _MAX_NAMES),
    )


def _blob(revision: LoadedRevision, path: str, prefix: str) -> str | None:
    files = revision.files
    if path.startswith(prefix):
        return files.rendered.get(path.removeprefix(prefix))
    return next((role[path] for role in files.written if path in role), None)


class Planned(Struct, frozen=True, kw_only=True):
    """A plan, and the index that it was made from."""

    plan: Plan
    index: CompiledRevision
    renderer: Renderer
    baseline: Baseline
    approvals: Approvals = NO_APPROVALS
    live: "LiveBaseline | None" = None
    forecasts: "Callable[[], tuple[ClusterForecast, ...]]" = tuple  # of clusters with evidence of use
    day: dt.date | None = None  # its date, from which the age of evidence counts

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


def plan_tree(
    runtime: Runtime,
    tree: TreeReference,
    config: Config,
    *,
    base: str = "",
    date: str = "",
    against_head: bool = False,
    clusters: Mapping[str, "LiveCluster"] | None = None,
    choices: LiveChoices = NO_CHOICES,
    saved: Plan | None = None,
) -> Planned:
    """Plan a tree against a base; `against_head` compares a revision with its own `rendered/`.

    date: current date, for exceptions that expire (empty: date of the head commit).
    clusters: live clusters by name, whose objects are what exists; the base then only decides how the plan is judged.
    choices: decisions about live objects: which to adopt, which fields are contested.
    saved: the plan that this one repeats.
    """
    sides = load_sides(
        runtime, tree, config, base=base, against_head=against_head, clusters=clusters, choices=choices, date=date
    )
    git = None
    if sides.live is not None and sides.index.context.approvals:  # they approve what the plan changes in Git
        of_git = load_sides(runtime, tree, config, base=base, against_head=False, date=date)
        git = GitChanges.of(_plan_sides(runtime, of_git, date).plan)
    return _plan_sides(runtime, sides, date, saved=saved, git=git)


def _plan_sides(
    runtime: Runtime, sides: Sides, date: str, *, saved: Plan | None = None, git: GitChanges | None = None
) -> Planned:
    """Compare the sides, judge what differs, and make the plan. git: the plan in Git that approvals are about."""
    repository = runtime.repository
    differences = compare(repository, runtime.workers, sides)
    judgement = judge(repository, sides.index, sides.base)
    judged = _findings(runtime, sides, differences, judgement, date)
    reviewed = {} if saved is None else _reviewed(saved, sides.index.revision.config.rendered)
    inputs = _inputs(repository, runtime.cache, sides, differences, judgement, judged, reviewed)
    if git is not None:
        inputs = replace(inputs, approvals=replace(inputs.approvals, git=git))
    made = make_plan(inputs)
    context = sides.index.context
    of_base = judgement.rules.policies if judgement.rules is not None else None
    if whole := judge_whole(made, context.policies, of_base, context.exceptions, judged.day):
        made = make_plan(replace(inputs, verdicts=(*inputs.verdicts, *whole)))
    save_tools(runtime.cache, sides.index)
    plan = lead_back(made, runtime.repository, sides.index.revision, sides.base)
    forecasts = cache(partial(_forecasts, plan, sides, judged.day))
    return Planned(
        plan=_with_placement(plan, forecasts()) if plan.jobs else plan,
        forecasts=forecasts,
        index=sides.index,
        renderer=sides.renderer,
        baseline=sides.baseline,
        approvals=inputs.approvals,
        live=sides.live,
        day=judged.day,
    )


def _forecasts(plan: Plan, sides: Sides, day: dt.date | None) -> "tuple[ClusterForecast, ...]":
    """Return what is known of the placement in each cluster; nothing without evidence of use."""
    context = sides.index.context
    if not context.evidence.usage and context.config.placement == PlacementSettings():
        return ()
    from reconciler.plan.placement import forecasts  # noqa: PLC0415 - few repositories have such evidence

    return forecasts(plan, sides.index, sides.totals.usage, sides.renderer, sides.baseline, day)


def _with_placement(plan: Plan, found: "tuple[ClusterForecast, ...]") -> Plan:
    if not found:
        return plan
    from reconciler.plan.placement import placement_lines  # noqa: PLC0415 - the same

    lines = placement_lines(plan, found)
    return replace(plan, placement=lines, admissions=with_topology(plan.admissions, lines))


def lint_tree(runtime: Runtime, tree: TreeReference, config: Config, *, date: str = "") -> Plan:
    """Check a tree by itself: a plan without changes."""
    index = compile_tree(runtime, tree, config)
    repository, cache, workers = runtime.repository, runtime.cache, runtime.workers
    totals = evaluate_tree(cache, index)
    baseline = rendered_tree(repository, workers, index, index.revision)
    day = plan_date(index, tree, date)
    evaluation = own_verdicts(index, totals, {}, index.context.evidence.inventories, config, day, is_dated=bool(date))
    foreign = foreign_in(baseline, baseline.differing(index.desired))
    findings = fold_consequences(repository, index, collect_findings(index, evaluation, foreign.values(), day))
    save_tools(cache, index)
    head = _describe(tree, *index.revision.files.written)
    made = Plan(
        engine=index.engine.version,
        base=head,
        head=head,
        evidence=digest_files(index.revision.files.evidence),
        policies=index.context.policies.digest,
        unchanged=len(index.desired),
        verdicts=at_their_causes(cache, index, Renderer(repository, workers, index), findings.verdicts),
        problems=findings.problems,
        exceptions=findings.exceptions,
    )
    return lead_back(made, runtime.repository, index.revision, index.revision)


# The steps of a plan.


class _Judged(Struct, frozen=True, kw_only=True, eq=False):
    """The verdicts of the rules of head and base, with exceptions applied. `day` is the date of the plan."""

    findings: PlanFindings
    inventories_before: Mapping[str, Inventory]
    day: dt.date | None
    health_policies: tuple[PolicyEffect, ...]


def _findings(runtime: Runtime, sides: Sides, differences: Differences, judgement: Judgement, date: str) -> _Judged:
    """Evaluate the rules of the head and, where they differ, those of the base: of two verdicts the stricter counts."""
    index = sides.index
    day = plan_date(index, sides.base.tree, date)
    inventories = inventories_before(runtime.repository, index, sides.base)
    own = own_verdicts(
        index, sides.totals, in_place(differences), inventories, judgement.config, day, is_dated=bool(date)
    )
    verdicts, exceeded = join([own, judge_deletions(sides, differences, index.context.policies)])
    effects = policy_effects(
        runtime.repository,
        index,
        sides.baseline,
        differences.changed,
        differences.differing,
        day=day,
        most_days=judgement.config.evidence_days,
    )
    verdicts = (*verdicts, *refused_policies(index, effects, judgement.config.rules))
    if judgement.rules is not None:
        by_base = verdicts_of_base(
            runtime.cache, runtime.workers, index, sides.renderer, sides.of_base, judgement.rules
        )
        by_base = join([by_base, judge_deletions(sides, differences, judgement.rules.policies)])
        evidence = judge_evidence(
            index, inventories, judgement.config, judgement.rules.settings, day, is_dated=bool(date)
        )
        replayed = refused_policies(index, effects, judgement.rules.settings)
        verdicts = tuple(stricter_verdicts(verdicts, [*by_base.verdicts, *evidence, *replayed]))
        exceeded = (*exceeded, *by_base.exceeded)
    problems = (*differences.foreign.values(), *differences.refused, *sides.refusals)
    findings = collect_findings(index, PolicyFindings(verdicts, exceeded), problems, day)
    findings = fold_consequences(runtime.repository, index, findings)
    return _Judged(findings=findings, inventories_before=inventories, day=day, health_policies=effects)


def _inputs(  # noqa: PLR0917
    repository: Repository,
    cache: Cache,
    sides: Sides,
    differences: Differences,
    judgement: Judgement,
    judged: _Judged,
    reviewed: Mapping[str, Change],
) -> Inputs:
    index, revision, findings = sides.index, sides.index.revision, judged.findings
    inputs = _compared(sides, differences, judgement.config, reviewed)
    quarantines = changed_quarantines(index, sides.baseline, differences.changed, differences.differing)
    staying = inputs.waiting | differences.kept_specs
    edits = committed_edits(repository, index, sides.base, sides.of_head, sides.of_base, staying)
    is_itself = sides.is_against_head or sides.base.tree.commit == revision.tree.commit
    folders_before = _last_rendered(repository, index) if is_itself else sides.before.files
    return replace(
        inputs,
        origins=_origins(repository, index, sides.before.files, findings),
        blocked=findings.blocked,
        inventories_before=inventories_of_base(judged.inventories_before, index, quarantines),
        quarantines=tuple(quarantine_lines(quarantines, index, index.first_summaries())),
        health_policies=judged.health_policies,
        evidence_ages=ages_of_evidence(index, judgement.config, judged.day),
        usage=usage_evidence(index, judged.day),
        verdicts=at_their_causes(cache, index, sides.renderer, findings.verdicts),
        problems=findings.problems,
        exceptions=findings.exceptions,
        edited=() if sides.is_against_head else _not_foreign(edits.edited, differences.foreign.values()),
        lost=edits.lost,
        behind=None if sides.is_against_head else find_behind(repository, revision, sides.base),
        settings=judgement.changes,
        folders=_folder_sizes(index, sides.base, folders_before),
        judged_by=_judged_by(index),
        approvals=_approvals(index, sides.base, judged.day),
    )


def _compared(sides: Sides, differences: Differences, config: Config, reviewed: Mapping[str, Change]) -> Inputs:
    """Return both revisions and the objects that differ, without what the rules say about them."""
    index, baseline, renderer, revision = sides.index, sides.baseline, sides.renderer, sides.index.revision
    changed, differing = differences.changed, differences.differing
    objects = baseline.objects(differing)
    created = sorted(path for path in changed if path not in differences.owned)
    created = created if differing else created[:MOST_DETAILED]  # a plan looks for moves among all, and lists the first
    renderer.group(path for path in created if differing or not _is_reviewed(reviewed, path, index.desired))
    return Inputs(
        engine=index.engine.version,
        base=_describe(sides.before.tree, sides.before.files.rendered),
        head=_describe(revision.tree, *revision.files.written),
        evidence=digest_files(revision.files.evidence),
        policies=index.context.policies.digest,
        config=config,
        kinds=index.context.kinds,
        desired=index.summaries(path for path in changed if path not in differences.foreign),
        existing={path: differences.owned[path] for path in differing},
        existing_rows={path: found.summary for path, found in objects.items() if found.summary is not None},
        kept=frozenset(path for path, found in objects.items() if found.stays(config)),
        external=frozenset(path for path, found in objects.items() if found.is_external(config)),
        common=_common(index, sides.totals, changed),
        manifest=lambda path: renderer.object(path).manifest,
        body=baseline.body,
        sources=baseline.sources,
        comparisons=differences.comparisons,
        causes=differences.causes,
        kept_specs=differences.kept_specs,
        schemas=index.context.catalogue,
        waiting=index.pending(),
        inventories=index.context.evidence.inventories,
        active_queues=index.context.evidence.queues,
        runs=index.context.evidence.runs,
        utilisation=index.context.evidence.utilisation,
        live=_live_facts(sides, differences),
        reviewed=reviewed,
    )


def _reviewed(saved: Plan, folder: str) -> dict[str, Change]:
    """Return what a saved plan creates, by path."""
    creations = (change for change in saved.changes if change.operation is Operation.CREATE)
    return {change.path.removeprefix(f"{folder}/"): change for change in creations}


def _is_reviewed(reviewed: Mapping[str, Change], path: str, desired: Mapping[str, str]) -> bool:
    """Return whether a saved plan has the details of a creation, so that its source need not be read."""
    return path in reviewed and reviewed[path].digest_after == desired[path]


def _live_facts(sides: Sides, differences: Differences) -> LiveFacts:
    """Return what live clusters said; nothing in a plan against `rendered/`."""
    if sides.live is None:
        return LiveFacts()
    from reconciler.plan.live.facts import live_facts  # noqa: PLC0415 - few plans look at live clusters

    return live_facts(sides.index, sides.live, sides.of_base, differences.updates, differences.kept_specs)


# What is the same on both sides, and what is compared in detail.


def _not_foreign(paths: Sequence[str], foreign: Iterable[Problem]) -> tuple[str, ...]:
    """Return the files that have no problem already."""
    reported = {problem.place.path for problem in foreign}
    return tuple(path for path in paths if path not in reported)


def _common(index: CompiledRevision, totals: ObjectTotals, changed: Sequence[str]) -> Common:
    """Return what both sides have: all objects but the changed ones."""
    names = set(changed)

    def rows() -> Iterator[ObjectSummary]:
        return (row for row in index.first_summaries() if row.path not in names)

    gone = index.summaries(changed).values()
    usage = None if any(map(defines_queues, gone)) else subtract_workloads(totals.usage, gone)
    return Common(count=len(index.desired) - len(names), rows=rows, usage=usage)


def _origins(
    repository: Repository, index: CompiledRevision, before: RevisionFiles, findings: PlanFindings
) -> dict[str, str] | None:
    """Return the source files of existing objects, for files that are held back, by compiling their base version.

    None if that version had errors too, so that it is not known what came from it.
    """
    broken = {problem.place.path for problem in findings.problems if problem.severity is Severity.ERROR}
    broken |= findings.blocked
    paths = [path for path in sorted(broken) if path in before.sources]
    origins: dict[str, str] = {}
    for path, raw in read_files(repository, before.sources, paths):
        compiled = compile_file(index.context, path, raw)
        if any(problem.severity is Severity.ERROR for problem in compiled.problems):
            return None
        origins.update((rendered.summary.path, path) for rendered in compiled.objects)
    return origins


def _last_rendered(repository: Repository, index: CompiledRevision) -> RevisionFiles:
    """Return the sources of the commit that last changed `rendered/`, to count folders that are empty since then.

    A revision that is compared with itself would otherwise not show that its sources vanished.
    """
    commit, config, files = index.revision.tree.commit, index.revision.config, index.revision.files
    if commit is None or all(below(files.sources, folder) for folder in config.sources):
        return files
    last = repository.last_change(commit.oid, config.rendered)
    if last is None:
        return files
    return read_earlier_files(repository, last, config, index.engine.catalogue)


def _judged_by(index: CompiledRevision) -> str:
    """Return a digest of what decides how changes are judged, for approvals.

    Queues in use and the use of GPUs decide nothing, and finished jobs are among the rendered objects: an observation
    voids no approval.
    """
    evidence, files = index.context.evidence, index.revision.files
    without_effect = (evidence.queues, evidence.runs, evidence.utilisation, evidence.usage)
    observed = [one.document for found in without_effect for one in found.values()]
    paths = {document.source.path for document in observed if document is not None}
    return digest_files(files.settings, files.policies, {p: b for p, b in files.evidence.items() if p not in paths})


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
