"""`NodeMark`: what a node object shall say about the health of its GPUs."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from reconciler.core.values import NOT_JSON

MANAGER = "gpureconciler-health"
"""The field manager of conditions, taints and labels of health. It never changes."""

STATE_LABEL = "gpureconciler.io/health"
RECORD = "gpureconciler.io/health-taint"
"""Annotation beside our taint: who set it, why, and until when."""

TAINT = "gpureconciler.io/gpu-problem"
AUTOSCALER_TAINT = "status-taint.cluster-autoscaler.kubernetes.io/gpu-problem"
"""The key for clusters with cluster-autoscaler, which neither copies it to new nodes nor counts the node as unready."""

KEEP = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
PROBLEM, VALIDATED = "GPUProblem", "GPUValidated"
TAINT_KEYS = (TAINT, AUTOSCALER_TAINT)


class HealthTaint(Struct, frozen=True, kw_only=True):
    """Our taint on a node. `reason` is the id of the check, `until` the time at which it is judged again (epoch)."""

    reason: str
    case: str
    since: float
    until: float
    effect: str = "NoSchedule"  # or PreferNoSchedule; running pods stay under both, because we never evict
    policy: str = ""  # digest of the policy that allowed it
    key: str = TAINT
    keep: bool = False  # whether cluster-autoscaler must not remove the node meanwhile


class NodeMark(Struct, frozen=True, kw_only=True):
    """What the node with this UID shall say. `validated` None: no deep test has said anything yet.

    `reason` is CamelCase, for the conditions. A mark without a taint removes ours and nobody else's. `labels` and
    `annotations` are those of other projects; None removes one.
    """

    node: str
    uid: str
    state: str  # value of the label; empty removes it
    is_problem: bool
    reason: str
    message: str
    validated: bool | None = None
    taint: HealthTaint | None = None
    labels: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}


class TaintRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The annotation beside our taint, as JSON. `kept`: whether we set cluster-autoscaler's annotation, too."""

    owner: str
    case: str
    reason: str
    since: str
    until: str
    policy: str = ""
    kept: bool = False


def parse_record(text: str) -> TaintRecord | None:
    """Return the record of an annotation; None if it is not ours or was damaged."""
    try:
        record = msgspec.json.decode(text, type=TaintRecord)
    except NOT_JSON:
        return None
    return record if record.owner == MANAGER else None


def condition_reason(check: str) -> str:
    """Return the id of a check as the reason of a condition: `gpu.recovery_action` is `GpuRecoveryAction`."""
    words = "".join(char if char.isalnum() else " " for char in check).split()
    return "".join(word[:1].upper() + word[1:] for word in words)
