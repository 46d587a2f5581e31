"""Shards: each is a Lease, and the sources of a shard belong to the replica that holds it. One shard elects a leader.

A replica renews its leases, takes those whose holder does not renew, and hands some over when it holds more than its
share. Whether a holder renews is judged by our own clock: times of other machines are never compared.
"""

import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from reconciler.core.objects import ObjectKey
from reconciler.core.secrets import mask_text
from reconciler.errors import ReconcilerError
from reconciler.outputs.terminal.logs import Log
from reconciler.ports.cluster import ClusterError, LiveCluster

_GROUP, _VERSION, _KIND = "coordination.k8s.io", "v1", "Lease"
_MEMBER, _SHARD = "member", "shard"
_LABEL = "gpureconciler.io/lease"
_FORGOTTEN = 20  # times the duration of a lease
_log = Log(__name__)


class LeaseTimes(Struct, frozen=True, kw_only=True):
    """Seconds. A lease that nobody renews for `duration` is free; a holder that cannot renew gives up at `deadline`."""

    duration: float = 15.0
    deadline: float = 10.0
    renew: float = 2.0


class Seen(Struct, frozen=True, kw_only=True):
    """A lease as it was read: its holder, and when, by our own clock, it was first seen in this version."""

    holder: str
    version: str
    since: float
    body: Mapping[str, Any]


class Wanted(Struct, frozen=True, kw_only=True):
    """What to do with shards: take these, hand those over."""

    take: tuple[int, ...] = ()
    release: tuple[int, ...] = ()


def choose(holders: Sequence[str], members: Sequence[str], me: str) -> Wanted:
    """Decide what one replica does. `holders` are those of each shard, empty where the lease is free.

    Shares differ by at most one. Those who hold most get the larger ones, so that no shard moves without need, and
    among equals the first in order of name, so that replicas with the same view agree.
    """
    everyone = sorted({*members, me}, key=lambda member: (-holders.count(member), member))
    small, more = divmod(len(holders), len(everyone))
    share = small + (1 if everyone.index(me) < more else 0)
    mine = [shard for shard, holder in enumerate(holders) if holder == me]
    free = [shard for shard, holder in enumerate(holders) if not holder]
    if len(mine) > share:
        return Wanted(release=tuple(mine[share:]))
    return Wanted(take=tuple(free[: share - len(mine)]))


def shard_of(key: str, shards: int) -> int:
    """Return the shard of a source, the same in every replica."""
    return zlib.crc32(key.encode()) % shards


