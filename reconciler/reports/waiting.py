"""Holders of the GPUs of queues, workloads that wait for them and for how long, and earlier waiting times."""

import datetime as dt
from collections.abc import Iterable

from msgspec import Struct

from reconciler.repo.evidence.usage import ADMITTED, RUNNING, WAITING, QueueWaits, Usage, UsedWorkload


class QueueUse(Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue (team or job). None is unknown.

    gpus: those that its workloads hold. waiting_gpus: those that others want. longest: hours of the first that waits.
    p50_hours, p90_hours: how long workloads waited, of so many `samples` in `window`.
    """

    cluster: str
    name: str
    workloads: int
    gpus: int
    waiting: int
    waiting_gpus: int
    longest: float | None = None
    longest_job: str = ""
    reason: str = ""
    samples: int | None = None
    p50_hours: float | None = None
    p90_hours: float | None = None
    window: str = ""


def queue_rows(cluster: str, usage: Usage | None, waits: Iterable[QueueWaits], by: str) -> tuple[QueueUse, ...]:
    """Return the rows of a cluster, those with most waiting GPUs first."""
    known = {one.queue: one for one in waits}
    groups: dict[str, list[UsedWorkload]] = {name: [] for name in known} if by == "queue" else {}
    for one in usage.workloads if usage is not None else ():
        if one.gpus:
            groups.setdefault(_name(one, by), []).append(one)
    rows = [
        _row(cluster, name, group, usage, known.get(name) if by == "queue" else None) for name, group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.waiting_gpus, -row.gpus, row.name)))


def _name(one: UsedWorkload, by: str) -> str:
    return {"queue": one.cluster_queue or one.queue, "team": one.owner or one.namespace}.get(by, str(one.key))


def _row(
    cluster: str, name: str, group: Iterable[UsedWorkload], usage: Usage | None, waits: QueueWaits | None
) -> QueueUse:
    members = [*group]
    holding = [one for one in members if one.state in (RUNNING, ADMITTED)]
    waiting = [one for one in members if one.state == WAITING]
    first = min(waiting, key=lambda one: (one.created_at or "9", one.key), default=None)
    return QueueUse(
        cluster=cluster,
        name=name,
        workloads=len(holding),
        gpus=sum(one.gpus for one in holding),
        waiting=len(waiting),
        waiting_gpus=sum(one.gpus for one in waiting),
        longest=_hours(first.created_at, usage.observed_at) if first is not None and usage is not None else None,
        longest_job=str(first.key) if first is not None else "",
        reason=next((why.message or why.reason for why in first.conditions), "") if first is not None else "",
        samples=waits.samples if waits is not None else None,
        p50_hours=round(waits.p50_seconds / 3600, 4) if waits is not None else None,
        p90_hours=round(waits.p90_seconds / 3600, 4) if waits is not None else None,
        window=waits.window if waits is not None else "",
    )


def _hours(start: str, end: str) -> float | None:
    try:
        return round((dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(start)).total_seconds() / 3600, 4)
    except (ValueError, TypeError):
        return None
