"""Admission webhooks for tests: one that never answers, and one that changes objects."""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cluster.server import ApiServer


@contextmanager
def silent() -> Iterator[str]:
    """Listen and never answer; return the URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/"


@contextmanager
def changing(server: ApiServer, patch: list[dict[str, Any]]) -> Iterator[str]:
    """Answer every admission review with a JSON patch; return the URL. The certificate is that of the API server."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}
            body = json.dumps({**review, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    (folder,) = server.logs.glob("certificates-*")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{httpd.server_address[1]}/"
        httpd.shutdown()
        thread.join()


def configuration(
    kind: str, name: str, url: str, *, certificate: bytes = b"", resource: str = "queues"
) -> dict[str, Any]:
    """Return a webhook configuration for one resource of KAI."""
    client: dict[str, Any] = {"url": url}
    if certificate:
        client["caBundle"] = base64.b64encode(certificate).decode()
    rule = {
        "apiGroups": ["scheduling.run.ai"],
        "apiVersions": ["v2"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
    }
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": client,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
