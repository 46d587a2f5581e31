"""An HTTP server with limits: at most 64 connections, bounded requests, and an answer whatever happens."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from reconciler.console.logs import Log
from reconciler.errors import ConfigError, OutsideError

MAX_BYTES = 1 << 20
_CONNECTIONS = 64
_IDLE_SECONDS = 10.0
_ACCEPT_SECONDS = 1.0
"""A client that is gone before its connection is accepted would hold the server for ever, and its end, too."""
_log = Log(__name__)


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a request. `stream`: parts that are sent as they come, instead of a body."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}
    stream: Generator[bytes, None, None] | None = None


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request: header names are in lower case, the body is complete and bounded."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: str = ""


Answer = Callable[[HttpRequest], HttpAnswer]


def text_answer(status: HTTPStatus, text: str) -> HttpAnswer:
    """Return an answer of one line."""
    return HttpAnswer(status=status, body=f"{text}\n".encode())


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
        self._server.socket.settimeout(_ACCEPT_SECONDS)
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
            return self._send(text_answer(HTTPStatus.LENGTH_REQUIRED, "send Content-Length"))
        if int(length[:12]) > MAX_BYTES:
            return self._send(text_answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too large"))
        body = self.rfile.read(int(length)) if int(length) else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        parts = urlsplit(self.path)
        request = HttpRequest(method=self.command, path=parts.path, query=parts.query, headers=headers, body=body)
        try:
            answer = type(self).answer(request)
        except Exception as error:  # noqa: BLE001 - a bug must not end the connection without an answer
            _log.event("error", "bug in a request", error=repr(error))
            answer = text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")
        return self._send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815 - names of http.server

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.stream is not None:
            return self._send_stream(answer.stream)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        return None

    def _send_stream(self, parts: Generator[bytes, None, None]) -> None:
        """Send parts until they end or the reader is gone; either way the generator ends."""
        self.end_headers()
        with closing(parts):
            for part in parts if self.command != "HEAD" else ():
                self.wfile.write(part)
                self.wfile.flush()


def parse_address(text: str) -> tuple[str, int]:
    """Read `HOST:PORT` or `:PORT`. Raises `ConfigError`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port[:6]) > 65535:  # noqa: PLR2004 - the last port
        raise ConfigError(f"{text!r} is not an address", hint="write HOST:PORT, such as 127.0.0.1:8080 or :8080")
    return host.strip("[]"), int(port)
