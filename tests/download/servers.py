"""Servers on loopback for downloads: what each source needs of its API, over the same set of objects.

S3 is moto, in a process of its own. Google Cloud Storage, Azure Blob Storage and the Hugging Face Hub speak only the calls
that a download makes: they are written here, after the public descriptions of these APIs. Git is git's own server.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event, Thread
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.cluster.bed.git_http import http_backend, request_body
from tests.cluster.server import free_port, listens, wait_until

SHA = "8f3c1d2e4b5a69788796a5b4c3d2e1f001234567"
"""The commit of the only revision of every repository of the Hub."""
PASSWORD = "a-token-for-downloads"


@dataclass(kw_only=True)
class Served:
    """The state of a server: its objects by path, what it was asked, and how it misbehaves.

    failures: how often it answers 503, by path. cut: after how many bytes a body ends, once, by path. pace: called
    before each part of a body.
    """

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    pace: Callable[[str], None] = lambda _: None

    def bodies(self) -> list[str]:
        """Return the paths whose content was asked for, and forget all requests."""
        found = [path for method, path, headers in self.requests if method == "GET" and "X-Body" in headers]
        self.requests.clear()
        return found


class Handler(BaseHTTPRequestHandler):
    """Answers from `served`."""

    protocol_version = "HTTP/1.1"
    served: ClassVar[Served]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def fails(self, name: str) -> bool:
        """Answer 503 while the test wants it."""
        if self.served.failures.get(name, 0) > 0:
            self.served.failures[name] -= 1
            self.answer(503)
            return True
        return False

    def note(self, path: str, **more: str) -> None:
        self.served.requests.append(
            (self.command, path, {**{name.title(): value for name, value in self.headers.items()}, **more})
        )

    def body(self, name: str, headers: dict[str, str]) -> None:
        """Answer with an object, or the rest of it."""
        self.note(name, **{"X-Body": "1"})
        if self.fails(name):
            return
        content = self.served.objects.get(name)
        if content is None:
            self.answer(404)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or self.headers.get("x-ms-range") or "")
        start, end = (int(wanted[1]), int(wanted[2] or len(content) - 1)) if wanted else (0, len(content) - 1)
        end = min(end, len(content) - 1)
        part = content[start : end + 1]
        if name in self.served.damaged:
            part = part[:-1] + b"?"
        self.send_response(206 if wanted else 200)
        length = {"Content-Length": str(len(part)), "Content-Range": f"bytes {start}-{end}/{len(content)}"}
        for key, value in {**headers, **length}.items():
            self.send_header(key, value)
        self.end_headers()
        limit = self.served.cut.pop(name, len(part))
        for index in range(0, min(limit, len(part)), 65536):
            self.served.pace(name)
            self.wfile.write(part[index : min(index + 65536, limit)])
        if limit < len(part):
            self.connection.shutdown(SHUT_RDWR)
            self.close_connection = True


class Gcs(Handler):
    """The JSON API of Google Cloud Storage: token, metadata, lists, media."""

    def do_POST(self) -> None:
        body = request_body(self)
        self.note(self.path, Body=body.decode())
        self.answer(200, b'{"access_token": "ya29.token", "token_type": "Bearer", "expires_in": 3600}', JSON)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        bucket, _, rest = parts.path.partition("/b/")[2].partition("/o")
        name = unquote(f"{bucket}/{rest.lstrip('/')}") if rest else bucket
        objects = self.served.objects
        if parts.path.startswith("/download/") or query.get("alt") == "media":
            if query.get("ifGenerationMatch", "") not in {"", _generation(objects[name])}:
                return self.answer(412, b"{}", JSON)
            return self.body(name, {})
        self.note(parts.path)
        if rest:
            found = name in objects
            return self.answer(
                200 if found else 404, json.dumps(_blob(name, objects[name])).encode() if found else b"{}", JSON
            )
        prefix = f"{bucket}/{query.get('prefix', '')}"
        items = [_blob(key, content) for key, content in sorted(objects.items()) if key.startswith(prefix)]
        return self.answer(200, json.dumps({"kind": "storage#objects", "items": items}).encode(), JSON)


JSON = {"Content-Type": "application/json"}


def _generation(content: bytes) -> str:
    return str(int(hashlib.sha256(content).hexdigest()[:12], 16))


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _blob(name: str, content: bytes) -> dict[str, object]:
    bucket, _, key = name.partition("/")
    stated = {} if key.endswith(".composed") else {"md5Hash": _md5(content)}
    return {"name": key, "bucket": bucket, "size": str(len(content)), "generation": _generation(content), **stated}


class Azure(Handler):
    """The REST API of Azure Blob Storage: lists, properties, content; requests are signed."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        name = unquote(parts.path).removeprefix("/account/")
        if not self.headers.get("Authorization", "").startswith("SharedKey account:"):
            return self.answer(403)
        if query.get("comp") == "list":
            prefix = f"{name}/{query.get('prefix', '')}"
            blobs = [key for key in sorted(self.served.objects) if key.startswith(prefix)]
            listed = "".join(_blob_xml(key.partition("/")[2], self.served.objects[key]) for key in blobs)
            text = f"<EnumerationResults><Blobs>{listed}</Blobs><NextMarker/></EnumerationResults>"
            return self.answer(200, text.encode(), {"Content-Type": "application/xml"})
        content = self.served.objects.get(name)
        if content is None:
            return self.answer(404, headers={"x-ms-error-code": "BlobNotFound"})
        headers = {
            "ETag": f'"{_generation(content)}"',
            "Last-Modified": formatdate(0, usegmt=True),
            "x-ms-blob-type": "BlockBlob",
            "x-ms-blob-content-md5": _md5(content),
        }
        if self.command == "HEAD":
            self.note(name)
            return self.answer(
                200, headers={**headers, "Content-Length": str(len(content)), "Content-MD5": _md5(content)}
            )
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            return self.answer(412)
        return self.body(name, headers)


