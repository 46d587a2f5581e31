"""The pods of a job, with their GPUs and processes: the request spread over nodes, with its reasons."""

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.distribution import DistributionFailure, computation, distribute, refusal
from reconciler.kinds.rendered import place, problem_at
from reconciler.kinds.torchrun.intent.job import TorchrunJob
from reconciler.kinds.torchrun.intent.sections import Distributed
from reconciler.kinds.torchrun.render.amounts import whole_cpus
from reconciler.kinds.torchrun.render.template import Template
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason, Traced
from reconciler.kube.values import plural
from reconciler.repo.config import Backend


class WorkloadKind(Struct, frozen=True, kw_only=True):
    """A kind of workload: how its pods know their rank, the address of the first pod, and the name of its container."""

    group: str
    kind: str
    container: str
    rank: str  # environment variable that holds the number of a pod, from 0
    rank_label: str  # pod label to fill that variable from; empty: the kind sets it by itself
    pod: str  # name of a pod, by the job's name and the pod's number
    domain: bool  # whether pods are found below the name of the job, and not by a Service of each pod
    service: bool  # whether we render the headless Service that its pods meet through

    def host(self, job: str) -> str:
        """Return the host name of pod 0 for the other pods, which are in the same namespace."""
        return f"{self.pod_name(job, 0)}.{job}" if self.domain else self.pod_name(job, 0)

    def pod_name(self, job: str, index: int) -> str:
        """Return the name of a pod of a job."""
        return self.pod.format(job=job, index=index)


INDEXED_JOB = WorkloadKind(
    group="batch",
    kind="Job",
    container="trainer",
    rank="JOB_COMPLETION_INDEX",
    rank_label="",
    pod="{job}-{index}",
    domain=True,
    service=True,
)
"""batch/v1 Job with `completionMode: Indexed`: pods `<job>-<n>`, reached through a headless Service of ours."""

PYTORCH_JOB = WorkloadKind(
    group="kubeflow.org",
    kind="PyTorchJob",
    container="pytorch",
    rank="NODE_RANK",
    rank_label="training.kubeflow.org/replica-index",
    pod="{job}-worker-{index}",
    domain=False,
    service=False,
)
"""kubeflow.org/v1 PyTorchJob of workers only: the training operator creates a headless Service for each pod."""


NODES = "node"
"""The replicated job of a JobSet whose pods are the nodes of the training; Trainer looks for one of this name."""

JOB_SET = WorkloadKind(
    group="jobset.x-k8s.io",
    kind="JobSet",
    container="trainer",
    rank="JOB_COMPLETION_INDEX",
    rank_label="",
    pod=f"{{job}}-{NODES}-0-{{index}}",
    domain=True,
    service=False,
)
"""jobset.x-k8s.io/v1alpha2 JobSet of one Indexed Job: its controller creates the headless Service."""

TRAIN_JOB = replace(JOB_SET, group="trainer.kubeflow.org", kind="TrainJob", container="node")
"""trainer.kubeflow.org/v1alpha1 TrainJob: its controller makes the JobSet of a TrainingRuntime that we render."""

_BY_NAME = {JOB_SET.kind: JOB_SET, TRAIN_JOB.kind: TRAIN_JOB}


def workload_for(template: Template, nodes: int, wanted: Traced | None = None) -> WorkloadKind:
    """Return the kind that is `wanted`, else the one that starts all pods or none.

    Under KAI that is a PyTorchJob, and not a Job of several pods. On a worker cluster there is no Service of ours.
    """
    automatic = INDEXED_JOB
    if nodes > 1:
        automatic = PYTORCH_JOB if template.cluster.backend is Backend.KAI else automatic
        automatic = JOB_SET if template.multikueue else automatic
    return _BY_NAME.get(wanted.value, automatic) if wanted else automatic


class JobShape(Struct, frozen=True, kw_only=True):
    """Pods, GPUs per pod, processes per pod. `min_nodes` is set for an elastic job, whose `nodes` is the maximum."""

    nodes: Traced
    gpus: Traced
    processes: Traced
    min_nodes: Traced | None = None

    @property
    def total(self) -> int:
        """All GPUs of the job."""
        total: int = self.nodes.value * self.gpus.value
        return total


def resolve_shape(
    job: TorchrunJob, distributed: Distributed, template: Template, problems: list[Problem]
) -> JobShape | None:
    """Spread the job over nodes; None with a problem if that is impossible."""
    wanted = _wanted_nodes(job, distributed, problems)
    spread = _spread(job, wanted, template, problems)
    if spread is None:
        return None
    nodes, gpus = spread
    least = distributed.min_nodes
    if least is not None and least.value > nodes.value:
        message = f"minNodes {least.value} exceeds the job's {plural(nodes.value, 'node')}"
        problems.append(problem_at(least, "torchrun.elastic", message, "lower minNodes, or request more nodes"))
        return None
    elastic = least if least is not None and least.value < nodes.value else None
    return JobShape(nodes=nodes, gpus=gpus, processes=_processes(gpus, template), min_nodes=elastic)


