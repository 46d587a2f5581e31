"""ConfigSource objects on the real API server: conditions as kubectl reads them, events, and two real processes."""

import json
import os
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.kube.client import KubernetesCluster
from reconciler.kube.client.port import ClusterError
from reconciler.kube.objects import ObjectKey
from reconciler.kube.secrets import MASK
from tests.cluster.server import ApiServer, wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import PASSWORD, USER, GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_pass import job, push
from tools.crds import MANIFEST, crd, manifest


@dataclass(frozen=True, kw_only=True)
class World:
    """A namespace of the real API server with the CRD."""

    live: KubernetesCluster
    kubeconfig: Path
    kubectl: Path
    namespace: str
    url: str

    def kube(self, *arguments: str) -> str:
        """Run kubectl in the namespace and return what it prints."""
        command = [str(self.kubectl), "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, name: str, **spec: Any) -> None:
        self.apply("gpureconciler.io/v1alpha1", "ConfigSource", name, spec={"url": self.url, "interval": "1s", **spec})

    def apply(self, api_version: str, kind: str, name: str, **parts: Any) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        self.live.apply({"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts})

    def source(self, name: str) -> dict[str, Any]:
        key = ObjectKey(group="gpureconciler.io", kind="ConfigSource", namespace=self.namespace, name=name)
        body = self.live.get(key)
        assert body is not None
        return body

    @property
    def flags(self) -> list[str]:
        return ["--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, "--lease-seconds", "5"]


def test_the_manifest_of_the_chart_is_up_to_date() -> None:
    assert MANIFEST.read_text() == manifest(), "run `make docs`"


@pytest.fixture(scope="session")
def definition(live: KubernetesCluster) -> KubernetesCluster:
    """Install the CRD."""
    live.apply(crd())

    def established() -> bool:
        group, kind = "apiextensions.k8s.io", "CustomResourceDefinition"
        body = live.get(ObjectKey(group=group, kind=kind, namespace="", name=crd()["metadata"]["name"])) or {}
        return any(
            (one["type"], one["status"]) == ("Established", "True")
            for one in (body.get("status", {}).get("conditions") or ())
        )

    wait_until(established, "the CRD")
    return live


@pytest.fixture
def world(
    api_server: ApiServer, definition: KubernetesCluster, kubectl: Path, namespace: str, server: GitServer
) -> World:
    return World(
        live=definition, kubeconfig=api_server.kubeconfig, kubectl=kubectl, namespace=namespace, url=server.url
    )


def test_kubectl_waits_for_conditions(world: World, server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    """Conditions, events, history and printed columns of a source with credentials, as people see them."""
    server.private = True
    world.apply("v1", "Secret", "git", stringData={"username": USER, "password": "canary-wr0ng"})
    world.create("fleet", mode="commit", secretRef={"name": "git"})
    with controller(tmp_path / "c", *world.flags) as running:
        world.kube("wait", "--for=condition=Reconciling=true", "configsource/fleet", "--timeout=30s")
        status = world.source("fleet")["status"]
        ready = next(one for one in status["conditions"] if one["type"] == "Ready")
        assert ready["reason"] in ("AuthenticationFailed", "Progressing")
        world.apply("v1", "Secret", "git", stringData={"username": USER, "password": PASSWORD})
        world.kube("wait", "--for=condition=Ready", "configsource/fleet", "--timeout=60s")
        tip = push(person, job("blue"))
        wait_until(lambda: server.tip() != tip, "the commit of the controller")

        def settled() -> bool:
            body = world.source("fleet")
            return str(body["status"].get("lastRevision")).endswith(server.tip())

        wait_until(settled, "the status")
        body = world.source("fleet")
        status = body["status"]
        assert [one["type"] for one in status["conditions"]] == ["Ready"]
        assert status["observedGeneration"] == body["metadata"]["generation"]
        assert status["lastPushed"] == server.tip()
        assert 1 <= len(status["history"]) <= 5
        assert server.tip() in world.kube("get", "configsources")

        version = body["metadata"]["resourceVersion"]
        polls = len(server.requests)
        wait_until(lambda: len(server.requests) > polls + 3, "polls without a change")
        assert world.source("fleet")["metadata"]["resourceVersion"] == version, "nothing is written"

        world.kube("annotate", "configsource", "fleet", "gpureconciler.io/requestedAt=now")
        wait_until(lambda: world.source("fleet")["status"].get("lastHandledReconcileAt") == "now", "the request")
        push(person, {"jobs/bad.yaml": b"kind: 7\n"})
        world.kube("wait", "--for=condition=Stalled", "configsource/fleet", "--timeout=30s")
        events = json.loads(world.kube("get", "events", "-o", "json"))["items"]
        reasons = {event["reason"]: event["type"] for event in events}
        assert reasons == {
            "AuthenticationFailed": "Warning",
            "ReconciliationSucceeded": "Normal",
            "InvalidInput": "Warning",
        }
        text = json.dumps(events) + json.dumps(world.source("fleet")) + running.log.read_text()
        assert "canary" not in text.replace(MASK, "")
        assert running.stop() == 0


def test_the_server_refuses_a_wrong_source(world: World) -> None:
    for spec in ({"mode": "deploy"}, {"interval": "soon"}, {"url": ""}, {"unknown": 1}):
        with pytest.raises(ClusterError):
            world.create("wrong", **spec)


def test_the_leader_is_killed_in_the_middle_of_a_pass(
    world: World, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """F-134: two real processes and one writer; the other one finishes what the killed leader began, once."""
    world.create("fleet", mode="commit")
    with ExitStack() as stack:
        both = [stack.enter_context(controller(tmp_path / "c", *world.flags, name=name)) for name in ("one", "two")]
        wait_until(lambda: sum(one.value("reconciler_leader") for one in both) == 1, "a leader")
        leader, standby = sorted(both, key=lambda one: -one.value("reconciler_leader"))
        wait_until(lambda: leader.said("reconciled"), "the first pass")
        assert standby.get("/readyz")[0] == 200
        begun: list[float] = []

        def hang(name: str) -> None:
            if "receive-pack" in name and not begun:
                begun.append(time.monotonic())
                server.released.wait(20)

        server.before = hang
        tip = push(person, job("blue"))
        wait_until(lambda: begun, "the leader pushes")
        os.kill(leader.process.pid, 9)
        wait_until(lambda: server.tip() != tip, "the commit of the other replica")
        server.released.set()
        wait_until(lambda: standby.said("reconciled", pushed=server.tip()), "it is reported")
        assert server.git("rev-list", "--count", f"{tip}..main") == "1"
        assert standby.stop() == 0
        key = ObjectKey(group="coordination.k8s.io", kind="Lease", namespace=world.namespace, name="reconciler")
        assert (world.live.get(key) or {})["spec"].get("holderIdentity", "") == ""
