"""The phase and the conditions of a GPUWorkload as AgentaFlow names them, from the status of its Job."""

from typing import Any

from reconciler.kinds.progress import Phase
from reconciler.live.status.job_status import JobStatus

_PHASES = {
    Phase.RUNNING: "Running",
    Phase.SUCCEEDED: "Succeeded",
    Phase.FAILED: "Failed",
    Phase.TIMED_OUT: "Failed",
    Phase.TERMINATED: "Failed",
    Phase.UNKNOWN: "Unknown",
}
_ENDED = ("Succeeded", "Failed")


def gpu_workload_status(job: JobStatus) -> dict[str, Any]:
    """Return the status of a GPUWorkload; what is not known is null, or Unknown.

    Which GPU of its node it has, only the node knows.
    """
    phase = _PHASES.get(job.phase) or ("Scheduled" if job.nodes else "Pending")
    is_placed = bool(job.nodes) or phase in ("Running", *_ENDED)
    is_ready = phase == "Running" and job.workers.running >= job.workers.wanted
    waits = not is_placed and bool(job.reason)
    return {
        "phase": phase,
        "assignedNode": ", ".join(job.nodes) or None,
        "assignedGPU": None,
        "startTime": job.started_at or None,
        "completionTime": job.finished_at or None,
        "conditions": [
            _condition("Schedulable", None if not is_placed and not waits else is_placed, job.reason if waits else ""),
            _condition("Assigned", is_placed if phase != "Unknown" else None, ""),
            _condition("Ready", is_ready if phase != "Unknown" else None, job.reason if not is_ready else ""),
        ],
    }


def _condition(kind: str, holds: bool | None, reason: str) -> dict[str, str]:  # noqa: FBT001 - the value itself
    status = "Unknown" if holds is None else str(holds)
    return {"type": kind, "status": status, **({"reason": reason} if reason else {})}
