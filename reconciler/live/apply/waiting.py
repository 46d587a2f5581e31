"""Wait until objects of a cluster are ready or gone."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.clock import Clock
from reconciler.kinds.aspects import Holds
from reconciler.kinds.kind import Kinds
from reconciler.kinds.pods import is_suspended
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.client.port import ClusterError, ClusterUnavailable, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping
from reconciler.live.apply.readiness import Readiness, State, is_established, readiness
from reconciler.live.apply.steps import Step, Verb
from reconciler.plan.live.reading import read_now

Check = Callable[[Kinds, Step, Mapping[str, Any] | None], Readiness]
"""Judges an object of a step, or that it is gone."""

_FIRST_PAUSE, _MAX_PAUSE = 0.1, 2.0  # seconds


class Waiter(Struct, frozen=True, kw_only=True, eq=False):
    """The terms of waiting: the cluster, the time, and who is told how many objects are left."""

    live: LiveCluster
    kinds: Kinds
    clock: Clock
    seconds: float
    tell: Callable[[int], None] = lambda _: None


def wait_reliable(waiter: Waiter, steps: Sequence[Step]) -> Mapping[str, str]:
    """Wait until later steps can rely on these; return why some cannot be relied on, by path.

    Kinds are established, namespaces active, and deleted workloads gone, or suspended without a running pod.
    """
    return _wait(waiter, [step for step in steps if _matters(waiter.kinds, step)], _reliable)


def wait_ready(waiter: Waiter, steps: Sequence[Step]) -> Mapping[str, str]:
    """Wait until objects are ready, or gone where they are deleted; return why some are not, by path.

    A workload is ready unless it failed: it may wait in its queue for days.
    """
    return _wait(waiter, steps, _ready)


def _wait(waiter: Waiter, steps: Iterable[Step], check: Check) -> Mapping[str, str]:
    pending = list(steps)
    reasons: dict[str, str] = {}
    end, pause = waiter.clock.elapsed() + waiter.seconds, _FIRST_PAUSE
    while pending:
        states = _look(waiter, pending, check)
        for step, found in zip(pending, states, strict=True):
            reasons.pop(step.path, None)
            if found.state is not State.READY:
                reasons[step.path] = found.message
        pending = [step for step, found in zip(pending, states, strict=True) if found.state is State.IN_PROGRESS]
        waiter.tell(len(pending))
        if not pending or waiter.clock.elapsed() >= end:
            break
        waiter.clock.pause(pause)
        pause = min(2 * pause, _MAX_PAUSE)
    return reasons


def _look(waiter: Waiter, steps: Sequence[Step], check: Check) -> list[Readiness]:
    """Read the objects of steps and judge each as it comes: together they may fill the memory."""
    places: dict[ObjectKey, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        places[step.key].append(number)
    states: dict[int, Readiness] = {}
    for key, body in read_now(waiter.live, places):
        states.update((number, _judge(waiter, steps[number], body, check)) for number in places[key])
    return [states[number] for number in range(len(steps))]


def _judge(waiter: Waiter, step: Step, found: Mapping[str, Any] | ClusterError | None, check: Check) -> Readiness:
    if isinstance(found, ClusterUnavailable):
        return Readiness(State.IN_PROGRESS, found.message)
    if isinstance(found, ClusterError):
        return Readiness(State.FAILED, found.message)
    return check(waiter.kinds, step, found)


def _matters(kinds: Kinds, step: Step) -> bool:
    row = kinds.find(step.summary.group, step.summary.kind)
    return step.verb is Verb.DELETE or row.holds in (Holds.OBJECTS, Holds.KINDS)


def _reliable(kinds: Kinds, step: Step, body: Mapping[str, Any] | None) -> Readiness:
    row = kinds.find(step.summary.group, step.summary.kind)
    if step.verb is not Verb.DELETE and row.holds is Holds.KINDS and body is not None and not is_established(body):
        return Readiness(State.IN_PROGRESS, "its kind is not served yet (condition Established)")
    if step.verb is Verb.DELETE and body is not None and is_suspended(body) and not _has_running_pods(body):
        return Readiness(State.READY)
    return _ready(kinds, step, body)


def _has_running_pods(body: Mapping[str, Any]) -> bool:
    return bool(mapping(body.get("status")).get("active"))


def _ready(kinds: Kinds, step: Step, body: Mapping[str, Any] | None) -> Readiness:
    if step.verb is Verb.DELETE:
        return Readiness(State.READY) if body is None else Readiness(State.IN_PROGRESS, readiness(body).message)
    if body is None:
        return Readiness(State.FAILED, "it is gone")
    return object_readiness(kinds, step.summary, body)


def object_readiness(kinds: Kinds, summary: ObjectSummary, body: Mapping[str, Any]) -> Readiness:
    """Return the state of an object that exists. A workload with GPUs may wait: it is ready unless it failed."""
    row = kinds.find(summary.group, summary.kind)
    found = readiness(body, waits_for_user=row.holds is Holds.VOLUME)
    if summary.is_workload and found.state is State.IN_PROGRESS and summary.gpus:
        return Readiness(State.READY)
    return found
