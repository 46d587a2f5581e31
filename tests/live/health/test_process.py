"""The controller as a process: a report on the API server is a taint within seconds and a commit within a minute."""

import time
from pathlib import Path

import yaml

from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.nodes import TAINT
from tests.cluster.server import ApiServer, wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_pass import push
from tests.live.health.conftest import SetClock, taints
from tests.live.health.fleet import FAST, LiveFleet, lost
from tests.live.health.test_rounds import policy


def test_a_report_becomes_a_taint_within_seconds_and_a_commit_within_a_minute(
    lane_cluster: KubernetesCluster,
    private_server: ApiServer,
    server: GitServer,
    person: Sandbox,
    tmp_path: Path,
) -> None:
    """F-096: the whole way, and SIGTERM ends it."""
    clock = SetClock()
    clock.at = time.time()
    fleet = LiveFleet(lane_cluster, clock, "unused")
    for name in fleet.add(10):
        fleet.report(name)
    push(person, policy(FAST))
    source = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "ConfigSource",
        "metadata": {"name": "fleet"},
        "spec": {"url": server.url, "mode": "commit", "health": True, "interval": "5s"},
    }
    (tmp_path / "sources.yaml").write_text(yaml.safe_dump(source))
    arguments = ("--config", str(tmp_path / "sources.yaml"), "--kubeconfig", str(private_server.kubeconfig))
    with controller(tmp_path, *arguments) as running:
        wait_until(lambda: running.said("node health"), "the first round", seconds=60)
        assert taints(fleet.node(fleet.names[2])) == []
        fleet.report(fleet.names[2], lost())
        begun = time.monotonic()
        wait_until(lambda: taints(fleet.node(fleet.names[2])) == [TAINT], "the taint", seconds=60)
        taint_seconds = time.monotonic() - begun
        is_mirrored = lambda: "quarantined h100-2" in server.git("log", "--format=%s", "main")  # noqa: E731
        wait_until(is_mirrored, "the commit", seconds=60)
        assert time.monotonic() - begun < 60
        assert taint_seconds < 30
        assert running.stop() == 0
