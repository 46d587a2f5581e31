"""A disk that is full: a controller whose state folder is a small file system of its own."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import left_out
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_controller import config, wait_for
from tests.live.controller.test_pass import job, push

__all__ = ["config"]
_FILLED = (
    'mkdir -p "$0" && mount -t tmpfs -o size=4m none "$0" && head -c 8m /dev/zero > "$0/filler" 2> /dev/null; exec "$@"'
)


@pytest.fixture
def unshare() -> list[str]:
    """Return what runs a command in a mount namespace of its own."""
    words = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode:
        left_out("this machine allows no user namespaces, in which a test may mount a small file system")
    return words


def test_a_full_disk_is_told_and_survived(
    unshare: list[str], config: Any, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """The condition says so, the process stays, and goes on by itself when there is space again."""
    state = tmp_path / "c/controller-state"
    within = [*unshare, "sh", "-c", _FILLED, str(state)]
    path = config(fleet={"mode": "commit"})
    with controller(tmp_path / "c", "--config", str(path), within=within) as running:
        entry = wait_for(running, "failed")
        assert "No space left" in entry["detail"], entry
        assert entry["reason"] == "DiskFull", entry
        tip = push(person, job("blue"))
        assert running.get("/healthz")[0] == 200
        assert running.get("/readyz")[0] == 503
        assert server.tip() == tip
        (Path("/proc") / str(running.process.pid) / "root" / state.relative_to("/") / "filler").unlink()
        wait_until(lambda: server.tip() != tip, "the commit of the controller")
        wait_until(lambda: running.get("/readyz")[0] == 200, "ready")
        assert not [one for one in running.entries() if "bug" in one["message"]]
        assert running.stop() == 0
