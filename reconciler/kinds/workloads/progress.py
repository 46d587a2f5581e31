"""The progress of a `batch/v1` Job."""

from msgspec.structs import replace

from reconciler.kinds.facts import Body
from reconciler.kinds.pods import is_paused, is_suspended
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, holds, status_of
from reconciler.kube.values import count, mapping


def job_progress(body: Body) -> Progress:
    """Read a Job: one that failed some pods runs until its controller says that it ended."""
    spec, status = mapping(body.get("spec")), status_of(body)
    active, ready = count(status.get("active"), 0), count(status.get("ready"), 0)
    failed, parallelism = count(status.get("failed"), 0), count(spec.get("parallelism"), 1)
    workers = Workers(
        wanted=min(parallelism, count(spec.get("completions"), parallelism)),
        pending=max(active - ready, 0),
        running=min(ready, active),
        ready=min(ready, active),
        succeeded=count(status.get("succeeded"), 0),
        failed=failed,
    )
    progress = replace(by_conditions(body, workers=workers, succeeded="Complete"), restarts=failed)
    ends = holds(body, "FailureTarget", "SuccessCriteriaMet")
    if ends is not None and not progress.finished_at:  # its last pods are deleted
        return replace(progress, phase=Phase.TERMINATING)
    if (is_suspended(body) or is_paused(body)) and not progress.finished_at:
        return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED)
    return progress
