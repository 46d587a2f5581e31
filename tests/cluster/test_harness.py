"""The harness around the real parts: built once, shared by all, gone with the last user however that one ends."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import build, kubeconfig, server, shared, store
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.git_http import GitServer
from tests.cluster.bed.gitea import Gitea
from tests.cluster.client import Client, Endpoint
from tests.cluster.parts import ControlPlane
from tests.cluster.server import ApiServer, wait_until

ROOT = Path(__file__).parents[2]
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="left out: needs prctl and /proc of Linux")

USER = """
import json, sys, time
from pathlib import Path
from tests.cluster import shared
folder = Path(sys.argv[1])
programs = (shared.Program(name="sleeper", argv=("sleep", "600")), shared.Program(name="other", argv=("sleep", "600")))
with shared.running(folder, lambda: programs, lambda check: time.sleep(0.3)):
    print((folder / "ready").read_text(), flush=True)
    sys.stdin.read()
"""

BUILDER = """
import sys, time
from pathlib import Path
from tests.cluster.store import made_once
def make(scratch):
    with open(sys.argv[1] + ".made", "a") as log:
        log.write("made\\n")
    time.sleep(0.5)
    (scratch / "program").write_text("built")
print((made_once(Path(sys.argv[1]), make, print) / "program").read_text())
"""


class User:
    """A process that uses the shared programs of a folder until it is told to stop, or killed."""

    def __init__(self, folder: Path) -> None:
        argv = [sys.executable, "-c", USER, str(folder)]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.supervisor = int(self._process.stdout.readline())

    def leave(self) -> None:
        self._process.communicate(timeout=30)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=30)


@pytest.fixture
def users(tmp_path: Path) -> Iterator[list[User]]:
    """Start two users of one folder, one after the other."""
    started = [User(tmp_path), User(tmp_path)]
    yield started
    for user in started:
        user.kill()


def family(supervisor: int) -> list[int]:
    """Return the ids of a supervisor and its programs."""
    answer = subprocess.run(["ps", "-o", "pid=", "--ppid", str(supervisor)], capture_output=True, text=True, check=True)
    return [supervisor, *map(int, answer.stdout.split())]


def is_gone(process: int) -> bool:
    """Whether a process has ended (one that only waits to be reaped has)."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] in {"", "Z"}


def wait_gone(processes: list[int]) -> None:
    wait_until(lambda: all(map(is_gone, processes)), f"the end of {processes}", seconds=30)


def listening(process: int) -> list[str]:
    """Return the addresses, as the kernel's hexadecimal, on which a process listens."""
    inodes = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(link.readlink()))
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{process}/net/{table}").read_text().splitlines()
    ]
    return [row[1].split(":")[0] for row in rows if row[3] == LISTEN and f"socket:[{row[9]}]" in inodes]


def assert_loopback_only(folder: Path) -> None:
    found = [address for process in family(int((folder / "ready").read_text())) for address in listening(process)]
    assert found
    assert set(found) <= {"0100007F"}  # 127.0.0.1


def test_users_share_one_set_of_programs(users: list[User]) -> None:
    """The second user finds what the first started; it ends with the last of them."""
    first, second = users
    assert first.supervisor == second.supervisor
    processes = family(first.supervisor)
    assert len(processes) == 3
    first.leave()
    assert not any(map(is_gone, processes))
    second.leave()
    wait_gone(processes)


def test_killed_users_leave_no_process(users: list[User]) -> None:
    """SIGKILL runs no handler; the kernel frees the locks, and that ends the programs."""
    processes = family(users[0].supervisor)
    for user in users:
        user.kill()
    wait_gone(processes)


@linux_only
def test_programs_die_with_their_supervisor(users: list[User]) -> None:
    """Even where the supervisor itself is killed."""
    processes = family(users[0].supervisor)
    os.kill(users[0].supervisor, signal.SIGKILL)
    wait_gone(processes)


def test_a_program_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    broken = shared.Program(name="broken", argv=("sh", "-c", "echo no such disk; exit 3"))

    def ready(check: object) -> None:
        assert callable(check)
        wait_until(lambda: False, "ready", check=check, seconds=30)

    with pytest.raises(shared.StartError, match="no such disk"), shared.running(tmp_path, lambda: (broken,), ready):
        pytest.fail("it never was ready")


