"""`SpanExporter`: spans to a file, and to an OpenTelemetry endpoint in the background."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

import msgspec

from reconciler.controller.tracing import TraceSpan
from reconciler.errors import ConfigError, OutsideError
from reconciler.web.metrics import Metrics

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of OpenTelemetry of which one makes the controller send its spans."""


class SpanEndpoint(Protocol):
    """Sends spans in the background."""

    def send(self, spans: Sequence[TraceSpan]) -> None:
        """Take spans."""
        ...

    def close(self) -> None:
        """Send what is waiting."""
        ...


class SpanExporter:
    """Writes the spans of passes. It never blocks a pass: what an endpoint does not accept in time is dropped."""

    def __init__(self, environ: Mapping[str, str], metrics: Metrics, *, file: Path | None = None) -> None:
        self._metrics = metrics
        self._endpoint = _endpoint(metrics) if any(environ.get(name) for name in ENDPOINTS) else None
        self._file = _opened(file) if file else None

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Take the spans of one pass."""
        if self._file is not None:
            self._file.write(b"".join(msgspec.json.encode(span) + b"\n" for span in spans))
            self._file.flush()
        if self._endpoint is not None:
            self._endpoint.send(spans)
        elif self._file is not None:
            self._metrics.count("spans_total", len(spans), result="exported")

    def close(self) -> None:
        """Send what is waiting, for a few seconds, and close the file."""
        if self._endpoint is not None:
            self._endpoint.close()
        if self._file is not None:
            self._file.close()


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("ab")
    except OSError as error:
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _endpoint(metrics: Metrics) -> SpanEndpoint:
    try:
        from reconciler.controller.otlp import OtlpEndpoint  # noqa: PLC0415 - its libraries are optional
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{ENDPOINTS[0]} is set, and {error.name} is not installed",
            hint="run `pip install 'gpu-reconciler[tracing]'`, or unset the variable",
        ) from error
    return OtlpEndpoint(metrics)
