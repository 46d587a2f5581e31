"""Marks on nodes: the mark that a decision leads to, and the edits that write it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kube.times import timestamp, unix_time
from reconciler.kube.values import NOT_JSON
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.fleet.decisions import HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import NodeState
from reconciler.nodehealth.quarantine import TaintEffect

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
    """The marks of the node with this UID. `validated` None: no deep test has said anything yet.

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


_MESSAGE_LENGTH = 1000
_ENDLESS = 0.0


def node_mark(
    decision: HealthDecision,
    state: NodeState,
    body: Mapping[str, Any],
    *,
    case: str,
    policy: str = "",
    autoscaler: bool = False,
) -> NodeMark | None:
    """Return what a node shall say; None where nothing is known of it and nothing was ever written.

    A stale report changes no condition: it stays, and its message says since when the state is unknown. Only a merged
    quarantine may evict; the fast lane never does.
    """
    is_problem = decision.condition is ProblemStatus.TRUE
    before = _problem_before(body)
    if decision.condition is ProblemStatus.UNKNOWN:
        if before is None and decision.taint is None:
            return None
        is_problem = before == "True"
    reason = condition_reason(decision.check) if is_problem else "NoProblem"
    if decision.condition is ProblemStatus.UNKNOWN:
        reason = "ReportMissing"
    return NodeMark(
        node=decision.node,
        uid=body["metadata"]["uid"],
        state=decision.phase.value,
        is_problem=is_problem,
        reason=reason or "GpuProblem",
        message=(decision.reason or "no check reports a problem")[:_MESSAGE_LENGTH],
        validated=_validated(state),
        taint=_taint(decision, state, case, policy, autoscaler=autoscaler),
    )


def _taint(
    decision: HealthDecision, state: NodeState, case: str, policy: str, *, autoscaler: bool
) -> HealthTaint | None:
    if decision.taint is None:
        return None
    evicts = decision.taint is TaintEffect.NO_EXECUTE and state.merged
    effect = TaintEffect.NO_SCHEDULE if decision.taint is TaintEffect.NO_EXECUTE and not evicts else decision.taint
    return HealthTaint(
        reason=decision.check or "quarantine",
        case=case,
        since=state.since,
        until=decision.until or _ENDLESS,
        effect=effect.value,
        policy=policy,
        key=AUTOSCALER_TAINT if autoscaler else TAINT,
        keep=autoscaler,
    )


def _validated(state: NodeState) -> bool | None:
    heavy = [one for one in state.failures if one.profile.weight >= ProbeProfile.DEEP.weight and one.is_failing]
    if heavy:
        return False
    return True if state.validated_at else None


def _problem_before(body: Mapping[str, Any]) -> str | None:
    rows = (body.get("status") or {}).get("conditions") or ()
    return next((row.get("status") for row in rows if row.get("type") == PROBLEM), None)


HEARTBEAT_SECONDS = 300.0
"""The interval in which the condition of a problem is repeated. Without a problem nothing is repeated."""

_LABEL_LENGTH = 63  # no value of a label may be longer
_TRUTH = {True: "True", False: "False", None: "Unknown"}
Operation = dict[str, Any]


class NodeEdits(Struct, frozen=True, kw_only=True, eq=False):
    """The writes that one node needs. `changes` say in words what differs, without heartbeats and exports."""

    patch: tuple[Operation, ...] = ()
    conditions: tuple[dict[str, str], ...] = ()
    changes: tuple[str, ...] = ()


