"""The port to a live cluster: one API server, whose objects are plain dicts and whose identities are `ObjectKey`s."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self

from msgspec import Struct, field

from reconciler.errors import OutsideError
from reconciler.kube.objects import ObjectKey

MANAGER = "reconciler"
"""The field manager of everything that we apply. It never changes: the server knows our fields by it."""

CONCURRENCY = 8
"""Requests at one time: more do not make one API server faster."""

Body = dict[str, Any]


class ApiResource(Struct, frozen=True, kw_only=True, order=True):
    """A kind as the server offers it in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """The value of `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Discovery(Struct, frozen=True, kw_only=True):
    """The resources of a server, the preferred version of a group first.

    failed: why the resources of a group are not known, by group, such as `metrics.k8s.io`.
    """

    resources: tuple[ApiResource, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    def find(self, group: str, kind: str, version: str = "") -> ApiResource | None:
        """Return a kind in the version that is asked for, else in the preferred one; None if it is not offered."""
        found = (row for row in self.resources if row.kind == kind and row.group == group)
        return next((row for row in found if version in ("", row.version)), None)


class Listing(Struct, frozen=True, kw_only=True, eq=False):
    """A list: its version, from which a watch continues, and its objects, read page by page as they are taken."""

    resource_version: str
    objects: Iterator[Body]


class ObjectText(Struct, frozen=True, kw_only=True, eq=False):
    """An object as YAML that nobody has read, and what it is: its identity and the version of its API."""

    key: ObjectKey
    version: str
    content: bytes


class Written(Struct, frozen=True, kw_only=True):
    """The reply to a written object: the object, whether it is new, and the server's warnings."""

    body: Body
    is_new: bool = False
    warnings: tuple[str, ...] = ()


class EventType(StrEnum):
    """The type of an event of a watch. A bookmark only says how far the watch is."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(Struct, frozen=True, kw_only=True):
    """One event of a watch. The object of a bookmark has a resource version and nothing else."""

    type: EventType
    body: Body

    @property
    def resource_version(self) -> str:
        """The version from which a later watch continues after this event."""
        return str(self.body["metadata"]["resourceVersion"])


class FieldError(Struct, frozen=True, kw_only=True):
    """One cause of a refusal. `field` is a path such as `spec.template`. That of a conflict names the other manager."""

    reason: str
    message: str
    field: str = ""


class ClusterError(OutsideError):
    """The server refused a request. `status` is 0 if there was no answer; `reason` is the server's word, `Conflict`.

    retry_after: seconds that the server asked for. outcome_unknown: the request may have been carried out.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        reason: str = "",
        causes: Sequence[FieldError] = (),
        retry_after: float = 0.0,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.outcome_unknown = outcome_unknown


class ClusterUnavailable(ClusterError):
    """The server did not answer, was busy, or a webhook failed. Asking again may help.

    is_connected: whether there was a connection to the server at all.
    """

    retryable: ClassVar[bool] = True
    is_connected: bool = True


class UnknownKind(ClusterError):
    """The server does not offer a kind."""


class Expired(ClusterError):
    """A version is too old to watch from, or a list took too long (410). `next_page` continues a list from now on."""

    retryable: ClassVar[bool] = True
    next_page: str = ""


class Watch(Iterator[WatchEvent], Protocol):
    """Events as they come. It ends when its time is over or when another thread closes it.

    Raises `Expired` if the version is too old, `ClusterUnavailable` if the connection breaks.
    """

    def close(self) -> None:
        """End the watch. May be called from any thread, and twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class LiveCluster(Protocol):
    """One API server. Threads may share it; every method may raise `ClusterError`.

    Reads, applies and deletions are repeated while the server is busy or does not answer (a deletion names the UID, so
    that it is safe); other writes only if the server did not receive them or told us to come back (429).
    """

    @property
    def server(self) -> str:
        """The URL of the server, for messages."""
        ...

    def version(self) -> str:
        """Return the version of the server, such as `v1.37.2`."""
        ...

    def discover(self, *, again: bool = False) -> Discovery:
        """Return the kinds that the server offers; asked once, or `again`."""
        ...

    def resource(self, group: str, kind: str, version: str = "") -> ApiResource:
        """Return a kind that the server offers; discovers again if it is not known. Raises `UnknownKind`.

        Raises `ClusterUnavailable` instead if discovery of the group failed.
        """
        ...

    def list(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> Listing:
        """List objects, by selectors of labels and fields. `metadata_only` objects have no spec and no status."""
        ...

    def get(self, key: ObjectKey, *, version: str = "", subresource: str = "") -> Body | None:
        """Return an object, in the preferred version unless one is named; None if it does not exist."""
        ...

    def apply(
        self,
        body: Mapping[str, Any] | ObjectText,
        *,
        manager: str = MANAGER,
        dry_run: bool = False,
        force: bool = False,
        subresource: str = "",
        metadata_only: bool = False,
    ) -> Written:
        """Apply an object (server-side apply, unknown fields are errors). `force` takes fields from other managers.

        `metadata_only`: the result has no more than the metadata.
        `metadata.resourceVersion` and `metadata.uid` in the body are preconditions: 409 if the object has another
        version, 422 if it has another UID.
        """
        ...

    def create(self, body: Mapping[str, Any], *, manager: str = MANAGER, dry_run: bool = False) -> Written:
        """Create an object, or ask a review such as SelfSubjectAccessReview."""
        ...

    def replace(
        self, body: Mapping[str, Any], *, manager: str = MANAGER, dry_run: bool = False, subresource: str = ""
    ) -> Written:
        """Replace an object; `metadata.resourceVersion` in the body is a precondition."""
        ...

    def patch(
        self,
        key: ObjectKey,
        changes: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        version: str = "",
        manager: str = MANAGER,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Written:
        """Change parts of an object: a mapping is a JSON merge patch, a sequence a JSON patch (RFC 6902)."""
        ...

    def delete(
        self,
        key: ObjectKey,
        *,
        uid: str,
        resource_version: str = "",
        propagation: str = "Foreground",
        dry_run: bool = False,
    ) -> bool:
        """Delete the object with this UID; return False if it was gone. 409 if another one has its name by now."""
        ...

    def watch(
        self, resource: ApiResource, resource_version: str, *, namespace: str = "", labels: str = "", seconds: int = 300
    ) -> Watch:
        """Watch from a version on, with bookmarks, for some time."""
        ...

    def close(self) -> None:
        """Close all connections and end the pauses of all threads. May be called twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
