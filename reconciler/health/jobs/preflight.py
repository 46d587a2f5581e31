"""Preflight checks: the pod tells the agent of its node and waits; the controller acknowledges, counts and tells."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.clock import Clock
from reconciler.health.events import about_owner, about_pod, record_event
from reconciler.health.fast_lane import LaneRound
from reconciler.health.fleet_reading import pods_on
from reconciler.health.reports import report_key
from reconciler.kinds.health.jobs import CONTAINER
from reconciler.kube.client.port import Body, LiveCluster
from reconciler.kube.values import mapping, sequence, text
from reconciler.live.observe.placed import controller_of
from reconciler.nodehealth.inflight.preflight import (
    PREFLIGHTS,
    PreflightAttempt,
    PreflightVerdict,
    acknowledgement,
    counted,
    verdicts,
)
from reconciler.nodehealth.nodes import MANAGER
from reconciler.nodehealth.report import NodeReport

FAILED = "PreflightFailed"
"""The reason of events on jobs and pods."""


class Acknowledged(Struct, frozen=True, kw_only=True):
    """The result of failed preflight checks: all attempts that count now, and those that are new."""

    attempts: tuple[PreflightAttempt, ...] = ()
    new: tuple[PreflightAttempt, ...] = ()


def acknowledge(
    cluster: LiveCluster, known: tuple[PreflightAttempt, ...], done: LaneRound, most: int, clock: Clock
) -> Acknowledged:
    """Acknowledge the failed checks of all reports, whose nodes are marked by now, and tell the owners of the jobs.

    A claim about a pod that does not run its check on that node is not believed.
    """
    counted_pods = {one.pod for one in known}
    new: list[tuple[PreflightAttempt, Body]] = []
    for node, report in sorted(done.reading.reports.items()):
        fresh = {one.uid: one for one in report.preflights if one.uid not in counted_pods}
        for pod in _checked_pods(cluster, node) if fresh else ():
            uid = pod["metadata"]["uid"]
            if (failed := fresh.get(uid)) is not None:
                owner = text(controller_of(pod).get("uid")) or uid
                attempt = PreflightAttempt(owner=owner, node=node, pod=uid, at=done.now, checks=failed.checks)
                new.append((attempt, pod))
    attempts = counted(known, [attempt for attempt, _ in new], done.now)
    for node in sorted({attempt.node for attempt, _ in new}):
        _write(cluster, done.reading.reports[node], verdicts(attempts, node, most))
    for attempt, pod in new:
        said = _told(attempt, [one for one in attempts if one.owner == attempt.owner], most)
        for about in (about_pod(pod), *about_owner(pod)):
            record_event(cluster, about, reason=FAILED, message=said, is_warning=True, clock=clock)
    return Acknowledged(attempts=attempts, new=tuple(attempt for attempt, _ in new))


def _checked_pods(cluster: LiveCluster, node: str) -> Iterator[Body]:
    """Yield the pods of a node that have a preflight check."""
    for pod in pods_on(cluster, node):
        containers = sequence(mapping(pod.get("spec")).get("initContainers"))
        if any(mapping(one).get("name") == CONTAINER for one in containers):
            yield pod


def _write(cluster: LiveCluster, report: NodeReport, found: Mapping[str, PreflightVerdict]) -> None:
    named = {one.uid for one in report.preflights}
    value = acknowledgement({uid: verdict for uid, verdict in found.items() if uid in named})
    changes: dict[str, Any] = {"metadata": {"annotations": {PREFLIGHTS: value}}}
    cluster.patch(report_key(report.node), changes, manager=MANAGER)


def _told(one: PreflightAttempt, own: Sequence[PreflightAttempt], most: int) -> str:
    """Return the message to the owner of a job; `own` are all failed attempts of the job."""
    said = f"the preflight check on {one.node} failed: {', '.join(one.checks) or 'it could not measure'}"
    if len(own) < max(most, 1):
        return f"{said}. A new attempt runs elsewhere; {len(own)} of {most} failed so far"
    nodes = ", ".join(dict.fromkeys(other.node for other in own))
    return f"{said}. It failed {len(own)} times ({nodes}): the job is not started again"
