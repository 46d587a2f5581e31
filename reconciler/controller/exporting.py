"""`SpanExporter`: spans to a file, and to an OpenTelemetry endpoint over HTTP, in the background."""

import queue
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import IO

from reconciler.adapters.http import Endpoint, HttpClient, HttpError
from reconciler.controller.metrics import Metrics
from reconciler.controller.tracing import TraceSpan, otlp
from reconciler.errors import ConfigError, OutsideError
from reconciler.outputs.terminal.logs import Log
from reconciler.version import __version__

ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HEADERS, SERVICE = "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME"
_WAITING = 256  # passes; more are dropped
_SECONDS = 5.0
_OK = 300
_log = Log(__name__)


class SpanExporter:
    """Writes the spans of passes. It never blocks a pass: what an endpoint does not accept in time is dropped."""

    def __init__(self, environ: Mapping[str, str], metrics: Metrics, *, file: Path | None = None) -> None:
        self._metrics = metrics
        self._resource = {"service.name": environ.get(SERVICE) or "reconciler", "service.version": __version__}
        self._file: IO[bytes] | None = _opened(file) if file else None
        self._client = _client(environ)
        self._waiting: queue.Queue[Sequence[TraceSpan] | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._send_all, name="spans", daemon=True)
        if self._client is not None:
            self._thread.start()

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Take the spans of one pass."""
        if not spans:
            return
        if self._file is not None:
            self._file.write(otlp(spans, self._resource) + b"\n")
            self._file.flush()
            if self._client is None:
                self._metrics.count("spans_total", len(spans), result="exported")
        if self._client is not None:
            try:
                self._waiting.put_nowait(spans)
            except queue.Full:
                self._metrics.count("spans_total", len(spans), result="dropped")

    def _send_all(self) -> None:
        while (spans := self._waiting.get()) is not None:
            assert self._client is not None  # noqa: S101 - else the thread is not started
            result = "dropped"
            try:
                until = monotonic() + _SECONDS
                status = self._client.send_until(until, "POST", "", otlp(spans, self._resource)).status
                if status < _OK:
                    result = "exported"
                else:
                    _log.event("warning", "spans were not accepted", error=f"the endpoint answered {status}")
            except HttpError as error:
                _log.event("warning", "spans were not accepted", error=error.message)
            self._metrics.count("spans_total", len(spans), result=result)

    def close(self) -> None:
        """Send what is waiting, for a few seconds, and close the file."""
        if self._client is not None:
            try:
                self._waiting.put(None, timeout=1.0)
                self._thread.join(3.0)
            except queue.Full:
                _log.event("warning", "spans were not sent before shutdown")
            self._client.close()
        if self._file is not None:
            self._file.close()


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("ab")
    except OSError as error:
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _client(environ: Mapping[str, str]) -> HttpClient | None:
    url = environ.get(TRACES_ENDPOINT) or ""
    if not url and environ.get(ENDPOINT):
        url = environ[ENDPOINT].rstrip("/") + "/v1/traces"
    if not url:
        return None
    endpoint = Endpoint.parse(url, token=_token(environ), purpose="OpenTelemetry endpoint")
    return HttpClient(endpoint, timeout_seconds=_SECONDS)


def _token(environ: Mapping[str, str]) -> str:
    """Return the bearer token among the headers; others are not supported."""
    for part in environ.get(HEADERS, "").split(","):
        name, sign, value = part.strip().partition("=")
        scheme, _, token = value.replace("%20", " ").partition(" ")
        if sign and (name.lower(), scheme.lower()) != ("authorization", "bearer"):
            raise ConfigError(f"{HEADERS}: only `authorization=Bearer TOKEN` is supported")
        if sign:
            return token
    return ""
