"""Jobs that Kueue runs on worker clusters (MultiKueue): it copies the job, and nothing that comes with it.

Kueue 0.16, pkg/controller/jobs/*/*_multikueue_adapter.go: SyncJob.
"""

from collections.abc import Iterator

from reconciler.kinds.kueue import MULTI_KUEUE
from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.render.pods import Pod
from reconciler.kinds.torchrun.render.shape import TRAIN_JOB
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason, Traced

_RULE = "torchrun.multikueue"


def check_dispatch(pod: Pod) -> Iterator[Problem]:
    """Yield the problems of a job that is dispatched to worker clusters, which lack some of its objects."""
    check = pod.template.multikueue
    if check is None:
        return
    if pod.workload is TRAIN_JOB:
        message = "MultiKueue copies no TrainingRuntime, so a TrainJob has no pods on a worker cluster"
        wanted = pod.job.workload or pod.template.queue.workload or pod.job.queue_ref
        yield problem_at(wanted, _RULE, message, "use `workload: auto`: jobs on several nodes become JobSets")
    if pod.code and pod.code.inplace:
        message = "hotReload inplace fetches the code by a Job of its own, which may run on another worker cluster"
        yield problem_at(pod.job.queue_ref, _RULE, message, "use hotReload: restart")
    claims = [*_claims(pod)]
    if claims:
        message = f"MultiKueue copies only the job: each worker cluster must have the claims {', '.join(claims)}"
        hint = "create them there, and name them with claimName; what is rendered stays in this cluster"
        yield problem_at(check, _RULE, message, hint, severity=Severity.WARNING)


def managed_by(pod: Pod) -> dict[str, Traced]:
    """Return the field that keeps the controller of this cluster from running a job that Kueue sends away."""
    check = pod.template.multikueue
    if check is None:
        return {}
    reason = Reason(rule=_RULE, text="Kueue runs the job on a worker cluster", origins=check.reason.origins)
    return {"managedBy": Traced(MULTI_KUEUE, reason)}


def _claims(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that the pods mount."""
    names = [mounted.volume.get("persistentVolumeClaim", {}).get("claimName") for mounted in pod.mounted]
    if pod.workspace.wanted:
        names.append(pod.workspace.claim or f"{pod.job.name}-workspace")
    for name in names:
        if name:
            yield name.value if isinstance(name, Traced) else name
