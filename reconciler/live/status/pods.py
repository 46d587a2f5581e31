"""The pods of a job: how many of them run, how often they restarted, and why they do not start."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.progress import Workers, conditions
from reconciler.kube.values import count, mapping, sequence, text

Body = Mapping[str, Any]

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


class Waiting(Struct, frozen=True, kw_only=True):
    """The reason for which a job waits: a word for programs, and a sentence."""

    reason: str
    message: str


_SYNCS = {
    "workspace-sync": Waiting(reason="Workspace", message="the workspace is copied"),
    "wait-for-download": Waiting(reason="Download", message="its download is not complete"),
}
"""Init containers that copy files or wait for them."""


def count_pods(pods: Sequence[Body], wanted: int) -> Workers:
    """Count the pods of a job by phase; a pod that is deleted counts as none."""
    alive = [pod for pod in pods if not mapping(pod.get("metadata")).get("deletionTimestamp")]
    phases = [text(mapping(pod.get("status")).get("phase")) for pod in alive]
    return Workers(
        wanted=wanted,
        pending=phases.count("Pending"),
        running=phases.count("Running"),
        ready=sum(is_ready(pod) for pod in alive),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
    )


def is_ready(pod: Body) -> bool:
    """Return whether a pod is ready."""
    return conditions(pod).get("Ready", {}).get("status") == "True"


def restarts_of(pods: Sequence[Body]) -> int:
    """Add up the restarts of all containers."""
    return sum(count(status.get("restartCount"), 0) for pod in pods for status in _containers(pod))


def why_pods_sync(pods: Sequence[Body]) -> Waiting | None:
    """Return what is copied for a pod before it starts; None if nothing is."""
    running = (
        text(status.get("name"))
        for pod in pods
        for status in _containers(pod)
        if "running" in mapping(status.get("state"))
    )
    return next((_SYNCS[name] for name in running if name in _SYNCS), None)


def is_preempted(pods: Sequence[Body]) -> bool:
    """Return whether a pod was stopped for another one."""
    return any(_is_preempted(pod) for pod in pods)


def _is_preempted(pod: Body) -> bool:
    target = conditions(pod).get("DisruptionTarget", {})
    return target.get("status") == "True" and "reempt" in text(target.get("reason"))


def why_pods_wait(pods: Sequence[Body]) -> Waiting | None:
    """Return the reason that the first of the pods does not run; None if there is none."""
    for pod in sorted(pods, key=lambda pod: text(mapping(pod.get("metadata")).get("name"))):
        if text(mapping(pod.get("status")).get("phase")) != "Pending":
            continue
        scheduled = conditions(pod).get("PodScheduled", {})
        if scheduled.get("status") == "False":
            message = text(scheduled.get("message"))
            reason = "Volume" if "olume" in message else "Node"
            return Waiting(reason=reason, message=message or text(scheduled.get("reason")))
        waiting = _why_containers_wait(pod)
        if waiting is not None:
            return waiting
    return None


def why_pods_crash(pods: Sequence[Body]) -> Waiting | None:
    """Return the reason that a container is not restarted right now."""
    return next((found for pod in pods if (found := _why_containers_wait(pod)) is not None), None)


def _why_containers_wait(pod: Body) -> Waiting | None:
    for status in _containers(pod):
        waiting = mapping(mapping(status.get("state")).get("waiting"))
        word, message = text(waiting.get("reason")), text(waiting.get("message"))
        sentence = f"container {text(status.get('name'))}: {word}{f': {message}' if message else ''}"
        if word in _IMAGE:
            return Waiting(reason="Image", message=sentence)
        if word in _CONFIG:
            return Waiting(reason="Config", message=sentence)
        if word == "CrashLoopBackOff":
            return Waiting(reason="Crash", message=sentence)
    return None


def _containers(pod: Body) -> Iterator[Mapping[str, Any]]:
    status = mapping(pod.get("status"))
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from map(mapping, sequence(status.get(field)))
