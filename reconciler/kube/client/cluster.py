"""`KubernetesCluster`: the port `LiveCluster` over the REST interface of an API server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Self
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from reconciler.kube.client.access import Access
from reconciler.kube.client.port import (
    MANAGER,
    ApiResource,
    Body,
    ClusterError,
    ClusterUnavailable,
    Discovery,
    EventType,
    Expired,
    Listing,
    ObjectText,
    UnknownKind,
    WatchEvent,
    Written,
)
from reconciler.kube.client.refusals import watch_error
from reconciler.kube.client.transport import PATIENCE_SECONDS, ApiAnswer, ApiCall, Transport
from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.secrets import mask_text

# Discovery: which kinds a server offers, and the groups about which it could not say.
# One request for the core and one for all groups (aggregated discovery); older servers are asked group by group.


_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

Fetch = Callable[[ApiCall], Any]


def discover(fetch: Fetch) -> Discovery:
    """Ask the server what it offers."""
    resources: list[ApiResource] = []
    failed: dict[str, str] = {}
    for path in ("/api", "/apis"):
        call = ApiCall(purpose="discover kinds", method="GET", path=path, accept=_AGGREGATED, is_repeatable=True)
        body = fetch(call)
        if body.get("kind") == "APIGroupDiscoveryList":
            for group in body.get("items") or ():
                _aggregated(group, resources, failed)
        else:
            _one_by_one(fetch, path, body, resources, failed)
    return Discovery(resources=tuple(resources), failed=failed)


def _aggregated(group: Mapping[str, Any], resources: list[ApiResource], failed: dict[str, str]) -> None:
    name = (group.get("metadata") or {}).get("name") or ""
    for version in group.get("versions") or ():
        if version.get("freshness") == "Stale":
            failed[name] = "its API service does not answer"
        for row in version.get("resources") or ():
            kind = row.get("responseKind") or {}
            resources.append(
                ApiResource(
                    group=name,
                    version=version["version"],
                    kind=kind.get("kind") or "",
                    plural=row["resource"],
                    namespaced=row.get("scope") == "Namespaced",
                    verbs=frozenset(row.get("verbs") or ()),
                )
            )


def _one_by_one(
    fetch: Fetch, path: str, body: Mapping[str, Any], resources: list[ApiResource], failed: dict[str, str]
) -> None:
    for group, version in _versions(body):
        where = f"{path}/{group}/{version}" if group else f"{path}/{version}"
        try:
            found = fetch(ApiCall(purpose=f"discover {where}", method="GET", path=where))
        except ClusterError as error:
            failed[group] = error.message
            continue
        resources += [
            ApiResource(
                group=group,
                version=version,
                kind=row["kind"],
                plural=row["name"],
                namespaced=bool(row.get("namespaced")),
                verbs=frozenset(row.get("verbs") or ()),
            )
            for row in found.get("resources") or ()
            if "/" not in row["name"]  # a subresource
        ]


def _versions(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the groups and versions of an answer, the preferred version of a group first."""
    for version in body.get("versions") or ():  # of the core
        yield "", version
    for group in body.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [row["version"] for row in group.get("versions") or ()]
        yield from ((group["name"], version) for version in sorted(versions, key=lambda one: one != preferred))


# A watch: events of one request, line by line, until its time is over or another thread closes it.


_SLACK_SECONDS = 15.0  # the server ends a watch by itself


class KubernetesWatch:
    """Events of one watch request; see `Watch`."""

    def __init__(self, transport: Transport, call: ApiCall, seconds: int) -> None:
        self._transport, self._call = transport, call
        self._is_closed = False
        self._answer = transport.open(call, seconds + _SLACK_SECONDS)
        self._lines = self._read_lines()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchEvent:
        line = next(self._lines)
        event = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            self.close()
            raise watch_error(self._call.purpose, event["object"], self._transport.access.secrets())
        return WatchEvent(type=EventType(event["type"]), body=event["object"])

    def close(self) -> None:
        """End the watch; a thread that waits for an event stops waiting."""
        self._is_closed = True
        self._answer.stop()
        self._answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_lines(self) -> Iterator[bytes]:
        rest = bytearray()
        try:
            for chunk in self._answer.pieces():
                rest += chunk
                *lines, tail = rest.split(b"\n")
                rest = bytearray(tail)
                yield from (bytes(line) for line in lines if line)
        except (OSError, ValueError) as error:
            if not self._is_closed:
                raise self._transport.unreachable(self._call, error) from None
        finally:
            self._answer.close()