def our_taint(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return our taint on a node."""
    taints = (body.get("spec") or {}).get("taints") or ()
    return next((taint for taint in taints if taint.get("key") in TAINT_KEYS), None)


def taint_record(body: Mapping[str, Any]) -> TaintRecord | None:
    """Return the record beside our taint."""
    text = (body["metadata"].get("annotations") or {}).get(RECORD)
    return parse_record(text) if isinstance(text, str) else None


def is_overridden(body: Mapping[str, Any]) -> bool:
    """Tell whether somebody removed our taint by hand: its record is still there."""
    return taint_record(body) is not None and our_taint(body) is None


def node_edits(body: Mapping[str, Any], mark: NodeMark, now: float, *, conditions_only: bool = False) -> NodeEdits:
    """Return what must be written so that a node says what its mark says. Nothing of others changes."""
    conditions, condition_changes = _conditions(body, mark, now)
    if conditions_only:
        return NodeEdits(conditions=conditions, changes=condition_changes)
    taints, taint_change = _taint_operations(body, mark.taint)
    state: dict[str, str | None] = {STATE_LABEL: _label(mark.state) or None}
    _, label_change = _map_operations(body, "labels", state)
    labels, _ = _map_operations(body, "labels", {**mark.labels, **state})
    annotations, _ = _map_operations(body, "annotations", {**mark.annotations, **_annotations(body, mark.taint)})
    operations = [*taints, *labels, *annotations]
    guard = [{"op": "test", "path": "/metadata/uid", "value": mark.uid}] if operations else []
    return NodeEdits(
        patch=(*guard, *operations), conditions=conditions, changes=(*taint_change, *label_change, *condition_changes)
    )


def _taint_operations(body: Mapping[str, Any], wanted: HealthTaint | None) -> tuple[list[Operation], list[str]]:
    """Edit one element of the list. The `test` of the list fails if anybody changed it since it was read."""
    taints: Sequence[Mapping[str, Any]] = (body.get("spec") or {}).get("taints") or ()
    ours = [index for index, taint in enumerate(taints) if taint.get("key") in TAINT_KEYS]
    new = None if wanted is None else {"key": wanted.key, "value": _label(wanted.reason), "effect": wanted.effect}
    if [_identity(taints[index]) for index in ours] == ([_identity(new)] if new else []):
        return [], []
    guard: Operation = {"op": "test", "path": "/spec/taints", "value": list(taints)}
    if not taints:
        guard = {"op": "test", "path": "/metadata/resourceVersion", "value": body["metadata"]["resourceVersion"]}
    operations = [guard, *({"op": "remove", "path": f"/spec/taints/{index}"} for index in reversed(ours))]
    if new is not None:
        is_list = bool(taints)
        operations.append(
            {"op": "add", "path": f"/spec/taints{'/-' if is_list else ''}", "value": new if is_list else [new]}
        )
    text = f"taint {new['key']}={new['value']}:{new['effect']}" if new else f"no taint {taints[ours[0]]['key']}"
    return operations, [text]


def _identity(taint: Mapping[str, Any]) -> tuple[object, ...]:
    return taint.get("key"), taint.get("value"), taint.get("effect")


def _annotations(body: Mapping[str, Any], taint: HealthTaint | None) -> dict[str, str | None]:
    """Return our annotations; that of cluster-autoscaler only if nobody else had set it before."""
    before = taint_record(body)
    has_keep = KEEP in (body["metadata"].get("annotations") or {})
    was_ours = before is not None and before.kept
    if taint is None:
        return {RECORD: None, **({KEEP: None} if was_ours else {})}
    kept = taint.keep and (was_ours or not has_keep)
    record = TaintRecord(
        owner=MANAGER,
        case=taint.case,
        reason=taint.reason,
        since=timestamp(taint.since),
        until=timestamp(taint.until) if taint.until else "",
        policy=taint.policy,
        kept=kept,
    )
    text = msgspec.json.encode(record).decode()
    return {RECORD: text, **({KEEP: "true"} if kept else {KEEP: None} if was_ours else {})}


def _map_operations(
    body: Mapping[str, Any], field: str, wanted: Mapping[str, str | None]
) -> tuple[list[Operation], list[str]]:
    """Set or remove keys of labels or annotations, and leave all others."""
    existing = body["metadata"].get(field)
    if not existing:
        new = {key: value for key, value in wanted.items() if value is not None}
        changes = [f"{key}={value}" for key, value in new.items()]
        return ([{"op": "add", "path": f"/metadata/{field}", "value": new}] if new else []), changes
    operations: list[Operation] = []
    changes = []
    for key, value in wanted.items():
        path = f"/metadata/{field}/{key.replace('~', '~0').replace('/', '~1')}"
        if value is None and key in existing:
            operations.append({"op": "remove", "path": path})
            changes.append(f"no {key}")
        elif value is not None and existing.get(key) != value:
            operations.append({"op": "add", "path": path, "value": value})
            changes.append(f"{key}={value}")
    return operations, changes


def _conditions(
    body: Mapping[str, Any], mark: NodeMark, now: float
) -> tuple[tuple[dict[str, str], ...], tuple[str, ...]]:
    """Return our conditions if one of them changed or its heartbeat is old; else none."""
    known = {row.get("type"): row for row in (body.get("status") or {}).get("conditions") or ()}
    problem = (PROBLEM, _TRUTH[mark.is_problem], mark.reason, mark.message)
    reason = {True: "DeepTestPassed", False: "DeepTestFailed", None: "NotTested"}[mark.validated]
    text = {True: "the last deep test passed", False: "the last deep test failed", None: "no deep test has run"}
    rows: list[dict[str, str]] = []
    changes: list[str] = []
    is_due = False
    for name, status, why, message in (problem, (VALIDATED, _TRUTH[mark.validated], reason, text[mark.validated])):
        before = known.get(name) or {}
        is_same = all(
            before.get(key) == value for key, value in (("status", status), ("reason", why), ("message", message))
        )
        is_old = now - unix_time(before.get("lastHeartbeatTime")) >= HEARTBEAT_SECONDS
        is_due |= not is_same or (mark.is_problem and is_old)
        if before.get("status") != status:
            changes.append(f"{name}={status}")
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        rows.append(
            {
                "type": name,
                "status": status,
                "reason": why,
                "message": message,
                "lastHeartbeatTime": timestamp(now),
                "lastTransitionTime": since or timestamp(now),
            }
        )
    return (tuple(rows) if is_due else ()), tuple(changes)


def _label(text: str) -> str:
    """Return a text as the value of a label or taint."""
    value = "".join(char if char.isalnum() or char in "-_." else "-" for char in text)[:_LABEL_LENGTH]
    return value.strip("-_.")
