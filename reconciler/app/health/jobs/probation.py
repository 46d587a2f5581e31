"""Jobs that end well on nodes in probation, from the pods of these nodes and the status of the whole workload."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.app.health.fast_lane import LaneRound
from reconciler.app.health.fleet_reading import pods_on
from reconciler.core.health.fleet.state import HealthPhase
from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.progress import Phase
from reconciler.core.objects import split_api_version
from reconciler.core.observe.placed import controller_of, row_of, succeeded_owners
from reconciler.core.values import mapping, text
from reconciler.ports.cluster import Body, ClusterError, LiveCluster

MOST = 100
"""How many jobs of a node are remembered: the most that a policy can ask for."""

_DEPTH = 5  # a Job of a JobSet of a TrainJob in an AppWrapper, and one more


class ProvenNodes(Struct, frozen=True, kw_only=True):
    """The workloads that ended well on each node in probation, by UID; and what could not be read."""

    jobs: Mapping[str, tuple[str, ...]] = {}
    problems: tuple[str, ...] = ()


def ended_well(cluster: LiveCluster, kinds: Kinds, done: LaneRound) -> ProvenNodes:
    """Return what was known, with the workloads that have ended well since. A list that fails counts nothing.

    Only the pods of nodes in probation are listed.
    """
    jobs: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, node in sorted(done.evaluation.state.nodes.items()):
        if node.phase is not HealthPhase.PROBATION:
            continue
        known = done.state.proven.get(name, ())
        try:
            owners = succeeded_owners(kinds, pods_on(cluster, name), node.since)
            new = [uid for one in owners for uid in _succeeded(cluster, kinds, one)]
        except ClusterError as error:
            problems.append(f"{name}: the jobs of its probation cannot be counted: {error.message}")
            new = []
        if known or new:
            jobs[name] = tuple(dict.fromkeys((*known, *new)))[:MOST]
    return ProvenNodes(jobs=jobs, problems=tuple(problems))


def _succeeded(cluster: LiveCluster, kinds: Kinds, owner: Mapping[str, Any]) -> Iterator[str]:
    """Yield the UID of the whole workload of an owner if all of it succeeded."""
    namespace = text(owner.get("namespace"))
    for _ in range(_DEPTH):
        row, body = row_of(kinds, owner), _find(cluster, namespace, owner)
        if body is None or row.progress is None:
            return
        above = controller_of(body)
        if row_of(kinds, above).progress is None:
            if row.progress(body).phase is Phase.SUCCEEDED:
                yield text(owner.get("uid"))
            return
        owner = above


def _find(cluster: LiveCluster, namespace: str, owner: Mapping[str, Any]) -> Body | None:
    """Return an owner, unless it is gone. It is listed: that is what the chart permits in every mode."""
    resource = cluster.resource(split_api_version(text(owner.get("apiVersion")))[0], text(owner.get("kind")))
    listing = cluster.list(resource, namespace=namespace, fields=f"metadata.name={text(owner.get('name'))}")
    return next((one for one in listing.objects if mapping(one.get("metadata")).get("uid") == owner.get("uid")), None)
