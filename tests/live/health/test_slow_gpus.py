"""A GPU that is slower than its peers, through the controller: a branch that asks, and nothing on the node."""

import yaml

from reconciler.core.health.readings import GpuIdentity
from reconciler.core.health.statistics.series import GpuSeries
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push
from tests.live.health.conftest import conditions, taints
from tests.live.health.fleet import PRODUCT, SLOT, LiveFleet
from tests.live.health.test_rounds import Round, branches, fleet, policy, run

__all__ = ["fleet", "run"]


def measure(fleet: LiveFleet, name: str, value: float) -> None:
    """Publish three runs of the memory test."""
    series = GpuSeries(newest=(value, value + 3, value - 2), runs=3, limit=2849.0, scale=3352.0)
    gpus = (GpuIdentity(slot=SLOT, uuid=f"GPU-{name}", product=PRODUCT),)
    fleet.report(name, gpus=gpus, measured={"hbm.bandwidth": {SLOT: series}})


def test_a_slow_gpu_is_proposed_and_its_node_stays_in_use(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-098: shadow until a policy names the check; then a branch for its case, closed by good runs."""
    slow = fleet.names[4]
    for number, name in enumerate(fleet.names):
        measure(fleet, name, 2700.0 if name == slow else 3000.0 + number)
    push(person, policy({"mode": "propose"}))
    assert run().failure is None
    assert branches(server) == [], "shadow"
    push(person, policy({"checks": {"fleet.peers": {"mode": "propose"}}}))
    for _ in range(2):
        fleet.clock.pause(60.0)
        made = run()
        assert made.failure is None, made.failure
    (branch,) = branches(server)
    assert branch.startswith(f"health/{slow}-")
    path = server.git("diff", "--name-only", f"main...{branch}")
    spec = yaml.safe_load(server.git("show", f"{branch}:{path}"))["spec"]
    assert (spec["check"], spec["slots"]) == ("fleet.peers", [SLOT])
    assert spec["reason"].startswith("hbm.bandwidth is 2,703, -10.1 % of the median 3,007 of 10 peers")
    assert taints(fleet.node(slow)) == []
    assert conditions(fleet.node(slow))["GPUProblem"] == "True"
    fleet.clock.pause(60.0)
    measure(fleet, slow, 3001.0)
    for _ in range(2):
        assert run().failure is None
    assert branches(server) == []
    assert conditions(fleet.node(slow))["GPUProblem"] == "False"
