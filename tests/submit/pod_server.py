"""A stub of an API server with a few pods, which speaks HTTP and websockets as a real one does.

It lists pods, prints their logs, runs commands in a shell of this machine, and forwards ports to this machine.
"""

import base64
import hashlib
import json
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import yaml

Body = dict[str, Any]

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KINDS = {
    "": [("v1", "pods", "Pod")],
    "batch": [("v1", "jobs", "Job")],
    "apps": [("v1", "replicasets", "ReplicaSet"), ("v1", "deployments", "Deployment")],
    "ray.io": [("v1", "rayjobs", "RayJob"), ("v1", "rayclusters", "RayCluster")],
}


def owned(kind: str, api_version: str, name: str) -> list[Body]:
    """Return the owner references of an object that a controller made."""
    return [{"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": True}]


def pod(
    name: str, owners: Sequence[Body] = (), *, containers: Sequence[str] = ("main",), gpu: str = "", **labels: str
) -> Body:
    """Return a running pod."""
    limits = {gpu: "1"} if gpu else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "ownerReferences": list(owners), "labels": labels},
        "spec": {"containers": [{"name": one, "resources": {"limits": limits}} for one in containers]},
        "status": {"phase": "Running"},
    }


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, list[Body]]] = {}
    requests: ClassVar[list[str]] = []

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        self.requests.append(self.path)
        if parts[-1] == "exec":
            self._websocket(lambda: self._exec(query))
        elif parts[-1] == "portforward":
            self._websocket(lambda: self._forward(int(query["ports"][0])))
        elif parts[-1] == "log":
            self._reply(f"log of {parts[-2]} {query['container'][0]} {query.get('tailLines', ['all'])[0]}\n".encode())
        elif len(parts) == 1:
            self._reply(json.dumps(_discovery(parts[0])).encode())
        else:
            self._objects(parts)

    def _objects(self, parts: list[str]) -> None:
        plural = next(part for part in reversed(parts) if part in self.objects)
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        found = [one for one in self.objects[plural] if namespace in ("", one["metadata"]["namespace"])]
        if parts[-1] == plural:
            self._reply(json.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": found}).encode())
            return
        one = next((_stored(one) for one in found if one["metadata"]["name"] == parts[-1]), None)
        status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}
        self._reply(json.dumps(one or status).encode(), 200 if one else 404)

    def _reply(self, content: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    # -- websockets ----------------------------------------------------------------------------------------------------

    def _websocket(self, work: Any) -> None:
        key = self.headers["Sec-WebSocket-Key"].encode()
        accepted = base64.b64encode(hashlib.sha1(key + _MAGIC, usedforsecurity=False).digest()).decode()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accepted)):
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"].split(",")[0].strip())
        self.end_headers()
        self.close_connection = True
        work()

    def _write(self, channel: int, content: bytes) -> None:
        data = bytes([channel]) + content
        head = bytes([0x82, len(data)]) if len(data) < 126 else b"\x82\x7e" + struct.pack(">H", len(data))
        self.wfile.write(head + data)
        self.wfile.flush()

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        while head := self.rfile.read(2):
            length = head[1] & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", self.rfile.read(2))
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[number % 4] for number, byte in enumerate(self.rfile.read(length)))
            if head[0] & 0x0F == 8:
                return
            yield data[0], data[1:]

    def _exec(self, query: Mapping[str, list[str]]) -> None:
        process = subprocess.Popen(
            query["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            if "stdin" in query:
                threading.Thread(target=self._feed, args=(process,), daemon=True).start()
                out, err = process.stdout.read(), process.stderr.read()  # type: ignore[union-attr]
            else:
                out, err = process.communicate()
        for channel, content in ((1, out), (2, err)):
            if content:
                self._write(channel, content)
        code = process.wait()
        causes = {"details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
        status = {"status": "Success"} if code == 0 else {"status": "Failure", **causes}
        self._write(3, json.dumps(status).encode())
        self.wfile.write(b"\x88\x00")
        self.wfile.flush()

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        for channel, content in self._messages():
            if channel == 0:
                process.stdin.write(content)
                process.stdin.flush()

    def _forward(self, port: int) -> None:
        for channel in (0, 1):
            self._write(channel, struct.pack("<H", port))
        with socket.create_connection(("127.0.0.1", port)) as target:

            def back() -> None:
                while content := target.recv(4096):
                    self._write(0, content)
                self.wfile.write(b"\x88\x00")
                self.wfile.flush()

            threading.Thread(target=back, daemon=True).start()
            for _, content in self._messages():
                target.sendall(content)


def _stored(body: Body) -> Body:
    """Return an object with what a server adds to it."""
    return {**body, "metadata": {"uid": body["metadata"]["name"], "resourceVersion": "1", **body["metadata"]}}


def _discovery(root: str) -> Body:
    groups = [group for group in _KINDS if bool(group) == (root == "apis")]
    verbs = ["get", "list"]
    return {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": group},
                "versions": [
                    {
                        "version": version,
                        "resources": [
                            {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": verbs}
                        ],
                    }
                    for version, plural, kind in _KINDS[group]
                ],
            }
            for group in groups
        ],
    }


@contextmanager
def serving(objects: Mapping[str, list[Body]], folder: Path) -> Iterator[Path]:
    """Serve objects by plural, and return a kubeconfig, until the block ends."""
    names = [plural for rows in _KINDS.values() for _, plural, _ in rows]
    Handler.objects = {plural: objects.get(plural, []) for plural in names}
    Handler.requests = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": url}}],
        "users": [{"name": "a", "user": {"token": "secret-token"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield path
    finally:
        server.shutdown()
        server.server_close()