def test_an_api_server_that_does_not_answer_yet_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens before it has time for a handshake."""
    monkeypatch.setattr("tests.cluster.client._TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with Client(Endpoint(server=where, context=ssl.create_default_context())) as client:
            assert not server.is_ready(client)


def test_two_processes_build_once(tmp_path: Path) -> None:
    """The second waits for the first, then uses its work; so does any later one."""
    path = tmp_path / "part"

    def run() -> str:
        argv = [sys.executable, "-c", BUILDER, str(path)]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout

    with ThreadPoolExecutor(3) as pool:
        answers = [future.result() for future in [pool.submit(run) for _ in range(3)]]
    assert all(answer.endswith("built\n") for answer in answers)
    assert run() == "built\n"
    assert (tmp_path / "part.made").read_text() == "made\n"


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    """A half-built folder never takes the name of a built one."""

    def fail(scratch: Path) -> None:
        (scratch / "half").write_text("half")
        raise store.PartsUnavailableError("the compiler died")

    with pytest.raises(store.PartsUnavailableError):
        store.made_once(tmp_path / "part", fail, build.to_stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["part.lock"]


def test_a_second_session_builds_nothing(control_plane_programs: ControlPlane, crd_folder: Path) -> None:
    """What this session uses is found again without a word of progress."""
    said: list[str] = []
    assert build.control_plane(said.append) == control_plane_programs
    assert build.crds(said.append) == crd_folder
    assert said == []


@pytest.mark.parametrize(("ci", "code", "word"), [("", 0, "skipped"), ("true", 1, "error")])
def test_what_is_left_out_is_said(tmp_path: Path, ci: str, code: int, word: str) -> None:
    """Without the built parts a test is skipped with the reason; with `CI=true` that is a failure."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CI": ci}
    for name in ("KUBEBUILDER_ASSETS", "RECONCILER_TEST_KUBECONFIG", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    test = "tests/cluster/test_api_server.py::test_it_is_a_kubernetes_of_the_pinned_minor"
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base"), test]
    result = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == code, result.stdout + result.stderr
    assert f"1 {word}" in result.stdout
    assert "make test-cluster" in result.stdout


def test_assets_of_the_user_stand_in(
    control_plane_programs: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`KUBEBUILDER_ASSETS` names a folder with etcd and kube-apiserver; one that lacks them is told."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(store.PartsUnavailableError, match="has no etcd, kube-apiserver"):
        build.control_plane()
    (tmp_path / "etcd").symlink_to(control_plane_programs.etcd)
    (tmp_path / "kube-apiserver").symlink_to(control_plane_programs.apiserver)
    found = build.control_plane()
    assert (found.etcd, found.manager) == (tmp_path / "etcd", None)


def test_a_cluster_of_the_users_own_serves(api_server: ApiServer, crd_folder: Path, tmp_path: Path) -> None:
    """By its kubeconfig: here that of the running server, whose CRDs are all there already."""
    with server.existing_cluster(api_server.kubeconfig, crd_folder, tmp_path) as found:
        pod = {"containers": [{"name": "a", "image": "a:1"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod}
        assert [result.ok for result in found.apply_dry_run([body])] == [True]


def test_a_kubeconfig_with_a_plugin_is_refused(api_server: ApiServer, tmp_path: Path) -> None:
    """Test clusters have tokens or certificates; nothing is run to get one."""
    body = json.loads(api_server.kubeconfig.read_text())
    body["users"][0]["user"] = {"exec": {"command": "cloud-login"}}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(body))
    with pytest.raises(store.PartsUnavailableError, match="only tokens and client certificates"):
        kubeconfig.endpoint(path)


def test_the_servers_secrets_are_private(api_server: ApiServer) -> None:
    """The kubeconfig of a running server holds the token of an administrator."""
    assert api_server.kubeconfig.stat().st_mode & 0o077 == 0


@linux_only
def test_everything_listens_on_loopback(api_server: ApiServer) -> None:
    """No other machine reaches the API server of the tests."""
    assert_loopback_only(api_server.logs)


@linux_only
@pytest.mark.usefixtures("kwok", "scheduler", "kueue", "kai", "training_operator", "jobset", "flux", "argo_cd")
def test_the_bed_listens_on_loopback(bed: Bed) -> None:
    """Nor the controllers, the schedulers, the operators and what syncs."""
    if bed.folder is None:
        pytest.skip("left out: a cluster of the user's own listens where it likes")
    assert_loopback_only(bed.server.logs)
    parts = sorted(path.parent for path in bed.folder.glob("*/ready"))
    assert len(parts) >= 9  # other tests may have added some
    for part in parts:
        assert_loopback_only(part)


@linux_only
def test_the_git_servers_listen_on_loopback(git_server: GitServer, gitea: Gitea) -> None:
    """Both hold repositories that anybody may push to."""
    assert_loopback_only(git_server.folder)
    assert_loopback_only(gitea.folder)


def test_kubectl_reads_what_the_server_holds(api_server: ApiServer, kubectl: Path) -> None:
    """The kubectl of the same build, with the server's kubeconfig."""
    argv = [str(kubectl), f"--kubeconfig={api_server.kubeconfig}", "get", "crd", "-o", "name"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    expected = textwrap.dedent("""\
        customresourcedefinition.apiextensions.k8s.io/queues.scheduling.run.ai
        customresourcedefinition.apiextensions.k8s.io/pytorchjobs.kubeflow.org
        customresourcedefinition.apiextensions.k8s.io/clusterqueues.kueue.x-k8s.io""")
    assert set(expected.splitlines()) <= set(answer.splitlines())
