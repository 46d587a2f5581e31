"""Budgets: limits on what a plan may change without an explicit approval."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.core.config import Budgets
from reconciler.core.config.changes import SettingChange
from reconciler.core.kinds.kind import Kinds
from reconciler.core.manifests.ownership import KEEP as KEEP_ANNOTATION
from reconciler.core.plan.plan import Breach, Change, Operation, QueueLine
from reconciler.core.values import plural

BUDGETS = (
    "deletes.count",
    "deletes.share",
    "gpu-quota.count",
    "gpu-quota.share",
    "gpu-quota.unlimited",
    "kept",
    "settings",
    "exceptions",
    "sources.empty",
)
"""The name of every budget, which approvals use."""


def breaches(
    budgets: Budgets,
    *,
    kinds: Kinds,
    changes: Iterable[Change],
    existed: int,
    queues: Iterable[QueueLine],
    folders: Mapping[str, tuple[int, int]],
    settings: Sequence[SettingChange] = (),
    lost: Sequence[str] = (),
) -> tuple[Breach, ...]:
    """Return every exceeded budget. `existed` is the number of objects before the plan."""
    deletes = sum(
        change.operation is Operation.DELETE
        or (change.operation is Operation.MOVE and kinds.find(change.key.group, change.key.kind).is_stateful)
        for change in changes
    )
    return (
        *_deletes(budgets, deletes, existed),
        *_quota(budgets, tuple(queues)),
        *_folders(budgets, folders),
        *_settings(budgets, settings),
        *_kept(lost),
    )


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


def _quota(budgets: Budgets, queues: tuple[QueueLine, ...]) -> Iterator[Breach]:
    """Add up |after - before| of all queues. A change from or to unlimited exceeds any budget."""
    if budgets.gpu_quota_count is None and budgets.gpu_quota_share is None:
        return
    change, total = 0.0, 0.0
    for line in queues:
        if line.before is not None and line.after is not None:
            change += abs(line.after - line.before)
        elif line.before is not line.after and line.exists_before and line.exists_after:
            was, now = _gpus(line.before), _gpus(line.after)
            yield Breach(
                budget="gpu-quota.unlimited",
                message=f"the guaranteed GPUs of queue {line.queue} on {line.cluster} change from {was} to {now}",
                limit="no change from or to unlimited",
                actual=f"{was} to {now}",
            )
        total += line.before or 0.0
    if budgets.gpu_quota_count is not None and change > budgets.gpu_quota_count:
        yield Breach(
            budget="gpu-quota.count",
            message=f"guaranteed GPUs change by {change:g} in total; the budget allows {budgets.gpu_quota_count}",
            limit=str(budgets.gpu_quota_count),
            actual=f"{change:g}",
        )
    if budgets.gpu_quota_share is not None and total and change / total > budgets.gpu_quota_share:
        limit, actual = f"{budgets.gpu_quota_share:.0%}", f"{change / total:.1%}"
        yield Breach(
            budget="gpu-quota.share",
            message=f"guaranteed GPUs change by {change:g} of {total:g} ({actual}); the budget allows {limit}",
            limit=limit,
            actual=actual,
        )


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


def _settings(budgets: Budgets, settings: Sequence[SettingChange]) -> Iterator[Breach]:
    """Compare with the settings that a change weakens, and with the exceptions that it adds or extends."""
    weaker = [change for change in settings if change.weakens]
    for budget, is_allowed, noun in (
        ("settings", budgets.settings, "setting"),
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
        text = f"the change removes the rendered file of {plural(len(lost), 'object')} that the annotation"
        yield Breach(
            budget=KEPT,
            message=f"{text} {KEEP_ANNOTATION} keeps: {_listed(lost)}",
            limit="0",
            actual=str(len(lost)),
        )


_MAX_NAMES = 5  # in one message


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
