"""What the controller answers over HTTP: health and metrics on one address, webhooks on another."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

from reconciler.controller.loop import Controller
from reconciler.controller.metrics import Metrics
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.sources.store import SourceStore
from reconciler.controller.web.listener import Answer, HttpAnswer, HttpRequest, text_answer
from reconciler.controller.web.webhooks import check, provider_of
from reconciler.core.values import plural
from reconciler.errors import ReconcilerError
from reconciler.outputs.terminal.logs import Log

_DELIVERIES = 1024  # remembered ids of webhooks, against replays
_log = Log(__name__)


# Health and metrics.


def probes(controller: Controller, metrics: Metrics, update: Callable[[], None] = lambda: None) -> Answer:
    """Return what answers `/healthz`, `/readyz` and `/metrics`. `update` sets further gauges before they are read."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.method not in ("GET", "HEAD"):
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        match request.path:
            case "/metrics":
                controller.update_gauges()
                update()
                content_type, body = metrics.exposition(request.headers.get("accept", ""))
                return HttpAnswer(status=HTTPStatus.OK, body=body, content_type=content_type)
            case "/healthz" | "/livez":
                return _state(controller.unhealthy())
            case "/readyz":
                return _state(controller.unready())
        return text_answer(HTTPStatus.NOT_FOUND, "not found")

    return answer


def _state(reason: str) -> HttpAnswer:
    return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, reason) if reason else text_answer(HTTPStatus.OK, "ok")


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
                return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use POST")
            prefix, _, key = request.path.removeprefix("/").partition("/")
            source = self._controller.sources().get(key) if prefix == "webhooks" else None
            hint = check(request.headers, request.body, self._token(source), time.time())
            if source is None or not hint.is_genuine:
                return text_answer(HTTPStatus.FORBIDDEN, "the signature is not valid")
            result = "ignored"
            if hint.delivery and not self._is_new(key, hint.delivery):
                return text_answer(HTTPStatus.OK, "already delivered")
            due = self._wake(source, hint.ref)
            result = "accepted" if due else "ignored"
            return text_answer(HTTPStatus.ACCEPTED, f"{plural(due, 'source')} due")
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
