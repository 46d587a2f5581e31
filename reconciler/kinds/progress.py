"""The progress of a job by its own status: phase, workers, restarts, times. Each kind of job has a reader."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kinds.facts import Body
from reconciler.kube.values import count, mapping, sequence, text


class Phase(StrEnum):
    """The stage of a job in its life."""

    PENDING = "Pending"  # accepted, and nothing has happened yet
    QUEUED = "Queued"  # a queue holds it
    SYNCING = "Syncing"  # its workspace is copied
    STARTING = "Starting"  # some of its pods do not run yet
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ERROR = "Error"  # it gets no further, and its controller keeps trying
    TIMED_OUT = "TimedOut"  # it ran longer than its deadline
    PREEMPTED = "Preempted"  # stopped for another job; it runs again later
    SUSPENDED = "Suspended"
    TERMINATING = "Terminating"  # it is deleted or stopped for good, and pods are left
    TERMINATED = "Terminated"  # it was stopped for good
    UNKNOWN = "Unknown"  # its status cannot be read, or contradicts itself


ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT, Phase.TERMINATED})
"""The phases of jobs that never run again."""


class Workers(Struct, frozen=True, kw_only=True):
    """Numbers of pods; `ready` ones are among those that run. For kinds that count jobs, of these."""

    wanted: int = 0
    pending: int = 0
    running: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0


class Progress(Struct, frozen=True, kw_only=True):
    """The status of a job. Times are RFC 3339, empty if unknown; `restarts` None if the kind has no count."""

    phase: Phase
    workers: Workers = Workers()
    restarts: int | None = None
    started_at: str = ""
    finished_at: str = ""
    message: str = ""


def status_of(body: Body) -> Mapping[str, Any]:
    """Return the status of an object; empty if there is none."""
    return mapping(body.get("status"))


def conditions(body: Body) -> dict[str, Mapping[str, Any]]:
    """Return the conditions of an object by type."""
    return {text(one.get("type")): one for one in map(mapping, sequence(status_of(body).get("conditions")))}


def holds(body: Body, *types: str) -> Mapping[str, Any] | None:
    """Return the first of the conditions that is true; None if none is."""
    known = conditions(body)
    return next((known[name] for name in types if name in known and known[name].get("status") == "True"), None)


def total(rows: Iterable[Mapping[str, Any]], field: str) -> int:
    """Add up a count over rows of a status."""
    return sum(count(row.get(field), 0) for row in rows)


def failure(condition: Mapping[str, Any]) -> Phase:
    """Return the phase of a job with this condition of failure."""
    words = f"{text(condition.get('reason'))} {text(condition.get('message'))}"
    return Phase.TIMED_OUT if "DeadlineExceeded" in words or "specified deadline" in words else Phase.FAILED


def by_conditions(body: Body, *, workers: Workers, succeeded: str) -> Progress:
    """Read a kind that says by conditions that it ended or is suspended, and otherwise by its pods how far it is."""
    status = status_of(body)
    progress = Progress(phase=by_workers(workers), workers=workers, started_at=text(status.get("startTime")))
    for name in ("Failed", succeeded, "Suspended"):
        found = holds(body, name)
        if found is None:
            continue
        moment = text(status.get("completionTime")) or text(found.get("lastTransitionTime"))
        phase = {"Failed": failure(found), succeeded: Phase.SUCCEEDED}.get(name, Phase.SUSPENDED)
        return Progress(
            phase=phase,
            workers=workers,
            started_at=progress.started_at,
            finished_at=moment if phase in ENDED else "",
            message=text(found.get("message")) if phase is not Phase.SUCCEEDED else "",
        )
    return progress


def by_workers(workers: Workers) -> Phase:
    """Return the phase of a job that has not ended, by its pods."""
    if workers.running and not workers.pending:
        return Phase.RUNNING
    has_pods = workers.running or workers.pending or workers.succeeded or workers.failed
    return Phase.STARTING if has_pods else Phase.PENDING
