"""HTTP with deadlines and bounded responses: requests to other programs, and messages to webhooks."""

import re
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import count
from socket import SHUT_RDWR
from threading import Event, Thread
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import urllib3
from msgspec import Struct
from urllib3.connection import HTTPConnection, HTTPSConnection

from reconciler.errors import ConfigError, OutsideError, one_line

# HTTP calls with a deadline for the whole exchange: name lookup, connection, headers and body together.
# Redirects are not followed, so credentials never reach another host. Proxies from the environment are not used. The
# size of answers is bounded, and the credentials of a URL are never shown.


MAX_BYTES = 4 << 20

_CHUNK_BYTES = 1 << 16

BUSY = frozenset({429, 500, 502, 503, 504})  # statuses that may be better later

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between attempts; the last one repeats

ATTEMPTS = 4

_TIMEOUT_SECONDS = 30.0

_NEXT = re.compile(r'<(?P<url>[^>]*)>;[^,<]*\brel="?next\b')

_PATH = r"[\w./~%!$&'()*+,;=:@-]*"


class HttpError(OutsideError):
    """A server's answer cannot be used, or its certificate is not trusted; asking again changes nothing."""


class HttpUnavailable(HttpError):
    """A server did not answer in time, could not be reached, or was busy."""

    retryable = True


class HttpResponse(Struct, frozen=True, kw_only=True):
    """A server's answer. `retry_after_s`: how long it asks the client to wait; 0 if it does not say.

    `next`: path and query of the next page (`Link: …; rel="next"`); empty on the last one.
    """

    status: int
    body: bytes
    retry_after_s: int = 0
    next: str = ""


