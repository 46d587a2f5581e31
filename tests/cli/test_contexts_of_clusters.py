"""Which context of a kubeconfig a command uses for a cluster: never that of another cluster."""

from pathlib import Path

import pytest
import yaml

from tests.cli.fleet import Fleet
from tests.cluster.server import free_port

_CLUSTER = "    - {name: west, backend: none, select: {folders: [jobs/west]}}\n"


@pytest.fixture
def ports() -> dict[str, int]:
    """Return ports at which nothing listens, by context: an error names the one that was asked."""
    ports = {"main": free_port()}
    while (port := free_port()) in ports.values():
        pass
    return {**ports, "west": port}


@pytest.fixture
def kubeconfig(tmp_path: Path, ports: dict[str, int]) -> Path:
    """Return a kubeconfig whose current context is `main`."""
    servers = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    config = {
        "current-context": "main",
        "contexts": [{"name": name, "context": {"cluster": name, "user": "a"}} for name in ports],
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def _add_a_cluster(fleet: Fleet) -> None:
    fleet.edit("reconciler.yaml", "  clusters:\n", f"  clusters:\n{_CLUSTER}")
    fleet.write("jobs/west/space.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: west}\n")


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        (("--cluster", "west"), "west"),
        (("--cluster", "main"), "main"),
        (("--cluster", "west", "--context", "main"), "main"),
    ],
)
def test_the_chosen_one_of_several_clusters(
    fleet: Fleet, kubeconfig: Path, ports: dict[str, int], flags: tuple[str, ...], asked: str
) -> None:
    """F-133: not the current context, which may be another cluster's."""
    _add_a_cluster(fleet)
    ran = fleet.run("plan", "--live", "--kubeconfig", str(kubeconfig), *flags)
    assert (ran.code, f"127.0.0.1:{ports[asked]}" in ran.err) == (6, True), ran.err


def test_a_chosen_cluster_without_a_context_of_its_name(fleet: Fleet, kubeconfig: Path) -> None:
    _add_a_cluster(fleet)
    kubeconfig.write_text(kubeconfig.read_text().replace("name: west", "name: other"))
    ran = fleet.run("plan", "--live", "--kubeconfig", str(kubeconfig), "--cluster", "west")
    assert (ran.code, "has no context 'west'; contexts: main, other" in ran.err) == (2, True), ran.err


def test_the_only_cluster_is_the_current_context(fleet: Fleet, kubeconfig: Path, ports: dict[str, int]) -> None:
    ran = fleet.run("plan", "--live", "--kubeconfig", str(kubeconfig), "--cluster", "main")
    assert (ran.code, f"127.0.0.1:{ports['main']}" in ran.err) == (6, True), ran.err
    kubeconfig.write_text(kubeconfig.read_text().replace("current-context: main", "current-context: west"))
    ran = fleet.run("plan", "--live", "--kubeconfig", str(kubeconfig))
    assert (ran.code, f"127.0.0.1:{ports['west']}" in ran.err) == (6, True), ran.err


def test_a_chosen_cluster_from_a_pod(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pod without a kubeconfig has one cluster: its own."""
    _add_a_cluster(fleet)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    ran = fleet.run("plan", "--live", "--cluster", "west")
    assert (ran.code, "the service account of this pod cannot be used" in ran.err) == (2, True), ran.err
