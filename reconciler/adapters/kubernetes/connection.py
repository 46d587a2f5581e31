"""Connections to an API server: HTTP/1.1, one request at a time on each, kept open for the next one.

An apply is thousands of small requests. This does what they need, in a fifth of the time of a general library.
"""

import re
import select
import socket
import ssl
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, unquote

from msgspec import Struct

from reconciler.adapters.process import check_parent

_CONNECT_SECONDS = 5.0
_MAX_IDLE = 16
_CHUNK_BYTES = 1 << 16
_MAX_LINE, _MAX_HEADERS = 1 << 16, 200
_OK, _CONTINUES, _NO_CONTENT, _NOT_MODIFIED = 200, 200, 204, 304
_GZIP = 16 + zlib.MAX_WBITS
_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Headers = Sequence[tuple[str, str]]


class NotConnected(Exception):
    """No connection was made, so no request was sent. `__cause__` says why."""


class BadAnswer(OSError):
    """The answer is not complete HTTP/1.1."""


class Tls(Struct, frozen=True, kw_only=True):
    """How to trust the server, and who we are: certificates as PEM. Without an `authority`: those of the system."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    server_name: str = ""
    is_verified: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a context. Raises `ssl.SSLError` if a certificate or key is not valid."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.hostname_checks_common_name = False
        if not self.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif self.authority:
            context.load_verify_locations(cadata=self.authority.decode("ascii", "replace"))
        else:
            context.load_default_certs()
        if self.certificate:
            from tempfile import TemporaryDirectory  # noqa: PLC0415 - few log in with a certificate

            with TemporaryDirectory() as folder:  # the library reads files only
                path = Path(folder, "client.pem")
                path.touch(0o600)
                path.write_bytes(self.certificate + b"\n" + self.key)
                context.load_cert_chain(path)
        return context


class Address(Struct, frozen=True, kw_only=True):
    """Where the server is: its URL, and the proxy to it, if there is one."""

    url: SplitResult
    tls: Tls = Tls()
    proxy: SplitResult | None = None

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.url.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and port, as requests name them."""
        return _authority(self.url)


class ServerAnswer:
    """An answer whose headers have come. Its body is read once: as a whole, or in the pieces that come."""

    def __init__(self, connection: "Connection", status: int, headers: Headers) -> None:
        self._connection = connection
        self.status = status
        self.headers = headers

    def header(self, name: str) -> str:
        """Return the value of a header by its name in lower case; empty if there is none."""
        return next((value for known, value in self.headers if known == name), "")

    def read(self, most: int) -> bytes:
        """Return the whole body, and let the next request have the connection. Raises `OSError`."""
        unzip = zlib.decompressobj(_GZIP) if self.header("content-encoding") == "gzip" else None
        content = bytearray()
        try:
            for piece in self.pieces():
                content += unzip.decompress(piece, most + 1) if unzip else piece
                if len(content) > most:
                    raise BadAnswer(f"a response of more than {most >> 20} MiB")
        except zlib.error:
            raise BadAnswer("the response is not valid gzip") from None
        if unzip and not unzip.eof:
            raise BadAnswer("the response is incomplete")
        self._connection.give_back()
        return bytes(content)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises `OSError` if it is incomplete."""
        yield from self._connection.body(self)

    def stop(self) -> None:
        """End the connection, also for a thread that waits for a piece."""
        self._connection.stop()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Connection:
    """One connection. Made by a `ConnectionPool`."""

    def __init__(self, pool: "ConnectionPool") -> None:
        self._pool = pool
        self._socket = _connect(pool.address, pool.context)
        self._file: Any = self._socket.makefile("rb", _CHUNK_BYTES)
        self._poll = select.poll()
        self._poll.register(self._socket.fileno(), select.POLLIN)
        self._is_kept = True

    @property
    def is_usable(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        return not self._poll.poll(0)

    def send(self, request: bytes, seconds: float) -> ServerAnswer:
        """Send a request and read the headers of its answer. `seconds`: longest silence of the server."""
        self._socket.settimeout(seconds)
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have refused before it read everything
            self._socket.sendall(request)
        while True:
            version, status, headers = _read_head(self._file)
            if status >= _CONTINUES:
                break
        answer = ServerAnswer(self, status, headers)
        self._is_kept = version != b"HTTP/1.0" and answer.header("connection").lower() != "close"
        return answer

    def body(self, answer: ServerAnswer) -> Iterator[bytes]:
        """Yield the body of the answer that `send` returned."""
        length = answer.header("content-length")
        if answer.status in (_NO_CONTENT, _NOT_MODIFIED):
            return
        if answer.header("transfer-encoding").lower() == "chunked":
            yield from self._chunks()
        elif length:
            if not length.isdecimal():
                raise BadAnswer("the length of the response is not a number")
            yield from self._exactly(int(length))
        else:
            self._is_kept = False
            while piece := self._file.read1(_CHUNK_BYTES):
                yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := _chunk_size(_line(self._file)):
            yield from self._exactly(size)
            _line(self._file)
        while _line(self._file):  # trailers
            pass

    def _exactly(self, count: int) -> Iterator[bytes]:
        while count:
            piece = self._file.read1(min(count, _CHUNK_BYTES))
            if not piece:
                raise BadAnswer("the response is incomplete")
            count -= len(piece)
            yield piece

    def give_back(self) -> None:
        """Keep the connection for another request if the server keeps it."""
        if not self._is_kept or not self._pool.keep(self):
            self.close()

    def stop(self) -> None:
        """Make a thread that reads see the end."""
        self._is_kept = False
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not that of TLS, which another thread uses

    def close(self) -> None:
        """Close it."""
        with suppress(OSError, ValueError):
            self._file.close()
        with suppress(OSError):
            self._socket.close()


class ConnectionPool:
    """Connections to one server that threads share; each has its own while it uses it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._host = address.authority
        self._prefix = address.url.path.rstrip("/")
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._context: ssl.SSLContext | None = None

    @property
    def context(self) -> ssl.SSLContext | None:
        """The TLS context, made once; None for a server without TLS."""
        if self.address.is_secure and self._context is None:
            with self._lock:
                if self._context is None:
                    self._context = self.address.tls.context()
        return self._context

    def send(self, head: str, headers: Iterable[tuple[str, str]], body: bytes | None, seconds: float) -> ServerAnswer:
        """Send a request; `head` is its method and target.

        Raises `NotConnected` if nothing was sent, and `OSError` if there is no answer.
        """
        request = self._request(head, headers, body)
        connection = self._take()
        if not head.startswith("GET "):
            check_parent()
        try:
            return connection.send(request, seconds)
        except BaseException:
            connection.close()
            raise

    def keep(self, connection: Connection) -> bool:
        """Keep an idle connection; return whether there was room."""
        if len(self._idle) >= _MAX_IDLE:
            return False
        self._idle.append(connection)
        return True

    def clear(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if connection.is_usable:
                return connection
            connection.close()
        try:
            return Connection(self)
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that is none
            raise NotConnected from error

    def _request(self, head: str, headers: Iterable[tuple[str, str]], body: bytes | None) -> bytes:
        method, _, target = head.partition(" ")
        address = self.address
        target = self._prefix + target
        lines = [f"Host: {self._host}", *(f"{name}: {value}" for name, value in headers)]
        if address.proxy is not None and not address.is_secure:
            target = f"http://{self._host}{target}"
            lines += _proxy_lines(address.proxy)
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines.insert(0, f"{method} {target} HTTP/1.1")
        if " " in target or _CONTROL.search("".join(lines)):
            raise NotConnected from BadAnswer("a header or the path holds a control character or a space")
        return "\r\n".join([*lines, "\r\n"]).encode() + (body or b"")


def _connect(address: Address, context: ssl.SSLContext | None) -> socket.socket:
    """Connect to the server, through its proxy if it has one. Raises `OSError`."""
    first = address.proxy or address.url
    connection = socket.create_connection((first.hostname, _port(first)), _CONNECT_SECONDS)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.proxy is not None and address.proxy.scheme == "https":
            name = address.proxy.hostname
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=name)
        if context is None:
            return connection
        if address.proxy is not None:
            _tunnel(connection, address, address.proxy)
        return _secured(connection, context, address.tls.server_name or address.url.hostname or "")
    except BaseException:
        connection.close()
        raise


