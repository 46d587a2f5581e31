"""Git over smart HTTP on loopback: git's own `http-backend` behind a small server.

Repositories below `/private/` want the user `git` and the password of the server. Run as a program it takes the folder
of the repositories and the port.
"""

import base64
import hmac
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.cluster import shared
from tests.cluster.server import free_port, listens, wait_until

PASSWORD = "a-password-for-tests"
_PORT = "port"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitServer:
    """A running Git server; `folder` holds its logs, and the bare repositories in `repositories`."""

    url: str
    folder: Path

    def create(self, name: str) -> str:
        """Make an empty repository that takes pushes and return its URL; `private/...` wants the password."""
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.path(name))], check=True)
        subprocess.run(["git", "-C", str(self.path(name)), "config", "http.receivepack", "true"], check=True)
        return f"{self.url}/{name}.git"

    def path(self, name: str) -> Path:
        """Return the bare repository of a name."""
        return self.folder / "repositories" / f"{name}.git"


@contextmanager
def git_server(folder: Path) -> Iterator[GitServer]:
    """Run (or join) the Git server of `folder`."""
    port = 0

    def plan() -> tuple[shared.Program, ...]:
        nonlocal port
        port = free_port()
        argv = (sys.executable, "-m", "tests.cluster.bed.git_http", str(folder / "repositories"), str(port))
        root = str(Path(__file__).parents[3])
        return (shared.Program(name="git-http", argv=argv, environment=(("PYTHONPATH", root),)),)

    def ready(check: shared.Check) -> None:
        wait_until(lambda: listens(port), "the Git server", check=check)
        (folder / _PORT).write_text(str(port))

    with shared.running(folder, plan, ready):
        yield GitServer(url=f"http://127.0.0.1:{(folder / _PORT).read_text()}", folder=folder)


def http_backend(
    repositories: Path, request: BaseHTTPRequestHandler, body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Answer a request by git's own CGI program: status, headers and body; 500 where that fails.

    An answer without a body would be an empty repository to git.
    """
    path, _, query = request.path.partition("?")
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(repositories),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "REMOTE_USER": "git",
        "REMOTE_ADDR": "127.0.0.1",
        "REQUEST_METHOD": request.command,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
    }
    done = subprocess.run(["git", "http-backend"], env=environ, input=body, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        print(f"git http-backend: {done.returncode} {done.stderr!r}", file=sys.stderr)  # noqa: T201 - for a failed test
        return 500, [], f"git http-backend ended with {done.returncode}: ".encode() + done.stderr
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = [
        (name, value) for name, colon, value in (line.partition(": ") for line in head.decode().split("\r\n")) if colon
    ]
    status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
    return status, [pair for pair in headers if pair[0] != "Status"], content


def request_body(request: BaseHTTPRequestHandler) -> bytes:
    """Read the body of a request, in chunks or of a stated length."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    chunks = []
    while size := int(request.rfile.readline().split(b";")[0], 16):
        chunks.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(chunks)


class _Handler(BaseHTTPRequestHandler):
    """Passes requests to `git http-backend` as the CGI that it is."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = request_body(self)
        if self.path.startswith("/private/") and not self._is_let_in():
            self._answer(HTTPStatus.UNAUTHORIZED, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            return
        self._answer(*http_backend(Path(sys.argv[1]), self, body))

    def _is_let_in(self) -> bool:
        wanted = f"Basic {base64.b64encode(f'git:{PASSWORD}'.encode()).decode()}"
        return hmac.compare_digest(self.headers.get("Authorization", ""), wanted)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve the repositories below a folder."""
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Handler).serve_forever()


if __name__ == "__main__":
    main()
