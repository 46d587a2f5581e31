"""Jobs whose pods wait for each other's preflight checks: some have begun, and others have not passed for long."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.health.jobs import CONTAINER
from reconciler.kube.times import unix_time
from reconciler.kube.values import mapping, plural, sequence, text
from reconciler.live.observe.placed import controller_of
from reconciler.nodehealth.inflight.notes import JobNote, JobNoteKind

Body = Mapping[str, Any]

GANG_SECONDS = 600.0
"""Seconds that the ranks of a job may wait for the last preflight check."""

_SHOWN = 3


class _Rank(Struct, frozen=True, kw_only=True):
    name: str
    owner: Mapping[str, Any]
    namespace: str
    started_at: float  # 0: its check has not begun
    has_passed: bool


def incomplete_preflights(pods: Iterable[Body], now: float) -> tuple[JobNote, ...]:
    """Return the jobs of which some ranks have not passed ten minutes after the first check began.

    What is missing then is a matter of scheduling, images or networks. No node is blamed for it: that takes a check
    which measured, and failed.
    """
    jobs: dict[str, list[_Rank]] = {}
    for pod in pods:
        rank = _rank(pod)
        if rank is not None:
            jobs.setdefault(text(rank.owner.get("uid")), []).append(rank)
    found = (_note(ranks, now) for _, ranks in sorted(jobs.items()))
    return tuple(one for one in found if one is not None)


def _rank(pod: Body) -> _Rank | None:
    """Return a pod that has a preflight check and has not ended; None for any other."""
    metadata, status, owner = mapping(pod.get("metadata")), mapping(pod.get("status")), controller_of(pod)
    containers = map(mapping, sequence(mapping(pod.get("spec")).get("initContainers")))
    if not owner or status.get("phase") not in ("Pending", "Running"):
        return None
    if not any(one.get("name") == CONTAINER for one in containers):
        return None
    rows = map(mapping, sequence(status.get("initContainerStatuses")))
    state = mapping(next((row.get("state") for row in rows if row.get("name") == CONTAINER), None))
    ended = mapping(state.get("terminated"))
    return _Rank(
        name=text(metadata.get("name")),
        owner=owner,
        namespace=text(metadata.get("namespace")),
        started_at=unix_time((ended or mapping(state.get("running"))).get("startedAt")),
        has_passed=bool(ended) and ended.get("exitCode") == 0,
    )


def _note(ranks: list[_Rank], now: float) -> JobNote | None:
    begun = [one.started_at for one in ranks if one.started_at]
    late = sorted(one.name for one in ranks if not one.has_passed)
    if not begun or not late or now - min(begun) <= GANG_SECONDS:
        return None
    names = ", ".join(late[:_SHOWN]) + (f" and {len(late) - _SHOWN} more" if len(late) > _SHOWN else "")
    said = f"{len(late)} of {plural(len(ranks), 'rank')} have not passed the preflight check"
    owner = ranks[0].owner
    return JobNote(
        kind=JobNoteKind.PREFLIGHT,
        api_version=text(owner.get("apiVersion")),
        object_kind=text(owner.get("kind")),
        namespace=ranks[0].namespace,
        name=text(owner.get("name")),
        uid=text(owner.get("uid")),
        since=min(begun),
        text=f"{said} ten minutes after the first began: {names}. The infrastructure is at fault, so no node is blamed",
    )
