"""Start the Job of a deep run, on a node whose GPUs nobody uses, with all of them."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.health.fleet_reading import pods_on
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import mapping
from reconciler.live.observe.placed import DEEP_RUN
from reconciler.nodehealth.active.due import DueRuns
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.report import NodeReport
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu

_SCRATCH = "/tmp"  # noqa: S108 - the only folder that the container may write
_ENDED = frozenset({"Succeeded", "Failed"})
_CONFLICT = 409  # an object of this name exists
_EXISTS = "its Job exists"
_LOOKS = 20  # nodes whose pods one round looks at
_TURN_SECONDS = 60.0


class DeepRunSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of deep runs: the agents' image and service account, in the namespace of the release."""

    image: str
    namespace: str
    service_account: str
    runtime_class: str = ""
    pull_secrets: tuple[str, ...] = ()
    seconds: int = 1800
    keep_seconds: int = 600
    profile: ProbeProfile = ProbeProfile.DEEP


class DeepRunStart(Struct, frozen=True, kw_only=True):
    """The result of an attempt: the name of the Job, or why there is none."""

    job: str = ""
    refused: str = ""


class DeepRunsStarted(Struct, frozen=True, kw_only=True):
    """The nodes with a new Job, and what went wrong."""

    nodes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def start_due_runs(
    cluster: LiveCluster, due: DueRuns, reports: Mapping[str, NodeReport], settings: DeepRunSettings, now: float
) -> DeepRunsStarted:
    """Start runs on idle nodes, as many as may start now. Busy nodes are asked again in later rounds, in turn."""
    started: list[str] = []
    first = int(now / _TURN_SECONDS) % len(due.nodes) if len(due.nodes) > _LOOKS else 0
    for node in (due.nodes[first:] + due.nodes[:first])[:_LOOKS]:
        if len(started) == due.free:
            break
        try:
            start = start_deep_run(cluster, node, reports.get(node), settings, now)
        except ClusterError as error:
            return DeepRunsStarted(nodes=tuple(started), problems=(f"no deep run on {node}: {error.message}",))
        if start.job or start.refused == _EXISTS:  # an earlier round created it
            started.append(node)
    return DeepRunsStarted(nodes=tuple(started))


def start_deep_run(
    cluster: LiveCluster, node: str, report: NodeReport | None, settings: DeepRunSettings, now: float
) -> DeepRunStart:
    """Create the Job, unless a pod uses a GPU of the node or a run goes on. Raises `ClusterError`."""
    run = report.run(settings.profile) if report else None
    if run is not None and run.is_running(now):
        return DeepRunStart(refused="a run is in progress")
    body = cluster.get(ObjectKey(group="", kind="Node", namespace="", name=node))
    if body is None:
        return DeepRunStart(refused="the node does not exist")
    resource, gpus = _allocatable(body)
    if not gpus:
        return DeepRunStart(refused="the node has no GPU")
    if users := sorted(_name(pod) for pod in pods_on(cluster, node) if uses_gpus(pod)):
        return DeepRunStart(refused=f"GPUs are in use by {', '.join(users[:3])}")
    job = deep_job(node, resource, gpus, settings, now)
    try:
        cluster.create(job)
    except ClusterError as error:
        if error.status != _CONFLICT:
            raise
        return DeepRunStart(refused=_EXISTS)
    return DeepRunStart(job=job["metadata"]["name"])


def uses_gpus(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod holds GPUs: it has not ended, and a container of it asks for some."""
    if mapping(pod.get("status")).get("phase") in _ENDED:
        return False
    return any(_gpus(container) for container in _containers(mapping(pod.get("spec"))))


def deep_job(node: str, resource: str, gpus: int, settings: DeepRunSettings, now: float) -> Body:
    """Return the Job: one attempt, on this node, with all its GPUs, ended by its deadline."""
    digest = hashlib.sha256(f"{node} {settings.profile} {int(now) // settings.seconds}".encode()).hexdigest()[:12]
    labels = {"app.kubernetes.io/part-of": "gpu-reconciler", DEEP_RUN[0]: DEEP_RUN[1]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"gpu-{settings.profile}-{digest}", "namespace": settings.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": settings.seconds,
            "ttlSecondsAfterFinished": settings.keep_seconds,
            "template": {"metadata": {"labels": labels}, "spec": _pod(node, resource, gpus, settings)},
        },
    }


def _pod(node: str, resource: str, gpus: int, settings: DeepRunSettings) -> Body:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    pod: Body = {
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": True,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}},
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,  # the user of the image
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "deep-run",
                "image": settings.image,
                "args": ["agent", f"--profile={settings.profile}", f"--deadline={settings.seconds}"],
                "env": [
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "HOME", "value": _SCRATCH},
                    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},  # CUDA and NVML
                ],
                "resources": {"limits": {resource: str(gpus)}, "requests": {resource: str(gpus)}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "tmp", "mountPath": _SCRATCH}],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    if settings.runtime_class:
        pod["runtimeClassName"] = settings.runtime_class
    if settings.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    return pod


def _allocatable(node: Body) -> tuple[str, int]:
    """Return the GPUs that the node offers, and the name of the resource."""
    offered = mapping(mapping(node.get("status")).get("allocatable"))
    return next(
        (
            (name, amount)
            for name in sorted(offered, key=_whole_first)
            if is_gpu(name) and (amount := _amount(offered, name))
        ),
        ("", 0),
    )


def _whole_first(resource: str) -> tuple[bool, str]:
    return resource not in WHOLE_GPUS, resource


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            yield mapping(container)


def _gpus(container: Mapping[str, Any]) -> int:
    resources = mapping(container.get("resources"))
    amounts = (mapping(resources.get(field)) for field in ("limits", "requests"))
    return max((_amount(amount, name) for amount in amounts for name in amount if is_gpu(name)), default=0)


def _amount(amounts: Mapping[str, Any], name: str) -> int:
    """Return a number of devices; one that cannot be read is one, so that no GPU in use looks idle."""
    quantity = parse_quantity(amounts[name])
    return 1 if quantity is None else int(quantity)


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
