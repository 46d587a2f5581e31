"""Budgets: limits on what a plan may change without an explicit approval; and the namespaces that it deletes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from reconciler.kinds.aspects import Holds
from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.ownership import KEEP as KEEP_ANNOTATION
from reconciler.kinds.quantities import Gpus, total
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.summary.uncounted import PODS
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.plan.changed_paths import ChangedPaths
from reconciler.plan.edits import Edit, stopped_gpus, stops_unknown_gpus, unknown_gpus
from reconciler.plan.gpus import guarantee_delta, sum_of_trees
from reconciler.plan.inputs import Inputs
from reconciler.plan.plan import Breach, Change, GpuLine, Operation, QueueLine
from reconciler.repo.config import Budgets
from reconciler.repo.config.changes import SettingChange


class DeletedSpace(Struct, frozen=True, kw_only=True):
    """A namespace that goes, and what else is in it by then. `is_known`: a live cluster has told everything."""

    change: Change
    key: ObjectKey
    contents: tuple[str, ...] = ()
    is_known: bool = False


def deleted_spaces(inputs: Inputs, paths: ChangedPaths, edits: Iterable[Edit]) -> tuple[DeletedSpace, ...]:
    """Return the namespaces that a plan deletes, with what Git still wants in them and what live clusters have."""
    gone = [(edit.change, row) for edit in edits if (row := edit.row_before) is not None and _goes(inputs, edit, row)]
    if not gone:
        return ()
    wanted: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in chain(paths.after.values(), inputs.common.rows()):
        wanted[row.cluster, row.namespace].add(str(row.key))
    found = []
    for change, row in gone:
        live = inputs.live.contents.get(row.path)
        contents = sorted(wanted[row.cluster, row.name] | set(live or ()), key=_first)
        is_known = live is not None
        found.append(DeletedSpace(change=change, key=row.key, contents=tuple(contents), is_known=is_known))
    return tuple(found)


def _goes(inputs: Inputs, edit: Edit, row: ObjectSummary) -> bool:
    is_space = inputs.kinds.find(row.group, row.kind).holds is Holds.OBJECTS
    return is_space and edit.change.operation in (Operation.DELETE, Operation.MOVE)


def _first(name: str) -> tuple[bool, str]:
    """Return what sorts claims first: their data is lost."""
    return not name.startswith("PersistentVolumeClaim/"), name


def breaches(
    budgets: Budgets,
    *,
    kinds: Kinds,
    edits: Iterable[Edit],
    existed: int,
    gpus: Iterable[GpuLine],
    queues: Iterable[QueueLine],
    folders: Mapping[str, tuple[int, int]],
    settings: Sequence[SettingChange] = (),
    lost: Sequence[str] = (),
    spaces: Sequence[DeletedSpace] = (),
) -> tuple[Breach, ...]:
    """Return every exceeded budget. `existed` is the number of objects before the plan."""
    edits = tuple(edits)
    deletes = sum(_counts_as_deletion(edit, kinds) for edit in edits) + sum(len(space.contents) for space in spaces)
    stopped = total(map(stopped_gpus, edits))
    return (
        *_deletes(budgets, deletes, existed),
        *_disruption(budgets, stopped, total(line.before for line in gpus)),
        *_quota(budgets, tuple(queues)),
        *_unknown(budgets, edits, kinds, is_first=not existed),
        *_folders(budgets, folders),
        *_settings(budgets, settings),
        *_kept(lost),
        *_spaces(spaces),
    )


def _counts_as_deletion(edit: Edit, kinds: Kinds) -> bool:
    """Return whether something is lost: an object, the data of one that moves, or the running pods of one that moves.

    A declared move is expected to stop its pods, which the budget for disruption limits.
    """
    change, row = edit.change, edit.row_before
    if change.operation is not Operation.MOVE or row is None:
        return change.operation is Operation.DELETE
    is_running = row.is_workload and not row.suspended
    return kinds.find(row.group, row.kind).life.is_stateful or (is_running and not change.declared)


def _deletes(budgets: Budgets, deletes: int, existed: int) -> Iterator[Breach]:
    if budgets.delete_count is not None and deletes > budgets.delete_count:
        yield Breach(
            budget="deletes.count",
            message=f"the plan deletes {plural(deletes, 'object')}; the budget allows {budgets.delete_count}",
            limit=str(budgets.delete_count),
            actual=str(deletes),
        )
    if budgets.delete_share is not None and existed and deletes / existed > budgets.delete_share:
        limit, actual = f"{budgets.delete_share:.0%}", f"{deletes / existed:.1%}"
        yield Breach(
            budget="deletes.share",
            message=f"the plan deletes {deletes} of {plural(existed, 'object')} ({actual}); the budget allows {limit}",
            limit=limit,
            actual=actual,
        )


_EVERYDAY_GPUS = 16
"""Two common nodes: to stop as few is an everyday edit, whatever the share."""


def _disruption(budgets: Budgets, stopped: Gpus, running: Gpus) -> Iterator[Breach]:
    most, share = budgets.disruption_gpus, budgets.disruption_share
    if most is not None and stopped > most:
        yield Breach(
            budget="disruption.gpus",
            message=f"the plan stops {plural(stopped, 'running GPU')}; the budget allows {most}",
            limit=str(most),
            actual=str(stopped),
        )
    if share is not None and stopped > max(share * running, _EVERYDAY_GPUS):
        limit, actual = f"{share:.0%}", f"{stopped / running:.1%}" if running else "all"
        yield Breach(
            budget="disruption.share",
            message=f"the plan stops {stopped} of {running} running GPUs ({actual}); the budget allows {limit}",
            limit=limit,
            actual=actual,
        )


def _quota(budgets: Budgets, queues: tuple[QueueLine, ...]) -> Iterator[Breach]:
    """Add up |after - before| of all queues. A change from or to unlimited exceeds any budget.

    The first queues of all do not, nor an unlimited root that comes or goes: it is as large as its children.
    """
    if budgets.gpu_quota_count is None and budgets.gpu_quota_share is None:
        return
    is_first = not any(line.exists_before for line in queues)
    parents = {(line.cluster, line.parent) for line in queues}
    for line in queues:
        is_new_or_gone = not (line.exists_before and line.exists_after)
        if is_new_or_gone and (is_first or (line.cluster, line.queue) in parents):
            continue
        if (line.before is None) != (line.after is None):
            was, now = _gpus(line.before), _gpus(line.after)
            yield Breach(
                budget="gpu-quota.unlimited",
                message=f"the quota of queue {line.queue} on {line.cluster} changes from {was} to {now}",
                limit="no change from or to unlimited",
                actual=f"{was} to {now}",
            )
    change = sum_of_trees(queues, lambda line: abs(guarantee_delta(line)))
    whole = sum_of_trees(queues, lambda line: line.before or 0.0)
    if budgets.gpu_quota_count is not None and change > budgets.gpu_quota_count:
        yield Breach(
            budget="gpu-quota.count",
            message=f"GPU quotas change by {change:g} in total; the budget allows {budgets.gpu_quota_count}",
            limit=str(budgets.gpu_quota_count),
            actual=f"{change:g}",
        )
    if budgets.gpu_quota_share is not None and whole and change / whole > budgets.gpu_quota_share:
        limit, actual = f"{budgets.gpu_quota_share:.0%}", f"{change / whole:.1%}"
        yield Breach(
            budget="gpu-quota.share",
            message=f"GPU quotas change by {change:g} of {whole:g} ({actual}); the budget allows {limit}",
            limit=limit,
            actual=actual,
        )


def _unknown(budgets: Budgets, edits: Sequence[Edit], kinds: Kinds, *, is_first: bool) -> Iterator[Breach]:
    """Yield what cannot be compared with a budget: GPUs that stop, or of a quota, that nobody could count.

    An object of a kind that nobody knows may be a queue. The first objects of all exceed no budget.
    """
    stopped = [edit for edit in edits if stops_unknown_gpus(edit, kinds)]
    asked = [] if is_first else [edit for edit in edits if _asks_for_unknown(edit, kinds)]
    for budget, limits, found, what in (
        ("disruption.unknown", (budgets.disruption_gpus, budgets.disruption_share), stopped, "stop is unknown"),
        ("gpu-quota.unknown", (budgets.gpu_quota_count, budgets.gpu_quota_share), asked, "are asked for is unknown"),
    ):
        if found and limits != (None, None):
            names = _listed([f"{edit.change.key.kind} {edit.change.key.name}" for edit in found])
            yield Breach(
                budget=budget,
                message=f"how many GPUs {what}: {names}; see quota.not-counted",
                limit="no unknown GPUs",
                actual=plural(len(found), "object"),
            )


def _asks_for_unknown(edit: Edit, kinds: Kinds) -> bool:
    key, before, after = edit.change.key, unknown_gpus(edit.row_before), unknown_gpus(edit.row_after)
    is_amount = any(one.what != PODS for one in (*before, *after))
    return is_amount and before != after and not kinds.is_known(key.group, key.kind)


def _gpus(amount: float | None) -> str:
    return "unlimited" if amount is None else f"{amount:g}"


def _folders(budgets: Budgets, folders: Mapping[str, tuple[int, int]]) -> Iterator[Breach]:
    if budgets.empty_sources:
        return
    for folder, (before, after) in sorted(folders.items()):
        if before and not after:
            yield Breach(
                budget="sources.empty",
                message=f"the source folder {folder} had {plural(before, 'file')} and is now empty",
                limit="no source folder becomes empty",
                actual=folder,
            )


SETTINGS = "settings"
"""The budget of settings and rules that a change weakens."""


def _settings(budgets: Budgets, settings: Sequence[SettingChange]) -> Iterator[Breach]:
    """Compare with the settings that a change weakens, and with the exceptions that it adds or extends."""
    weaker = [change for change in settings if change.weakens]
    for budget, is_allowed, noun in (
        (SETTINGS, budgets.settings, "setting"),
        ("exceptions", budgets.exceptions, "exception"),
    ):
        names = [change.setting for change in weaker if change.is_exception == (budget == "exceptions")]
        if names and not is_allowed:
            verb = "adds or extends" if budget == "exceptions" else "weakens"
            yield Breach(
                budget=budget,
                message=f"the change {verb} {plural(len(names), noun)}: {_listed(names)}",
                limit="refuse",
                actual=str(len(names)),
            )


KEPT = "kept"
"""The budget of objects that an annotation keeps. It has no setting: each of them needs an approval."""


def _kept(lost: Sequence[str]) -> Iterator[Breach]:
    if lost:
        text = (
            f"the change removes the rendered file of {plural(len(lost), 'object')} that `external` or the annotation"
        )
        yield Breach(
            budget=KEPT,
            message=f"{text} {KEEP_ANNOTATION} keeps: {_listed(lost)}",
            limit="0",
            actual=str(len(lost)),
        )


def _spaces(spaces: Sequence[DeletedSpace]) -> Iterator[Breach]:
    """Yield what has no setting: a server deletes a namespace with all that is in it, whoever it belongs to."""
    told = []
    for space in spaces:
        count = len(space.contents)
        others = f" with {plural(count, 'other object')}: {_listed(space.contents)}" if count else ""
        told += [f"{space.key}{others}{'' if space.is_known else ' and all that is in it on the cluster'}"]
    if found := [text for text, space in zip(told, spaces, strict=True) if space.contents or not space.is_known]:
        message = f"the plan deletes {'; '.join(found)}"
        yield Breach(budget="namespaces", message=message, limit="0", actual=str(len(found)))


_MAX_NAMES = 5  # in one message


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