class Endpoint(Struct, frozen=True, kw_only=True):
    """The address of requests. `authorization` is the value of a header and never shown.

    `authorities`: certificates in PEM form, trusted besides those of the system. `proxy`: `HOST:PORT`.
    """

    host: str
    port: int
    is_secure: bool
    prefix: str
    authorization: str = ""
    authorities: str = ""
    proxy: str = ""

    def __repr__(self) -> str:
        return f"Endpoint({self.url})"

    @property
    def url(self) -> str:
        """The URL for messages: without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_secure else ''}://{host}:{self.port}{self.prefix}"

    def mask(self, text: str) -> str:
        """Replace the secret that the server received in a text of the server: some servers repeat it."""
        secret = self.authorization.partition(" ")[2]
        return text.replace(secret, "***") if secret else text

    @classmethod
    def parse(cls, url: str, *, token: str = "", purpose: str = "service") -> "Endpoint":
        """Parse `http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]`. Raises `ConfigError`, which names the `purpose`.

        A `token` is sent as bearer token instead of a user and password.
        """
        wrong = ConfigError(
            f"the URL of the {purpose} is not valid", hint="write it as http://HOST:PORT, without query or fragment"
        )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise wrong from None  # its message holds the URL, and with it a password
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise wrong
        if not re.fullmatch(r"[\w.:%-]+", parts.hostname, re.ASCII) or not re.fullmatch(_PATH, parts.path):
            raise wrong
        authorization = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {b64encode(pair.encode()).decode()}"
        if token:
            if not re.fullmatch(r"[!-~]+", token):
                raise ConfigError(f"the token of the {purpose} is not valid", hint="use printable ASCII without spaces")
            authorization = f"Bearer {token}"
        is_secure = parts.scheme == "https"
        return cls(
            host=parts.hostname,
            port=port if port is not None else 443 if is_secure else 80,
            is_secure=is_secure,
            prefix=parts.path.rstrip("/"),
            authorization=authorization,
        )


class HttpClient:
    """Sends requests to one endpoint. `close` ends the pauses of other threads at once."""

    def __init__(
        self, endpoint: Endpoint, *, timeout_seconds: float = _TIMEOUT_SECONDS, pauses: Sequence[float] = PAUSES
    ) -> None:
        self.endpoint = endpoint
        self._timeout = timeout_seconds
        self._pauses = tuple(pauses)
        self._closed = Event()

    @property
    def url(self) -> str:
        """The URL for messages."""
        return self.endpoint.url

    def send(self, method: str, path: str, body: bytes | None = None) -> HttpResponse:
        """Send one request. Raises `HttpUnavailable` if no complete answer comes in time."""
        call = _Exchange(self.endpoint, method, path, body, self._timeout)
        call.start()
        call.join(self._timeout)
        url = self.endpoint.url
        if call.is_alive() or _is_timeout(call.outcome):
            call.abort()
            raise HttpUnavailable(f"{url} did not answer within {self._timeout:g} s")
        match call.outcome:
            case HttpResponse() as response:
                return response
            case ssl.SSLCertVerificationError() as error:
                raise HttpError(
                    f"{url}: the certificate is not trusted: {one_line(error.verify_message)}",
                    hint="name a file with the certificate authority in SSL_CERT_FILE",
                )
            case OSError() | urllib3.exceptions.HTTPError() as error:
                raise HttpUnavailable(f"{url} cannot be reached: {_reason(error)}")
            case BaseException() as error:
                raise error
        raise AssertionError  # unreachable

    def send_until(self, deadline: float, method: str, path: str, body: bytes | None = None) -> HttpResponse:
        """Send a request, and again where that is safe: four times at most, not after `deadline` (of `monotonic`).

        A GET is repeated if no connection was made or the answer was lost. Any other method is repeated only if the
        server answered that it was busy (`BUSY`): a request that may have arrived is not sent twice. A GET that was
        answered is never repeated here, whatever the status.
        """
        for attempt in count():
            is_last = attempt == ATTEMPTS - 1
            try:
                response = self.send(method, path, body)
            except HttpUnavailable:
                if is_last or method != "GET" or not self.pause(attempt, deadline):
                    raise
                continue
            if method == "GET" or response.status not in BUSY:
                return response
            if is_last or not self.pause(attempt, deadline, response):
                return response
        raise AssertionError  # unreachable

    def pause(self, attempt: int, deadline: float, response: HttpResponse | None = None) -> bool:
        """Wait before the next attempt; return False at once if there is no time for one before `deadline`."""
        seconds = self._pauses[min(attempt, len(self._pauses) - 1)]
        if response is not None:
            seconds = max(seconds, response.retry_after_s)
        if monotonic() + seconds > deadline:
            return False
        if self._closed.wait(seconds):
            raise HttpUnavailable(f"the request to {self.endpoint.url} was cancelled")
        return True

    def close(self) -> None:
        """End the pauses of all threads. May be called twice."""
        self._closed.set()


def _is_timeout(outcome: HttpResponse | BaseException | None) -> bool:
    """Check whether the timeout of the socket ended the exchange: it can expire just before the wait in `send` does."""
    cause = _cause(outcome) if isinstance(outcome, BaseException) else None
    return isinstance(cause, TimeoutError) and cause.errno is None  # the operating system's own time-out has a number


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, urllib3.exceptions.HTTPError) and error.__cause__ else error


def _reason(error: BaseException) -> str:
    """Return the reason of a failed connection: that of the operating system where there is one."""
    cause = _cause(error)
    return one_line(getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)


class _Exchange(Thread):
    """One exchange, in a thread: nothing else bounds the lookup of a name."""

    def __init__(self, endpoint: Endpoint, method: str, path: str, body: bytes | None, timeout: float) -> None:
        super().__init__(daemon=True)
        self._endpoint = endpoint
        self._method, self._path, self._body = method, endpoint.prefix + path, body
        self._connection = _connection(endpoint, timeout)
        if endpoint.proxy and not endpoint.is_secure:
            self._path = f"http://{endpoint.host}:{endpoint.port}{self._path}"
        self.outcome: HttpResponse | BaseException | None = None

    def run(self) -> None:
        """Send the request and read the whole answer."""
        try:
            self.outcome = self._receive()
        except BaseException as error:  # noqa: BLE001 - raised again by `send`
            self.outcome = error
        finally:
            self._connection.close()

    def abort(self) -> None:
        """Make the thread end, whatever it waits for."""
        with suppress(OSError, AttributeError):  # not connected yet, or no longer
            self._connection.sock.shutdown(SHUT_RDWR)

    def _receive(self) -> HttpResponse:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "gpu-reconciler"}
        headers["Connection"] = "close"
        if self._endpoint.authorization:
            headers["Authorization"] = self._endpoint.authorization
        if self._body is not None:
            headers["Content-Type"] = "application/json"
        self._connection.request(
            self._method, self._path, self._body, headers, preload_content=False, decode_content=False
        )
        with closing(self._connection.getresponse()) as response:
            content = bytearray()
            while chunk := response.read(_CHUNK_BYTES):  # raises at the end if the response is incomplete
                content += chunk
                if len(content) > MAX_BYTES:
                    raise HttpError(f"{self._endpoint.url} sent a response of more than {MAX_BYTES >> 20} MiB")
        wait = response.headers.get("Retry-After", "")
        seconds = int(wait) if re.fullmatch(r"[0-9]{1,5}", wait) else 0
        following = _NEXT.search(response.headers.get("Link", ""))
        parts = urlsplit(following["url"] if following else "")
        page = f"{parts.path.removeprefix(self._endpoint.prefix)}?{parts.query}" if following else ""
        return HttpResponse(status=response.status, body=bytes(content), retry_after_s=seconds, next=page)


def _connection(endpoint: Endpoint, timeout: float) -> HTTPConnection:
    """Return the connection to a server, or through a proxy to it; nothing is sent yet."""
    host, port = endpoint.host, endpoint.port
    if endpoint.proxy:
        name, _, number = endpoint.proxy.rpartition(":")
        host, port = name, int(number)
    if not endpoint.is_secure:
        return HTTPConnection(host, port, timeout=timeout)
    context = ssl.create_default_context()
    if endpoint.authorities:
        context.load_verify_locations(cadata=endpoint.authorities)
    connection = HTTPSConnection(host, port, timeout=timeout, ssl_context=context)
    if endpoint.proxy:
        connection.set_tunnel(endpoint.host, endpoint.port)
    return connection


_TIMEOUT = 10.0

_REDIRECTS, _MAX_TEXT = 300, 200


class IncomingWebhook:
    """One webhook. Threads may share it."""

    def __init__(self, url: str, *, timeout_seconds: float = _TIMEOUT) -> None:
        """Take the URL. A wrong one is a `ConfigError`, which does not repeat it."""
        try:
            parts = urlsplit(url.strip())
        except ValueError:
            raise ConfigError("the URL of the webhook is not valid") from None
        host = f"{parts.scheme}://{parts.netloc}"
        self._client = HttpClient(Endpoint.parse(host, purpose="webhook"), timeout_seconds=timeout_seconds)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    @property
    def host(self) -> str:
        """The host of messages, for logs."""
        return self._client.endpoint.url

    def post(self, body: Mapping[str, Any]) -> None:
        """Send a message. Raises `HttpError`; a server that refuses it is asked again only if it was busy."""
        answer = self._client.send("POST", self._path, msgspec.json.encode(body))
        if answer.status >= _REDIRECTS:
            error = HttpUnavailable if answer.status == 429 or answer.status >= 500 else HttpError  # noqa: PLR2004
            text = one_line(answer.body[:1000].decode("utf-8", "replace")).replace(self._path, "***")
            raise error(f"{self.host} answered {answer.status}: {text[:_MAX_TEXT]}")
