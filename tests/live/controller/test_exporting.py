"""F-135: spans over HTTP to a real server, as an OpenTelemetry collector receives them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reconciler.controller.exporting import SpanExporter
from reconciler.controller.metrics import Metrics
from reconciler.controller.tracing import Trace
from reconciler.errors import ConfigError
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_controller import config, wait_for

__all__ = ["config"]
TOKEN = "canary-c0llector-token"


@dataclass(kw_only=True)
class Collector:
    """What arrived: the path, the headers and the body of every request."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)  # of the next answers; then 200
    received: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    is_slow: bool = False

    def spans(self) -> list[dict[str, Any]]:
        """Return all spans."""
        bodies = [body for _, _, body in self.received]
        return [span for body in bodies for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector on loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            collector.received.append((self.path, dict(self.headers), body))
            if collector.is_slow:
                collector.released.wait(30)
            self.send_response(collector.statuses.pop(0) if collector.statuses else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

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
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


def spans_of(metrics: Metrics, result: str) -> float:
    line = f'reconciler_spans_total{{result="{result}"}} '
    text = metrics.exposition("")[1].decode()
    return sum(float(row.removeprefix(line)) for row in text.splitlines() if row.startswith(line))


def one_pass() -> tuple[Any, ...]:
    trace = Trace("")
    with trace.stage("reconcile"), trace.stage("plan"):
        pass
    return tuple(trace.spans)


def test_a_controller_sends_the_spans_of_every_pass(
    collector: Collector, config: Any, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """The endpoint, the headers and the name of the service come from the variables of OpenTelemetry."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN}",
        "OTEL_SERVICE_NAME": "fleet-reconciler",
    }
    with controller(tmp_path / "c", "--config", str(config(fleet={})), environ=environ) as running:
        entry = wait_for(running, "reconciled")
        wait_until(lambda: collector.received, "spans")
        wait_until(lambda: running.value('reconciler_spans_total{result="exported"}') >= 4, "the count of spans")
        path, headers, body = collector.received[0]
        assert (path, headers["Content-Type"]) == ("/v1/traces", "application/json")
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        (resource,) = body["resourceSpans"]
        attributes = {one["key"]: one["value"]["stringValue"] for one in resource["resource"]["attributes"]}
        assert attributes["service.name"] == "fleet-reconciler"
        assert [span["name"] for span in collector.spans()] == ["fetch", "open", "plan", "reconcile"]
        assert {span["traceId"] for span in collector.spans()} == {entry["trace_id"]}
        assert TOKEN not in running.log.read_text()


@pytest.mark.parametrize(
    ("statuses", "result"), [([401], "dropped"), ([503] * 9, "dropped"), ([429, 503], "exported")], ids=str
)
def test_a_busy_collector_is_asked_again_and_one_that_refuses_is_not(
    collector: Collector, statuses: list[int], result: str
) -> None:
    """Spans are lost at last, and nothing else."""
    collector.statuses, sent = [*statuses], len(statuses)
    metrics = Metrics()
    exporter = SpanExporter({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/own/path"}, metrics)
    exporter.export(one_pass())
    wait_until(lambda: spans_of(metrics, result) == 2, "the count of spans")
    assert {path for path, _, _ in collector.received} == {"/own/path"}
    assert len(collector.received) == {1: 1, 2: 3, 9: 4}[sent]
    exporter.close()


def test_a_collector_that_does_not_answer_never_blocks_a_pass(collector: Collector) -> None:
    """The queue is full after a while: spans are dropped, and the end waits a few seconds at most."""
    collector.is_slow = True
    metrics = Metrics()
    exporter = SpanExporter({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, metrics)
    for _ in range(300):
        exporter.export(one_pass())
    assert spans_of(metrics, "dropped") >= 2 * (300 - 256 - 1)
    collector.released.set()
    exporter.close()
    assert spans_of(metrics, "exported") > 0


def test_headers_that_are_not_understood_are_refused_without_being_shown() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={TOKEN}"}
    with pytest.raises(ConfigError, match="only `authorization=Bearer TOKEN`") as error:
        SpanExporter(environ, Metrics())
    assert TOKEN not in str(error.value)
