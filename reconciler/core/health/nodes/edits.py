"""How a node object differs from its mark: a guarded JSON patch of the node, and the conditions of its status."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.health.nodes.mark import (
    KEEP,
    MANAGER,
    PROBLEM,
    RECORD,
    STATE_LABEL,
    TAINT_KEYS,
    VALIDATED,
    HealthTaint,
    NodeMark,
    TaintRecord,
    parse_record,
)

HEARTBEAT_SECONDS = 300.0
"""How often the condition of a problem says that somebody still looks. Without a problem nothing is repeated."""

_LABEL_LENGTH = 63
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
        patch=(*guard, *operations),
        conditions=conditions,
        changes=(*taint_change, *label_change, *condition_changes),
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
        is_old = now - _seconds(before.get("lastHeartbeatTime")) >= HEARTBEAT_SECONDS
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


def timestamp(seconds: float) -> str:
    """Return a time as the API server writes it."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: Any) -> float:
    """Return a time of the API server in seconds; 0 if there is none."""
    return dt.datetime.fromisoformat(text).timestamp() if isinstance(text, str) and text else 0.0
