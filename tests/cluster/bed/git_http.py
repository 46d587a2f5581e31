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


class _Handler(BaseHTTPRequestHandler):
    """Passes requests to `git http-backend` as the CGI that it is."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self._body()
        if self.path.startswith("/private/") and not self._is_let_in():
            self._answer(HTTPStatus.UNAUTHORIZED, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            return
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": sys.argv[1],
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "git",
            "REMOTE_ADDR": "127.0.0.1",
        }
        answer = subprocess.run(
            ["git", "http-backend"], env=environment, input=body, stdout=subprocess.PIPE, check=False
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n") if ": " in line]
        status = next((value for name, value in headers if name == "Status"), "200 OK")
        self._answer(int(status.split()[0]), [(name, value) for name, value in headers if name != "Status"], content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

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
