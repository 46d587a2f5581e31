"""The real Gitea on loopback: repositories, users, tokens and pull requests by its API."""

import json
import os
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import shared
from tests.cluster.server import free_port, listens, wait_until

USER = "robot"
_ACCESS = "access.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gitea:
    """A running Gitea: `token` is that of its only user, an administrator called `robot`."""

    url: str
    token: str
    folder: Path

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send one request to the API below `/api/v1` and return the decoded answer, which must be a success."""
        request = urllib.request.Request(  # noqa: S310 -- loopback
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 -- loopback
            raw = response.read()
        return json.loads(raw) if raw else None

    def create(self, name: str, *, private: bool = False) -> str:
        """Make an empty repository and return the URL that clones it; pushes want the token as the password."""
        made = self.call("POST", "/user/repos", {"name": name, "private": private, "default_branch": "main"})
        url: str = made["clone_url"]
        return url

    def with_token(self, url: str) -> str:
        """Return a URL that holds the user and the token."""
        return url.replace("://", f"://{USER}:{self.token}@", 1)


@contextmanager
def gitea(folder: Path, programs: Path) -> Iterator[Gitea]:
    """Run (or join) the Gitea of `folder`; `programs` holds the program and its templates."""
    port = 0
    environment = (("GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT", "true"), ("HOME", str(folder)), ("USER", "root"))

    def plan() -> tuple[shared.Program, ...]:
        nonlocal port
        port = free_port()
        (folder / "app.ini").write_text(_settings(folder, programs, port))
        argv = (str(programs / "gitea"), "web", "--config", str(folder / "app.ini"))
        return (shared.Program(name="gitea", argv=argv, environment=environment),)

    def ready(check: shared.Check) -> None:
        wait_until(lambda: listens(port), "Gitea", check=check)
        call = [str(programs / "gitea"), "--config", str(folder / "app.ini"), "admin", "user"]
        password = f"--password={secrets.token_hex(12)}"
        name, mail = f"--username={USER}", "--email=robot@example.com"
        _admin([*call, "create", "--admin", name, mail, password, "--must-change-password=false"], environment)
        token = _admin(
            [*call, "generate-access-token", name, "--token-name=tests", "--scopes=all", "--raw"], environment
        )
        access = {"url": f"http://127.0.0.1:{port}", "token": token.split()[-1]}
        (folder / _ACCESS).write_text(json.dumps(access))

    with shared.running(folder, plan, ready):
        access = json.loads((folder / _ACCESS).read_text())
        yield Gitea(url=access["url"], token=access["token"], folder=folder)


def _admin(argv: list[str], environment: tuple[tuple[str, str], ...]) -> str:
    result = subprocess.run(
        argv, env={**os.environ, **dict(environment)}, capture_output=True, text=True, check=False, timeout=60
    )
    if result.returncode:
        raise shared.StartError(f"gitea: {result.stderr[-1000:]}")
    return result.stdout


def _settings(folder: Path, programs: Path, port: int) -> str:
    return f"""\
APP_NAME = tests
RUN_USER = {os.environ.get("USER", "root")}
WORK_PATH = {folder}
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
STATIC_ROOT_PATH = {programs}
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = {folder / f"gitea-{port}.db"}
[repository]
ROOT = {folder / f"repositories-{port}"}
[security]
INSTALL_LOCK = true
SECRET_KEY = {secrets.token_hex(16)}
INTERNAL_TOKEN = {secrets.token_hex(32)}
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
[log]
MODE = console
LEVEL = Warn
[cron]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
"""
