"""The HTTP servers of the controller: health and metrics on one address, webhooks on another, both with limits."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from reconciler.controller.loop import Controller
from reconciler.controller.metrics import Metrics
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.sources.store import SourceStore
from reconciler.controller.web.webhooks import MAX_BYTES, check, provider_of
from reconciler.errors import ConfigError, OutsideError, ReconcilerError
from reconciler.outputs.terminal.logs import Log

_CONNECTIONS = 64
_IDLE_SECONDS = 10.0
_DELIVERIES = 1024  # remembered ids of webhooks, against replays
_log = Log(__name__)


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """What a request gets."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request: header names are in lower case, the body is complete and bounded."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


Answer = Callable[[HttpRequest], HttpAnswer]


def _text(status: HTTPStatus, text: str) -> HttpAnswer:
    return HttpAnswer(status=status, body=f"{text}\n".encode())


# Health and metrics.


def probes(controller: Controller, metrics: Metrics) -> Answer:
    """Return what answers `/healthz`, `/readyz` and `/metrics`."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        match request.path:
            case "/metrics":
                controller.update_gauges()
                content_type, body = metrics.exposition(request.headers.get("accept", ""))
                return HttpAnswer(status=HTTPStatus.OK, body=body, content_type=content_type)
            case "/healthz" | "/livez":
                return _state(controller.unhealthy())
            case "/readyz":
                return _state(controller.unready())
        return _text(HTTPStatus.NOT_FOUND, "not found")

    return answer


def _state(reason: str) -> HttpAnswer:
    return _text(HTTPStatus.SERVICE_UNAVAILABLE, reason) if reason else _text(HTTPStatus.OK, "ok")


# Webhooks.


class Webhooks:
    """Answers `POST /webhooks/NAMESPACE/NAME`. A genuine one makes all sources of the same repository due."""

    def __init__(self, controller: Controller, store: SourceStore, metrics: Metrics) -> None:
        self._controller, self._store, self._metrics = controller, store, metrics
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Check a request. All that is refused gets the same answer, so that it tells nothing about sources."""
        provider, result = provider_of(request.headers), "refused"
        try:
            if request.method != "POST":
                return _text(HTTPStatus.METHOD_NOT_ALLOWED, "use POST")
            prefix, _, key = request.path.removeprefix("/").partition("/")
            source = self._controller.sources().get(key) if prefix == "webhooks" else None
            hint = check(request.headers, request.body, self._token(source), time.time())
            if source is None or not hint.is_genuine:
                return _text(HTTPStatus.FORBIDDEN, "the signature is not valid")
            result = "ignored"
            if hint.delivery and not self._is_new(key, hint.delivery):
                return _text(HTTPStatus.OK, "already delivered")
            due = self._wake(source, hint.ref)
            result = "accepted" if due else "ignored"
            return _text(HTTPStatus.ACCEPTED, f"{due} sources are due")
        finally:
            self._metrics.count("webhook_request_total", provider=provider.value, result=result)

    def _token(self, source: ConfigSource | None) -> bytes:
        if source is None or not source.webhook_secret:
            return b""
        try:
            return self._store.secret(source, source.webhook_secret).get("token", b"").strip()
        except ReconcilerError as error:
            _log.event("warning", "the token of webhooks cannot be read", source=source.key, error=error.message)
            return b""

    def _is_new(self, key: str, delivery: str) -> bool:
        with self._lock:
            if (key, delivery) in self._seen:
                return False
            self._seen[key, delivery] = None
            while len(self._seen) > _DELIVERIES:
                self._seen.popitem(last=False)
            return True

    def _wake(self, sender: ConfigSource, ref: str) -> int:
        sources = self._controller.sources().values()
        due = [source for source in sources if source.url == sender.url and (not ref or ref in source.refs)]
        for source in due:
            self._controller.hint(source.key)
        return len(due)


# The servers.


class HttpListener:
    """A server in threads of its own. At most 64 connections at a time; each must send its request within 10 s."""

    def __init__(self, address: str, answer: Answer) -> None:
        host, port = parse_address(address)
        handler = type("Requests", (_RequestHandler,), {"answer": staticmethod(answer)})
        try:
            self._server = _BoundedServer((host, port), handler)
        except OSError as error:
            raise OutsideError(
                f"cannot listen on {address}: {error.strerror}", hint="choose another address"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, name="http", daemon=True
        )
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class _BoundedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - a client that went away
        _log.debug("a client closed the connection")


class _RequestHandler(BaseHTTPRequestHandler):
    answer: Answer
    timeout = _IDLE_SECONDS  # between two bytes
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "reconciler", ""

    def log_message(self, *_: object) -> None:
        """Log nothing: requests are counted."""

    def _respond(self) -> None:
        length = self.headers.get("Content-Length", "0")
        self.close_connection = True
        if "Transfer-Encoding" in self.headers or not length.isascii() or not length.isdigit():
            return self._send(_text(HTTPStatus.LENGTH_REQUIRED, "send Content-Length"))
        if int(length[:12]) > MAX_BYTES:
            return self._send(_text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too large"))
        body = self.rfile.read(int(length)) if int(length) else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = HttpRequest(method=self.command, path=urlsplit(self.path).path, headers=headers, body=body)
        try:
            answer = type(self).answer(request)
        except Exception as error:  # noqa: BLE001 - a bug must not end the connection without an answer
            _log.event("error", "bug in a request", error=repr(error))
            answer = _text(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")
        return self._send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815 - names of http.server

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def parse_address(text: str) -> tuple[str, int]:
    """Read `HOST:PORT` or `:PORT`. Raises `ConfigError`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port[:6]) > 65535:  # noqa: PLR2004 - the last port
        raise ConfigError(f"{text!r} is not an address", hint="write HOST:PORT, such as 127.0.0.1:8080 or :8080")
    return host.strip("[]"), int(port)
