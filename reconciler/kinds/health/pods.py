"""Pods of our own image that test a node, and where the pods of a test or a repair run."""

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.nodehealth.findings import ProbeProfile

Body = dict[str, Any]

DEEP_RUN = ("app.kubernetes.io/component", "deep-run")
"""The label of our own deep runs."""

USER = 65532  # of the image (Dockerfile)
UNPRIVILEGED: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_SCRATCH = "/tmp"  # noqa: S108 - the only folder that the container may write


def on_nodes(*nodes: str) -> Body:
    """Return the node affinity of pods that run on these nodes, by their names."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


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
    pod: Body = {
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": True,
        "affinity": {"nodeAffinity": on_nodes(node)},
        "tolerations": [{"operator": "Exists"}],
        "securityContext": UNPRIVILEGED,
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
                "securityContext": RESTRICTED,
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