PAGE_SIZE = 500  # as kubectl's --chunk-size

_NEW, _LIST, _OBJECT = ("name", "uid"), ("resourceVersion",), ("name", "uid", "resourceVersion")
"""What the metadata of answers always have; a new object that is not stored has no version.

Reviews, which are created, have none of it, nor have subresources.
"""

_NOT_FOUND, _CREATED = 404, 201

_JSON = "application/json"

_METADATA, _METADATA_LIST = (
    f"{_JSON};as={kind};g=meta.k8s.io;v=v1" for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
)

_APPLY, _MERGE, _PATCH = (f"application/{name}" for name in ("apply-patch+yaml", "merge-patch+json", "json-patch+json"))


class KubernetesCluster:
    """One API server; see `LiveCluster`."""

    def __init__(
        self,
        access: Access,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        is_expected: bool = False,
        known: Discovery | None = None,
    ) -> None:
        """See `Transport`. With `known` kinds the server is only asked for others."""
        self._transport = Transport(access, patience_seconds=patience_seconds, is_expected=is_expected)
        self._lock = Lock()
        self._discovery = known

    @property
    def server(self) -> str:
        """The URL of the server."""
        return mask_text(self._transport.access.server)

    def version(self) -> str:
        """Return the version of the server."""
        call = ApiCall(purpose="read the server's version", method="GET", path="/version", is_repeatable=True)
        return str(self._transport.send(call).body.get("gitVersion", ""))

    # Kinds.

    def discover(self, *, again: bool = False) -> Discovery:
        """Return the kinds that the server offers."""
        with self._lock:
            if self._discovery is None or again:
                self._discovery = discover(lambda call: self._transport.send(call).body)
            return self._discovery

    def resource(self, group: str, kind: str, version: str = "") -> ApiResource:
        """Return a kind that the server offers."""
        found = self.discover().find(group, kind, version)
        if found is None and (found := self.discover(again=True).find(group, kind, version)) is None:
            name = f"{kind} of {group}" if group else kind
            if reason := self.discover().failed.get(group):
                raise ClusterUnavailable(f"{self.server}: it is not known whether {name} exists: {reason}")
            what = f"{name} in version {version}" if version else name
            raise UnknownKind(f"{self.server} does not offer {what}", hint="install its CRD", status=_NOT_FOUND)
        return found

    # Reading.

    def list(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> Listing:
        """List objects page by page; the first page is read at once."""
        query = {"limit": str(PAGE_SIZE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        call = ApiCall(
            purpose=f"list {resource.plural}",
            method="GET",
            path=_collection(resource, namespace),
            query=query,
            accept=_METADATA_LIST if metadata_only else _JSON,
            is_repeatable=True,
            is_large=True,
            expects=_LIST,
        )
        first = self._transport.send(call).body
        pages = self._pages(call, first)
        return Listing(resource_version=first["metadata"].get("resourceVersion", ""), objects=_objects(resource, pages))

    def _pages(self, call: ApiCall, page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield all pages. A list that takes too long continues with objects as they are now; a watch sees the rest."""
        yield page
        token = page["metadata"].get("continue")
        while token:
            following = replace(call, query={**call.query, "continue": token})
            try:
                page = self._transport.send(following).body
            except Expired as error:
                if not error.next_page:
                    raise
                token = error.next_page
                continue
            yield page
            token = page["metadata"].get("continue")

    def get(self, key: ObjectKey, *, version: str = "", subresource: str = "") -> Body | None:
        """Return an object; None if it does not exist."""
        path, expects = self._path(key, version, subresource), () if subresource else _OBJECT
        call = ApiCall(purpose=f"read {key}", method="GET", path=path, is_repeatable=True, expects=expects)
        try:
            answer = self._transport.send(call)
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        body: Body = answer.body
        return body

    def watch(
        self, resource: ApiResource, resource_version: str, *, namespace: str = "", labels: str = "", seconds: int = 300
    ) -> KubernetesWatch:
        """Watch from a version on."""
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        query["resourceVersion"] = resource_version
        if labels:
            query["labelSelector"] = labels
        path = _collection(resource, namespace)
        return KubernetesWatch(
            self._transport, ApiCall(purpose=f"watch {resource.plural}", method="GET", path=path, query=query), seconds
        )

    # Writing.

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
        """Apply an object; carried out twice, it changes nothing more."""
        if isinstance(body, ObjectText):
            key, version, content = body.key, body.version, body.content
        else:
            key, version, content = _key(body), _version(body), msgspec.json.encode(body)  # a part of YAML
        query = _query(manager, dry_run=dry_run)
        if force:
            query["force"] = "true"
        call = ApiCall(
            purpose=f"{'dry-run' if dry_run else 'apply'} {key}",
            method="PATCH",
            path=self._path(key, version, subresource),
            query=query,
            body=content,
            content_type=_APPLY,
            accept=_METADATA if metadata_only else _JSON,
            is_repeatable=True,
            expects=_NEW if dry_run else _OBJECT,
        )
        return _written(self._transport.send(call))

    def create(self, body: Mapping[str, Any], *, manager: str = MANAGER, dry_run: bool = False) -> Written:
        """Create an object."""
        key = _key(body)
        resource = self.resource(key.group, key.kind, _version(body))
        call = ApiCall(
            purpose=f"create {key}",
            method="POST",
            path=_collection(resource, key.namespace),
            query=_query(manager, dry_run=dry_run),
            body=msgspec.json.encode(body),
            is_repeatable=dry_run,
        )
        return _written(self._transport.send(call))

    def replace(
        self, body: Mapping[str, Any], *, manager: str = MANAGER, dry_run: bool = False, subresource: str = ""
    ) -> Written:
        """Replace an object."""
        key = _key(body)
        call = ApiCall(
            purpose=f"replace {key}",
            method="PUT",
            path=self._path(key, _version(body), subresource),
            query=_query(manager, dry_run=dry_run),
            body=msgspec.json.encode(body),
            is_repeatable=dry_run,
            expects=_OBJECT,
        )
        return _written(self._transport.send(call))

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
        """Change parts of an object."""
        call = ApiCall(
            purpose=f"patch {key}",
            method="PATCH",
            path=self._path(key, version, subresource),
            query=_query(manager, dry_run=dry_run),
            body=msgspec.json.encode(changes),
            content_type=_MERGE if isinstance(changes, Mapping) else _PATCH,
            is_repeatable=dry_run,
            expects=_OBJECT,
        )
        return _written(self._transport.send(call))

    def delete(
        self,
        key: ObjectKey,
        *,
        uid: str,
        resource_version: str = "",
        propagation: str = "Foreground",
        dry_run: bool = False,
    ) -> bool:
        """Delete the object with this UID."""
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if dry_run:
            options["dryRun"] = ["All"]  # of a deletion with a body, the server reads no options in the query
        call = ApiCall(
            purpose=f"delete {key}",
            method="DELETE",
            path=self._path(key, "", ""),
            body=msgspec.json.encode({**options, "preconditions": preconditions}),
            is_repeatable=True,
        )
        try:
            self._transport.send(call)
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return True

    def close(self) -> None:
        """Close all connections and end the pauses of all threads."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, key: ObjectKey, version: str, subresource: str) -> str:
        resource = self.resource(key.group, key.kind, version)
        path = f"{_collection(resource, key.namespace)}/{quote(key.name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def _collection(resource: ApiResource, namespace: str) -> str:
    """Return the path of the objects of a kind: in one namespace, or everywhere."""
    prefix = "/apis" if resource.group else "/api"
    inside = f"/namespaces/{quote(namespace, safe='')}" if resource.namespaced and namespace else ""
    return f"{prefix}/{resource.api_version}{inside}/{resource.plural}"


def _objects(resource: ApiResource, pages: Iterator[Mapping[str, Any]]) -> Iterator[Body]:
    """Yield the objects of pages, with the type that servers leave out in lists."""
    for page in pages:
        for item in page.get("items") or ():
            yield {**item, "apiVersion": resource.api_version, "kind": resource.kind}


def _query(manager: str, *, dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": manager, "fieldValidation": "Strict"}
    return {**query, "dryRun": "All"} if dry_run else query


def _written(answer: ApiAnswer) -> Written:
    return Written(body=answer.body, is_new=answer.status == _CREATED, warnings=answer.warnings)


def _key(body: Mapping[str, Any]) -> ObjectKey:
    group, _ = split_api_version(body["apiVersion"])
    metadata = body.get("metadata") or {}
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    return ObjectKey(group=group, kind=body["kind"], namespace=namespace, name=name)


def _version(body: Mapping[str, Any]) -> str:
    return split_api_version(body["apiVersion"])[1]
