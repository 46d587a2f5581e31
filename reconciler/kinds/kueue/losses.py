"""The losses of workloads and members of a cohort by a change of a queue or flavor."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.facts import Body, Deletion, Loss
from reconciler.kinds.immutable import value_of
from reconciler.kinds.kueue.quotas import gpu_quotas
from reconciler.kinds.quantities import gpu_quantity
from reconciler.kube.values import text

FLAVOR_DELETION = Deletion(
    rule="risk.flavor",
    noun="flavor",
    effect=", and a queue that has it admits nothing",
    hint="first remove it from the queues that have it, and let the workloads in it end",
    names_users=True,
)
STOPS = {
    "Hold": "admits no more workloads",
    "HoldAndDrain": "admits no more workloads, and evicts those that run in it",
}
_SHARING = "risk.queue-sharing"


def queue_losses(before: Body, after: Body | None) -> Iterator[Loss]:
    """Yield the losses of workloads by a change of a ClusterQueue, LocalQueue or Cohort."""
    if after is None:
        return
    stop = value_of(after, "spec.stopPolicy")
    if stop in STOPS and stop != value_of(before, "spec.stopPolicy"):
        hint = "remove stopPolicy to let it admit workloads again; evicted ones start over, or from their checkpoints"
        yield Loss(rule="risk.queue-stop", message=f"the queue {STOPS[stop]} (stopPolicy: {stop})", hint=hint)
    old, new = _cohort(before), _cohort(after)
    if old and old != new:
        where = f"cohort {old} for {new}" if new else f"cohort {old}"
        message = f"it leaves {where}: its workloads cannot borrow from {old} any more, nor can those of {old} from it"
        yield Loss(rule=_SHARING, message=message, hint="make sure that neither needs what it borrows")
    elif old:
        yield from _changed_limits(before, after)


def _cohort(queue: Body) -> str:
    names = (value_of(queue, f"spec.{field}") for field in ("cohortName", "cohort", "parentName", "parent"))
    return next((text(name) for name in names if name), "")


def _changed_limits(before: Body, after: Body) -> Iterator[Loss]:
    """Yield the flavors of which a member of a cohort lends less, or may borrow less."""
    quotas = _quotas(before)
    for (flavor, resource), quota in _quotas(after).items():
        old = quotas.get((flavor, resource))
        if old is None:
            continue
        nominal = gpu_quantity(quota.get("nominalQuota")) or 0.0
        lent = gpu_quantity(old.get("lendingLimit"))
        lends = gpu_quantity(quota.get("lendingLimit"))
        if lends is not None and lends < nominal and (lent is None or lends < lent):
            message = f"it lends {lends:g} of its {nominal:g} {resource} of flavor {flavor}"
            message += " instead of all" if lent is None else f" instead of {lent:g}"
            hint = "workloads of other queues that use them wait or are preempted; make sure that none needs them"
            yield Loss(rule=_SHARING, message=message, hint=hint)
        borrowed, borrows = (gpu_quantity(each.get("borrowingLimit")) for each in (old, quota))
        own = gpu_quantity(old.get("nominalQuota")) or 0.0
        if borrows is not None and (borrowed is None or nominal + borrows < own + borrowed):
            message = f"it may borrow {borrows:g} {resource} of flavor {flavor}"
            message += ", which had no limit" if borrowed is None else f" instead of {borrowed:g}"
            yield Loss(
                rule=_SHARING, message=message, hint="its workloads that use more wait; make sure that none does"
            )


def _quotas(queue: Body) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(one.flavor, one.resource): one.fields for one in gpu_quotas(queue.get("spec"))}


def flavor_losses(before: Body, after: Body | None) -> Iterator[Loss]:
    """Yield that a flavor stands for other nodes from now on."""
    old = value_of(before, "spec.nodeLabels") or {}
    if after is not None and old and old != (value_of(after, "spec.nodeLabels") or {}):
        message = "the flavor stands for other nodes, but workloads that it admitted run on the old ones, and count as"
        message += " if they used the new ones"
        yield Loss(rule="risk.flavor", message=message, hint="add a flavor of another name, and drain this one first")
