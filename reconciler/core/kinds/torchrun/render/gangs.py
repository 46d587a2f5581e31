"""Whether the pods of a job start together: by its kind of workload and the scheduler of the cluster."""

from collections.abc import Iterator

from reconciler.core.config import Backend
from reconciler.core.kinds.rendered import problem_at
from reconciler.core.kinds.torchrun.render.backends import is_endless
from reconciler.core.kinds.torchrun.render.pods import Pod
from reconciler.core.kinds.torchrun.render.shape import INDEXED_JOB, JOB_SET, TRAIN_JOB
from reconciler.core.problems import Problem, Severity


def check_gang(pod: Pod) -> Iterator[Problem]:
    """Yield a problem if nothing starts the pods together, or not with the fewest that the job can use."""
    nodes, template = pod.shape.nodes.value, pod.template
    if nodes == 1:
        return
    if template.cluster.backend is Backend.KAI and pod.workload in (JOB_SET, TRAIN_JOB):
        yield _one_by_one(pod)
        return
    if template.cluster.backend is Backend.KUEUE and pod.workload is not INDEXED_JOB and pod.shape.min_nodes:
        yield _whole(pod)
    if template.cluster.backend is Backend.NONE:
        why = f"cluster {template.cluster.name} has no queueing"
        hint = "set `backend` of the cluster to kai or kueue, or accept that some pods wait for others"
    elif template.cluster.backend is Backend.KUEUE and pod.shape.gpus.value and is_endless(template):
        why = f"queue {pod.job.queue} has no GPU quota, and there is no evidence of its nodes"
        hint = f"set the quota, or commit evidence/{template.cluster.name}/nodes.yaml: Kueue then admits what fits"
    else:
        return
    message = f"{why}, so nothing starts the {nodes} pods together"
    yield problem_at(pod.job.queue_ref, "torchrun.no-gang", message, hint, severity=Severity.WARNING)


def _one_by_one(pod: Pod) -> Problem:
    """Return the error of a kind for which KAI 0.12 makes a group that needs a single pod (podgrouper, its hub)."""
    wanted = pod.job.workload or pod.template.queue.workload or pod.job.queue_ref
    nodes = pod.shape.nodes.value
    message = f"KAI starts the pods of a {pod.workload.kind} one by one, so {nodes} nodes do not form a gang"
    hint = "use `workload: auto`: the job becomes a PyTorchJob, whose pods KAI starts together"
    return problem_at(wanted, "torchrun.no-gang", message, hint)


def _whole(pod: Pod) -> Problem:
    """Return the warning that Kueue admits only Jobs in part."""
    least = pod.shape.min_nodes or pod.shape.nodes
    message = f"Kueue admits a {pod.workload.kind} with all of its {pod.shape.nodes.value} nodes or none"
    message += f", so it does not start with {least.value}"
    hint = "use `workload: auto`: a Job starts with fewer nodes; or lower the number of nodes"
    return problem_at(least, "torchrun.elastic-whole", message, hint, severity=Severity.WARNING)