def _wanted_nodes(job: TorchrunJob, distributed: Distributed, problems: list[Problem]) -> Traced | None:
    most = distributed.max_nodes
    if job.nodes and most and job.nodes.value != most.value:
        message = f"numNodes {job.nodes.value} contradicts distributed.maxNodes {most.value} at {place(most)}"
        problems.append(problem_at(job.nodes, "torchrun.contradiction", message, "set only one of them"))
    return job.nodes or most


def _spread(
    job: TorchrunJob, wanted: Traced | None, template: Template, problems: list[Problem]
) -> tuple[Traced, Traced] | None:
    """Return nodes and GPUs per node."""
    of_queue = template.queue.node.gpus
    if job.gpus is None:
        return _whole_nodes(job, wanted or ONE_NODE, template, problems)
    if job.gpus.value == 0:
        return wanted or ONE_NODE, Traced(0, Reason(rule="torchrun.cpu-only", text="", origins=job.gpus.reason.origins))
    if of_queue and of_queue.value == 0:
        gpus = plural(job.gpus.value, "GPU")
        message = f"requests {gpus}, but the nodes of queue {job.queue} have none ({place(of_queue)})"
        problems.append(problem_at(job.gpus, "torchrun.contradiction", message, "choose another queue"))
        return None
    if wanted:
        return _spread_over(job.gpus, wanted, template, problems)
    return _distribute(job, job.gpus, template, problems)


def _whole_nodes(
    job: TorchrunJob, nodes: Traced, template: Template, problems: list[Problem]
) -> tuple[Traced, Traced] | None:
    """Return nodes with all of their GPUs; without any if neither the job nor its queue names GPUs."""
    if template.queue.node.gpus is None and not template.names_gpus:
        return nodes, NO_GPUS
    if template.per_node is None:
        problems.append(_unknown_size(job.nodes or job.queue_ref, job, template, more=_NO_NEED))
        return None
    return nodes, template.per_node


_NO_NEED = "; `numGPUs: 0` is a job without GPUs"


def _unknown_size(of: Traced, job: TorchrunJob, template: Template, *, more: str = "") -> Problem:
    """Return the problem that nothing says how many GPUs a node has."""
    message = f"the number of GPUs per node is unknown for queue {job.queue} on {template.cluster.name}"
    hint = f"set nodeResources.gpus in the queue, or commit an inventory of the nodes to evidence/{more}"
    return problem_at(of, "torchrun.node-size-unknown", message, hint)


def _spread_over(
    gpus: Traced, nodes: Traced, template: Template, problems: list[Problem]
) -> tuple[Traced, Traced] | None:
    """Spread over the number of nodes that the job itself requests."""
    share, rest = divmod(gpus.value, nodes.value)
    total, over = plural(gpus.value, "GPU"), plural(nodes.value, "node")
    most = template.per_node
    if rest or share == 0:
        message = f"{total} cannot be spread evenly over {over} ({place(nodes)})"
        near = sorted({max(1, share) * nodes.value, (share + 1) * nodes.value})
        hint = f"request {' or '.join(map(str, near))}, or remove the number of nodes"
        problems.append(problem_at(gpus, "torchrun.distribution", message, hint))
        return None
    if most and share > most.value:
        message = f"{total} over {over} are {share} per node, but a node has {most.value}"
        problems.append(problem_at(gpus, "torchrun.distribution", message, "request more nodes or fewer GPUs"))
        return None
    text = f"{total} / {over} = {share} per node"
    origins = (*gpus.reason.origins, *nodes.reason.origins)
    return nodes, Traced(share, Reason(rule="torchrun.gpus-per-node", text=text, origins=origins))


def _distribute(
    job: TorchrunJob, gpus: Traced, template: Template, problems: list[Problem]
) -> tuple[Traced, Traced] | None:
    if not template.kinds:
        problems.append(_unknown_size(gpus, job, template))
        return None
    spread = distribute(gpus.value, template.kinds)
    if isinstance(spread, DistributionFailure):
        problems.append(problem_at(gpus, "torchrun.distribution", *refusal(spread)))
        return None
    text = computation(spread)
    origins: tuple[Origin, ...] = (*gpus.reason.origins, *template.per_node_origins)
    return (
        Traced(spread.nodes, Reason(rule="torchrun.nodes", text=text, origins=origins)),
        Traced(spread.per_node, Reason(rule="torchrun.gpus-per-node", text=text, origins=origins)),
    )


def _processes(gpus: Traced, template: Template) -> Traced:
    """Return one process per GPU; without GPUs one per CPU, or one."""
    cpus = template.queue.node.cpus
    if gpus.value:
        return gpus
    if cpus is None:
        return Traced(1, Reason(rule="torchrun.processes", text="no GPUs and no nodeResources.cpus: one process"))
    count = whole_cpus(cpus.value)
    text = f"no GPUs: one process per CPU = {count} per node"
    return Traced(count, Reason(rule="torchrun.processes", text=text, origins=cpus.reason.origins))


ONE_NODE = Traced(1, Reason(rule="torchrun.default", text="numNodes defaults to 1"))
NO_GPUS = Traced(0, Reason(rule="torchrun.cpu-only", text="neither the job nor its queue requests GPUs"))