class LeaseShards:
    """Holds leases while it runs. `changed` is called after shards were won or lost.

    `is_busy` tells whether something runs for a shard: it is handed over only after that has ended.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        *,
        namespace: str,
        identity: str,
        shards: int = 1,
        name: str = "reconciler",
        times: LeaseTimes | None = None,
    ) -> None:
        self._cluster, self._namespace, self._me = cluster, namespace, identity
        self._count, self._name, self._times = shards, name, times or LeaseTimes()
        self._seen: dict[str, Seen] = {}
        self._held: dict[int, float] = {}  # shard: when it was renewed last, by our clock
        self._leaving: dict[int, float] = {}  # the same for shards that are handed over once nothing runs
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._reported: set[int] = set()  # what `changed` was called for last
        self._reporting = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name="leases", daemon=True),
            threading.Thread(target=self._expire, name="lease-expiry", daemon=True),
        ]
        self.changed: Callable[[], None] = lambda: None
        self.is_busy: Callable[[int], bool] = lambda _: False

    @property
    def held(self) -> int:
        """The number of shards that are held for certain."""
        with self._lock:
            return sum(1 for renewed in self._held.values() if self._is_fresh(renewed))

    def holds(self, key: str) -> bool:
        """Return whether the shard of a source is held for certain at this moment."""
        with self._lock:
            renewed = self._held.get(shard_of(key, self._count))
            return renewed is not None and self._is_fresh(renewed)

    def keeps(self, key: str) -> bool:
        """Return whether work on a source that has begun may go on: the shard is held, or about to be handed over."""
        shard = shard_of(key, self._count)
        with self._lock:
            renewed = self._held.get(shard, self._leaving.get(shard))
            return renewed is not None and self._is_fresh(renewed)

    def _is_fresh(self, renewed: float) -> bool:
        return time.monotonic() - renewed < self._times.deadline

    def start(self) -> None:
        """Begin to compete."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Hand all shards over at once and leave."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._times.deadline)
        with self._lock:
            held, self._held = [*self._held, *self._leaving], {}
            self._leaving = {}
        try:
            if self._member_name in self._seen:
                self._delete(self._member_name)
            for shard in held:
                self._write(self._shard_name(shard), holder="")
        except ClusterError as error:
            _log.event("warning", "the leases were not handed over", error=mask_text(str(error)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except ReconcilerError as error:
                _log.event("warning", "the leases cannot be renewed", error=mask_text(str(error)))
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread while shards are held
                _log.event("error", "bug in the leases", error=mask_text(repr(error)))
            self._report()
            self._stopping.wait(self._times.renew)

    def _expire(self) -> None:
        """Give up in time what cannot be renewed, also while a request for it hangs or is repeated."""
        while not self._stopping.wait(min(self._times.renew, self._times.deadline / 4)):
            self._report()

    def _report(self) -> None:
        with self._reporting:
            before, after = self._reported, self._certain()
            if before != after:
                self._reported = after
                _log.event("info", "shards changed", held=sorted(after), lost=sorted(before - after))
                self.changed()

    def _certain(self) -> set[int]:
        with self._lock:
            for shards in (self._held, self._leaving):
                for shard in [shard for shard, renewed in shards.items() if not self._is_fresh(renewed)]:
                    del shards[shard]
            return {*self._held}

    def _step(self) -> None:
        """Read all leases, renew ours, then take or hand over what the shares ask for."""
        self._read()
        self._write(self._member_name, holder=self._me)
        for shards in (self._held, self._leaving):
            for shard in [*shards]:
                self._renew(shard, shards)
        holders = [self._holder(self._shard_name(shard)) for shard in range(self._count)]
        members = [name for name in map(self._holder, self._seen) if name]
        wanted = choose(holders, members, self._me)
        for shard in wanted.release:
            with self._lock:
                if shard in self._held:
                    self._leaving[shard] = self._held.pop(shard)
        for shard in [*self._leaving]:
            if not self.is_busy(shard):
                self._write(self._shard_name(shard), holder="")
                with self._lock:
                    self._leaving.pop(shard, None)
        for shard in wanted.take:
            if shard not in self._leaving:
                self._renew(shard, self._held, is_new=True)
        if 0 in self._held:
            self._forget_members()

    def _renew(self, shard: int, shards: dict[int, float], *, is_new: bool = False) -> None:
        """Renew a lease, or take one that is free. One that another replica took meanwhile is lost."""
        name, sent = self._shard_name(shard), time.monotonic()
        seen = self._seen.get(name)
        is_ours = (is_new or (seen is not None and seen.holder == self._me)) and self._write(name, holder=self._me)
        with self._lock:
            if is_ours:
                shards[shard] = sent
            else:
                shards.pop(shard, None)

    def _forget_members(self) -> None:
        """Delete the leases of replicas that are long gone."""
        oldest = time.monotonic() - _FORGOTTEN * self._times.duration
        prefix = f"{self._name}-{_MEMBER}-"
        for name in [name for name, seen in self._seen.items() if name.startswith(prefix) and seen.since < oldest]:
            self._delete(name)

    def _delete(self, name: str) -> None:
        uid = self._seen.pop(name).body["metadata"]["uid"]
        self._cluster.delete(self._key(name), uid=uid, propagation="Background")

    def _read(self) -> None:
        resource = self._cluster.resource(_GROUP, _KIND, _VERSION)
        found = self._cluster.list(resource, namespace=self._namespace, labels=f"{_LABEL}={self._name}")
        now, before = time.monotonic(), self._seen
        self._seen = {}
        for body in found.objects:
            metadata, spec = body["metadata"], body.get("spec") or {}
            version, known = metadata["resourceVersion"], before.get(metadata["name"])
            self._seen[metadata["name"]] = Seen(
                holder=spec.get("holderIdentity") or "",
                version=version,
                since=known.since if known and known.version == version else now,
                body=body,
            )

    def _holder(self, name: str) -> str:
        """Return the holder of a lease; empty if it is free, or if its holder has not renewed it in time."""
        seen = self._seen.get(name)
        if seen is None:
            return ""
        duration = float((seen.body.get("spec") or {}).get("leaseDurationSeconds") or self._times.duration)
        is_expired = time.monotonic() - seen.since > max(duration, self._times.duration)
        return "" if is_expired else seen.holder

    def _write(self, name: str, *, holder: str) -> bool:
        """Write a lease as it was read, by its resource version. Return False if another replica was faster."""
        seen = self._seen.get(name)
        try:
            if seen is None:
                written = self._cluster.create(self._body(name, holder, None)).body
            else:
                written = self._cluster.replace(self._body(name, holder, seen)).body
        except ClusterError as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                return False
            raise
        self._seen[name] = Seen(
            holder=holder, version=written["metadata"]["resourceVersion"], since=time.monotonic(), body=written
        )
        return True

    def _body(self, name: str, holder: str, seen: Seen | None) -> dict[str, Any]:
        spec = dict((seen.body.get("spec") if seen else None) or {})
        now = _micro_time()
        before = spec.pop("holderIdentity", "")
        if holder:  # the server refuses an empty one
            spec["holderIdentity"] = holder
        if before != holder:
            spec |= {"acquireTime": now, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        spec |= {
            "renewTime": now,
            "leaseDurationSeconds": max(round(self._times.duration), 1),
        }
        metadata = {"name": name, "namespace": self._namespace, "labels": {_LABEL: self._name}}
        if seen is not None:
            metadata["resourceVersion"] = seen.version
        return {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": _KIND, "metadata": metadata, "spec": spec}

    @property
    def _member_name(self) -> str:
        return f"{self._name}-{_MEMBER}-{self._me}"

    def _shard_name(self, shard: int) -> str:
        return f"{self._name}-{_SHARD}-{shard}"

    def _key(self, name: str) -> ObjectKey:
        return ObjectKey(group=_GROUP, kind=_KIND, namespace=self._namespace, name=name)


def _micro_time() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds // 1000:06d}Z"
