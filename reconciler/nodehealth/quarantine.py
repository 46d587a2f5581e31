"""`NodeQuarantine`: the reviewed decision to keep work off a node, or off some of its GPUs."""

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.nodehealth.findings import RepairAction

KIND = "NodeQuarantine"
API_VERSION = "gpureconciler.io/v1alpha1"


class TaintEffect(StrEnum):
    """The effect of a quarantine's taint on pods. NO_EXECUTE stops those that run."""

    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class Stage(StrEnum):
    """The stage that the merge of the file asks for, in the order of a repair."""

    QUARANTINE = "quarantine"
    DRAIN = "drain"
    REPAIR = "repair"
    VALIDATE = "validate"
    RETIRE = "retire"


class NodeQuarantine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node that is kept out of use.

    uid: of the node; a replaced node of the same name is not meant. slots: PCI bus ids; empty is the whole node.
    check: the id of the check that failed. evidence: digest of the report. until: RFC 3339; empty has no end.
    """

    name: str
    node: str
    uid: str = ""
    slots: tuple[str, ...] = ()
    check: str = ""
    reason: str = ""
    evidence: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
    action: RepairAction = RepairAction.NONE
    stage: Stage = Stage.QUARANTINE
    until: str = ""
    source: SourceRef | None = None

    @property
    def takes_node(self) -> bool:
        """True if new pods stay away from the node, so that its GPUs are lost for queues."""
        return self.effect is not TaintEffect.PREFER_NO_SCHEDULE

    def is_stale(self, uid: str) -> bool:
        """Say whether another node has the name by now. Without both UIDs: no."""
        return bool(self.uid and uid and self.uid != uid)

    def has_ended(self, now: float) -> bool:
        """Say whether `until` has passed. The taint stays all the same while the check fails."""
        return bool(self.until) and dt.datetime.fromisoformat(self.until).timestamp() <= now


def read_quarantine(name: str, spec: Mapping[str, Any], source: SourceRef | None = None) -> NodeQuarantine:
    """Read a spec that its schema has accepted."""
    return NodeQuarantine(
        name=name,
        node=spec["node"],
        uid=spec.get("nodeUID", ""),
        slots=tuple(sorted(spec.get("slots", ()))),
        check=spec.get("check", ""),
        reason=spec.get("reason", ""),
        evidence=spec.get("evidence", ""),
        effect=TaintEffect(spec.get("effect", TaintEffect.NO_SCHEDULE)),
        action=RepairAction(spec.get("action", RepairAction.NONE)),
        stage=Stage(spec.get("stage", Stage.QUARANTINE)),
        until=str(spec.get("until", "")),
        source=source,
    )


def write_quarantine(quarantine: NodeQuarantine) -> dict[str, Any]:
    """Return the object as plain data, in the order of the schema."""
    spec: dict[str, Any] = {
        "node": quarantine.node,
        "nodeUID": quarantine.uid,
        "slots": list(quarantine.slots),
        "check": quarantine.check,
        "reason": quarantine.reason,
        "evidence": quarantine.evidence,
        "effect": str(quarantine.effect),
        "action": "" if quarantine.action is RepairAction.NONE else str(quarantine.action),
        "stage": "" if quarantine.stage is Stage.QUARANTINE else str(quarantine.stage),
        "until": quarantine.until,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": quarantine.name},
        "spec": {key: value for key, value in spec.items() if value},
    }
