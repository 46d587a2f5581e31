"""The labels and annotations of other projects on one node: what its report says, and what of ours must go."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.health.exports.labels import (
    AGENTAFLOW,
    AUTOPILOT_DCGM,
    AUTOPILOT_HEALTH,
    GpuHealthLabel,
    GpuLoad,
    NodeLabels,
    UtilizationTier,
    agentaflow_labels,
    autopilot_labels,
)
from reconciler.core.health.nodes.mark import MANAGER
from reconciler.core.health.policy import ExportChoices
from reconciler.core.health.report import NodeReport
from reconciler.core.values import mapping, sequence

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
        loads = {slot: GpuLoad(utilization=percent) for slot, percent in report.utilization.items()}
        made = agentaflow_labels(report, loads, _tier(body))
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
