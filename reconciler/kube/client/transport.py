"""Requests to an API server: connections are kept open, busy servers are asked again, refusals become errors."""

import ssl
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from reconciler.kube.client.access import Access
from reconciler.kube.client.connection import BadAnswer, NotConnected, ServerAnswer
from reconciler.kube.client.port import ClusterError, ClusterUnavailable
from reconciler.kube.client.refusals import refusal, retry_after, unreachable
from reconciler.kube.values import NOT_JSON

PATIENCE_SECONDS = 30.0
"""How long a busy or restarting server is asked again."""

_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)  # seconds between attempts; the last one repeats
_READ_SECONDS = 65.0  # the server gives up after 60 s by itself
_MAX_BYTES = 256 << 20
_OK, _UNAUTHORIZED, _BUSY = 300, 401, 429
_REPEATED = frozenset({429, 502, 503, 504})  # the server, or a proxy in front of it, is busy or restarts


class ApiCall(Struct, frozen=True, kw_only=True):
    """One request. `purpose` is for messages: `list jobs`. `is_repeatable`: to carry it out twice changes nothing.

    An answer without all of `expects` in its metadata is not the server's.
    """

    purpose: str
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    is_repeatable: bool = False
    is_large: bool = False
    expects: tuple[str, ...] = ()


class ApiAnswer(Struct, frozen=True, kw_only=True):
    """An answer of the server that is not a refusal."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()


class Transport:
    """Sends requests with the credentials of an access. Threads may share it."""

    def __init__(
        self, access: Access, *, patience_seconds: float = PATIENCE_SECONDS, is_expected: bool = False
    ) -> None:
        """`is_expected`: the server is there, or will be within the patience."""
        self.access = access
        self._patience = patience_seconds
        self._is_expected = is_expected
        self._closed = Event()

    def send(self, call: ApiCall) -> ApiAnswer:
        """Send a request, again where that is safe and may help. Raises `ClusterError`.

        A server that never answered and cannot be connected to is not asked again: it is not there. One that answered
        before may be restarting. A write of which one attempt may have been carried out may have been, whatever the
        next attempts met.
        """
        deadline = monotonic() + self._patience
        renewals = self.access.renewals
        is_unknown = False
        for attempt in count():
            try:
                return self._exchange(call)
            except ClusterUnavailable as error:
                is_unknown = error.outcome_unknown = is_unknown or error.outcome_unknown
                pause = max(_PAUSES[min(attempt, len(_PAUSES) - 1)], error.retry_after)
                is_absent = not error.status and not error.is_connected and not self._is_expected
                if is_absent or not _may_repeat(call, error):
                    raise
                if monotonic() + pause > deadline or self._closed.wait(pause):
                    raise
            except ClusterError as error:
                error.outcome_unknown = is_unknown or error.outcome_unknown
                if error.status != _UNAUTHORIZED or self.access.renewals != renewals:
                    raise
                self.access.renew(renewals)
        raise AssertionError  # unreachable

    def open(self, call: ApiCall, read_seconds: float) -> ServerAnswer:
        """Send a request whose answer is read as it comes. Raises `ClusterError`."""
        answer = self._request(call, read_seconds)
        if answer.status >= _OK:
            raise self._refused(call, answer, self._read(call, answer))
        return answer

    def close(self) -> None:
        """End the pauses of all threads, and close idle connections."""
        self._closed.set()
        self.access.pool.clear()

    def unreachable(self, call: ApiCall, error: BaseException) -> ClusterUnavailable:
        """Return the error of a connection that failed."""
        is_unsent = isinstance(error, NotConnected)
        is_write = call.method != "GET" and "dryRun" not in call.query
        found = unreachable(call.purpose, self.access.server, error, outcome_unknown=is_write and not is_unsent)
        found.is_connected = not is_unsent and not isinstance(error, ssl.SSLError)
        return found

    def _exchange(self, call: ApiCall) -> ApiAnswer:
        answer = self._request(call, _READ_SECONDS)
        raw = self._read(call, answer)
        if answer.status >= _OK:
            raise self._refused(call, answer, raw)
        if not raw:  # the server always says something: the headers may have been cut off
            raise self.unreachable(call, BadAnswer("the response is incomplete"))
        try:
            body = msgspec.json.decode(raw)
        except NOT_JSON:
            raise self._unexpected(call, answer, "is not JSON") from None
        if not isinstance(body, dict) or not _has_metadata(body, call.expects):
            raise self._unexpected(call, answer, "is not what Kubernetes answers to this request")
        return ApiAnswer(status=answer.status, body=body, warnings=_warnings(answer))

    def _unexpected(self, call: ApiCall, answer: ServerAnswer, what: str) -> ClusterUnavailable:
        """Return the error of an answer that something else than the server sent: a proxy, or another server."""
        return ClusterUnavailable(
            f"cannot {call.purpose}: {self.access.server} sent a response that {what} ({call.method} {call.path})",
            hint="check the server of the kubeconfig, and the proxies in front of it",
            status=answer.status,
            outcome_unknown=call.method != "GET" and "dryRun" not in call.query,
        )

    def _request(self, call: ApiCall, read_seconds: float) -> ServerAnswer:
        headers = [
            *self.access.headers(),
            ("User-Agent", "gpu-reconciler"),
            ("Accept", call.accept),
            ("Accept-Encoding", "gzip" if call.is_large else "identity"),
        ]
        if call.body is not None:
            headers.append(("Content-Type", call.content_type))
        query = _query_string(tuple(call.query.items()))
        try:
            answer = self.access.pool.send(f"{call.method} {call.path}{query}", headers, call.body, read_seconds)
        except (NotConnected, OSError) as error:
            raise self.unreachable(call, error) from None
        self._is_expected = True
        return answer

    def _read(self, call: ApiCall, answer: ServerAnswer) -> bytes:
        try:
            return answer.read(_MAX_BYTES)
        except OSError as error:
            answer.close()
            raise self.unreachable(call, error) from None

    def _refused(self, call: ApiCall, answer: ServerAnswer, raw: bytes) -> ClusterError:
        return refusal(
            call.purpose,
            answer.status,
            raw,
            retry_after=retry_after(answer.header("retry-after")),
            secrets=self.access.secrets(),
            is_write=call.method != "GET" and "dryRun" not in call.query,
        )


@lru_cache
def _query_string(query: tuple[tuple[str, str], ...]) -> str:
    return f"?{urlencode(query)}" if query else ""


def _may_repeat(call: ApiCall, error: ClusterUnavailable) -> bool:
    """Return whether a request may be sent again: it was not received, or to carry it out twice changes nothing."""
    if error.status == _BUSY or (not error.status and not error.outcome_unknown):
        return True
    return call.is_repeatable and (not error.status or error.status in _REPEATED)


def _has_metadata(body: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """Return whether an answer has metadata with these values; lists have items with metadata, too."""
    metadata, items = body.get("metadata"), body.get("items") or ()
    if not names:
        return True
    return (
        isinstance(metadata, dict)
        and all(isinstance(metadata.get(name), str) for name in names)
        and isinstance(items, list | tuple)
        and all(isinstance(item, dict) and isinstance(item.get("metadata"), dict) for item in items)
    )


def _warnings(answer: ServerAnswer) -> tuple[str, ...]:
    """Return the texts of `Warning` headers: `299 - "text"`."""
    found = answer.headers("warning")
    return tuple(value.partition('"')[2].removesuffix('"').replace('\\"', '"') for value in found)
