"""The progress of a `batch/v1` Job, and of a Deployment."""

from msgspec.structs import replace

from reconciler.kinds.facts import Body
from reconciler.kinds.pods import is_paused, is_suspended
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, by_workers, conditions, holds, status_of
from reconciler.kube.values import count, mapping, text


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


def deployment_progress(body: Body) -> Progress:
    """Read a Deployment: one past its progress deadline is in error, although its controller keeps trying."""
    wanted, status = count(mapping(body.get("spec")).get("replicas"), 1), status_of(body)
    ready = min(count(status.get("readyReplicas"), 0), wanted)
    has_pods = bool(count(status.get("replicas"), 0))
    workers = Workers(wanted=wanted, pending=wanted - ready if has_pods else 0, running=ready, ready=ready)
    progressing = conditions(body).get("Progressing", {})
    if progressing.get("status") == "False":
        return Progress(phase=Phase.ERROR, workers=workers, message=text(progressing.get("message")))
    return Progress(phase=by_workers(workers) if wanted else Phase.SUSPENDED, workers=workers)
