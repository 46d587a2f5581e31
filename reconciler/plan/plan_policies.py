"""Policies about a plan as a whole: they see it as an object of kind Plan, as other policies see a rendered object."""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

from reconciler.index.evaluator import PolicyEvaluator
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import SourceRef
from reconciler.plan import Operation, Plan
from reconciler.policy.admission import PolicySet, Subject
from reconciler.policy.changes import stricter_verdicts
from reconciler.policy.exceptions import PLAN, PolicyException, apply_exceptions
from reconciler.policy.verdict import Verdict

_PLACE = SourceRef(path="reconciler.yaml")


def judge_whole(
    plan: Plan,
    head: PolicySet,
    base: PolicySet | None,
    exceptions: Sequence[PolicyException],
    day: dt.date | None,
) -> tuple[Verdict, ...]:
    """Return the verdicts of the policies that name the resource `plans` of our group; most repositories have none.

    base: policies of the base, which count where they are stricter; None if they are those of the head.
    """
    own, by_base = _verdicts(plan, head), _verdicts(plan, base) if base is not None else ()
    today = day.isoformat() if day else ""
    excepted = (apply_exceptions(found, exceptions, today).verdicts for found in (own, by_base))
    return tuple(stricter_verdicts(*excepted))


def _verdicts(plan: Plan, policies: PolicySet) -> tuple[Verdict, ...]:
    chosen = policies.about_plans
    if not chosen.rules:
        return ()
    manifest = Manifest(cluster="", key=PLAN, body=plan_object(plan), source=_PLACE)
    (found,) = PolicyEvaluator(chosen).evaluate([Subject(manifest, None, None)])
    return (*found.verdicts, *found.exceeded)


def plan_object(plan: Plan) -> dict[str, Any]:
    """Return the figures of a plan. An unlimited quota is -1, as in KAI."""
    before, after = sum(line.before for line in plan.gpus), sum(line.after for line in plan.gpus)
    operations = Counter(change.operation.value for change in plan.changes)
    return {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "Plan",
        "metadata": {"name": "plan"},
        "gpus": {"before": before, "after": after, "delta": after - before, "unknown": len(plan.unknown_gpus)},
        "queues": [
            {
                "cluster": line.cluster,
                "queue": line.queue,
                "product": line.product,
                "before": _whole(line.before),
                "after": _whole(line.after),
                "limit": _whole(line.limit),
                "requested": line.requested,
                "isTotal": line.is_total,
            }
            for line in plan.queues
        ],
        "capacity": [
            {
                "cluster": line.cluster,
                "product": line.product,
                "before": line.before,
                "after": line.capacity,
                "guaranteed": _whole(line.guaranteed),
                "requested": line.requested,
            }
            for line in plan.capacity
        ],
        "changes": {
            "total": len(plan.changes),
            **{operation.value: operations[operation.value] for operation in Operation},
            "byKind": dict(sorted(Counter(change.key.kind for change in plan.changes).items())),
            "byCluster": dict(sorted(Counter(change.cluster for change in plan.changes).items())),
        },
        "risks": [
            {"rule": risk.rule, "harm": risk.harm.value, "cluster": risk.cluster, "kind": risk.key.kind}
            for risk in plan.risks
        ],
    }


def _whole(amount: float | None) -> int:
    return -1 if amount is None else round(amount)
