"""Child processes: limits that hold, an environment without credentials, nothing left behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.processes import (
    ChildCommand,
    ChildProcess,
    ProcessError,
    ProcessUnavailable,
    kill_after,
    scratch_file,
    terminate,
    without_credentials,
)
from tests.cluster.server import wait_until
from tests.sizing.predictors.asking import is_gone

SECRETS = {
    "RECONCILER_SIZING_TOKEN": "t0ken-of-the-server",
    "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwx",
    "WANDB_API_KEY": "0123456789abcdef",
    "CLIENT_SECRET": "hush",
    "MYSECRETKEY": "hush",
    "DB_PASSWORD": "hush",
    "AWS_PROFILE": "production",
    "AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
    "AZURE_CLIENT_ID": "42",
    "ARM_SUBSCRIPTION_ID": "42",
    "KUBECONFIG": "/home/me/.kube/config",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "GIT_ASKPASS": "/bin/askpass",
    "GITHUB_ACTIONS": "true",
    "VAULT_ADDR": "https://vault",
    "DATABASE_URL": "postgres://me:hunter2@db/x",
    "PIP_INDEX_URL": "https://me:hunter2@pypi.example/simple",
}
HARMLESS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "PYTHONPATH": "/opt/lib",
    "MAX_TOKENS": "512",
    "TOKENIZERS_PARALLELISM": "false",
    "LD_LIBRARY_PATH": "/opt/cuda/lib",
    "HF_HOME": "/cache/hf",
}


def start(body: str, folder: Path, *, interactive: bool = False, memory_bytes: int = 1 << 30) -> ChildProcess:
    command = ChildCommand(
        name="the child",
        argv=(sys.executable, "-c", f"import os, subprocess, sys, time\n{body}"),
        folder=folder,
        environ={"PATH": "/usr/bin:/bin"},
        memory_bytes=memory_bytes,
    )
    return ChildProcess(command, interactive=interactive)


def test_credentials_are_dropped_and_everything_else_stays() -> None:
    assert without_credentials({**SECRETS, **HARMLESS}) == HARMLESS


def test_a_child_has_the_environment_it_was_given_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx")
    child = start("print(sorted(set(os.environ) - {'LC_CTYPE', 'PWD', '__CF_USER_TEXT_ENCODING'}))", tmp_path)
    assert child.wait(30) == 0
    assert child.last_message() == "['PATH']"


def test_a_deadline_ends_the_child_and_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"""
other = subprocess.Popen(["sleep", "1000"])
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{other.pid}}")
time.sleep(1000)
"""
    child = start(body, tmp_path)
    with pytest.raises(ProcessUnavailable, match=r"^the child did not answer within 3 s$"):
        child.wait(3)
    child.end()
    child.end()
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_resident_memory_is_limited(tmp_path: Path) -> None:
    child = start("held = b'x' * (300 << 20)\ntime.sleep(60)", tmp_path, memory_bytes=100 << 20)
    with pytest.raises(ProcessUnavailable, match=r"used \d+ MiB of memory, more than its limit of 100 MiB"):
        child.wait(60)
    child.end()


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is Linux")
@pytest.mark.parametrize(
    "program", ["mmap.mmap(-1, 8 << 30)", "subprocess.check_call([sys.executable, '-c', GRANDCHILD])"]
)
def test_address_space_is_limited_in_grandchildren_too(tmp_path: Path, program: str) -> None:
    """RLIMIT_AS holds where the resident memory of the child alone would not show anything."""
    body = f"import mmap\nGRANDCHILD = 'import mmap; mmap.mmap(-1, 8 << 30)'\ntime.sleep(0.5)\n{program}"
    child = start(body, tmp_path)
    assert child.wait(60) == 1
    assert "Cannot allocate memory" in child.last_message() or "CalledProcessError" in child.last_message()


def test_answers_are_bounded(tmp_path: Path) -> None:
    child = start("sys.stdin.readline()\nsys.stdout.write('x' * 1000_000)", tmp_path, interactive=True)
    with pytest.raises(ProcessUnavailable, match="sent an answer of more than 1000 bytes"):
        child.exchange(b"go\n", seconds=30, max_bytes=1000)
    child.end()


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    command = ChildCommand(name="x", argv=("/no/such/program",), folder=tmp_path, environ={}, memory_bytes=1 << 30)
    with pytest.raises(ProcessError, match="/no/such/program could not be started: No such file") as raised:
        ChildProcess(command, interactive=False)
    assert not raised.value.retryable


_ORPHAN = """
from pathlib import Path
from reconciler.processes import ChildCommand, ChildProcess, check_parent, end_with_parent
sys.stdin.readline()
end_with_parent()
command = ChildCommand(name="x", argv=("sleep", "1000"), folder=Path("."), environ=dict(os.environ), memory_bytes=1 << 30)
others = (ChildProcess(command, interactive=False).pid, subprocess.Popen(["sleep", "1000"]).pid)
print(*others, flush=True)
"""
"""A child with one child in a group of its own, and one in its own group."""


def test_a_process_ends_with_its_parent_and_takes_its_children_along(tmp_path: Path) -> None:
    """Also one whose threads never let the one that waits for the parent run: it ends before its next write."""
    busy = """
sys.setswitchinterval(1000)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    pass
check_parent()
open("written", "w")
"""
    for ending in ("time.sleep(1000)", busy):
        child = start(_ORPHAN + ending, tmp_path, interactive=True)
        others = child.exchange(b"go\n", seconds=30, max_bytes=100)
        child._process.stdin.close()  # type: ignore[union-attr]  # as the system does when the parent is killed
        assert all(is_gone(int(pid)) for pid in others.split())
        wait_until(child.has_exited, "the end of the child")
        child.end()
        assert not (tmp_path / "written").exists()


def test_terminate_asks_first_and_kills_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    polite = subprocess.Popen(
        ["sh", "-c", f"trap 'touch {marker}; exit' TERM; echo; while :; do sleep 0.1; done"], stdout=subprocess.PIPE
    )
    assert polite.stdout is not None
    with polite.stdout as output:
        output.readline()
        terminate(polite)
    assert marker.exists()
    monkeypatch.setattr("reconciler.processes._TERMINATE_SECONDS", 0.2)
    stubborn = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"], stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    with stubborn.stdout as output:
        output.readline()
        terminate(stubborn)
    assert stubborn.returncode == -9


def test_kill_after_ends_the_process_in_every_case() -> None:
    sleeping = subprocess.Popen(["sleep", "1000"])
    began = time.monotonic()
    with kill_after(sleeping, 0.2):
        assert sleeping.wait(60) == -9
    other = subprocess.Popen(["sleep", "1000"])
    with pytest.raises(KeyError), kill_after(other, 1000):
        raise KeyError
    assert other.returncode == -15
    assert time.monotonic() - began < 30


def test_a_scratch_file_is_anonymous() -> None:
    with scratch_file() as file:
        file.write(b"one")
        file.seek(0)
        assert file.read() == b"one"
