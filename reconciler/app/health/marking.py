"""Write marks to nodes of a live cluster: what is ours, guarded against every other writer."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.app.health.events import EventTarget, notify_users, record_event
from reconciler.core.health.nodes import MANAGER, NodeEdits, NodeMark, RepairOwner, node_edits
from reconciler.core.objects import ObjectKey
from reconciler.ports.clock import Clock
from reconciler.ports.cluster import Body, ClusterError, LiveCluster

_ATTEMPTS = 5
_CONFLICTS = frozenset({404, 409, 422})  # gone, another version, a `test` of a patch that failed: look again


class MarkResult(StrEnum):
    """The result of writing a mark."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    PLANNED = "planned"  # a dry run: nothing was sent
    GONE = "gone"  # there is no such node
    REPLACED = "replaced"  # another machine has the name by now
    CONTENDED = "contended"  # somebody kept changing the node


class MarkedNode(Struct, frozen=True, kw_only=True):
    """The result of writing one mark. `observed`: somebody else repairs the node, so only conditions are written."""

    node: str
    result: MarkResult
    changes: tuple[str, ...] = ()
    conflicts: int = 0
    observed: RepairOwner | None = None


def write_mark(
    cluster: LiveCluster,
    mark: NodeMark,
    body: Body | None,
    *,
    clock: Clock,
    owner: RepairOwner | None = None,
    dry_run: bool = False,
) -> MarkedNode:
    """Make a node say what its mark says. `body` is the node as it was listed; it is read again after a conflict.

    Writes one JSON patch for taint, label and annotations, one apply of our conditions, and an event for every
    change. Each only if something differs.
    """
    for conflicts in range(_ATTEMPTS):
        if conflicts:
            body = cluster.get(node_key(mark.node))
        if body is None or "deletionTimestamp" in body["metadata"]:
            return MarkedNode(node=mark.node, result=MarkResult.GONE, conflicts=conflicts, observed=owner)
        if body["metadata"]["uid"] != mark.uid:
            return MarkedNode(node=mark.node, result=MarkResult.REPLACED, conflicts=conflicts, observed=owner)
        edits = node_edits(body, mark, clock.now().timestamp(), conditions_only=owner is not None)
        result = MarkResult.PLANNED if edits.changes else MarkResult.UNCHANGED
        if not dry_run:
            try:
                _write(cluster, mark, edits)
            except ClusterError as error:
                if error.status not in _CONFLICTS:
                    raise
                continue
            if edits.changes:
                _tell(cluster, mark, edits.changes, clock)
            result = MarkResult.WRITTEN if edits.patch or edits.conditions else MarkResult.UNCHANGED
        return MarkedNode(node=mark.node, result=result, changes=edits.changes, conflicts=conflicts, observed=owner)
    return MarkedNode(node=mark.node, result=MarkResult.CONTENDED, conflicts=_ATTEMPTS, observed=owner)


def _write(cluster: LiveCluster, mark: NodeMark, edits: NodeEdits) -> None:
    """Fence first, then explain: a crash between both leaves a taint with its reason beside it."""
    if edits.patch:
        cluster.patch(node_key(mark.node), list(edits.patch), manager=MANAGER)
    if edits.conditions:
        status: Mapping[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": mark.node, "uid": mark.uid},
            "status": {"conditions": list(edits.conditions)},
        }
        cluster.apply(status, manager=MANAGER, force=True, subresource="status")


def _tell(cluster: LiveCluster, mark: NodeMark, changes: Sequence[str], clock: Clock) -> None:
    """Tell those who run the node; if it was fenced just now, also those whose pods run there."""
    about = EventTarget(api_version="v1", kind="Node", name=mark.node, uid=mark.uid)
    text = f"{mark.message} ({', '.join(changes)})"
    record_event(cluster, about, reason=mark.reason, message=text, is_warning=mark.is_problem, clock=clock)
    if any(change.startswith("taint ") for change in changes):
        notify_users(cluster, mark, clock)


def node_key(name: str) -> ObjectKey:
    """Return the key of a node."""
    return ObjectKey(group="", kind="Node", namespace="", name=name)
