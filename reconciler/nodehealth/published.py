"""A `NodeHealthReport` object and its `NodeReport`: written in Kubernetes' style, read back strictly, under 64 KB."""

import datetime as dt
import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import msgspec
from msgspec.structs import replace

from reconciler.kube.secrets import mask_text
from reconciler.kube.values import NOT_JSON, annotation, plural
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.report import API_VERSION, KIND, NodeReport

MAX_BYTES = 64_000
"""The most that the status of a report takes as JSON: under 64 KB with the metadata around it."""

_TEXT, _BRIEF = 400, 80
TIMES = frozenset({"measured_at", "since", "requested_at", "started_at", "deadline", "finished_at"})
"""Fields that hold seconds since the epoch here, and RFC 3339 in the object."""

EXPECTED = "gpureconciler.io/expected"
"""Annotation in which the controller tells the agent what the merged policies expect of its node, as JSON."""

MAPS = frozenset({"networks", "passed_by", "utilization", "errors", "measured"})
"""Fields whose keys are ids of checks, slots, interfaces or counters, not names of fields."""

_STATUSES = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN)
_SEVERITIES = (FindingSeverity.FATAL, FindingSeverity.DEGRADED, FindingSeverity.INFO, FindingSeverity.APP)
_KEPT_WHOLE = ((64, 1 << 20), (32, 64), (16, 16))
"""The numbers of findings that keep their whole text and a brief one, tried in this order."""


class MalformedReport(ValueError):
    """The status of an object is not a report. The text says where."""


def body_of(report: NodeReport) -> dict[str, Any]:
    """Return the object to apply, with the report as its status."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": report.node}, "status": status_of(report)}


def status_of(report: NodeReport) -> dict[str, Any]:
    """Return the status of the object; too long a report is shortened, the same way every time."""
    fitted = _fitted(report)
    summary = {"status": report.status.value, "summary": summary_of(report)}
    encoded: dict[str, Any] = _encoded(fitted)
    return summary | encoded


def report_of(body: Mapping[str, Any]) -> NodeReport | None:
    """Return the report of an object; None if its agent has not written one yet. Raises `MalformedReport`."""
    status = body.get("status")
    if not status:
        return None
    name = (body.get("metadata") or {}).get("name", "")
    try:
        plain = _snaked({key: value for key, value in status.items() if key not in {"status", "summary"}})
        report = msgspec.convert({"node": name, **plain}, NodeReport)
    except (msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise MalformedReport(f"{KIND} {name}: status: {error}") from None
    if report.node != name:
        raise MalformedReport(f"{KIND} {name}: status.node is {report.node!r}")
    return report


def expected_text(expected: NodeExpectation) -> str:
    """Return the value of the annotation; empty if nothing is expected."""
    return "" if expected == NodeExpectation() else msgspec.json.encode(expected).decode()


def expected_of(body: Mapping[str, Any]) -> NodeExpectation:
    """Return what the annotation of an object says; one that cannot be read, which the next round replaces, nothing."""
    try:
        return msgspec.json.decode(annotation(body, EXPECTED) or "{}", type=NodeExpectation)
    except NOT_JSON:
        return NodeExpectation()


def summary_of(report: NodeReport) -> str:
    """Return one line about a report: the gravest findings by check."""
    parts = []
    for status in _STATUSES:
        found = sorted({one.check for one in report.findings if one.status is status})
        if found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""  # noqa: PLR2004 - as many as a line holds
            parts.append(f"{status}: {', '.join(found[:3])}{more}")
    return "; ".join(parts) or f"{plural(len(report.passed), 'check')} passed"


# Size.


def _gravity(finding: HealthFinding) -> tuple[int, int, str, str]:
    return _STATUSES.index(finding.status), _SEVERITIES.index(finding.severity), finding.check, finding.slot


def _fitted(report: NodeReport) -> NodeReport:
    """Return the report with its findings by gravity, and as much of them as `MAX_BYTES` allows."""
    findings = sorted((_clean(one) for one in report.findings if one.status in _STATUSES), key=_gravity)
    full = replace(report, findings=tuple(findings))
    if _size(full) <= MAX_BYTES:
        return full
    short = full
    for measured, (kept, brief) in product((report.measured, {}), _KEPT_WHOLE):  # a finding is worth more than a series
        cut = [
            one if place < kept else _brief(one) if place < kept + brief else _bare(one)
            for place, one in enumerate(findings)
        ]
        short = replace(report, findings=tuple(cut), shortened=max(len(cut) - kept, 0), measured=measured)
        if _size(short) <= MAX_BYTES:
            return short
    return _without_tail(short, MAX_BYTES)


def _without_tail(report: NodeReport, limit: int) -> NodeReport:
    """Leave out the least grave findings until the report fits."""
    total, room = len(report.findings), limit - _size(replace(report, findings=(), omitted=len(report.findings)))
    count = 0
    for finding in report.findings:
        room -= len(msgspec.json.encode(_encoded(finding))) + 1
        if room < 0:
            break
        count += 1
    return replace(
        report, findings=report.findings[:count], shortened=min(report.shortened, count), omitted=total - count
    )


def _size(report: NodeReport) -> int:
    head = {"status": "UNKNOWN", "summary": summary_of(report)}
    return len(msgspec.json.encode(head | _encoded(report)))


def _clean(finding: HealthFinding) -> HealthFinding:
    """Return the finding without secrets and without text that no JSON can hold."""
    text = _cut(mask_text(finding.message[: 2 * _TEXT].encode("utf-8", "replace").decode()), _TEXT)
    return finding if text == finding.message else replace(finding, message=text)


def _brief(finding: HealthFinding) -> HealthFinding:
    threshold = finding.threshold and replace(finding.threshold, citation="")
    return replace(finding, message=_cut(finding.message, _BRIEF), threshold=threshold)


def _bare(finding: HealthFinding) -> HealthFinding:
    return HealthFinding(
        check=finding.check,
        slot=finding.slot,
        status=finding.status,
        severity=finding.severity,
        action=finding.action,
        profile=finding.profile,
        codes=finding.codes,
        message="",
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


# Names and times.


def _encoded(value: Any) -> Any:
    """Return a struct as plain values, with names and times as Kubernetes writes them."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, dict):
        return {camel(key): _field(key, item) for key, item in value.items()}
    return value


def _field(name: str, value: Any) -> Any:
    if name in TIMES:
        return _time(value)
    return value if name in MAPS else _encoded(value)


def _snaked(value: Any) -> Any:
    if isinstance(value, list):
        return [_snaked(item) for item in value]
    if isinstance(value, dict):
        plain = {_snake(key): item for key, item in value.items()}
        return {
            key: _seconds(item) if key in TIMES else item if key in MAPS else _snaked(item)
            for key, item in plain.items()
        }
    return value


_ABBREVIATIONS = {"node_uid": "nodeUID", "boot_id": "bootID"}
_ABBREVIATED = {value: key for key, value in _ABBREVIATIONS.items()}


def camel(name: str) -> str:
    """Return the name of a field in the object."""
    head, *rest = name.split("_")
    return _ABBREVIATIONS.get(name) or head + "".join(part.capitalize() for part in rest)


def _snake(name: str) -> str:
    return _ABBREVIATED.get(name) or re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _time(seconds: float) -> str:
    """Return a time as RFC 3339; the epoch itself for 0."""
    when = dt.datetime.fromtimestamp(seconds, dt.UTC)
    text = when.isoformat(timespec="microseconds" if when.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
