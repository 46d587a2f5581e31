"""A server on loopback that says what a test tells it to, in that order."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

Act = Callable[[BaseHTTPRequestHandler], None]


class Said(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Scripted(ThreadingHTTPServer):
    """Acts one after the other, the last one again and again; keeps every request."""

    daemon_threads = True
    scheme = "http"

    def __init__(self, acts: Sequence[Act]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.acts = list(acts)
        self.said: list[Said] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def act(self, said: Said) -> Act:
        with self.lock:
            self.said.append(said)
            return self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent where the client has left."""


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = msgspec.json.decode(raw) if raw else None
        self.server.act(Said(self.command, self.path, dict(self.headers), body))(self)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


def answer(status: int, body: Any = b"", **headers: str) -> Act:
    """Answer with JSON, or with bytes as they are."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(raw)

    return act


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Say nothing until the client leaves."""
    handler.connection.settimeout(60)
    handler.rfile.read(1)


def trickle(head: bytes, drop: bytes) -> Act:
    """Go on for ever, a few bytes at a time: every read of the client gets something."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(head)
        for _ in range(6000):
            handler.wfile.write(drop)
            time.sleep(0.02)

    return act


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Close in the middle of an answer."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
    handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(*acts: Act, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Serve until the end of the block."""
    server = Scripted(acts)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
