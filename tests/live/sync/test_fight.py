"""A field that Flux applies from one repository and our controller from another: who fights is told, and it ends."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.controller.contested import LIMIT
from reconciler.controller.sources.status import READY, STALLED
from reconciler.kube.client import KubernetesCluster, load_access
from tests.cluster.bed import flux as flux_part
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.git_http import GitServer as FluxServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.conftest import person, server, template
from tests.live.controller.gitserver import GitServer
from tests.live.controller.ring import Ring, ring
from tests.live.controller.test_apply_mode import sources
from tests.live.controller.test_pass import push

__all__ = ["person", "server", "template"]

pytestmark = [
    pytest.mark.usefixtures("flux"),
    pytest.mark.timeout(900),  # many rounds, each of which waits for Flux
]
_NAME = "fight"
_ASKED = "reconcile.fluxcd.io/requestedAt"
_SOURCES = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{flux_part.NAMESPACE}/gitrepositories"
_KUSTOMIZATIONS = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{flux_part.NAMESPACE}/kustomizations"


class Rival:
    """Flux with a repository of its own, which says `theirs` where ours says something else."""

    def __init__(self, bed: Bed, server: FluxServer, folder: Path) -> None:
        self._bed = bed
        box = Sandbox.init(folder)
        box.commit(sources(_NAME, "theirs"))
        url = server.create(_NAME)
        box.git("push", "-q", url, "HEAD:main")
        metadata = {"name": _NAME, "namespace": flux_part.NAMESPACE}
        source = {"interval": "24h", "url": url, "ref": {"branch": "main"}}
        bed.apply(
            {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata, "spec": source}
        )
        reference = {"kind": "GitRepository", "name": _NAME}
        spec = {"interval": "24h", "path": "./jobs", "prune": False, "sourceRef": reference}
        bed.apply(
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": metadata,
                "spec": spec,
            }
        )
        self.sync()

    def sync(self) -> None:
        """Let Flux apply what its repository says, and wait until it has."""
        asked = str(time.time_ns())
        body = {"metadata": {"annotations": {_ASKED: asked}}}
        path = f"{_KUSTOMIZATIONS}/{_NAME}"
        answer = self._bed.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
        assert answer.ok, answer.body

        def is_applied() -> bool:
            status = self._bed.get(path).get("status", {})
            ready = [one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"]
            return status.get("lastHandledReconcileAt") == asked and ready == ["True"]

        self._bed.wait(is_applied, "Flux applied its value")

    def leave(self) -> None:
        for collection in (_KUSTOMIZATIONS, _SOURCES):
            self._bed.delete(f"{collection}/{_NAME}")


@pytest.fixture
def ours(bed: Bed, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ring]:
    """Return our controller, with an inventory of its own."""
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", f"{_NAME}-inventory")
    bed.server.client.ensure_namespaces([_NAME])
    with (
        KubernetesCluster(load_access({}, kubeconfig=str(bed.kubeconfig))) as cluster,
        ring(server.url, cluster, bed.kubeconfig, tmp_path / "state", _NAME) as made,
    ):
        yield made


def test_flux_that_applies_another_value_is_named(
    ours: Ring, person: Sandbox, bed: Bed, git_server: FluxServer, tmp_path: Path
) -> None:
    """F-143: both take the field by server-side apply; after three rounds we leave it and say that it is Flux."""
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | sources(_NAME, "ours"))
    assert ours.visit() == "ours"
    rival = Rival(bed, git_server, tmp_path / "flux")
    for _ in range(LIMIT):
        rival.sync()
        assert ours.visit() == "ours"
        assert ours.store.saved.is_ready
    rival.sync()
    version = ours.version()
    assert [ours.visit() for _ in range(3)] == ["theirs"] * 3
    rival.sync()
    assert ours.version() == version, "nobody writes any more"

    ready, stalled = ours.store.saved.condition(READY), ours.store.saved.condition(STALLED)
    assert ready is not None
    assert stalled is not None
    assert (ready.status, ready.reason, stalled.status) == ("False", "ResourceFight", "True")
    assert f"ConfigMap/{_NAME}/app data.greeting on main, which kustomize-controller changes back" in ready.message
    assert ours.fights() == 1
    assert sum("ResourceFight" in event for event in ours.store.told) == 1, "one event, not one for each pass"
    rival.leave()