def _blob_xml(name: str, content: bytes) -> str:
    properties = (
        f'<Content-Length>{len(content)}</Content-Length><Etag>"{_generation(content)}"</Etag>'
        f"<Content-MD5>{_md5(content)}</Content-MD5><BlobType>BlockBlob</BlobType>"
        f"<Last-Modified>{formatdate(0, usegmt=True)}</Last-Modified>"
    )
    return f"<Blob><Name>{escape(name)}</Name><Properties>{properties}</Properties></Blob>"


class Hub(Handler):
    """The API of the Hugging Face Hub: files of a revision with their checksums, and their content."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            self.note(path)
            repository, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            files = {key.removeprefix(f"{repository}/"): one for key, one in self.served.objects.items()}
            if revision not in {"main", "v1", SHA}:
                return self.answer(404, b'{"error": "Revision Not Found"}', JSON)
            siblings = [_sibling(name, content) for name, content in files.items()]
            return self.answer(200, json.dumps({"id": repository, "sha": SHA, "siblings": siblings}).encode(), JSON)
        repository, _, rest = path.strip("/").partition("/resolve/")
        return self.body(f"{repository}/{rest.partition('/')[2]}", {})


def _sibling(name: str, content: bytes) -> dict[str, object]:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    found: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": blob}
    if name.endswith(".safetensors"):
        found["lfs"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "pointerSize": 134}
    return found


class GitHttp(Handler):
    """Git's own `http-backend`; the key `root` of the objects is the folder of the repositories, which wants a password."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = request_body(self)
        self.note(self.path)
        wanted = f"Basic {base64.b64encode(f'git:{PASSWORD}'.encode()).decode()}"
        if self.headers.get("Authorization") != wanted:
            self.answer(401, headers={"WWW-Authenticate": 'Basic realm="git"'})
            return
        status, headers, content = http_backend(Path(self.served.objects["root"].decode()), self, body)
        self.answer(status, content, dict(headers))


@contextmanager
def serving(handler: type[Handler]) -> Iterator[Served]:
    """Run a server."""
    served = Served()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(handler.__name__, (handler,), {"served": served}))
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def moto() -> Iterator[str]:
    """Run moto as a server of S3, and yield its URL."""
    port = free_port()
    argv = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: listens(port), "moto", check=lambda: None)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


class Gate:
    """Lets a body pass up to some parts, and then waits until the test opens it."""

    def __init__(self, parts: int) -> None:
        self._left = parts
        self.reached, self.opened = Event(), Event()

    def __call__(self, _: str) -> None:
        self._left -= 1
        if self._left < 0 and not self.opened.is_set():
            self.reached.set()
            self.opened.wait(60)
