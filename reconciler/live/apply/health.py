"""The objects of a cluster that are not ready, whoever applied them and whenever."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.ownership import LABEL, OWNER
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.client.port import LiveCluster, UnknownKind
from reconciler.kube.objects import ObjectKey
from reconciler.live.apply.readiness import Readiness, State
from reconciler.live.apply.waiting import object_readiness
from reconciler.plan.live.reading import key_of


def unready_objects(live: LiveCluster, kinds: Kinds, summaries: Iterable[ObjectSummary]) -> dict[ObjectKey, Readiness]:
    """Look once, by lists of their kinds, and return those that exist and are not ready. Raises `ClusterError`."""
    by_kind: dict[tuple[str, str], dict[ObjectKey, ObjectSummary]] = {}
    for summary in summaries:
        by_kind.setdefault((summary.group, summary.kind), {})[summary.key] = summary
    found: dict[ObjectKey, Readiness] = {}
    for (group, kind), wanted in sorted(by_kind.items()):
        for key, body in _listed(live, group, kind):
            if key in wanted:
                state = object_readiness(kinds, wanted[key], body)
                if state.state is not State.READY:
                    found[key] = state
    return found


def _listed(live: LiveCluster, group: str, kind: str) -> Iterable[tuple[ObjectKey, Mapping[str, Any]]]:
    try:
        resource = live.resource(group, kind)
    except UnknownKind:
        return
    for body in live.list(resource, labels=f"{LABEL}={OWNER}").objects:
        yield key_of(resource, body), body
