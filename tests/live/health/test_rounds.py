"""Rounds with Git: what the fast lane did becomes a commit, what people decide becomes a branch for each case."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from reconciler.adapters.kubernetes import KubernetesCluster
from reconciler.controller.health.rounds import health_round
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.core.health.nodes.mark import TAINT
from reconciler.wiring.cluster import ClusterFlags
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push
from tests.live.health.conftest import SetClock, taints
from tests.live.health.fleet import FAST, LiveFleet, lost

Round = Callable[..., PassOutcome]
POLICY = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "fleet"}}
_numbers = itertools.count(1)


def policy(spec: dict[str, object]) -> dict[str, bytes | None]:
    return {"jobs/health.yaml": yaml.safe_dump({**POLICY, "spec": spec}).encode()}


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    made = LiveFleet(lane_cluster, clock, "unused")
    for name in made.add(10):
        made.report(name)
    return made


@pytest.fixture
def run(server: GitServer, person: Sandbox, private_server: ApiServer, tmp_path: Path, clock: SetClock) -> Round:
    source = ConfigSource(namespace="default", name="fleet", url=server.url, mode=Mode.COMMIT, timeout=20)

    def make(**changes: object) -> PassOutcome:
        request = Request(
            source=replace(source, **changes),
            folder=str(tmp_path / "state"),
            access=ClusterFlags(kubeconfig=str(private_server.kubeconfig)),
        )
        return health_round(request, dict(os.environ), clock)

    return make


def test_what_the_fast_lane_did_is_a_commit_and_a_branch(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-096: report, taint, mirrored file by the controller, and a branch that asks for a decision."""
    tip = push(person, policy(FAST))
    first = run()
    assert first.failure is None, first.failure
    assert (first.push_result, server.tip()) == ("unchanged", tip)
    bad = fleet.names[3]
    fleet.report(bad, lost())
    made = run()
    assert made.failure is None, made.failure
    assert taints(fleet.node(bad)) == [TAINT]
    assert made.pushed == server.tip()
    assert server.git("show", "-s", "--format=%an %s", "main") == f"gpu-reconciler Node health: quarantined {bad}"
    path = server.git("show", "--format=", "--name-only", "main")
    body = yaml.safe_load(server.git("show", f"main:{path}"))
    assert body["metadata"]["annotations"] == {"gpureconciler.io/origin": "fast-lane"}
    assert body["spec"]["node"] == bad
    assert body["spec"]["until"] == "2026-09-22T14:13:20Z"
    again = run()
    assert again.pushed == ""
    (branch,) = [name for name in server.git("branch", "--format=%(refname:short)").split() if name != "main"]
    assert branch == f"health/{bad}-20260921-1413"
    assert server.git("rev-parse", f"{branch}^") == made.pushed
    confirmed = yaml.safe_load(server.git("show", f"{branch}:{path}"))
    assert "annotations" not in confirmed["metadata"]
    assert "until" not in confirmed["spec"]
    before = server.git("rev-parse", branch)
    run()
    assert server.git("rev-parse", branch) == before, "the same case is not pushed again"


def test_without_git_the_fast_lane_works_and_the_commit_follows(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-096: disconnected Git."""
    push(person, policy(FAST))
    run()
    server.fault = "down"
    bad = fleet.names[0]
    fleet.report(bad, lost())
    made = run()
    assert taints(fleet.node(bad)) == [TAINT]
    assert made.failure is not None
    assert made.failure.reason
    server.fault = ""
    assert run().pushed == server.tip()
    assert bad in server.git("ls-tree", "-r", "--name-only", "main")
