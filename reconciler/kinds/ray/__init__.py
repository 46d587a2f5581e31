"""KubeRay (`ray.io`): clusters of a head and groups of workers, alone or for a job or a service."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Life, Pods, Source
from reconciler.kinds.facts import Body, Controlled, PodSet
from reconciler.kinds.immutable import value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import frozen_labels_in_queue
from reconciler.kinds.pods import Reader, bounds, of_spec
from reconciler.kinds.progress import ENDED, Phase, Progress, Workers, holds, status_of
from reconciler.kinds.ray.training import ray_job_training
from reconciler.kube.values import MAX_COUNT, count, mapping, sequence, text

_GROUP = "ray.io"
_WITH_POD = ("", "K8sJobMode")  # the default; in other modes the head, or nobody, submits the job


def cluster_pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a cluster's spec."""
    head, is_scaled = mapping(spec.get("headGroupSpec")), spec.get("enableInTreeAutoscaling") is True
    if head:
        yield PodSet(1, mapping(head.get("template")), f"{prefix}headGroupSpec.template.")
    for index, workers in enumerate(map(mapping, sequence(spec.get("workerGroupSpecs")))):
        minimum = count(workers.get("minReplicas"), 0)
        most = count(workers.get("maxReplicas"), MAX_COUNT)
        replicas = min(max(count(workers.get("replicas"), minimum), minimum), most)
        place, template = f"{prefix}workerGroupSpecs[{index}].template.", mapping(workers.get("template"))
        hosts = count(workers.get("numOfHosts"), 1)
        if workers.get("suspend") is True:
            yield PodSet(0, template, place)
            continue
        scale = bounds(replicas, minimum, workers.get("maxReplicas")) if is_scaled else (None, None)
        yield PodSet(replicas, template, place, None, "", *scale).times(hosts)


def _with_cluster(field: str) -> Reader:
    def read(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
        return cluster_pods(mapping(spec.get(field)), f"{prefix}{field}.")

    return read


def _job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of the cluster, unless the job runs in another, and the one that submits the job."""
    if "clusterSelector" not in spec:
        yield from cluster_pods(mapping(spec.get("rayClusterSpec")), f"{prefix}rayClusterSpec.")
    submitter = mapping(spec.get("submitterPodTemplate"))
    if submitter and text(spec.get("submissionMode")) in _WITH_POD:
        yield PodSet(1, submitter, f"{prefix}submitterPodTemplate.")


def _cron_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    return _job(mapping(spec.get("jobTemplate")), f"{prefix}jobTemplate.")


_DEPLOYMENT = {
    "Initializing": Phase.STARTING,
    "Waiting": Phase.STARTING,
    "Retrying": Phase.STARTING,
    "Running": Phase.RUNNING,
    "Complete": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Suspending": Phase.TERMINATING,
    "Suspended": Phase.SUSPENDED,
    "": Phase.PENDING,
}
_JOB = {"FAILED": Phase.FAILED, "STOPPED": Phase.TERMINATED, "SUCCEEDED": Phase.SUCCEEDED}


_BROKEN = frozenset({"UNHEALTHY", "DEPLOY_FAILED"})  # of an application of Ray Serve


def ray_job_progress(body: Body) -> Progress:
    """Read a RayJob: how its cluster is, and how the job in it ended."""
    status = status_of(body)
    phase = _DEPLOYMENT.get(text(status.get("jobDeploymentStatus")), Phase.UNKNOWN)
    if phase is Phase.SUCCEEDED:  # the cluster is done; the job may have failed
        phase = _JOB.get(text(status.get("jobStatus")), Phase.UNKNOWN)
    if phase is Phase.FAILED and text(status.get("reason")) == "DeadlineExceeded":
        phase = Phase.TIMED_OUT
    cluster = mapping(status.get("rayClusterStatus"))
    wanted, ready = count(cluster.get("desiredWorkerReplicas"), 0), count(cluster.get("readyWorkerReplicas"), 0)
    return Progress(
        phase=phase,
        workers=Workers(wanted=wanted, pending=max(wanted - ready, 0), running=ready, ready=ready),
        restarts=count(status.get("failed"), 0),
        started_at=text(status.get("startTime")),
        finished_at=text(status.get("endTime")) if phase in ENDED else "",
        message=text(status.get("message")),
    )


def ray_service_progress(body: Body) -> Progress:
    """Read a RayService: its applications, and whether it serves."""
    active = mapping(status_of(body).get("activeServiceStatus"))
    for name, application in sorted(mapping(active.get("applicationStatuses")).items()):
        word, message = (text(mapping(application).get(field)) for field in ("status", "message"))
        if word in _BROKEN:
            detail = f": {message}" if message else ""
            return Progress(phase=Phase.FAILED, message=f"application {name} is {word}{detail}")
    if holds(body, "Ready") is not None or text(status_of(body).get("serviceStatus")) == "Running":
        return Progress(phase=Phase.RUNNING)
    return Progress(phase=Phase.STARTING if status_of(body) else Phase.PENDING)


def _is_autoscaled(body: Body) -> bool:
    return mapping(body.get("spec")).get("enableInTreeAutoscaling") is True


def _unapplied(cluster: str) -> Callable[[Body, Body], list[str]]:
    """Return a function that names the templates of a cluster's spec, which KubeRay applies to no running pod.

    With the upgrade strategy `Recreate` it replaces all pods (KubeRay 1.6, shouldRecreatePodsForUpgrade).
    """

    def templates(_: Body, after: Body) -> list[str]:
        spec = mapping(value_of(after, cluster))
        if value_of(spec, "upgradeStrategy.type") == "Recreate":
            return []
        groups = (text(mapping(group).get("groupName")) for group in sequence(spec.get("workerGroupSpecs")))
        workers = (f"{cluster}.workerGroupSpecs[groupName={name}].template" for name in groups)
        return [f"{cluster}.headGroupSpec.template", *workers]

    return templates


_SUSPEND = ("spec", "suspend")
_AUTOSCALED = tuple(
    Controlled(
        path=("spec", "workerGroupSpecs", "*", field),
        by="autoscaler of Ray",
        source="python/ray/autoscaler/_private/kuberay/node_provider.py (submit_scale_request)",
        when="with `enableInTreeAutoscaling`",
        applies=_is_autoscaled,
    )
    for field in ("replicas", "scaleStrategy")
)
KINDS = (
    Kind(
        group=_GROUP,
        kind="RayCluster",
        pods=Pods(of_spec(cluster_pods), suspend=_SUSPEND),
        life=Life(immutable=frozen_labels_in_queue, unapplied=_unapplied("spec"), controlled=_AUTOSCALED),
    ),
    Kind(
        group=_GROUP,
        kind="RayJob",
        source=Source(training=ray_job_training),
        pods=Pods(of_spec(_job), suspend=_SUSPEND),
        life=Life(
            immutable=frozen_labels_in_queue, unapplied=_unapplied("spec.rayClusterSpec"), progress=ray_job_progress
        ),
    ),
    Kind(group=_GROUP, kind="RayCronJob", pods=Pods(of_spec(_cron_job), job_metadata=("metadata",))),
    Kind(
        group=_GROUP,
        kind="RayService",
        pods=Pods(of_spec(_with_cluster("rayClusterConfig"))),
        life=Life(serving=ray_service_progress),
    ),
)
