"""Readiness of an object of a cluster: ready, in progress or failed, by the conventions that kstatus reads."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from reconciler.kube.values import mapping, sequence, text


class State(StrEnum):
    """The state of an object. `READY` also means that nothing says otherwise."""

    READY = "ready"
    IN_PROGRESS = "in progress"
    FAILED = "failed"
    GONE = "gone"


class Readiness(NamedTuple):
    """The state of an object, and the reason in words."""

    state: State
    message: str = ""


_FAILED = ("Stalled", "Failed")
_READY = ("Ready", "Active", "Established", "Available")
_READY_PHASES = frozenset(("", "Active", "Bound", "Available", "Running", "Succeeded", "Released"))


def readiness(body: Mapping[str, Any] | None, *, waits_for_user: bool = False) -> Readiness:
    """Return the state of an object; None is gone. `waits_for_user`: pending is ready, as for a claim without a pod."""
    if body is None:
        return Readiness(State.GONE)
    metadata, status = mapping(body.get("metadata")), mapping(body.get("status"))
    if metadata.get("deletionTimestamp"):
        finalizers = ", ".join(map(str, sequence(metadata.get("finalizers"))))
        return Readiness(State.IN_PROGRESS, f"is being deleted{f', waiting for {finalizers}' if finalizers else ''}")
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed < metadata.get("generation", 0):
        return Readiness(State.IN_PROGRESS, "its controller has not observed the latest change")
    said = _by_conditions(status) or _by_phase(status, waits_for_user=waits_for_user)
    return said or _by_replicas(mapping(body.get("spec")), status) or Readiness(State.READY)


def _by_conditions(status: Mapping[str, Any]) -> Readiness | None:
    conditions = {one.get("type"): one for one in map(mapping, sequence(status.get("conditions")))}
    for name in _FAILED:
        if conditions.get(name, {}).get("status") == "True":
            return Readiness(State.FAILED, _said(conditions[name]))
    for name in _READY:
        if conditions.get(name, {}).get("status", "True") != "True":
            return Readiness(State.IN_PROGRESS, _said(conditions[name]))
    return None


def _by_phase(status: Mapping[str, Any], *, waits_for_user: bool) -> Readiness | None:
    phase = text(status.get("phase"))
    if phase == "Failed":
        return Readiness(State.FAILED, text(status.get("message")) or "phase Failed")
    if phase in _READY_PHASES or (waits_for_user and phase == "Pending"):
        return None
    return Readiness(State.IN_PROGRESS, f"phase {phase}")


def _by_replicas(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness | None:
    wanted = spec.get("replicas")
    if type(wanted) is int and "replicas" in status:
        ready = status.get("readyReplicas", 0)
        if type(ready) is int and ready < wanted:
            return Readiness(State.IN_PROGRESS, f"{ready} of {wanted} replicas are ready")
    return None


def is_established(body: Mapping[str, Any]) -> bool:
    """Return whether the server serves the kind of a CustomResourceDefinition."""
    conditions = map(mapping, sequence(mapping(body.get("status")).get("conditions")))
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _said(condition: Mapping[str, Any]) -> str:
    return text(condition.get("message")) or text(condition.get("reason")) or text(condition.get("type"))
