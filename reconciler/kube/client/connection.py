"""Connections to an API server: a pool of urllib3, with errors that tell whether a request was sent."""

import re
import ssl
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.client import BadStatusLine, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, unquote

import urllib3
from msgspec import Struct
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ClosedPoolError, HTTPError, ReadTimeoutError

from reconciler.processes import check_parent

_CONNECT_SECONDS = 5.0
_MAX_IDLE = 32
_CHUNK_BYTES = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS  # 16 makes zlib read the header of gzip
_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class NotConnected(Exception):
    """No connection was made, so no request was sent. `__cause__` says why."""


class BadAnswer(OSError):
    """The answer is not complete HTTP/1.1."""


class Tls(Struct, frozen=True, kw_only=True):
    """Certificates as PEM: those that the server is trusted by, and our own. No `authority`: those of the system."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    server_name: str = ""
    is_verified: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a context. Raises `ssl.SSLError` if a certificate or key is not valid."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False
        if not self.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif self.authority:
            context.load_verify_locations(cadata=self.authority.decode("ascii", "replace"))
        else:
            context.load_default_certs()
        if self.certificate:
            with TemporaryDirectory() as folder:  # the library reads files only
                path = Path(folder, "client.pem")
                path.touch(0o600)
                path.write_bytes(self.certificate + b"\n" + self.key)
                context.load_cert_chain(path)
        return context


class Address(Struct, frozen=True, kw_only=True):
    """The URL of a server, and the proxy to it, if there is one."""

    url: SplitResult
    tls: Tls = Tls()
    proxy: SplitResult | None = None

    @property
    def authority(self) -> str:
        """Host and port; the usual port is left out."""
        host = f"[{self.url.hostname}]" if ":" in (self.url.hostname or "") else self.url.hostname or ""
        return f"{host}:{self.url.port}" if self.url.port not in (None, _PORTS[self.url.scheme]) else host


class ServerAnswer:
    """An answer whose headers have come. Its body is read once: as a whole, or in the pieces that come."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response: Any = response
        self.status = response.status

    def header(self, name: str) -> str:
        """Return the value of a header; empty if there is none."""
        return str(self._response.headers.get(name, ""))

    def headers(self, name: str) -> list[str]:
        """Return all values of a header, which may be UTF-8."""
        values: list[str] = self._response.headers.getlist(name)
        return [value.encode("latin-1", "replace").decode("utf-8", "replace") for value in values]

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
        self._response.release_conn()
        return bytes(content)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises `OSError` if it is incomplete."""
        try:
            while piece := self._response.read1(_CHUNK_BYTES, decode_content=False):
                yield piece
        except (HTTPError, HTTPException, AttributeError) as error:  # AttributeError: another thread has closed it
            raise _failure(error) from error

    def stop(self) -> None:
        """End the connection, also for a thread that waits for a piece."""
        with suppress(OSError, ValueError, RuntimeError):  # it has ended
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError, ValueError):
            self._response.close()


class _Connection(HTTPConnection):
    """A connection that tells a failure to connect from that of a request."""

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        try:
            super().connect()
        except (OSError, HTTPError, HTTPException, UnicodeError) as error:  # UnicodeError: a host name that is none
            raise NotConnected from error
        self.is_verified = True  # or the user does not want it, and needs no warning

    def request(self, method: str, *arguments: Any, **named: Any) -> None:
        """Send a request, unless the process that wants it has ended."""
        if method != "GET":
            check_parent()
        super().request(method, *arguments, **named)


class _SecureConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class ConnectionPool:
    """Connections to one server that threads share; each has its own while it uses it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pool: urllib3.HTTPConnectionPool | None = None  # made by the first request
        self._lock = Lock()
        prefix = address.url.path.rstrip("/")
        is_forwarded = address.proxy is not None and address.url.scheme == "http"  # the proxy needs the whole URL
        self._prefix = f"http://{address.authority}{prefix}" if is_forwarded else prefix

    def send(self, head: str, headers: Iterable[tuple[str, str]], body: bytes | None, seconds: float) -> ServerAnswer:
        """Send a request; `head` is its method and target. `seconds`: longest silence of the server.

        Raises `NotConnected` if nothing was sent, and `OSError` if there is no answer.
        """
        method, _, target = head.partition(" ")
        rows = urllib3.HTTPHeaderDict(Host=self.address.authority)
        for name, value in headers:
            rows.add(name, value)
        if " " in target or _CONTROL.search(target + "".join(rows.values())):
            raise NotConnected from BadAnswer("a header or the path holds a control character or a space")
        try:
            response = self._opened().urlopen(
                method,
                self._prefix + target,
                body=body,
                headers=rows,
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=seconds),
                retries=False,
                redirect=False,
                assert_same_host=False,  # a proxy gets whole URLs
                preload_content=False,
                decode_content=False,
            )
        except ClosedPoolError as error:
            raise NotConnected from error
        except (HTTPError, HTTPException) as error:
            raise _failure(error) from error
        return ServerAnswer(response)

    def clear(self) -> None:
        """Close all idle connections."""
        if self._pool is not None:
            self._pool.close()

    def _opened(self) -> urllib3.HTTPConnectionPool:
        with self._lock:
            if self._pool is None:
                try:
                    self._pool = self._made()
                except OSError as error:  # a certificate or key is not valid
                    raise NotConnected from error
            return self._pool

    def _made(self) -> urllib3.HTTPConnectionPool:
        address, options = self.address, dict[str, Any](maxsize=_MAX_IDLE)
        if address.url.scheme == "https":
            name = address.tls.server_name or address.url.hostname
            options |= {"ssl_context": address.tls.context(), "server_hostname": name}
        manager = _proxied(address.proxy, options) if address.proxy is not None else urllib3.PoolManager(**options)
        manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
        return manager.connection_from_host(address.url.hostname, address.url.port, address.url.scheme)


def _proxied(proxy: SplitResult, options: dict[str, Any]) -> urllib3.ProxyManager:
    headers = None
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=pair)
    url = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"
    context = ssl.create_default_context()
    return urllib3.ProxyManager(url, proxy_headers=headers, proxy_ssl_context=context, **options)


def _failure(error: Exception) -> OSError:
    """Return the outcome of a request that was sent, in words for people."""
    cause = next((one for one in error.args if isinstance(one, Exception)), error)
    if isinstance(error, ReadTimeoutError):
        return TimeoutError()
    if isinstance(cause, OSError):  # reset, or closed without an answer, or TLS
        return cause
    if isinstance(cause, BadStatusLine):
        return BadAnswer("the response is not HTTP/1.1")
    return BadAnswer(
        f"the response is not valid: {cause}" if type(cause) is HTTPException else "the response is incomplete"
    )
