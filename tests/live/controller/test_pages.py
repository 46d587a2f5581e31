"""The read-only pages of a controller: they show its source, follow it, and are started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import urllib3

from reconciler.controller.pages import only_source
from reconciler.errors import ConfigError
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.process import controller
from tests.live.controller.test_controller import config
from tests.live.controller.test_pass import job, push

__all__ = ["config"]


def shown(port: int, path: str) -> str:
    try:
        return urllib3.request("GET", f"http://127.0.0.1:{port}{path}", timeout=10, retries=False).data.decode()
    except urllib3.exceptions.HTTPError:
        return ""


def test_pages_of_the_only_source(config: Any, person: Sandbox, tmp_path: Path) -> None:
    """F-163: in a process of their own; a push is shown after the interval; what is killed starts again."""
    path = config(fleet={"mode": "observe", "interval": "3s"})
    with controller(tmp_path / "c", "--config", str(path), "--web-address", "127.0.0.1:0") as running:

        def ports() -> list[int]:
            return [one["port"] for one in running.entries() if one["message"] == "pages"]

        wait_until(lambda: bool(ports()), "the pages answer")
        (port,) = ports()
        assert "Overview" in shown(port, "/")
        tip = push(person, job("blue"))
        wait_until(lambda: tip[:12] in shown(port, "/changes"), "the pages show the push")
        threads = Path(f"/proc/{running.process.pid}/task")
        wanted = [child for task in threads.iterdir() for child in _children_of(running.process.pid, task.name)]
        assert len(wanted) == 1
        os.kill(wanted[0], signal.SIGKILL)
        wait_until(lambda: len(ports()) == 2, "the pages start again")
        assert running.stop() == 0
        assert not Path(f"/proc/{wanted[0]}").exists()


def _children_of(pid: int, task: str) -> list[int]:
    found = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split()
    return [int(word) for word in found if b"--pages" in Path(f"/proc/{word}/cmdline").read_bytes()]


def test_who_may_read_is_asked_at_the_start(config: Any, tmp_path: Path) -> None:
    path = config(fleet={"mode": "observe"})
    words = (sys.executable, "-m", "reconciler", "controller", "--config", str(path), "--web-address", ":0")
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert "everybody who reaches this address could read the pages" in found.stderr


def test_several_sources_want_a_name() -> None:
    requests: Any = {"a/b": "b", "a/c": "c"}
    assert only_source({}, "") is None
    found: Any = only_source(requests, "a/c")
    assert found == "c"
    assert only_source(requests, "a/d") is None
    with pytest.raises(ConfigError, match="several sources"):
        only_source(requests, "")
