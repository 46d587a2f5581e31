"""Node labels and annotations from a report, in the formats of Autopilot and AgentaFlow. The controller writes them."""

import datetime as dt
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.values import mapping, sequence
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding
from reconciler.nodehealth.merging import DCGM_LEVEL
from reconciler.nodehealth.nodes import MANAGER
from reconciler.nodehealth.policy import ExportChoices
from reconciler.nodehealth.report import NodeReport

AUTOPILOT_HEALTH = "autopilot.ibm.com/gpuhealth"
AUTOPILOT_DCGM = "autopilot.ibm.com/dcgm.level."
AGENTAFLOW = "agentaflow.gpu/"
MAX_LENGTH = 63
"""The most characters of a label's value."""

_BUSY = 90.0
_LOW, _MEDIUM = 25.0, 75.0
_HYSTERESIS = 5.0


class GpuHealthLabel(StrEnum):
    """The values of `autopilot.ibm.com/gpuhealth`. Empty: not known, and the label is removed."""

    PASS = "PASS"  # noqa: S105 (a status)
    WARN = "WARN"
    EVICT = "EVICT"
    TESTING = "TESTING"
    NONE = ""


class UtilizationTier(StrEnum):
    """The values of `agentaflow.gpu/utilization-tier`: below 25 %, below 75 %, and the rest."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class NodeLabels(Struct, frozen=True, kw_only=True):
    """Labels and annotations to set; None removes one."""

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None] = {}


def autopilot_labels(report: NodeReport, now: float) -> NodeLabels:
    """Return the labels of Autopilot: the verdict, and the last result of each level of DCGM."""
    labels: dict[str, str | None] = {AUTOPILOT_HEALTH: gpu_health(report, now).value or None}
    annotations: dict[str, str | None] = {}
    for run in report.runs:
        if run.level and run.finished_at:
            check = f"{DCGM_LEVEL}{run.level}"
            word = "ERR" if check in run.failed else "PASS"
            labels[f"{AUTOPILOT_DCGM}{run.level}"] = f"{word}_{stamp(run.finished_at)}"
            annotations[f"{AUTOPILOT_DCGM}{run.level}.output"] = "\n".join(_failures(report, check)) or None
    return NodeLabels(labels=labels, annotations=annotations)


def gpu_health(report: NodeReport, now: float) -> GpuHealthLabel:
    """Return the verdict. A fatal failure wins, then a running test, then any failure or warning.

    A node of which something is unknown and nothing bad is neither PASS nor WARN: it has no label.
    """
    if any(_is_fatal(one) for one in report.findings):
        return GpuHealthLabel.EVICT
    if any(run.is_running(now) for run in report.runs):
        return GpuHealthLabel.TESTING
    of_hardware = [one for one in report.findings if one.severity is not FindingSeverity.APP]
    if any(one.status in (CheckStatus.WARN, CheckStatus.FAIL) for one in of_hardware):
        return GpuHealthLabel.WARN
    is_known = report.passed and not any(one.status is CheckStatus.UNKNOWN for one in of_hardware)
    return GpuHealthLabel.PASS if is_known else GpuHealthLabel.NONE


def stamp(seconds: float) -> str:
    """Return a time as Autopilot writes it in labels: `2024-02-26_13.45.07UTC`."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d_%H.%M.%SUTC")


def _is_fatal(finding: HealthFinding) -> bool:
    return finding.status is CheckStatus.FAIL and finding.severity is FindingSeverity.FATAL


def _failures(report: NodeReport, check: str) -> Iterator[str]:
    """Yield the tests of a check that failed, each with its GPUs: `pcie.0.3`; the check itself if it names none."""
    index = {gpu.slot: gpu.index for gpu in report.gpus}
    for one in report.findings:
        if one.check == check and one.status in (CheckStatus.FAIL, CheckStatus.WARN):
            named = one.observed if isinstance(one.observed, str) else ""
            gpu = f".{index[one.slot]}" if one.slot in index else ""
            yield from named.split(",") if named else (f"{one.check}{gpu}",)


# AgentaFlow.


