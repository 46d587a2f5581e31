"""`make_plan`: the pure function from `Inputs` to `Plan`. It reads top-down."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.summary import ObjectSummary
from reconciler.plan.admissions import admission_lines
from reconciler.plan.approvals import apply_approvals
from reconciler.plan.budgets import DeletedSpace, breaches, deleted_spaces
from reconciler.plan.changed_paths import ChangedPaths, compare_paths
from reconciler.plan.costs import cost_fields, idle_costs, sides_of, with_money
from reconciler.plan.digest import approval_digest, digest
from reconciler.plan.edits import Edit, make_edits
from reconciler.plan.gpus import (
    capacity_lines,
    evidence_changes,
    gpu_lines,
    job_changes,
    queue_lines,
    unknown_lines,
    with_queue,
)
from reconciler.plan.inputs import Inputs
from reconciler.plan.plan import Breach, Change, GpuLine, Plan, QueueLine
from reconciler.plan.replacements import find_refusals, kept_specs
from reconciler.plan.risks import RiskContext, find_risks
from reconciler.plan.storage import claim_changes
from reconciler.queues.queues import QueueUsage, defines_queues, usage_by_cluster


def make_plan(inputs: Inputs) -> Plan:
    """Compare desired and existing objects. The result does not depend on the order of the mappings."""
    paths = compare_paths(inputs)
    before, after = _usage(inputs, paths.before.values()), _usage(inputs, paths.after.values())
    paths = replace(paths, before=_resolved(paths.before, before), after=_resolved(paths.after, after))
    edits = tuple(with_queue(edit, before, after) for edit in make_edits(inputs, paths))
    changes = tuple(_with_version(inputs, edit.change) for edit in edits)
    refusals = find_refusals(edits, inputs.kinds, is_rendered=inputs.config.is_rendered)
    problems = (*inputs.problems, *inputs.live.problems, *refusals)
    gpus, queues = gpu_lines(before, after), queue_lines(before, after, inputs.config)
    spaces = deleted_spaces(inputs, paths, edits)
    measured = inputs.inventories if inputs.inventories_before is None else inputs.inventories_before
    capacity = capacity_lines(after, measured, inputs.inventories, inputs.evidence_ages)
    plan = Plan(
        engine=inputs.engine,
        base=inputs.base,
        head=inputs.head,
        evidence=inputs.evidence,
        policies=inputs.policies,
        behind=inputs.behind,
        settings=inputs.settings,
        changes=changes,
        unchanged=paths.unchanged - sum(len(state.unknown) for state in inputs.live.clusters),
        gpus=gpus,
        unknown_gpus=unknown_lines(edits),
        queues=queues,
        capacity=capacity,
        claims=claim_changes(edits, {one.name: one.prices for one in inputs.config.clusters}),
        evidence_changes=evidence_changes(measured, inputs.inventories),
        quarantines=inputs.quarantines,
        health_policies=inputs.health_policies,
        **_jobs_and_costs(inputs, edits, paths, (before, after)),
        admissions=admission_lines(inputs, edits, before, after) if inputs.usage else (),
        kept_specs=kept_specs(inputs, paths),
        risks=find_risks(edits, RiskContext(inputs, paths, queues, after, capacity)),
        verdicts=tuple(sorted(inputs.verdicts, key=lambda verdict: verdict.sort_key)),
        exceptions=tuple(sorted(inputs.exceptions, key=lambda entry: (entry.place, entry.rule, entry.target))),
        problems=tuple(sorted(problems, key=lambda problem: problem.sort_key)),
        edited=inputs.edited,
        clusters=inputs.live.clusters,
        drift=inputs.live.drift,
        held_back=tuple(f"{inputs.config.rendered}/{path}" for path in paths.held_back if path in inputs.existing),
        breaches=_breaches(inputs, edits, gpus, queues, spaces),
        review=not inputs.config.is_rendered,
    )
    plan = replace(plan, approval_digest=approval_digest(plan, inputs.judged_by, inputs.lost))
    return apply_approvals(
        replace(plan, digest=digest(plan)), inputs.approvals, _live_alone(inputs, edits, plan, spaces)
    )


def _jobs_and_costs(
    inputs: Inputs, edits: Iterable[Edit], paths: ChangedPaths, usage: tuple[Mapping[str, QueueUsage], ...]
) -> dict[str, Any]:
    rows = (chain(inputs.common.rows(), side.values()) for side in (paths.before, paths.after))
    before, after = zip(usage, rows, strict=True)
    sides = sides_of(inputs.config, before, after, inputs.inventories)
    jobs = with_money(job_changes(edits), sides, inputs.runs)
    idle = idle_costs(inputs.utilisation, inputs.inventories, inputs.config)
    return {"jobs": jobs, **cost_fields(sides, jobs, idle)}


def _breaches(
    inputs: Inputs,
    edits: Sequence[Edit],
    gpus: Sequence[GpuLine],
    queues: Sequence[QueueLine],
    spaces: Sequence[DeletedSpace],
) -> tuple[Breach, ...]:
    """Return the budgets that the plan exceeds."""
    return breaches(
        inputs.config.budgets,
        kinds=inputs.kinds,
        edits=edits,
        existed=inputs.common.count + len(inputs.existing),
        gpus=gpus,
        queues=queues,
        folders=inputs.folders,
        settings=inputs.settings,
        lost=sorted(f"{inputs.config.rendered}/{path}" for path in inputs.lost),
        spaces=spaces,
    )


def _live_alone(inputs: Inputs, edits: Iterable[Edit], plan: Plan, spaces: Sequence[DeletedSpace]) -> frozenset[str]:
    """Return the budgets that a live plan exceeds by what the plan against `rendered/` does not have."""
    git = inputs.approvals.git
    if git is None:
        return frozenset()
    covered = {(change.cluster, change.queue) for change in plan.changes if git.has(change)}
    queues = (
        replace(line, after=line.before) if (line.cluster, line.queue) in covered else line for line in plan.queues
    )
    exceeded = breaches(
        inputs.config.budgets,
        kinds=inputs.kinds,
        edits=[edit for edit in edits if not git.has(edit.change)],
        existed=inputs.common.count + len(inputs.existing),
        gpus=plan.gpus,
        queues=queues,
        folders={},
        spaces=[space for space in spaces if not git.has(space.change)],
    )
    return frozenset(breach.budget for breach in exceeded)


def _with_version(inputs: Inputs, change: Change) -> Change:
    """Add the version of the live object that is updated, deleted, moved or replaced."""
    path = (change.moved_from or change.path).removeprefix(f"{inputs.config.rendered}/")
    version = inputs.live.versions.get(path)
    return change if version is None else replace(change, live=version, adopts=path in inputs.live.adopted)


def _resolved(rows: Mapping[str, ObjectSummary], usage: Mapping[str, QueueUsage]) -> Mapping[str, ObjectSummary]:
    """Return the rows with the GPUs that other objects say they request; few have any."""
    resolved = ((path, row, usage[row.cluster].resolve(row)) for path, row in rows.items() if row.cluster in usage)
    changed = {path: after for path, before, after in resolved if after is not before}
    return {**rows, **changed} if changed else rows


def _usage(inputs: Inputs, rows: Collection[ObjectSummary]) -> dict[str, QueueUsage]:
    """Return queues and requests of one side: of its rows and of the common objects.

    The sums over the common objects cannot be used if one of the rows decides which queue a workload belongs to.
    """
    common = inputs.common
    if common.usage is None or any(map(defines_queues, rows)):
        return usage_by_cluster(chain(common.rows(), rows))
    return usage_by_cluster(rows, base=common.usage)
