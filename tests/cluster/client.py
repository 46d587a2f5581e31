"""A small client of a real API server, on the standard library: server-side apply without effect, and reading."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import yaml

from reconciler.repo.config import Requester

FIELD_MANAGER = "reconciler"
_CONCURRENCY = 8
_TIMEOUT_SECONDS = 60
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an API server listens and how to be let in. `server` is its URL without a trailing slash."""

    server: str
    context: ssl.SSLContext
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason of a refusal, as the server gives it: `field` is a path such as `spec.template.spec.containers`."""

    field: str
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the server said to one object. `name` is `apiVersion/kind namespace/name`."""

    name: str
    ok: bool
    message: str = ""
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status code, the decoded body ({} where there is none) and the server's warnings."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status < http.client.MULTIPLE_CHOICES


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as discovery knows it."""

    plural: str
    namespaced: bool


class Client:
    """Requests over connections that are kept open; as many as there are requests at one time. A context manager."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[http.client.HTTPSConnection] = []
        self._resources: dict[str, dict[str, Resource]] = {}
        self._namespaces: set[str] = set()
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        as_user: Requester | None = None,
    ) -> Answer:
        """Send one request, as another user if there is one.

        `path` begins with a slash and may hold a query. A connection that broke is renewed once.
        """
        headers = {"Accept": "application/json"}
        if as_user is not None:
            headers["Impersonate-User"] = as_user.user
            headers |= dict(zip(("Impersonate-Group",), as_user.groups, strict=False))  # a header is not repeated
        if self.endpoint.token:
            headers["Authorization"] = f"Bearer {self.endpoint.token}"
        data = (
            body
            if body is None or isinstance(body, bytes)
            else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        )
        if data is not None:
            headers["Content-Type"] = content_type
        try:
            return self._exchange(self._connection(), method, path, data, headers)
        except (http.client.HTTPException, ConnectionError, ssl.SSLEOFError):
            return self._exchange(self._new_connection(), method, path, data, headers)

    def _connection(self) -> http.client.HTTPSConnection:
        with self._lock:
            return self._idle.pop() if self._idle else self._new_connection()

    def _new_connection(self) -> http.client.HTTPSConnection:
        where = urlsplit(self.endpoint.server)
        return http.client.HTTPSConnection(
            where.hostname or "", where.port, timeout=_TIMEOUT_SECONDS, context=self.endpoint.context
        )

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        try:
            connection.request(method, path, body=data, headers=headers)
            response = connection.getresponse()
            raw = response.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        # Not by the content type: /openapi/v3 sends JSON as text/plain.
        body = json.loads(raw) if raw.startswith(b"{") else {"message": raw.decode(errors="replace")}
        warnings = tuple(response.headers.get_all("Warning") or ())
        return Answer(status=response.status, body=body, warnings=warnings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def get(self, path: str) -> Any:
        """Return the body of a GET that must succeed."""
        answer = self.request("GET", path)
        if not answer.ok:
            raise LookupError(f"GET {path}: {answer.status} {answer.body.get('message')}")
        return answer.body

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """Return how the server serves a kind, None where it does not know it."""
        with self._lock:
            known = self._resources.get(api_version)
        if known is None or kind not in known:
            prefix = "/apis/" if "/" in api_version else "/api/"
            answer = self.request("GET", prefix + quote(api_version))
            entries = answer.body.get("resources", []) if answer.ok else []
            known = {
                entry["kind"]: Resource(plural=entry["name"], namespaced=entry["namespaced"])
                for entry in entries
                if "/" not in entry["name"]
            }
            with self._lock:
                self._resources[api_version] = known
        return known.get(kind)

    def path(self, body: Mapping[str, Any], *, subresource: str = "") -> str | None:
        """Return the path of one object, None where the server does not know its kind."""
        found = self.resource(str(body.get("apiVersion", "")), str(body.get("kind", "")))
        if found is None:
            return None
        api_version, metadata = body["apiVersion"], body["metadata"]
        prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        inside = f"/namespaces/{quote(metadata.get('namespace') or 'default')}" if found.namespaced else ""
        return f"{prefix}{inside}/{found.plural}/{quote(metadata['name'], safe='')}{subresource}"

    def apply_dry_run(self, objects: Iterable[Mapping[str, Any]]) -> list[Result]:
        """Judge objects: server-side apply with `dryRun=All` and `fieldValidation=Strict`, forced, nothing is stored.

        Namespaces that the objects name are made for real, once: without them the server refuses everything in them.
        """
        wanted = list(objects)
        self.ensure_namespaces(_namespace_of(body) for body in wanted)
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            return list(pool.map(lambda body: self._apply(body, dry_run=True), wanted))

    def apply_files_dry_run(self, paths: Iterable[Path]) -> list[Result]:
        """Judge files of one object each: the server itself reads the YAML, as it is committed."""
        files = [(path.read_bytes(), path) for path in paths]
        wanted = [(_loaded(text), text, path) for text, path in files]
        self.ensure_namespaces(_namespace_of(body) for body, _, _ in wanted)
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            results = pool.map(lambda one: self._apply(one[0], dry_run=True, text=one[1]), wanted)
            return [
                replace(result, name=f"{path}: {result.name}")
                for result, (_, _, path) in zip(results, wanted, strict=True)
            ]

    def apply(self, objects: Iterable[Mapping[str, Any]]) -> list[Result]:
        """Server-side apply for real, in the order given."""
        wanted = list(objects)
        self.ensure_namespaces(_namespace_of(body) for body in wanted)
        return [self._apply(body, dry_run=False) for body in wanted]

    def ensure_namespaces(self, names: Iterable[str]) -> None:
        """Make the namespaces that are not there."""
        for name in sorted({*names} - {""} - self._namespaces):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            answer = self.request("POST", f"/api/v1/namespaces?fieldManager={FIELD_MANAGER}", body)
            if answer.ok or answer.status == http.client.CONFLICT:
                self._namespaces.add(name)

    def _apply(self, body: Mapping[str, Any], *, dry_run: bool, text: bytes | None = None) -> Result:
        attempts = _ATTEMPTS
        name = describe(body)
        if not isinstance(body.get("metadata"), Mapping) or not body["metadata"].get("name"):
            return Result(name=name, ok=False, message="metadata.name: missing")
        path = self.path(body)
        if path is None:
            return Result(name=name, ok=False, message=f"the server has no kind {body.get('kind')} in this apiVersion")
        query = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        # Apply patches are declared as YAML, of which JSON is a part.
        target, kind = f"{path}?{urlencode(query)}", "application/apply-patch+yaml"
        content = body if text is None else text
        answer = self.request("PATCH", target, content, content_type=kind)
        while answer.status == http.client.GATEWAY_TIMEOUT and (attempts := attempts - 1):  # busy: that is no verdict
            answer = self.request("PATCH", target, content, content_type=kind)
        if answer.ok:
            return Result(name=name, ok=True, warnings=answer.warnings, body=answer.body)
        details = answer.body.get("details") or {}
        causes = tuple(
            Cause(field=cause.get("field", ""), message=cause.get("message", ""), reason=cause.get("reason", ""))
            for cause in details.get("causes") or ()
        )
        message = f"{answer.status} {answer.body.get('message', '')}"
        return Result(name=name, ok=False, message=message, causes=causes, warnings=answer.warnings)


def describe(body: Mapping[str, Any]) -> str:
    """Name an object in messages: `batch/v1/Job team-a/train`."""
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    inside = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{body.get('apiVersion', '?')}/{body.get('kind', '?')} {inside}{metadata.get('name', '?')}"


def _loaded(text: bytes) -> Mapping[str, Any]:
    body = yaml.load(text, Loader=yaml.CSafeLoader)
    return body if isinstance(body, Mapping) else {}


def _namespace_of(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("namespace") or "") if isinstance(metadata, Mapping) else ""
