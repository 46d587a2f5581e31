"""Risks: effects of a plan that reverting the commit does not undo. One row per risk in `RISKS`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.kinds.facts import KindId, QueueRole
from reconciler.kinds.manifests.ownership import IMMUTABLE, KEEP
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.values import plural
from reconciler.plan.changed_paths import ChangedPaths
from reconciler.plan.edits import Edit, stopped_gpus
from reconciler.plan.inputs import Inputs
from reconciler.plan.plan import CapacityLine, Harm, Operation, QueueLine, Risk
from reconciler.queues.queues import QueueUsage

KEPT = "risk.kept"
"""Rule of an object without a source that stays."""

_MAX_FIELDS = 3  # named in one message


class RiskContext:
    """The surroundings of a change that the checks look at."""

    def __init__(
        self,
        inputs: Inputs,
        paths: ChangedPaths,
        queues: Iterable[QueueLine],
        usage: Mapping[str, QueueUsage],
        capacity: Iterable[CapacityLine],
    ) -> None:
        self.inputs = inputs
        self.paths = paths
        self.queues = queues
        self.usage = usage
        self.capacity = capacity

    @cached_property
    def references(self) -> Mapping[tuple[str, KindId, str, str], int]:
        """Number of references to an object after the plan, by its cluster, kind, namespace and name."""
        return Counter(
            (row.cluster, (reference.group, reference.kind), reference.namespace, reference.name)
            for row in chain(self.inputs.common.rows(), self.paths.after.values())
            for reference in row.references
        )


class RiskText(NamedTuple):
    """The text for a reviewer: the effect, and what to do about it."""

    message: str
    hint: str


class RiskRule(NamedTuple):
    """One row of `RISKS`.

    summary: one sentence for catalogues of rules.
    operations, check: the changes that may have the risk, and the check of one of them.
    find: for risks that are not about one change, yields them.
    harm: what it can do at worst. The most harmful risks of a plan come first.
    """

    rule: str
    summary: str
    operations: tuple[Operation, ...] = ()
    check: Callable[[Edit, RiskContext], RiskText | None] | None = None
    find: Callable[[RiskContext], Iterator[Risk]] | None = None
    harm: Harm = Harm.OTHER


def find_risks(edits: Iterable[Edit], context: RiskContext) -> tuple[Risk, ...]:
    """Return every risk, the most harmful first, then in the order of `RISKS`.

    The registry of kinds knows the risks of deleting an object.
    """
    risks = [risk for rule in RISKS if rule.find for risk in rule.find(context)]
    for edit in edits:
        if edit.change.operation in _DELETING:
            risks += _deletion(edit, context)
        risks += [_risk(edit, loss.rule, RiskText(loss.message, loss.hint)) for loss in edit.losses]
        for rule in RISKS:
            if rule.check is not None and edit.change.operation in rule.operations:
                text = rule.check(edit, context)
                if text is not None:
                    risks.append(_risk(edit, rule.rule, text))
    rows = {rule.rule: (position, rule.harm) for position, rule in enumerate(RISKS)}
    harms = list(Harm)

    def order(risk: Risk) -> tuple[object, ...]:
        return (harms.index(risk.harm), rows.get(risk.rule, _UNKNOWN)[0], risk.cluster, str(risk.key), risk.message)

    known = (replace(risk, harm=rows.get(risk.rule, _UNKNOWN)[1]) for risk in risks)
    return tuple(sorted(known, key=order))


_UNKNOWN = (-1, Harm.DATA_LOSS)  # of the deletion of an object of an installed kind


def _risk(edit: Edit, rule: str, text: RiskText) -> Risk:
    return Risk(
        rule=rule,
        cluster=edit.change.cluster,
        key=_existing_key(edit),
        message=text.message,
        hint=text.hint,
        place=edit.change.source or SourceRef(path=edit.change.path),
    )


def _existing_key(edit: Edit) -> ObjectKey:
    return edit.row_before.key if edit.row_before else edit.change.key


def _deleted_or_moved(edit: Edit) -> str:
    if edit.change.operation is not Operation.MOVE:
        return "deleted"
    before, after = edit.row_before, edit.row_after
    word = "renamed"
    if before is not None and after is not None:
        if before.cluster != after.cluster:
            word = f"moved to cluster {after.cluster}"
        elif before.namespace != after.namespace:
            word = f"moved to namespace {after.namespace}"
    return f"{word}, which deletes the old one"


def _deletion(edit: Edit, context: RiskContext) -> Iterator[Risk]:
    """Yield the risk that the registry of kinds names for deleting an object."""
    key = _existing_key(edit)
    deletion = context.inputs.kinds.find(key.group, key.kind).life.deletion
    if deletion is None:
        return
    message = f"the {deletion.noun} is {_deleted_or_moved(edit)}{deletion.effect}"
    cluster = edit.row_before.cluster if edit.row_before else edit.change.cluster
    users = context.references.get((cluster, (key.group, key.kind), key.namespace, key.name), 0)
    if users and deletion.names_users:
        message += f"; {users} object{' still refers' if users == 1 else 's still refer'} to it"
    active = context.inputs.active_queues.get(cluster)
    if active is not None and key in active.queues:
        message += "; according to the evidence, workloads run or wait in it"
    yield _risk(edit, deletion.rule, RiskText(message, deletion.hint))


def _workload_delete(edit: Edit, context: RiskContext) -> RiskText | None:
    key, row = _existing_key(edit), edit.row_before
    if row is None or not row.is_workload or not edit.change.gpus_before:
        return None
    if context.inputs.kinds.find(key.group, key.kind).life.deletion is not None:
        return None
    return RiskText(
        f"the workload is {_deleted_or_moved(edit)}; its pods on {plural(edit.change.gpus_before, 'GPU')} stop",
        "let it finish or save a checkpoint first",
    )


def _immutable_object(edit: Edit, _: RiskContext) -> RiskText | None:
    fields = [change.path for change in edit.change.fields]
    if edit.comparison is None or not edit.comparison.is_immutable or not fields:
        return None
    return RiskText(
        f"the object has the annotation {IMMUTABLE}, but changes in {_listed(fields)}",
        "create a new object with another name, or remove the annotation in a separate change",
    )


def _listed(fields: Sequence[str]) -> str:
    more = len(fields) - _MAX_FIELDS
    return ", ".join(fields[:_MAX_FIELDS]) + (f" and {more} more" if more > 0 else "")


def _recreate(edit: Edit, _: RiskContext) -> RiskText | None:
    if edit.change.is_refused or not edit.change.gpus_before:
        return None
    what = "the workload is deleted and created again" if edit.change.recreated else "a new generation replaces the job"
    return RiskText(
        f"{what}; its pods on {plural(edit.change.gpus_before, 'GPU')} stop, and new pods start with the same claims",
        "make sure that it saves checkpoints and resumes from them",
    )


def _not_applied(edit: Edit, context: RiskContext) -> RiskText | None:
    unapplied = edit.comparison.unapplied if edit.comparison else ()
    if not unapplied:
        return None
    return RiskText(
        f"running pods keep the old {', '.join(unapplied)}, because the operator does not replace them",
        "suspend the job in one change and resume it in the next, or rename it"
        if context.inputs.kinds.find(edit.change.key.group, edit.change.key.kind).pods.suspend
        else "delete the pods when they may stop, so that new ones get the change",
    )


def _suspend(edit: Edit, _: RiskContext) -> RiskText | None:
    before, after = edit.row_before, edit.row_after
    if before is None or after is None or before.suspended or not after.suspended or after.finished or not before.gpus:
        return None
    return RiskText(
        f"the workload is suspended by Git; its pods on {plural(before.gpus, 'GPU')} are deleted",
        "make sure that it can resume from a checkpoint",
    )


def _restart(edit: Edit, context: RiskContext) -> RiskText | None:
    """Name the fields because of which the pods of a workload are replaced while it goes on."""
    fields, gpus = edit.comparison.restarts if edit.comparison else (), stopped_gpus(edit)
    key, row = edit.change.key, edit.row_after
    if not fields or not gpus or row is None or row.suspended:
        return None
    is_started = row.queue_role is QueueRole.ALIAS and bool(context.inputs.kinds.find(key.group, key.kind).pods.suspend)
    what = "Kueue stops the workload and admits it again" if is_started else "the running pods are replaced"
    return RiskText(
        f"{what} because of {_listed(fields)}; its pods on {plural(gpus, 'GPU')} stop",
        "make sure that it saves checkpoints, or make the change when it has ended",
    )


def _scale_down(edit: Edit, _: RiskContext) -> RiskText | None:
    gpus, row = stopped_gpus(edit), edit.row_after
    if not gpus or row is None or row.suspended or (edit.comparison and edit.comparison.restarts):
        return None
    return RiskText(
        f"the workload is scaled down; its pods on {plural(gpus, 'GPU')} stop",
        "make sure that the work of these pods is saved or done by others",
    )


def _find_kept(context: RiskContext) -> Iterator[Risk]:
    is_live = bool(context.inputs.live.clusters)
    is_rendered = context.inputs.config.is_rendered
    how = "remove its rendered file; the plan then needs an approval" if is_rendered else "use what applies the sources"
    how = "use kubectl" if is_live else how
    for path in context.paths.kept:
        row = context.paths.before.get(path)
        if row is None:
            continue
        why, what = f"the annotation {KEEP} keeps it", f"to delete it, {how}"
        if path in context.inputs.external:
            why = "it is external now, and Argo CD or Flux would delete what leaves rendered/"
            what = f"exclude it from pruning (kustomize.toolkit.fluxcd.io/prune: disabled, Prune=false), then {how}"
        yield Risk(
            rule=KEPT,
            cluster=row.cluster,
            key=row.key,
            message=f"no source defines the object any more, but {why}",
            hint=what,
            place=context.inputs.place(path),
        )


def _adoption(edit: Edit, context: RiskContext) -> RiskText | None:
    path = edit.change.path.removeprefix(f"{context.inputs.config.rendered}/")
    whose = context.inputs.live.adopted.get(path)
    if whose is None:
        return None
    text = f"the object exists and belongs to {whose}; it becomes ours, and can be deleted later"
    return RiskText(text, "make sure that nothing else applies it; if it is to stay theirs, use another name")


def _find_small_quotas(context: RiskContext) -> Iterator[Risk]:
    for line in context.queues:
        if line.after is None or not line.exists_after or line.after >= line.requested:
            continue
        if not line.exists_before or (line.before is not None and line.before <= line.after):
            continue
        usage = context.usage[line.cluster]
        named = (key for key in sorted(usage.queues) if key.name == line.queue)
        row = next((usage.queues[key] for key in named if usage.is_cohort(key) is line.is_cohort), None)
        if row is not None:
            before = "unlimited" if line.before is None else f"{line.before:g}"
            product = f" for {line.product}" if line.product else ""
            yield Risk(
                rule="risk.quota-below-requests",
                cluster=line.cluster,
                key=row.key,
                message=f"the GPU quota{product} changes from {before} to {line.after:g}, "
                f"but the workloads of the queue request {plural(line.requested, 'GPU')}",
                hint="workloads beyond the quota wait or can be preempted; keep the quota, or reduce the workloads",
                place=row.place,
            )


def _find_lost_capacity(context: RiskContext) -> Iterator[Risk]:
    named = {line.cluster for line in context.capacity if line.product}
    for line in context.capacity:
        if not line.product and line.cluster in named:
            continue
        inventory = context.inputs.inventories.get(line.cluster)
        document = inventory.document if inventory else None
        if document is not None and line.capacity < min(line.before, line.requested):
            yield Risk(
                rule="risk.capacity-below-requests",
                cluster=line.cluster,
                key=document.key,
                message=f"the cluster has {line.capacity} instead of {line.before} {line.product or 'GPUs'}, but its "
                f"workloads request {line.requested}: {line.requested - line.capacity} no longer fit",
                hint="the last workloads wait, and preempted ones do not resume; reduce them, or bring nodes back",
                place=SourceRef(path=document.source.path),
            )


def _find_evictions(context: RiskContext) -> Iterator[Risk]:
    for line in context.inputs.quarantines:
        if not line.evicts:
            continue
        message = f"the taint NoExecute evicts every pod on node {line.node} that does not tolerate it; "
        if not line.is_known:
            message += "no evidence lists the node, so it is unknown which jobs run there"
        elif line.jobs:
            more = line.jobs - len(line.job_names)
            named = ", ".join(line.job_names) + (f" and {more} more" if more > 0 else "")
            message += f"{plural(line.jobs, 'job')} with {plural(line.requested, 'GPU')} may run there: {named}"
        else:
            message += "no job of the repository uses such GPUs, but other pods may run there"
        yield Risk(
            rule="risk.node-eviction",
            cluster=line.cluster,
            key=line.key,
            message=message,
            hint="set `effect: NoSchedule`, which only keeps new pods away, or let the jobs save checkpoints first",
            place=line.place,
        )


_DELETING = (Operation.DELETE, Operation.MOVE)
_UPDATING = (Operation.UPDATE,)
_REPLACING = (Operation.REPLACE,)

RISKS: tuple[RiskRule, ...] = (
    RiskRule(
        "risk.pvc-data-loss",
        "A claim is deleted or renamed, and its data with it unless the volume is retained",
        harm=Harm.DATA_LOSS,
    ),
    RiskRule(
        "risk.volume-data-loss",
        "Volumes or claims are deleted with their data, now or once a set is scaled down or a claim is deleted",
        harm=Harm.DATA_LOSS,
    ),
    RiskRule(
        "risk.namespace-delete",
        "A namespace is deleted with all objects in it, including those not in Git",
        harm=Harm.DATA_LOSS,
    ),
    RiskRule(
        "risk.crd-delete", "A CustomResourceDefinition is deleted with every object of its kind", harm=Harm.DATA_LOSS
    ),
    RiskRule("risk.queue-delete", "A queue is deleted, so its workloads are no longer admitted", harm=Harm.DISRUPTION),
    RiskRule("risk.queue-stop", "A queue stops admitting workloads, and may evict those in it", harm=Harm.DISRUPTION),
    RiskRule(
        "risk.queue-sharing",
        "A queue leaves its cohort, lends less to it, or may borrow less from it",
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.flavor",
        "A flavor is deleted or stands for other nodes, so queues with it stop or grant other GPUs",
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.storage-class-delete",
        "A storage class is deleted, so new claims of it stay Pending",
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.workload-delete",
        "A workload with GPUs is deleted or renamed",
        _DELETING,
        _workload_delete,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.immutable-object",
        "An object that is marked as immutable changes",
        _UPDATING,
        _immutable_object,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.recreate",
        "A job with GPUs is replaced or recreated, and its pods stop",
        _REPLACING,
        _recreate,
        harm=Harm.DISRUPTION,
    ),
    RiskRule("risk.not-applied", "Running pods keep the old spec", _UPDATING, _not_applied),
    RiskRule(
        "risk.quota-below-requests",
        "A quota falls below the requests of its queue",
        find=_find_small_quotas,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.capacity-below-requests",
        "A cluster has fewer GPUs than before, and fewer than its workloads request",
        find=_find_lost_capacity,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.node-eviction",
        "A quarantine evicts the pods of a node",
        find=_find_evictions,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.suspend",
        "A workload with GPUs is suspended, and its pods are deleted",
        tuple(Operation),
        _suspend,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.restart",
        "The running pods of a workload with GPUs are replaced",
        _UPDATING,
        _restart,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.scale-down",
        "A workload with GPUs gets fewer pods, and some of those that run stop",
        _UPDATING,
        _scale_down,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(
        "risk.adoption",
        "An object that is not ours is adopted",
        (Operation.UPDATE, Operation.REPLACE),
        _adoption,
        harm=Harm.DISRUPTION,
    ),
    RiskRule(KEPT, "An object without a source stays, because an annotation keeps it", find=_find_kept),
)
"""Every risk, the most severe first. Rows without a check are those that `Life.deletion` and `Life.losses` name."""
