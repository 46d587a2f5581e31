"""An HTTP server on loopback that passes requests on to an API server, and records when each write came."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import urllib3

from tests.cluster import kubeconfig
from tests.cluster.bed.git_http import request_body


@dataclass(kw_only=True)
class Recorder:
    """What came, and how to come here: writes with their time, and a kubeconfig. `before` runs before each is sent on."""

    kubeconfig: Path
    writes: list[tuple[float, str]] = field(default_factory=list)
    before: Callable[[], object] = lambda: None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of fewer, connections that come together wait a second


@contextmanager
def recorder(server: Path, folder: Path) -> Iterator[Recorder]:
    """Run a recorder in front of the server of a kubeconfig."""
    endpoint = kubeconfig.endpoint(server)
    state = Recorder(kubeconfig=folder / "recorded-kubeconfig")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:  # quiet
            pass

        def _serve(self) -> None:
            body = request_body(self)
            if self.command != "GET":
                state.writes.append((time.monotonic(), f"{self.command} {self.path}"))
                state.before()
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            headers["Authorization"] = f"Bearer {endpoint.token}"
            url = endpoint.server + self.path
            answer = pool.request(self.command, url, body=body, headers=headers, decode_content=False, retries=False)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            with suppress(OSError):  # the client was killed
                self.wfile.write(answer.data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of the base class

    with urllib3.PoolManager(ssl_context=endpoint.context, maxsize=32) as pool:
        http = _Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        state.kubeconfig.write_text(kubeconfig.text(f"http://127.0.0.1:{http.server_address[1]}", b"", "recorded"))
        try:
            yield state
        finally:
            http.shutdown()
            http.server_close()
            thread.join()
