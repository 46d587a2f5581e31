"""Events: on nodes for those who run them, on pods and jobs for those who use them, who cannot read nodes."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.clock import Clock
from reconciler.errors import one_line
from reconciler.health.fleet_reading import pods_on
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import timestamp
from reconciler.live.observe.fleet import busy_nodes
from reconciler.live.observe.placed import controller_of
from reconciler.nodehealth.inflight.detect import JobProblem, ProblemKind
from reconciler.nodehealth.nodes import MANAGER, NodeMark

DEGRADED = "GPUNodeDegraded"
_LENGTH = 1000
_EXISTS = 409  # an object of this name exists


class EventTarget(Struct, frozen=True, kw_only=True):
    """An object that an event is about."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""

    @property
    def reference(self) -> dict[str, str]:
        """The field `involvedObject` of its events."""
        known = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return {**known, "namespace": self.namespace} if self.namespace else known


def record_event(
    cluster: LiveCluster, about: EventTarget, *, reason: str, message: str, is_warning: bool, clock: Clock
) -> None:
    """Create an event. The same one at the same second is not created twice."""
    now = timestamp(clock.now().timestamp())
    text = one_line(mask_text(message), _LENGTH)
    identity = hashlib.sha256(f"{about.uid} {now} {reason} {text}".encode()).hexdigest()[:16]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name[:200]}.{identity}", "namespace": about.namespace or "default"},
        "involvedObject": about.reference,
        "type": "Warning" if is_warning else "Normal",
        "reason": reason,
        "message": text,
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": "controller",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        cluster.create(event)
    except ClusterError as error:
        if error.status != _EXISTS:
            raise


def notify_users(cluster: LiveCluster, mark: NodeMark, clock: Clock) -> int:
    """Tell the owners of pods with GPUs on a node that it was fenced, on each pod and its job; return how many."""
    pods = pods_on(cluster, mark.node)
    text = (
        f"{mark.node} takes no new work: {mark.message}. Running pods stay; save a checkpoint. "
        "A new attempt runs on another node"
    )
    told = {about for pod in pods if busy_nodes([pod]) for about in (about_pod(pod), *about_owner(pod))}
    for about in sorted(told, key=lambda one: (one.namespace, one.kind, one.name)):
        record_event(cluster, about, reason=DEGRADED, message=text, is_warning=True, clock=clock)
    return len(told)


def notify_job(
    cluster: LiveCluster, job: EventTarget, pods: list[Body], problem: JobProblem, *, text: str, clock: Clock
) -> None:
    """Tell the owner of a job that it hangs or is slow, on the job and on its pods."""
    reason = "JobHung" if problem.kind is ProblemKind.HUNG else "JobSlow"
    record_event(cluster, job, reason=reason, message=text, is_warning=True, clock=clock)
    for pod in pods:
        record_event(cluster, about_pod(pod), reason=reason, message=text, is_warning=True, clock=clock)


def about_pod(pod: Mapping[str, Any]) -> EventTarget:
    """Return a pod as the object of an event."""
    metadata = pod["metadata"]
    return EventTarget(
        api_version="v1", kind="Pod", name=metadata["name"], uid=metadata["uid"], namespace=metadata["namespace"]
    )


def about_owner(pod: Mapping[str, Any]) -> Iterator[EventTarget]:
    """Yield the controller of a pod as the object of an event."""
    if owner := controller_of(pod):
        yield EventTarget(
            api_version=owner["apiVersion"],
            kind=owner["kind"],
            name=owner["name"],
            uid=owner["uid"],
            namespace=pod["metadata"]["namespace"],
        )
