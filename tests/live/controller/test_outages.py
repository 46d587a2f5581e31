"""F-134: a controller whose own API server restarts, and whose lease cannot be written for a while."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.kube.client import KubernetesCluster, load_access
from tests.cluster import kubeconfig
from tests.cluster.client import Client
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.cluster.fragile import FragileServer
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import Running, controller
from tests.live.controller.test_pass import job, push
from tools.crds import crd


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A namespace of the cluster that may be broken."""

    cluster: KubernetesCluster
    namespace: str
    url: str

    def create(self, name: str, mode: str) -> None:
        """Create a source."""
        spec = {"url": self.url, "interval": "1s", "mode": mode}
        head = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "ConfigSource"}
        self.cluster.apply({**head, "metadata": {"name": name, "namespace": self.namespace}, "spec": spec})


@pytest.fixture
def watched(fragile: FragileServer, server: GitServer) -> Iterator[Watched]:
    name = f"watched-{os.urandom(4).hex()}"
    access = load_access({}, kubeconfig=str(fragile.kubeconfig))
    with KubernetesCluster(access) as cluster, Client(kubeconfig.endpoint(fragile.kubeconfig)) as client:
        cluster.apply(crd())
        client.ensure_namespaces([name])
        path = f"/apis/gpureconciler.io/v1alpha1/namespaces/{name}/configsources"
        wait_until(lambda: client.request("GET", path).ok, "the CRD of sources")
        yield Watched(cluster=cluster, namespace=name, url=server.url)


@pytest.mark.parametrize("outage", ["without_api_server", "read_only_etcd"])
def test_a_controller_outlives_an_outage_of_its_api_server(  # noqa: PLR0917 - fixtures
    fragile: FragileServer, watched: Watched, server: GitServer, person: Sandbox, tmp_path: Path, outage: str
) -> None:
    """It gives up its lease in time, stays alive, and works again afterwards without a restart."""
    flags = ("--kubeconfig", str(fragile.kubeconfig), "--namespace", watched.namespace, "--lease-seconds", "3")
    broken = getattr(fragile, outage)()
    watched.create("fleet", "commit")
    with controller(tmp_path / "c", *flags) as running:
        wait_until(lambda: running.said("reconciled"), "the first pass")
        assert running.value("reconciler_leader") == 1
        with broken:
            wait_until(lambda: running.value("reconciler_leader") == 0, "the lease is given up")
            tip = push(person, job("blue"))
            assert running.get("/healthz") == (200, "ok\n")
            wait_until(lambda: warned(running), "a warning")
            assert server.tip() == tip, "another replica might work by now"
        wait_until(lambda: server.tip() != tip, "the commit after the outage")
        assert server.git("rev-parse", "main^") == tip
        assert running.value("reconciler_leader") == 1
        watched.create("late", "observe")
        late = f"{watched.namespace}/late"
        wait_until(lambda: running.said("reconciled", source=late), "a source that is new: the watch was renewed")
        assert not [one for one in running.entries() if "bug" in one["message"]]
        assert running.stop() == 0


def warned(running: Running) -> bool:
    return bool(running.said("the lease cannot be renewed"))
