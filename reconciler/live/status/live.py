"""`ClusterObjects`: the objects of a live cluster that the status of its jobs depends on, found by owner."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from reconciler.kinds.facts import KindId
from reconciler.kube.values import mapping, sequence, text

Body = Mapping[str, Any]

_MAX_DEPTH = 8  # owners above a pod


class ClusterObjects(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Objects by what they are, None where they could not be read. `jobs` are of all kinds that end."""

    jobs: Sequence[Body] = ()
    pods: Sequence[Body] | None = ()
    workloads: Sequence[Body] | None = ()  # Kueue's
    pod_groups: Sequence[Body] | None = ()  # KAI's
    aliases: Sequence[Body] | None = ()  # Kueue's LocalQueues
    queues: Sequence[Body] | None = ()  # ClusterQueues, and KAI's queues
    nodes: Sequence[Body] | None = ()
    claims: Sequence[Body] | None = ()  # PersistentVolumeClaims
    unread: Mapping[KindId, str] = {}  # kinds of jobs that could not be listed, each with the reason

    def pods_of(self, job: Body) -> Sequence[Body]:
        """Return the pods that a job or one of its children owns."""
        return self._pods.get(uid(job), ())

    def workload_of(self, job: Body) -> Body | None:
        """Return Kueue's workload for a job."""
        return next(iter(self._workloads.get(uid(job), ())), None)

    def pod_groups_of(self, job: Body) -> Sequence[Body]:
        """Return KAI's pod groups of a job."""
        return self._groups.get(uid(job), ())

    @cached_property
    def _owners(self) -> dict[str, str]:
        """The UID of the owner of each job that has one."""
        return {uid(job): owner for job in self.jobs if (owner := _owner(job))}

    @cached_property
    def _pods(self) -> dict[str, list[Body]]:
        return self._by_root(self.pods or ())

    @cached_property
    def _groups(self) -> dict[str, list[Body]]:
        return self._by_root(self.pod_groups or ())

    @cached_property
    def _workloads(self) -> dict[str, list[Body]]:
        found: dict[str, list[Body]] = {}
        for body in self.workloads or ():
            found.setdefault(_owner(body), []).append(body)
        return found

    def _by_root(self, bodies: Iterable[Body]) -> dict[str, list[Body]]:
        found: dict[str, list[Body]] = {}
        for body in bodies:
            owner = _owner(body)
            for _ in range(_MAX_DEPTH):
                found.setdefault(owner, []).append(body)
                owner = self._owners.get(owner, "")
                if not owner:
                    break
        return found


def uid(body: Body) -> str:
    """Return the UID of an object."""
    return text(mapping(body.get("metadata")).get("uid"))


def _owner(body: Body) -> str:
    owners = [mapping(one) for one in sequence(mapping(body.get("metadata")).get("ownerReferences"))]
    controllers = [owner for owner in owners if owner.get("controller") is True] or owners
    return text(controllers[0].get("uid")) if controllers else ""
