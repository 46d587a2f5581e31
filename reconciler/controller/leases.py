"""`LeaderLease`: of several replicas, the one that holds the Lease works; the others wait for it.

The leader renews the Lease; one that nobody renews is free. Whether the leader renews is judged by our own clock: times
of other machines are never compared. A leader that cannot renew, also while a request for that hangs, stops before the
Lease is free for others. (The election of the official client knows that only once the request has ended.)
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from reconciler.console.logs import Log
from reconciler.errors import ReconcilerError
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.secrets import mask_text

NAME = "reconciler"
"""Name of the Lease."""

_GROUP, _VERSION, _KIND = "coordination.k8s.io", "v1", "Lease"
_log = Log(__name__)


class LeaseTimes(Struct, frozen=True, kw_only=True):
    """Seconds. A Lease that nobody renews for `duration` is free; a holder that cannot renew gives up at `deadline`."""

    duration: float = 15.0
    deadline: float = 10.0
    renew: float = 2.0


class LeaderLease:
    """Competes for the Lease while it runs. `changed` is called after leadership was won or lost."""

    def __init__(self, cluster: LiveCluster, *, namespace: str, identity: str, times: LeaseTimes | None = None) -> None:
        self._cluster, self._me, self._times = cluster, identity, times or LeaseTimes()
        self._key = ObjectKey(group=_GROUP, kind=_KIND, namespace=namespace, name=NAME)
        self._lease: Mapping[str, Any] | None = None  # as it was read or written last
        self._since = 0.0  # when it was first seen like that, by our clock
        self._renewed = -math.inf  # when we renewed it last, by our clock
        self._reported = False  # what `changed` was called for last
        self._reporting = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="lease", daemon=True),
            threading.Thread(target=self._expire, name="lease-expiry", daemon=True),
        ]
        self.changed: Callable[[], None] = lambda: None

    def is_held(self) -> bool:
        """Return whether this replica is the leader for certain at this moment."""
        return time.monotonic() - self._renewed < self._times.deadline

    def start(self) -> None:
        """Begin to compete."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Hand the Lease over at once and leave."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._times.deadline)
        is_held, self._renewed = self.is_held(), -math.inf
        if is_held:
            try:
                self._write("")
            except ClusterError as error:
                _log.event("warning", "the lease was not handed over", error=mask_text(str(error)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except ReconcilerError as error:
                _log.event("warning", "the lease cannot be renewed", error=mask_text(str(error)))
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread while the lease is held
                _log.event("error", "bug in the lease", error=mask_text(repr(error)))
            self._report()
            self._stopping.wait(self._times.renew)

    def _expire(self) -> None:
        """Tell in time that the Lease was lost, also while a request for it hangs or is repeated."""
        while not self._stopping.wait(min(self._times.renew, self._times.deadline / 4)):
            self._report()

    def _report(self) -> None:
        with self._reporting:
            is_leader = self.is_held()
            if is_leader != self._reported:
                self._reported = is_leader
                _log.event("info", "leadership changed", leader=is_leader)
                self.changed()

    def _step(self) -> None:
        """Read the Lease, and renew or take it unless another replica holds it."""
        self._see(self._cluster.get(self._key))
        sent = time.monotonic()
        is_ours = self._holder() in ("", self._me) and self._write(self._me)
        self._renewed = sent if is_ours else -math.inf

    def _see(self, lease: Mapping[str, Any] | None) -> None:
        if lease is None or self._lease is None or _resource_version(lease) != _resource_version(self._lease):
            self._lease, self._since = lease, time.monotonic()

    def _holder(self) -> str:
        """Return the holder of the Lease; empty if it is free, or if its holder has not renewed it in time."""
        spec = (self._lease or {}).get("spec") or {}
        duration = max(float(spec.get("leaseDurationSeconds") or 0.0), self._times.duration)
        return spec.get("holderIdentity") or "" if time.monotonic() - self._since <= duration else ""

    def _write(self, holder: str) -> bool:
        """Write the Lease as it was read, by its resource version. Return False if another replica was faster."""
        try:
            if self._lease is None:
                written = self._cluster.create(self._body(holder))
            else:
                written = self._cluster.replace(self._body(holder))
        except ClusterError as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                return False
            raise
        self._see(written.body)
        return True

    def _body(self, holder: str) -> dict[str, Any]:
        before = self._lease or {}
        spec, now = dict(before.get("spec") or {}), _micro_time()
        if spec.pop("holderIdentity", "") != holder:
            spec |= {"acquireTime": now, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        if holder:  # the server refuses an empty one
            spec["holderIdentity"] = holder
        spec |= {"renewTime": now, "leaseDurationSeconds": max(round(self._times.duration), 1)}
        metadata = before.get("metadata") or {"name": NAME, "namespace": self._key.namespace}
        return {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": _KIND, "metadata": metadata, "spec": spec}


def _resource_version(lease: Mapping[str, Any]) -> str:
    version: str = lease["metadata"]["resourceVersion"]
    return version


def _micro_time() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds // 1000:06d}Z"
