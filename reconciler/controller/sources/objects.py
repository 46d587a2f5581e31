"""`ClusterStore`: sources are ConfigSource objects of a cluster, and their status is that of the objects."""

import hashlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from reconciler.controller.sources.source import REQUESTED_AT, ConfigSource, parse_source
from reconciler.controller.sources.status import SourceStatus, parse_status
from reconciler.controller.sources.store import decode_secret
from reconciler.errors import ConfigError
from reconciler.kinds.own import SOURCE
from reconciler.kube.client.port import ClusterError, EventType, Expired, LiveCluster, Watch
from reconciler.kube.objects import ObjectKey
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import timestamp

STATUS_MANAGER = "reconciler-status"
"""The field manager of the status of sources. It never changes."""

COMPONENT = "reconciler"
_VERSION = "v1alpha1"
_EVENT_LENGTH = 1000


class ClusterStore:
    """ConfigSources of one namespace, or of all. Safe to use from any thread."""

    def __init__(self, cluster: LiveCluster, *, namespace: str = "", instance: str = "") -> None:
        self._cluster, self._namespace, self._instance = cluster, namespace, instance
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._resource_version = ""
        self._statuses: dict[str, SourceStatus] = {}
        self._seen: dict[str, tuple[object, ...]] = {}
        self._watch: Watch | None = None

    def load(self) -> tuple[ConfigSource, ...]:
        """List the objects."""
        resource = self._cluster.resource(*SOURCE)
        listing = self._cluster.list(resource, namespace=self._namespace)
        bodies = list(listing.objects)
        sources = [(parse_source(body), body) for body in bodies if "deletionTimestamp" not in body["metadata"]]
        with self._lock:
            self._resource_version = listing.resource_version
            self._statuses = {source.uid: parse_status(body.get("status")) for source, body in sources}
            self._seen = {body["metadata"]["uid"]: _version_of(body) for body in bodies}
        return tuple(source for source, _ in sources)

    def status(self, source: ConfigSource) -> SourceStatus:
        """Read the object: another replica may have written its status since the list."""
        body = self._cluster.get(self._key(source))
        return SourceStatus() if body is None else parse_status(body.get("status"))

    def save(self, source: ConfigSource, status: SourceStatus) -> None:
        """Apply the status; what an older version of it had and the new one has not is removed."""
        body = {
            "apiVersion": f"{SOURCE[0]}/{_VERSION}",
            "kind": SOURCE[1],
            "metadata": {"name": source.name, "namespace": source.namespace, "uid": source.uid},
            "status": status.body(),
        }
        self._cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource="status")

    def secret(self, source: ConfigSource, name: str) -> dict[str, bytes]:
        """Read a Secret of the source's namespace."""
        key = ObjectKey(group="", kind="Secret", namespace=source.namespace, name=name)
        body = self._cluster.get(key)
        if body is None:
            raise ConfigError(f"{key} does not exist", hint="create it, or correct spec.secretRef")
        return decode_secret(body.get("data") or {})

    def record_event(self, source: ConfigSource, *, warning: bool, reason: str, message: str) -> None:
        """Create an event."""
        now = time.time()
        text = mask_text(message)[:_EVENT_LENGTH]
        identity = hashlib.sha256(f"{source.uid} {reason} {text} {now}".encode()).hexdigest()[:16]
        involved = {
            "apiVersion": f"{SOURCE[0]}/{_VERSION}",
            "kind": SOURCE[1],
            "namespace": source.namespace,
            "name": source.name,
            "uid": source.uid,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{source.name[:200]}.{identity}", "namespace": source.namespace},
            "involvedObject": involved,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": text,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
        }
        self._cluster.create(body)

    def wait(self, seconds: float) -> None:
        """Watch until a source is added, removed, edited, or asked for."""
        try:
            resource = self._cluster.resource(*SOURCE)
            watch = self._cluster.watch(
                resource, self._resource_version, namespace=self._namespace, seconds=max(round(seconds), 1)
            )
        except Expired:
            return
        except ClusterError:
            self._closed.wait(min(seconds, 2.0))
            return
        self._watch = watch
        with watch:
            if self._closed.is_set():
                return
            try:
                for event in watch:
                    if self._is_news(event.type, event.body):
                        return
            except ClusterError:
                return

    def _is_news(self, kind: EventType, body: Mapping[str, Any]) -> bool:
        """Tell whether an event is more than a status that we wrote ourselves."""
        if kind is EventType.BOOKMARK:
            return False
        if kind is EventType.DELETED:
            return True
        return self._seen.get(body["metadata"]["uid"]) != _version_of(body)

    def close(self) -> None:
        """End the wait."""
        self._closed.set()
        if self._watch is not None:
            self._watch.close()

    @staticmethod
    def _key(source: ConfigSource) -> ObjectKey:
        return ObjectKey(group=SOURCE[0], kind=SOURCE[1], namespace=source.namespace, name=source.name)


def _version_of(body: Mapping[str, Any]) -> tuple[object, ...]:
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    return (metadata.get("generation"), annotations.get(REQUESTED_AT), "deletionTimestamp" in metadata)
