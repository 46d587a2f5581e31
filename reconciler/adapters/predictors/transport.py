"""One HTTP call with a deadline that holds: over names, connections, slow headers and slow bodies together.

Redirects are not followed, proxies of the environment are not used, and the password of a URL is never shown.
"""

import re
import socket
import ssl
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from threading import Thread
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from reconciler.adapters.predictors.asked import one_line
from reconciler.errors import ConfigError, PredictorError, PredictorUnavailable

MOST_BYTES = 4 << 20


class Response(Struct, frozen=True, kw_only=True):
    """What a server said. `retry_after_s`: how long it asks us to wait (0: it does not say)."""

    status: int
    body: bytes
    retry_after_s: int = 0


class Server(Struct, frozen=True, kw_only=True):
    """Where calls go. `authorization` is a header's value and never shown."""

    host: str
    port: int
    secure: bool
    prefix: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Server({self.shown})"

    @property
    def shown(self) -> str:
        """The URL for messages: without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}:{self.port}{self.prefix}"

    def hide(self, text: str) -> str:
        """Blot out of a server's words what it was sent as a secret: some repeat it."""
        secret = self.authorization.partition(" ")[2]
        return text.replace(secret, "***") if secret else text

    @classmethod
    def at(cls, url: str, token: str = "") -> "Server":
        """Read a URL: http or https, a host, perhaps user, password, port and path. Raises `ConfigError`.

        A `token` is sent as bearer token, instead of a user and password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _wrong_url() from None  # its message holds the URL, and that a password
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise _wrong_url()
        if not re.fullmatch(r"[\w.:%-]+", parts.hostname, re.ASCII) or not re.fullmatch(_PATH, parts.path):
            raise _wrong_url()
        authorization = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {b64encode(pair.encode()).decode()}"
        if token:
            if not re.fullmatch(r"[!-~]+", token):
                raise ConfigError("the token of the sizing service is not one", hint="it is one word of ASCII")
            authorization = f"Bearer {token}"
        secure = parts.scheme == "https"
        return cls(
            host=parts.hostname,
            port=port if port is not None else 443 if secure else 80,
            secure=secure,
            prefix=parts.path.rstrip("/"),
            authorization=authorization,
        )

    def call(self, method: str, path: str, body: bytes | None = None, *, seconds: float) -> Response:
        """Send one request. Raises `PredictorUnavailable` where no whole answer comes in time."""
        call = _Call(self, method, path, body, seconds)
        call.start()
        call.join(seconds)
        if call.is_alive():
            call.abort()
            raise PredictorUnavailable(f"{self.shown} gave no answer within {seconds:g} s")
        if isinstance(call.outcome, Response):
            return call.outcome
        if isinstance(call.outcome, ssl.SSLCertVerificationError):
            raise PredictorError(
                f"{self.shown}: its certificate is refused: {one_line(call.outcome.verify_message)}",
                hint="name a file of authorities in SSL_CERT_FILE",
            )
        if isinstance(call.outcome, OSError | HTTPException):
            reason = getattr(call.outcome, "strerror", None) or str(call.outcome) or type(call.outcome).__name__
            raise PredictorUnavailable(f"{self.shown} cannot be asked: {one_line(reason)}")
        if isinstance(call.outcome, BaseException):
            raise call.outcome
        raise AssertionError  # unreachable


_PATH = r"[\w./~%!$&'()*+,;=:@-]*"


def _wrong_url() -> ConfigError:
    return ConfigError(
        "the URL of the sizing service is not one", hint="write it as http://HOST:PORT, without query or fragment"
    )


class _Call(Thread):
    """The call itself: in a thread, because nothing else bounds the look-up of a name."""

    def __init__(self, server: Server, method: str, path: str, body: bytes | None, seconds: float) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._request = (method, server.prefix + path, body)
        kind = HTTPSConnection if server.secure else HTTPConnection
        self._connection = kind(server.host, server.port, timeout=seconds)
        self.outcome: Response | BaseException | None = None

    def run(self) -> None:
        """Send, and read the whole answer."""
        try:
            self.outcome = self._answer()
        except BaseException as error:  # noqa: BLE001 - told to whoever asked
            self.outcome = error
        finally:
            self._connection.close()

    def abort(self) -> None:
        """Make the thread end, whatever it waits for."""
        with suppress(OSError, AttributeError):  # not connected yet, or no more
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def _answer(self) -> Response:
        headers = {"Accept": "application/json", "User-Agent": "gpu-reconciler", "Connection": "close"}
        if self._server.authorization:
            headers["Authorization"] = self._server.authorization
        method, path, body = self._request
        if body is not None:
            headers["Content-Type"] = "application/json"
        self._connection.request(method, path, body, headers)
        with self._connection.getresponse() as answer:
            content = answer.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise PredictorError(f"{self._server.shown} answered with more than {MOST_BYTES >> 20} MiB")
            if answer.length:  # promised, and not sent
                raise IncompleteRead(content, answer.length)
            wait = answer.headers.get("Retry-After", "")
            return Response(
                status=answer.status,
                body=content,
                retry_after_s=int(wait) if re.fullmatch(r"[0-9]{1,5}", wait) else 0,
            )
