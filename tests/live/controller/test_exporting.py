"""F-135: spans over HTTP by the real SDK of OpenTelemetry, as a collector receives them."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from reconciler.controller.exporting import SpanExporter
from reconciler.controller.tracing import Trace
from reconciler.errors import ConfigError
from reconciler.web.metrics import Metrics
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_controller import config, wait_for

__all__ = ["config"]
TOKEN = "canary-c0llector-token"
BATCHES = {"OTEL_BSP_SCHEDULE_DELAY": "50"}  # milliseconds between two


@dataclass(kw_only=True)
class Collector:
    """What arrived: the path, the headers and the spans of every request."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)  # of the next answers; then 200
    received: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    is_slow: bool = False

    def spans(self) -> list[Any]:
        """Return all spans."""
        return [span for _, _, resource in self.received for scope in resource.scope_spans for span in scope.spans]


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector on loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
            collector.received.append((self.path, dict(self.headers), resource))
            if collector.is_slow:
                collector.released.wait(30)
            self.send_response(collector.statuses.pop(0) if collector.statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.daemon_threads = True
        thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        collector.url = f"http://127.0.0.1:{httpd.server_address[1]}"
        try:
            yield collector
        finally:
            collector.released.set()
            httpd.shutdown()
            thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name, value in BATCHES.items():
        monkeypatch.setenv(name, value)
    with running_collector() as running:
        yield running


def opened(monkeypatch: pytest.MonkeyPatch, name: str, url: str, metrics: Metrics) -> SpanExporter:
    monkeypatch.setenv(name, url)
    return SpanExporter({name: url}, metrics)


def spans_of(metrics: Metrics, result: str) -> float:
    line = f'reconciler_spans_total{{result="{result}"}} '
    text = metrics.exposition("")[1].decode()
    return sum(float(row.removeprefix(line)) for row in text.splitlines() if row.startswith(line))


def one_pass() -> Trace:
    trace = Trace("")
    with trace.stage("reconcile", source="default/fleet"):
        with trace.stage("fetch"):
            pass
        with pytest.raises(ValueError, match="wrong"), trace.stage("plan"):
            raise ValueError("wrong")
    return trace


def test_a_controller_sends_the_spans_of_every_pass(
    collector: Collector, config: Any, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """The endpoint, the headers and the name of the service come from the variables of OpenTelemetry."""
    environ = BATCHES | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN},x-team=gpu",
        "OTEL_SERVICE_NAME": "fleet-reconciler",
    }
    with controller(tmp_path / "c", "--config", str(config(fleet={})), environ=environ) as running:
        entry = wait_for(running, "reconciled")
        wait_until(lambda: running.value('reconciler_spans_total{result="exported"}') >= 4, "the count of spans")
        path, headers, resource = collector.received[0]
        sent = {name.lower(): value for name, value in headers.items()}
        assert (path, sent["content-type"]) == ("/v1/traces", "application/x-protobuf")
        assert (sent["authorization"], sent["x-team"]) == (f"Bearer {TOKEN}", "gpu")
        attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
        assert attributes["service.name"] == "fleet-reconciler"
        assert [span.name for span in collector.spans()[:4]] == ["fetch", "open", "plan", "reconcile"]
        assert collector.spans()[0].trace_id.hex() == entry["trace_id"]
        assert TOKEN not in running.log.read_text()


def test_a_span_keeps_its_place_times_and_error(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = one_pass()
    exporter = opened(monkeypatch, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/own/path", Metrics())
    exporter.export(trace.spans)
    exporter.close()
    assert {path for path, _, _ in collector.received} == {"/own/path"}
    sent = {span.name: span for span in collector.spans()}
    for span in trace.spans:
        found = sent[span.name]
        assert (found.trace_id.hex(), found.span_id.hex(), found.parent_span_id.hex()) == (
            span.trace,
            span.id,
            span.parent,
        )
        assert (found.start_time_unix_nano, found.end_time_unix_nano) == (span.start, span.end)
        assert found.status.message == span.error
        assert {one.key: one.value.string_value for one in found.attributes} == span.attributes
    assert sent["plan"].status.message == "wrong"


@pytest.mark.parametrize(("statuses", "result"), [([401], "dropped"), ([503], "exported")], ids=str)
def test_a_busy_collector_is_asked_again_and_one_that_refuses_is_not(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, statuses: list[int], result: str
) -> None:
    """Spans are lost at last, and nothing else."""
    collector.statuses = [*statuses]
    metrics = Metrics()
    exporter = opened(monkeypatch, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.url, metrics)
    exporter.export(one_pass().spans)
    wait_until(lambda: spans_of(metrics, result) == 3, "the count of spans")
    assert len(collector.received) == (1 if result == "dropped" else 2)
    exporter.close()


def test_a_collector_that_does_not_answer_never_blocks_a_pass(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end waits a few seconds at most."""
    collector.is_slow = True
    exporter = opened(monkeypatch, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.url, Metrics())
    begun = monotonic()
    for _ in range(300):
        exporter.export(one_pass().spans)
    wait_until(lambda: collector.received, "the first spans")
    assert monotonic() - begun < 3
    begun = monotonic()
    exporter.close()
    assert monotonic() - begun < 5


def test_headers_that_are_not_understood_are_not_shown(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x key {TOKEN}")
    opened(monkeypatch, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.url, Metrics()).close()
    assert TOKEN not in "".join(capfd.readouterr())


def test_without_the_libraries_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "reconciler.controller.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"OTEL_EXPORTER_OTLP_ENDPOINT is set, and opentelemetry\S* is not") as error:
        SpanExporter({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, Metrics())
    assert error.value.exit_code == 2
    assert "pip install 'gpu-reconciler[tracing]'" in error.value.hint


def test_a_file_has_a_line_for_each_span(tmp_path: Path) -> None:
    metrics = Metrics()
    exporter = SpanExporter({}, metrics, file=tmp_path / "spans.jsonl")
    exporter.export(one_pass().spans)
    exporter.close()
    assert len((tmp_path / "spans.jsonl").read_text().splitlines()) == spans_of(metrics, "exported") == 3
