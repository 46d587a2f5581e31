"""What a server that is not there costs: one attempt, at the same time as the other clusters."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import ClusterError, ClusterUnavailable, LiveCluster
from reconciler.live.observe.reading import open_all
from reconciler.plan.live.inventory import Place
from reconciler.plan.live.reading import ReadingScope, read_clusters
from tests.cli.fleet import Fleet
from tests.cluster.server import ApiServer, free_port, wait_until

if TYPE_CHECKING:
    from reconciler.repo.config import Cluster

_SOON = 5.0  # seconds; the patience with a restarting server is 30
_MEETING = 20.0  # seconds within which all threads arrive, or the test fails


def kubeconfig(folder: Path, server: str) -> str:
    config = {
        "current-context": "a",
        "contexts": [{"name": name, "context": {"cluster": "a", "user": "a"}} for name in ("a", "b", "c")],
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@contextmanager
def full_port() -> Iterator[int]:
    """Yield a port whose queue of connections is full: further ones get no answer at all."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_where_nothing_listens_is_asked_once(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, f"https://127.0.0.1:{free_port()}")
    with KubernetesCluster(load_access({}, kubeconfig=path)) as cluster:
        started = monotonic()
        with pytest.raises(ClusterUnavailable, match="Connection refused"):
            cluster.version()
    assert monotonic() - started < _SOON


def test_a_server_without_an_answer_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall that drops packets: one attempt to connect, not one after the other for 30 seconds."""
    monkeypatch.setattr("reconciler.kube.client.connection._CONNECT_SECONDS", 0.3)
    with full_port() as port:
        path = kubeconfig(tmp_path, f"https://127.0.0.1:{port}")
        with KubernetesCluster(load_access({}, kubeconfig=path)) as cluster:
            started = monotonic()
            with pytest.raises(ClusterUnavailable, match="did not answer in time"):
                cluster.version()
    assert monotonic() - started < _SOON


def test_a_server_that_answered_before_is_awaited(api_server: ApiServer, tmp_path: Path) -> None:
    """A restart: connections are refused for a moment, and requests go through as soon as it listens again."""
    port, target = free_port(), api_server.client.endpoint.server.rpartition(":")[2]
    text = api_server.kubeconfig.read_text().replace(f":{target}", f":{port}")
    (tmp_path / "kubeconfig").write_text(text)
    access = load_access({}, kubeconfig=str(tmp_path / "kubeconfig"))
    headers, attempts = access.headers, [0]

    def counted() -> Iterator[tuple[str, str]]:
        attempts[0] += 1
        return headers()

    access.headers = counted  # type: ignore[method-assign]
    with KubernetesCluster(access) as cluster:
        with forwarded(port, int(target)):
            assert cluster.version()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        found: list[str] = []
        asking = threading.Thread(target=lambda: found.append(cluster.version()))
        asking.start()
        # One succeeded, one found its connection broken, others were refused.
        wait_until(lambda: attempts[0] >= 4, "attempts", seconds=_MEETING)
        with forwarded(port, int(target)):
            asking.join(_MEETING)
        assert found


@contextmanager
def forwarded(port: int, target: int) -> Iterator[None]:
    """Pass connections to a port on to another one while the block runs; then they break, and none is taken."""
    opened: list[socket.socket] = []

    def copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            return

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", target))
            opened.extend((here, there))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for one in opened:
                one.close()
    thread.join()


def test_patience_is_a_setting(fleet: Fleet, tmp_path: Path) -> None:
    """A server that is busy for longer than `--server-patience` is given up."""
    with busy_server() as url:
        started = monotonic()
        ran = fleet.run("plan", "--live", "--server-patience", "1", "--kubeconfig", kubeconfig(tmp_path, url))
    assert (ran.code, "429" in ran.err) == (6, True)
    assert monotonic() - started < 2 * _SOON
    wrong = fleet.run("plan", "--live", "--server-patience", "soon")
    assert (wrong.code, "is not a whole number from 0 to 3600" in wrong.err) == (2, True)
    idle = fleet.run("plan", "--server-patience", "1")
    assert (idle.code, "--server-patience has no effect without --live" in idle.err) == (2, True)


@contextmanager
def busy_server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(429)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class Meeting:
    """Clusters that answer only once all of them were asked: one after the other they would time out."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def cluster(self) -> LiveCluster:
        def meet(*_: object, **__: object) -> Any:
            self._barrier.wait(_MEETING)
            raise ClusterError("here")

        return cast("LiveCluster", SimpleNamespace(version=meet, discover=meet))


def test_clusters_are_opened_at_one_time() -> None:
    meeting = Meeting(3)

    @contextmanager
    def opened() -> Iterator[LiveCluster]:
        yield meeting.cluster()

    clusters = [cast("Cluster", SimpleNamespace(name=name)) for name in ("a", "b", "c")]
    with ExitStack() as stack:
        found = open_all(stack, cast("Any", lambda _: opened()), clusters)
    assert [(cluster.name, str(live)) for cluster, live in found] == [("a", "here"), ("b", "here"), ("c", "here")]


def test_clusters_of_a_plan_are_read_at_one_time() -> None:
    meeting = Meeting(3)
    wanted = ReadingScope(place=Place(namespace="n", name="n", source="s"), kinds=frozenset(), tokens=frozenset())
    names = ("a", "b", "c")
    with pytest.raises(ClusterError, match="here"):
        read_clusters({name: meeting.cluster() for name in names}, BUILT_IN, dict.fromkeys(names, wanted))
