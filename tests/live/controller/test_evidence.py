"""Commit mode with evidence: what the real API server says about nodes becomes a commit, or says why not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.console.access import ClusterFlags
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request, reconcile
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import job, push


@pytest.fixture
def gpu_node(private_cluster: KubernetesCluster) -> Iterator[None]:
    """Make the only node of a cluster, which no other test changes meanwhile."""
    live = private_cluster
    _delete_nodes(live)
    name = f"evidence-{os.getpid()}"
    product = "NVIDIA-H100-80GB-HBM3"
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559"}
    live.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    amounts = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1000Gi", "pods": "110"}
    live.apply(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"capacity": amounts, "allocatable": amounts},
        },
        subresource="status",
    )
    yield
    _delete_nodes(live)


def _delete_nodes(live: KubernetesCluster) -> None:
    for body in live.list(live.resource("", "Node")).objects:
        key = ObjectKey(group="", kind="Node", namespace="", name=body["metadata"]["name"])
        live.delete(key, uid=body["metadata"]["uid"], propagation="Background")


def make(server: GitServer, folder: Path, kubeconfig: Path) -> PassOutcome:
    source = ConfigSource(
        namespace="default", name="fleet", url=server.url, mode=Mode.COMMIT, timeout=60, evidence=True
    )
    access = ClusterFlags(kubeconfig=str(kubeconfig))
    return reconcile(Request(source=source, folder=str(folder / "state"), access=access), dict(os.environ))


@pytest.mark.usefixtures("gpu_node")
def test_what_changed_becomes_one_commit_and_a_shrinking_fleet_does_not(
    server: GitServer, person: Sandbox, private_server: ApiServer, tmp_path: Path
) -> None:
    tip = push(person, job("blue"))
    made = make(server, tmp_path, private_server.kubeconfig)
    assert made.failure is not None
    assert (made.failure.reason, made.failure.stalled) == ("EvidenceRefused", True)
    assert "nodes are gone" in made.failure.message
    subjects = server.git("log", "--reverse", "--format=%s", f"{tip}..main").splitlines()
    assert subjects[0] == "Evidence of main"
    assert len(subjects) == 2, "evidence, then what the sources render to with it"
    assert made.pushed == server.tip()
    files = server.git("show", "--format=", "--name-only", "main^").split()
    files = [file for file in files if not file.endswith("/health.yaml")]  # there if agents have reported by now
    assert files == [
        "evidence/main/definitions.yaml",
        "evidence/main/queues.yaml",
        "evidence/main/runs.yaml",
        "evidence/main/usage.yaml",
    ], "the nodes stay as they were"
    again = make(server, tmp_path, private_server.kubeconfig)
    assert (again.push_result, again.pushed) == ("unchanged", ""), "nothing changed, so nothing is committed"


def test_a_cluster_that_cannot_be_reached_keeps_its_evidence(
    server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: x, user: {token: canary-of-a-kubeconfig}}]\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
    )
    tip = push(person, job("blue"))
    made = make(server, tmp_path, kubeconfig)
    assert made.failure is not None
    assert (made.failure.reason, made.failure.stalled) == ("EvidenceNotRead", False), (made.failure, server.answers)
    assert "canary" not in str(made)
    assert server.git("log", "--format=%P", "-1", "main") == tip, "what needs no evidence is rendered and pushed"


@pytest.mark.usefixtures("gpu_node")
def test_an_edit_of_evidence_while_the_controller_pushes_survives(
    server: GitServer, person: Sandbox, private_server: ApiServer, tmp_path: Path
) -> None:
    """A person comments an evidence file before the push arrives: both are on the branch, and no push is forced."""
    tip = push(person, job("blue"))
    theirs: list[str] = []

    def edit(request: str) -> None:
        if "git-receive-pack" in request and not theirs:
            theirs.append("begun")
            nodes = person.folder / "evidence/main/nodes.yaml"
            theirs[0] = push(person, {"evidence/main/nodes.yaml": b"# ticket 4711\n" + nodes.read_bytes()}, "ticket")

    server.before = edit
    made = make(server, tmp_path, private_server.kubeconfig)
    server.before = lambda _: None
    assert theirs, "the controller tried to push"
    assert made.pushed == server.tip()
    subjects = server.git("log", "--reverse", "--format=%s", f"{tip}..main").splitlines()
    assert subjects[:2] == ["ticket", "Evidence of main"]
    assert server.git("merge-base", theirs[0], "main") == theirs[0]
    assert server.git("show", "main:evidence/main/nodes.yaml").startswith("# ticket 4711\n")
