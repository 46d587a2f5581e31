"""Preflight checks of jobs: what one that failed changes in the report of its node, and how often a job may try."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import NOT_JSON, mapping, text
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile, clears
from reconciler.nodehealth.report import FailedPreflight, NodeReport

PREFLIGHTS = "gpureconciler.io/preflights"
"""Annotation of a NodeHealthReport in which the controller acknowledges failed preflight checks: verdicts by pod."""

KEPT_SECONDS = 3600.0
COUNTED_SECONDS = 86400.0
_MAX_COUNT = 16
_LISTED = (CheckStatus.FAIL, CheckStatus.WARN)


class PreflightVerdict(StrEnum):
    """The verdict of the controller on a failed preflight check. RETRY: the node is marked, try another one."""

    RETRY = "retry"
    STOP = "stop"  # the job failed on too many nodes: it is not started again


class PreflightResult(Struct, frozen=True, kw_only=True):
    """The result of a pod's preflight check on its GPUs, as the agent of its node gets it."""

    namespace: str
    pod: str
    uid: str
    measured_at: float
    findings: tuple[HealthFinding, ...] = ()
    has_failed: bool = False


class PreflightAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed preflight check as the controller remembers it. owner: the UID of the job."""

    owner: str
    node: str
    pod: str
    at: float
    checks: tuple[str, ...] = ()


def joined(report: NodeReport, tested: Iterable[PreflightResult]) -> NodeReport:
    """Return the report with what preflight checks found. They saw the GPUs of their pods, and tell of no others."""
    for one in sorted(tested, key=lambda one: one.measured_at):
        report = _joined(report, one)
    kept = [one for one in report.preflights if 0 <= report.measured_at - one.measured_at < KEPT_SECONDS]
    return replace(report, preflights=tuple(sorted(kept, key=lambda one: (one.measured_at, one.uid))[-_MAX_COUNT:]))


def _joined(report: NodeReport, tested: PreflightResult) -> NodeReport:
    slots = {gpu.slot: gpu.uuid for gpu in report.gpus}
    told = [one for one in tested.findings if one.profile.weight and slots.get(one.slot, "") == one.uuid and one.slot]
    known = {one.key: one for one in report.findings}
    ended: set[str] = set()
    for one in told:
        old = known.get(one.key)
        if old is not None and old.since > tested.measured_at:
            continue  # found after this check
        if one.status in _LISTED and (old is None or old.profile.weight <= one.profile.weight):
            since = old.since if old is not None and old.status is one.status else tested.measured_at
            known[one.key] = replace(one, since=since)
        elif old is not None and clears(one, old):
            del known[one.key]
            ended.add(one.check)
    ended -= {check for check, _ in known}
    report = replace(
        report,
        findings=tuple(known[key] for key in sorted(known)),
        passed=tuple(sorted({*report.passed, *ended} - {check for check, _ in known})) if ended else report.passed,
        passed_by={**report.passed_by, **dict.fromkeys(sorted(ended), ProbeProfile.PREFLIGHT)},
    )
    if not tested.has_failed or any(one.uid == tested.uid for one in report.preflights):
        return report
    failed = sorted({one.check for one in tested.findings if one.status is CheckStatus.FAIL})
    row = FailedPreflight(
        namespace=tested.namespace, pod=tested.pod, uid=tested.uid, measured_at=tested.measured_at, checks=tuple(failed)
    )
    return replace(report, preflights=(*report.preflights, row))


def counted(
    known: Sequence[PreflightAttempt], found: Iterable[PreflightAttempt], now: float
) -> tuple[PreflightAttempt, ...]:
    """Return the attempts of the last day, each pod once."""
    rows = {one.pod: one for one in (*found, *known) if 0 <= now - one.at < COUNTED_SECONDS}
    return tuple(sorted(rows.values(), key=lambda one: (one.at, one.pod)))


def verdicts(attempts: Sequence[PreflightAttempt], node: str, most: int) -> Mapping[str, PreflightVerdict]:
    """Return the verdict on each pod of a node whose preflight check failed: at most so many attempts of one job."""
    found = {}
    for one in attempts:
        if one.node == node:
            before = sum(other.owner == one.owner for other in attempts)
            found[one.pod] = PreflightVerdict.STOP if before >= max(most, 1) else PreflightVerdict.RETRY
    return found


def acknowledged(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the verdicts that a NodeHealthReport carries; an annotation that nobody can read carries none."""
    annotations = mapping(mapping(body.get("metadata")).get("annotations"))
    try:
        return msgspec.json.decode(text(annotations.get(PREFLIGHTS)) or "{}", type=dict[str, str])
    except NOT_JSON:
        return {}


def acknowledgement(found: Mapping[str, PreflightVerdict]) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(dict(sorted(found.items()))).decode()
