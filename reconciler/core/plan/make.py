"""`make_plan`: the pure function from `Inputs` to `Plan`."""

from collections.abc import Collection
from itertools import chain

from msgspec.structs import replace

from reconciler.core.plan.budgets import breaches
from reconciler.core.plan.digest import acknowledgement, digest
from reconciler.core.plan.edits import edits
from reconciler.core.plan.gpus import capacity_lines, gpu_lines, job_changes, queue_lines
from reconciler.core.plan.inputs import Inputs
from reconciler.core.plan.plan import Plan
from reconciler.core.plan.risks import RiskContext, find_risks
from reconciler.core.plan.sides import compare
from reconciler.core.queues import QueueUsage, defines_queues, usage_by_cluster
from reconciler.core.summary import ObjectSummary


def make_plan(inputs: Inputs) -> Plan:
    """Compare desired with existing and say what it means. The order of the inputs' mappings has no influence."""
    sides = compare(inputs)
    edited = edits(inputs, sides)
    before, after = _counted(inputs, sides.before.values()), _counted(inputs, sides.after.values())
    queues = queue_lines(before, after)
    changes = tuple(edit.change for edit in edited)
    plan = Plan(
        engine=inputs.engine,
        base=inputs.base,
        head=inputs.head,
        evidence=inputs.evidence,
        policies=inputs.policies,
        changes=changes,
        unchanged=sides.unchanged,
        gpus=gpu_lines(before, after),
        queues=queues,
        capacity=capacity_lines(after, inputs.inventories),
        jobs=job_changes(edited, before, after),
        risks=find_risks(edited, RiskContext(inputs, sides, queues, after)),
        verdicts=tuple(sorted(inputs.verdicts, key=lambda verdict: verdict.sort_key)),
        exceptions=tuple(sorted(inputs.exceptions, key=lambda one: (one.place, one.rule, one.target))),
        problems=tuple(sorted(inputs.problems, key=lambda problem: problem.sort_key)),
        held_back=tuple(f"{inputs.config.rendered}/{path}" for path in sides.held if path in inputs.existing),
        breaches=breaches(
            inputs.config.budgets,
            kinds=inputs.kinds,
            changes=changes,
            existed=inputs.common.count + len(inputs.existing),
            queues=queues,
            folders=inputs.folders,
        ),
    )
    bound = digest(plan)
    return replace(plan, digest=bound, acknowledged=inputs.acknowledgement == acknowledgement(bound))


def _counted(inputs: Inputs, rows: Collection[ObjectSummary]) -> dict[str, QueueUsage]:
    """Count one side: on top of what is common, unless one of its rows decides where that is counted."""
    common = inputs.common
    if common.usage is None or any(map(defines_queues, rows)):
        return usage_by_cluster(chain(common.rows(), rows))
    return usage_by_cluster(rows, base=common.usage)
