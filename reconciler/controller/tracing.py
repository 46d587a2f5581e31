"""Spans: how long each stage of a pass takes, in the JSON form of OTLP."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from reconciler.core.secrets import mask_text
from reconciler.errors import one_line
from reconciler.version import __version__

_INTERNAL, _OK, _ERROR = 1, 1, 2  # of OTLP's SpanKind and StatusCode


class TraceSpan(Struct, frozen=True, kw_only=True):
    """A stage with its start and end in nanoseconds of Unix time; `error` is empty if it succeeded."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    error: str = ""
    attributes: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1e9


class Trace:
    """The spans of one pass. The first stage is the parent of all others."""

    def __init__(self, trace: str = "", parent: str = "") -> None:
        self.trace = trace or secrets.token_hex(16)
        self.spans: list[TraceSpan] = []
        self._parent = parent

    @contextmanager
    def stage(self, name: str, **attributes: str) -> Iterator[dict[str, str]]:
        """Measure a block. The yielded attributes may be added to until it ends."""
        parent, own, start = self._parent, secrets.token_hex(8), time.time_ns()
        self._parent, error = own, ""
        try:
            yield attributes
        except BaseException as failure:
            error = one_line(mask_text(str(failure) or type(failure).__name__))
            raise
        finally:
            self._parent = parent
            self.spans.append(
                TraceSpan(
                    name=name,
                    trace=self.trace,
                    id=own,
                    parent=parent,
                    start=start,
                    end=time.time_ns(),
                    error=error,
                    attributes=attributes,
                )
            )


def otlp(spans: Sequence[TraceSpan], resource: dict[str, str]) -> bytes:
    """Return an export request of OTLP over HTTP as one line of JSON."""
    scope = {"scope": {"name": "reconciler.controller", "version": __version__}, "spans": [_encode(s) for s in spans]}
    body = {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}
    return msgspec.json.encode(body)


def _encode(span: TraceSpan) -> dict[str, object]:
    body: dict[str, object] = {
        "traceId": span.trace,
        "spanId": span.id,
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
        "status": {"code": _ERROR, "message": span.error} if span.error else {"code": _OK},
    }
    return body | ({"parentSpanId": span.parent} if span.parent else {})


def _attributes(values: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in sorted(values.items())]
