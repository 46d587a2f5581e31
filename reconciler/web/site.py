"""The site: which request gets which page, and the snapshot that all of them show."""

import threading
from collections.abc import Callable, Generator
from http import HTTPStatus
from time import monotonic
from urllib.parse import parse_qs, unquote

from reconciler.console.logs import Log
from reconciler.errors import ReconcilerError
from reconciler.web.api import json_answer
from reconciler.web.guard import Guard
from reconciler.web.listener import HttpAnswer, HttpRequest, text_answer
from reconciler.web.rendering import EVENTS, Query, SnapshotPages
from reconciler.web.snapshot import Snapshot

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_READING = frozenset({"GET", "HEAD"})
_FOLLOWERS = 16
"""Connections that follow events: a quarter of all, so that pages are answered, too."""
_BEAT_SECONDS = 15.0
_log = Log(__name__)

ReadSource = Callable[[str], str | None]
"""Returns the text of a file of the repository that may be shown; None if there is none."""


class Website:
    """Answers requests from the last snapshot. `renew` takes the next one."""

    def __init__(self, take: Callable[[], Snapshot], guard: Guard, read_source: ReadSource) -> None:
        self._take, self._guard, self._read_source = take, guard, read_source
        self._pages = SnapshotPages(take())
        self._changed = threading.Condition()
        self._version = 0
        self._special: dict[str, Callable[[str], HttpAnswer]] = {
            EVENTS: self._events,
            "/health": lambda _: text_answer(HTTPStatus.OK, "ok"),
            "/source/": self._source,
            "/api/": lambda path: json_answer(self._pages.snapshot, path),
        }
        self._following = threading.BoundedSemaphore(_FOLLOWERS)

    def renew(self) -> None:
        """Take a new snapshot, and tell who follows. If that fails, the last one stays."""
        try:
            snapshot = self._take()
        except ReconcilerError as error:
            _log.event("warning", "the pages show the last state that could be read", error=str(error))
            return
        shown = self._pages.snapshot
        if snapshot.plan.digest == shown.plan.digest and snapshot.revision == shown.revision:
            return
        pages = SnapshotPages(snapshot)
        with self._changed:
            self._pages = pages
            self._version += 1
            self._changed.notify_all()

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        found = self._guard(request) or self._answer(request)
        return HttpAnswer(
            status=found.status,
            body=found.body,
            content_type=found.content_type,
            headers={**_HEADERS, **found.headers},
            stream=found.stream,
        )

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        if request.method not in _READING:
            refusal = text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "these pages are read only; change the repository")
            return HttpAnswer(status=refusal.status, body=refusal.body, headers={"Allow": "GET, HEAD"})
        found = next((make for start, make in self._special.items() if request.path.startswith(start)), None)
        return found(request.path) if found is not None else self._page(request)

    def _page(self, request: HttpRequest) -> HttpAnswer:
        try:
            asked = parse_qs(request.query, max_num_fields=8)
        except ValueError:
            return text_answer(HTTPStatus.BAD_REQUEST, "there are too many questions")
        number = asked.get("page", [""])[0][:6]
        is_number = number.isascii() and number.isdigit()
        query = Query(words=asked.get("q", [""])[0][:200], number=int(number) if is_number else 1)
        body = self._pages.html(request.path, query)
        if body is None:
            return text_answer(HTTPStatus.NOT_FOUND, "there is no such page")
        return HttpAnswer(status=HTTPStatus.OK, body=body, content_type="text/html; charset=utf-8")

    def _source(self, address: str) -> HttpAnswer:
        path = unquote(address.removeprefix("/source/"))
        text = self._read_source(path)
        if text is None:
            return text_answer(HTTPStatus.NOT_FOUND, "there is no such file, or it is not shown")
        return HttpAnswer(
            status=HTTPStatus.OK, body=self._pages.source(path, text), content_type="text/html; charset=utf-8"
        )

    def _events(self, _: str) -> HttpAnswer:
        if not self._following.acquire(blocking=False):
            return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages follow the events")
        return HttpAnswer(status=HTTPStatus.OK, content_type="text/event-stream", stream=self._follow())

    def _follow(self) -> Generator[bytes, None, None]:
        """Yield an event for each new snapshot, and a comment now and then, which finds connections that are gone."""
        try:
            seen = self._version
            yield b": reconciler\n\n"
            while True:
                end = monotonic() + _BEAT_SECONDS
                with self._changed:
                    while self._version == seen and (left := end - monotonic()) > 0:
                        self._changed.wait(left)
                    is_new, seen = self._version != seen, self._version
                yield b"event: changed\ndata: {}\n\n" if is_new else b": beat\n\n"
        finally:
            self._following.release()
