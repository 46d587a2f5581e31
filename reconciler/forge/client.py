"""Requests to the API of a forge: rights are named, limits are obeyed, and no request with an effect is sent twice."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from reconciler.errors import one_line
from reconciler.forge import ForgeConflict, ForgeError, LostAnswer
from reconciler.http import ATTEMPTS, HttpError, HttpResponse, HttpUnavailable
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import NOT_JSON

Parsed = TypeVar("Parsed")

PATIENCE_SECONDS = 60.0  # for a forge that is busy, or asks to wait
_PAGES = 50  # of one listing
_BUSY = 429
_SERVER = 500
_SECONDARY = (b"secondary rate limit", b"rate limit exceeded", b"abuse detection")  # in GitHub's 403
_MOVED = range(300, 400)


class ForgeTransport(Protocol):
    """Sends requests to one endpoint: `HttpClient`, or a stub."""

    @property
    def url(self) -> str:
        """The URL for messages."""
        ...

    def send(self, method: str, path: str, body: bytes | None = None) -> HttpResponse:
        """Send one request, once."""
        ...

    def pause(self, attempt: int, deadline: float, response: HttpResponse | None = None) -> bool:
        """Wait before the next attempt; return False if there is no time for one."""
        ...


class ForgeClient:
    """Requests of JSON. A `right` is what the token needs for a request, in the words of the forge."""

    def __init__(self, transport: ForgeTransport, *, patience: float = PATIENCE_SECONDS) -> None:
        self._transport, self._patience = transport, patience

    def get(self, path: str, right: str, parse: Callable[[Any], Parsed]) -> Parsed:
        """Return one object. Raises `ForgeError` with the status 404 if there is none."""
        return self._parse(self._read(path, right), parse)

    def pages(self, path: str, right: str, parse: Callable[[Any], Parsed], **query: object) -> list[Parsed]:
        """Return the items of a list that has several pages. Raises `ForgeError` for one that is too long to read."""
        found, following = self._pages(path, right, parse, query)
        if following:
            told = f"{self._transport.url}{path} has more than {_PAGES} pages"
            raise ForgeError(told, hint="nothing follows from a part of them; open a new change request")
        return found

    def first_pages(self, path: str, right: str, parse: Callable[[Any], Parsed], **query: object) -> list[Parsed]:
        """Return the items of a list, or the start of one that is too long to read."""
        return self._pages(path, right, parse, query)[0]

    def _pages(
        self, path: str, right: str, parse: Callable[[Any], Parsed], query: Mapping[str, object]
    ) -> tuple[list[Parsed], str]:
        """Return the items, and the path of the first page that was not read."""
        found: list[Parsed] = []
        following = f"{path}?{urlencode({name: str(value) for name, value in query.items()})}" if query else path
        for _ in range(_PAGES):
            response = self._read(following, right)
            found += self._parse(response, lambda items: [parse(item) for item in items])
            following = response.next
            if not following:
                break
        return found, following

    def send(
        self, method: str, path: str, right: str, body: Mapping[str, Any], parse: Callable[[Any], Parsed]
    ) -> Parsed:
        """Send a request with an effect and return what was made. See `act`."""
        return self._parse(self._send(method, path, right, body), parse)

    def act(self, method: str, path: str, right: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a request with an effect. It is sent again only if the forge said that it did nothing.

        Raises `LostAnswer` if the effect is unknown, `ForgeConflict` for 409 and 422.
        """
        self._send(method, path, right, body)

    def _send(self, method: str, path: str, right: str, body: Mapping[str, Any] | None) -> HttpResponse:
        content = None if body is None else msgspec.json.encode(body)
        deadline = monotonic() + self._patience
        try:
            response = self._transport.send(method, path, content)
            if _asks_to_wait(response) and self._transport.pause(0, deadline, response):
                response = self._transport.send(method, path, content)
        except HttpUnavailable as error:
            raise LostAnswer(error.message, hint=error.hint) from error
        except HttpError as error:
            raise ForgeError(error.message, hint=error.hint) from error
        if response.status >= _SERVER:
            raise LostAnswer(f"{self._transport.url} answered {response.status}", status=response.status)
        self._check(response, right)
        return response

    def _read(self, path: str, right: str) -> HttpResponse:
        deadline = monotonic() + self._patience
        attempt = 0
        while True:
            try:
                response = self._transport.send("GET", path)
            except HttpUnavailable as error:
                if attempt == ATTEMPTS - 1 or not self._transport.pause(attempt, deadline):
                    raise LostAnswer(error.message, hint=error.hint) from error
            except HttpError as error:
                raise ForgeError(error.message, hint=error.hint) from error
            else:
                again = _asks_to_wait(response) or response.status >= _SERVER
                is_last = attempt == ATTEMPTS - 1
                if not again or is_last or not self._transport.pause(attempt, deadline, response):
                    self._check(response, right)
                    return response
            attempt += 1

    def _check(self, response: HttpResponse, right: str) -> None:
        status, url = response.status, self._transport.url
        if status < _MOVED.start:
            return
        said = _message(response)
        told = f"{url} answered {status}{f': {said}' if said else ''}"
        if status in (409, 422):
            raise ForgeConflict(told, status=status)
        if status == 401:  # noqa: PLR2004
            hint = "set RECONCILER_FORGE_TOKEN to a valid token"
            raise ForgeError(f"{url} does not accept the token", hint=hint, status=status)
        hint = ""
        if _asks_to_wait(response):
            hint = "the forge limits the rate of requests; try again later"
        elif status == 403:  # noqa: PLR2004
            hint = f"the token lacks the right {right}"
        elif status == 404:  # noqa: PLR2004
            hint = f"check spec.forge.repository, and that the token has the right {right}"
        elif status in _MOVED:
            hint = "the repository was renamed: write its new name in spec.forge.repository"
        raise ForgeError(told, hint=hint, status=status)

    def _parse(self, response: HttpResponse, parse: Callable[[Any], Parsed]) -> Parsed:
        try:
            return parse(msgspec.json.decode(response.body))
        except (*NOT_JSON, KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{self._transport.url} sent something unexpected"
            raise ForgeError(message, hint="check the kind and url of spec.forge") from error


def escape(text: str) -> str:
    """Return text as one segment of a path."""
    return quote(text, safe="")


def _asks_to_wait(response: HttpResponse) -> bool:
    """Return whether the forge did nothing because of a limit of requests."""
    if response.status == _BUSY:
        return True
    limited = response.retry_after_s > 0 or any(words in response.body.lower() for words in _SECONDARY)
    return response.status == 403 and limited  # noqa: PLR2004


def _message(response: HttpResponse) -> str:
    """Return what the forge says, in one masked line."""
    try:
        said = msgspec.json.decode(response.body)
    except NOT_JSON:
        return ""
    if not isinstance(said, dict):
        return ""
    words = said.get("message") or said.get("error") or said.get("errors") or ""
    return one_line(mask_text(str(words)), 200)