def _secured(connection: socket.socket, context: ssl.SSLContext, name: str) -> socket.socket:
    if not isinstance(connection, ssl.SSLSocket):
        return context.wrap_socket(connection, server_hostname=name)
    from urllib3.util.ssltransport import SSLTransport  # noqa: PLC0415 - TLS inside TLS is rare

    inner: Any = SSLTransport(connection, context, name)
    return inner  # type: ignore[no-any-return]  # it has what is used of a socket


def _tunnel(connection: socket.socket, address: Address, proxy: SplitResult) -> None:
    """Ask a proxy to connect to the server. Raises `OSError` if it does not."""
    target = _authority(address.url, with_port=True)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *_proxy_lines(proxy), "\r\n"]
    connection.sendall("\r\n".join(lines).encode())
    with connection.makefile("rb", 0) as file:  # unbuffered: what follows belongs to TLS
        _, status, _ = _read_head(file)
    if status != _OK:
        raise BadAnswer(f"the proxy refused to connect, with status {status}")


def _proxy_lines(proxy: SplitResult) -> list[str]:
    if proxy.username is None:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}"]


def _authority(url: SplitResult, *, with_port: bool = False) -> str:
    """Return host and port of a URL; the usual port is left out."""
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    return host if _port(url) == _PORTS[url.scheme] and not with_port else f"{host}:{_port(url)}"


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def _read_head(file: Any) -> tuple[bytes, int, list[tuple[str, str]]]:
    """Read the version, the status and the headers of an answer, names in lower case."""
    line = file.readline(_MAX_LINE)
    if not line:
        raise ConnectionResetError("the connection was closed without a response")
    version, _, rest = line.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise BadAnswer("the response is not HTTP/1.1")
    lines: list[bytes] = []
    while line := _line(file):
        lines.append(line)
        if len(lines) > _MAX_HEADERS:
            raise BadAnswer(f"the response has more than {_MAX_HEADERS} headers")
    fields = (line.partition(":") for line in b"\n".join(lines).decode("utf-8", "replace").split("\n") if line)
    return version, int(rest[:3]), [(name.lower(), value.strip()) for name, _, value in fields]


def _line(file: Any) -> bytes:
    """Read a line, without its end."""
    line: bytes = file.readline(_MAX_LINE)
    if not line.endswith(b"\n"):
        raise BadAnswer("the response is incomplete")
    return line.rstrip(b"\r\n")


def _chunk_size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BadAnswer("the size of a chunk of the response is not a number") from None
