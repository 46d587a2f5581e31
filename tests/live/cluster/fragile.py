"""A control plane of its own that tests may break: its API server is stopped and started, its etcd made read-only."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest
import urllib3

from tests.cluster import kubeconfig, server, shared
from tests.cluster.build import to_stderr
from tests.cluster.client import Client
from tests.cluster.parts import ControlPlane
from tests.cluster.server import ApiServer, wait_until

_API_SERVER, _ETCD = "kube-apiserver", "etcd"


@dataclass(kw_only=True)
class FragileServer:
    """etcd and kube-apiserver as child processes. Whoever breaks something mends it."""

    folder: Path
    programs: dict[str, shared.Program]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def start(self, name: str) -> None:
        """Start a program again, as it was started before."""
        program = self.programs[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            environ = {**shared.GO_MEMORY, **os.environ, **dict(program.environment)}
            self.processes[name] = subprocess.Popen(program.argv, stdout=log, stderr=log, env=environ)

    def kill(self, name: str) -> None:
        """Kill a program, as a machine does that loses its power."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    @contextmanager
    def without_api_server(self) -> Iterator[None]:
        """Stop the API server while the block runs."""
        self.kill(_API_SERVER)
        try:
            yield
        finally:
            self.start(_API_SERVER)

    @contextmanager
    def read_only_etcd(self) -> Iterator[None]:
        """Let etcd refuse every write while the block runs, as it does when its quota is used up."""
        self._alarm("ACTIVATE")
        try:
            yield
        finally:
            self._alarm("DEACTIVATE")

    def _alarm(self, action: str) -> None:
        (flag,) = [word for word in self.programs[_ETCD].argv if word.startswith("--advertise-client-urls=")]
        url = flag.partition("=")[2]
        status = urllib3.request("POST", f"{url}/v3/maintenance/status", json={}, timeout=10).json()
        body = {"action": action, "memberID": status["header"]["member_id"], "alarm": "NOSPACE"}
        answer = urllib3.request("POST", f"{url}/v3/maintenance/alarm", json=body, timeout=10)
        assert answer.status == HTTPStatus.OK, answer.data

    def is_ready(self) -> bool:
        """Return whether the API server answers."""
        with Client(kubeconfig.endpoint(self.kubeconfig)) as client:
            try:
                return client.request("GET", "/readyz").status == HTTPStatus.OK
            except (OSError, urllib3.exceptions.HTTPError):
                return False


@contextmanager
def fragile_server(folder: Path, programs: ControlPlane, crds: Path) -> Iterator[FragileServer]:
    """Run a control plane until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    seed = server.stored_state(programs, crds, to_stderr)
    launch = server._Launch(folder, programs, crds, seed)
    made = FragileServer(folder=folder, programs={program.name: program for program in launch.plan()})
    try:
        for name in (_ETCD, _API_SERVER):
            made.start(name)
        launch.ready(lambda: None)
        yield made
    finally:
        for name in [*made.processes]:
            made.kill(name)


@pytest.fixture(scope="session")
def _fragile(
    tmp_path_factory: pytest.TempPathFactory, control_plane_programs: ControlPlane, crd_folder: Path
) -> Iterator[FragileServer]:
    with fragile_server(tmp_path_factory.mktemp("fragile"), control_plane_programs, crd_folder) as running:
        yield running


@pytest.fixture
def fragile(_fragile: FragileServer) -> FragileServer:
    """Return the control plane of this test process that may be broken; it works when the test begins."""
    wait_until(_fragile.is_ready, "the API server that may be broken")
    return _fragile


def as_api_server(fragile: FragileServer, client: Client) -> ApiServer:
    """Return what other fixtures take."""
    return ApiServer(client=client, kubeconfig=fragile.kubeconfig, logs=fragile.folder)
