"""A real Git server on loopback: `git http-backend` behind an HTTP server, with faults that a test switches on."""

import base64
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.bed.git_http import http_backend, request_body
from tests.fakes.gitrepo import Sandbox, environment

_ANSWERS: dict[str, tuple[int, bytes, list[tuple[str, str]]]] = {
    "down": (503, b"down for maintenance", []),
    "busy": (429, b"too many requests", [("Retry-After", "30")]),
    "html": (200, b"<html>sign in</html>", [("Content-Type", "text/html")]),
}
"""What the server says to every request, by fault."""
USER, PASSWORD = "bot", "canary-pa55word-of-git"


@dataclass(kw_only=True)
class GitServer:
    """A server with one repository, `fleet.git`. `fault` changes what it answers; `before` runs at each request."""

    folder: Path
    port: int = 0
    private: bool = False
    fault: str = ""  # down, busy, slow, trickle, cut, corrupt, html
    before: Callable[[str], None] = lambda _: None
    requests: list[str] = field(default_factory=list)
    answers: list[tuple[str, int, str, int]] = field(default_factory=list)  # path, status, headers, length
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/fleet.git"

    @property
    def bare(self) -> Path:
        return self.folder / "fleet.git"

    def git(self, *arguments: str) -> str:
        """Run git in the repository on the server."""
        return Sandbox(self.bare, environment(self.folder / "home")).git(*arguments)

    def clone(self, folder: Path) -> Sandbox:
        """Clone it as a person does; pushes go straight to the folder."""
        box = Sandbox(folder, environment(self.folder / "home"))
        box.folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "-q", str(self.bare), str(folder)], check=True, env=box.environ)
        return box

    def tip(self, branch: str = "main") -> str:
        return self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")

    def hook(self, text: str) -> None:
        """Install a pre-receive hook (empty: remove it)."""
        path = self.bare / "hooks/pre-receive"
        path.parent.mkdir(exist_ok=True)
        if not text:
            path.unlink(missing_ok=True)
            return
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


@contextmanager
def git_server(folder: Path, *, private: bool = False) -> Iterator[GitServer]:
    """Run a server with an empty repository."""
    server = GitServer(folder=folder, private=private)
    folder.mkdir(parents=True, exist_ok=True)
    Sandbox(folder, environment(folder / "home")).git("init", "-q", "--bare", "--initial-branch=main", "fleet.git")
    server.git("config", "http.receivepack", "true")
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": server}))
    http.daemon_threads = True
    http.socket.settimeout(1)  # a client that is gone before it is accepted would hold the thread for ever
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: GitServer

    def log_message(self, *_: object) -> None:  # quiet
        pass

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(request_body(self))

    def _serve(self, body: bytes) -> None:
        state, parts = self.state, urlsplit(self.path)
        name = parts.path.rpartition("/")[2] + (f"?{parts.query}" if parts.query else "")
        state.requests.append(name)
        state.before(name)
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if state.fault in _ANSWERS:
            return self._answer(*_ANSWERS[state.fault])
        if state.fault == "slow":
            state.released.wait(60)
            return self._answer(503, b"")
        if state.private and self.headers.get("Authorization") != expected:
            return self._answer(401, b"", [("WWW-Authenticate", 'Basic realm="git"')])
        status, headers, answer = http_backend(state.folder, self, body)
        if state.fault == "corrupt" and b"PACK" in answer:
            at = answer.index(b"PACK") + 30
            answer = answer[:at] + bytes(255 - byte for byte in answer[at : at + 40]) + answer[at + 40 :]
        if state.fault in ("trickle", "cut") and b"PACK" in answer:
            return self._broken_off(answer, headers)
        return self._answer(status, answer, headers)

    def _broken_off(self, answer: bytes, headers: list[tuple[str, str]]) -> None:
        """Send half of an answer, and then nothing (cut: the connection ends; trickle: byte after byte)."""
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        half = len(answer) // 2
        self.wfile.write(answer[:half])
        rest = answer[half:] if self.state.fault == "trickle" else b""
        for byte in rest:
            if self.state.released.wait(0.2):
                break
            with suppress(OSError):
                self.wfile.write(bytes([byte]))
        self.close_connection = True

    def _answer(self, status: int, body: bytes, headers: list[tuple[str, str]] | None = None) -> None:
        self.state.answers.append((self.path, status, str(headers), len(body)))
        self.send_response(status)
        for name, value in headers or ():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):  # the client was killed
            self.wfile.write(body)
