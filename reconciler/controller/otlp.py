"""`OtlpEndpoint`: sends spans with the SDK of OpenTelemetry, which is only installed for it (the extra `tracing`).

The SDK reads its own variables, such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME, from this process.
"""

import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from reconciler.controller.tracing import TraceSpan
from reconciler.version import __version__
from reconciler.web.metrics import Metrics

_CLOSE_SECONDS = 3.0
_SCOPE = InstrumentationScope("reconciler.controller", __version__)


class OtlpEndpoint:
    """Sends spans in the background, in batches, and again if the endpoint is busy."""

    def __init__(self, metrics: Metrics) -> None:
        logging.getLogger("opentelemetry").handlers[:] = logging.getLogger("reconciler").handlers
        logging.getLogger("opentelemetry.util.re").disabled = True  # it shows headers that it does not understand
        own = Resource({"service.name": "reconciler", "service.version": __version__})
        self._resource = own.merge(OTELResourceDetector().detect())
        self._processor = BatchSpanProcessor(_CountingExporter(metrics))

    def send(self, spans: Sequence[TraceSpan]) -> None:
        """Take spans; while too many wait, the oldest are dropped."""
        for span in spans:
            self._processor.on_end(self._encode(span))

    def close(self) -> None:
        """Send what is waiting, for a few seconds."""
        thread = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        thread.start()
        thread.join(_CLOSE_SECONDS)

    def _encode(self, span: TraceSpan) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.trace, span.id),
            parent=_context(span.trace, span.parent) if span.parent else None,
            resource=self._resource,
            attributes=span.attributes,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=_SCOPE,
        )


class _CountingExporter(OTLPSpanExporter):
    """Counts what the endpoint accepted and what it did not."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._counts = metrics

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = super().export(spans)
        is_sent = result is SpanExportResult.SUCCESS
        self._counts.count("spans_total", len(spans), result="exported" if is_sent else "dropped")
        return result


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