def agentaflow_labels(
    report: NodeReport, loads: Mapping[str, float], tier: UtilizationTier | None = None
) -> NodeLabels:
    """Return the labels of AgentaFlow. `tier` is the one that the node has: it is kept near the edge.

    A GPU is available if it is not failing and less than 90 % busy; one of which that is not known is not.
    """
    failing = {one.slot for one in report.findings if one.status is CheckStatus.FAIL and one.severity != "app"}
    free = {slot for slot, percent in loads.items() if percent < _BUSY} - failing
    available = [] if "" in failing else [gpu for gpu in report.gpus if gpu.slot in free]
    known = list(loads.values())
    average = sum(known) / len(known) if known else None
    return NodeLabels(
        labels={
            f"{AGENTAFLOW}enabled": "true",
            f"{AGENTAFLOW}count": str(len(report.gpus)),
            f"{AGENTAFLOW}schedulable": "true" if available else "false",
            f"{AGENTAFLOW}utilization-tier": None if average is None else steady_tier(average, tier).value,
        },
        annotations={f"{AGENTAFLOW}available-count": str(len(available))},
    )


def utilization_tier(percent: float) -> UtilizationTier:
    """Return the tier of a utilisation."""
    if percent < _LOW:
        return UtilizationTier.LOW
    return UtilizationTier.MEDIUM if percent < _MEDIUM else UtilizationTier.HIGH


def steady_tier(percent: float, tier: UtilizationTier | None) -> UtilizationTier:
    """Return the tier, but the old one while the utilisation is within 5 points of it: labels must not flap."""
    near = {utilization_tier(percent - _HYSTERESIS), utilization_tier(percent + _HYSTERESIS)}
    return tier if tier in near else utilization_tier(percent)


_TIER = f"{AGENTAFLOW}utilization-tier"


def node_labels(
    body: Mapping[str, Any], report: NodeReport | None, choices: ExportChoices, now: float, *, is_current: bool
) -> NodeLabels:
    """Return what a node shall say in the formats of Autopilot and AgentaFlow.

    `is_current`: the report is neither too old nor about another node of this name. Of one that is, only EVICT stays.
    Keys of an export that is off, or of which nothing is known, are removed if we wrote them; those of others stay.
    """
    labels, annotations = _ours(body, "labels"), _ours(body, "annotations")
    if report is not None and choices.autopilot_labels:
        made = autopilot_labels(report, now)
        verdict = made.labels[AUTOPILOT_HEALTH]
        is_kept = is_current or verdict == GpuHealthLabel.EVICT
        labels = _without_levels(labels) | dict(made.labels) | {AUTOPILOT_HEALTH: verdict if is_kept else None}
        annotations = _without_levels(annotations) | dict(made.annotations)
    if report is not None and choices.agentaflow_labels and is_current:
        made = agentaflow_labels(report, report.utilization, _tier(body))
        labels |= dict(made.labels)
        annotations |= dict(made.annotations)
    return NodeLabels(labels=labels, annotations=annotations)


def _without_levels(keys: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the keys without those of levels of DCGM: the last result of a level stays."""
    return {key: value for key, value in keys.items() if not key.startswith(AUTOPILOT_DCGM)}


def _ours(body: Mapping[str, Any], field: str) -> dict[str, str | None]:
    """Return the keys of exports whose field manager is ours, as removed."""
    metadata = mapping(body.get("metadata"))
    rows = (mapping(row) for row in sequence(metadata.get("managedFields")))
    owned = [
        mapping(mapping(mapping(row.get("fieldsV1")).get("f:metadata")).get(f"f:{field}"))
        for row in rows
        if row.get("manager") == MANAGER
    ]
    return {
        key: None
        for key in mapping(metadata.get(field))
        if key == AUTOPILOT_HEALTH or key.startswith((AUTOPILOT_DCGM, AGENTAFLOW))
        if any(f"f:{key}" in fields for fields in owned)
    }


def _tier(body: Mapping[str, Any]) -> UtilizationTier | None:
    """Return the tier that the node has, near whose edge it stays."""
    known = mapping(mapping(body.get("metadata")).get("labels")).get(_TIER)
    return UtilizationTier(known) if known in {one.value for one in UtilizationTier} else None
