"""Fifty nodes on the real API server under random faults, a policy that fails everything, and agents that went silent."""

import random

import pytest

from reconciler.health.fast_lane import LaneRound, node_key
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.fleet.breaker import allowed
from reconciler.nodehealth.nodes import TAINT
from tests.live.health.conftest import Node, SetClock, conditions, taints
from tests.live.health.fleet import FAST, LiveFleet, lost

DAY = 86400.0
WIDE = {**FAST, "breaker": {"perPool": "10%", "perModel": "20%", "unavailable": "30%", "spike": {"nodes": 100}}}
CAP = allowed(0.10, 50, 1)


class Fleet:
    """Fifty nodes, what others did to them, and when the fast lane took which."""

    def __init__(self, live: LiveFleet, seed: int) -> None:
        self.live, self.random = live, random.Random(seed)  # noqa: S311 - a seed to repeat it
        self.cordoned: set[str] = set()
        self.theirs: dict[str, str] = {}
        self.taken: list[tuple[float, str]] = []
        self.tainted: set[str] = set()
        for name in live.add(50):
            live.report(name)
        live.round(WIDE)

    def nodes(self) -> dict[str, Node]:
        resource = self.live.cluster.resource("", "Node")
        return {body["metadata"]["name"]: body for body in self.live.cluster.list(resource).objects}

    def step(self) -> None:
        """Let something happen to a few nodes, at a random distance in time."""
        self.live.clock.pause(self.random.choice((5.0, 60.0, 600.0, 4000.0, 40000.0)))
        for name in self.random.sample(self.live.names, 6):
            happens = self.random.choice((self.fail, self.fail, self.heal, self.deep, self.cordon, self.theirs_comes))
            happens(name)

    def fail(self, name: str) -> None:
        self.live.report(name, lost(), boot_id=self.random.choice(("boot-1", "boot-2")))

    def heal(self, name: str) -> None:
        self.live.report(name)

    def deep(self, name: str) -> None:
        self.live.deep_pass(name)

    def cordon(self, name: str) -> None:
        """Others cordon or uncordon a node."""
        self.cordoned ^= {name}
        self.live.cluster.patch(node_key(name), {"spec": {"unschedulable": name in self.cordoned or None}})

    def theirs_comes(self, name: str) -> None:
        """Others add a taint."""
        rows = self.live.node(name)["spec"].get("taints", [])
        if name not in self.theirs:
            self.theirs[name] = f"theirs/{len(self.theirs)}"
            mine = {"key": self.theirs[name], "effect": "NoSchedule"}
            self.live.cluster.patch(node_key(name), {"spec": {"taints": [*rows, mine]}}, manager="others")

    def check(self, made: LaneRound) -> None:
        """Look at the real nodes: never more than the breaker allows, and nothing of others touched."""
        nodes, now = self.nodes(), self.live.clock.at
        tainted = {name for name, body in nodes.items() if TAINT in taints(body)}
        # A node that people have cordoned is out of use already: fencing it takes nothing, and counts for nothing.
        self.taken += [(now, name) for name in tainted - self.tainted if name not in self.cordoned]
        self.tainted = tainted
        assert sum(now - at < DAY for at, _ in self.taken) <= CAP, "the breaker was passed"
        assert {name for name, body in nodes.items() if body["spec"].get("unschedulable")} == self.cordoned
        for name, key in self.theirs.items():
            assert key in taints(nodes[name])
        assert all(conditions(body).get("GPUProblem", "False") in ("True", "False") for body in nodes.values())
        assert not made.failures


@pytest.mark.parametrize("seed", [1, 2])
def test_random_faults_never_pass_the_breaker(lane_cluster: KubernetesCluster, clock: SetClock, seed: int) -> None:
    """F-100: also with others who cordon, uncordon and taint the same nodes."""
    fleet = Fleet(LiveFleet(lane_cluster, clock, f"loop-{seed}"), seed)
    took = False
    for _ in range(20):
        fleet.step()
        fleet.check(fleet.live.round(WIDE))
        took |= bool(fleet.tainted)
    assert took, "the lane did something"


def test_a_policy_that_fails_everything_takes_the_cap_and_no_more(
    lane_cluster: KubernetesCluster, clock: SetClock
) -> None:
    """F-100: fifty nodes fail at once, one after the other, and again after a day."""
    fleet = Fleet(LiveFleet(lane_cluster, clock, "bad-policy"), 0)
    alerts = 0
    for round_number in range(4):
        for name in fleet.live.names:
            fleet.live.report(name, lost())
        made = fleet.live.round(WIDE)
        alerts += len(made.evaluation.alerts)
        fleet.check(made)
        assert len(fleet.tainted) == CAP, round_number
        clock.pause(DAY / 2)
    assert alerts == 1, "one alert, not one for each node or round"


def test_the_same_faults_under_the_default_policy_freeze_the_rule(
    lane_cluster: KubernetesCluster, clock: SetClock
) -> None:
    fleet = Fleet(LiveFleet(lane_cluster, clock, "spike"), 0)
    for name in fleet.live.names:
        fleet.live.report(name, lost())
    made = fleet.live.round()
    fleet.check(made)
    assert fleet.tainted == set()
    assert made.evaluation.state.breaker.frozen.keys() == {"gpu.recovery_action"}


def test_agents_that_went_silent_or_know_nothing_take_no_node(lane_cluster: KubernetesCluster, clock: SetClock) -> None:
    """F-100: a bad roll-out of the agent: reports grow old, then say UNKNOWN everywhere. Nothing is fenced."""
    fleet = Fleet(LiveFleet(lane_cluster, clock, "silent"), 0)
    clock.pause(DAY)
    made = fleet.live.round(WIDE)
    fleet.check(made)
    assert fleet.tainted == set()
    assert {one.condition.value for one in made.evaluation.decisions.values()} == {"Unknown"}
    unknown = HealthFinding(check="gpu.recovery_action", status=CheckStatus.UNKNOWN, message="no library")
    for name in fleet.live.names:
        fleet.live.report(name, unknown, passed=())
    fleet.check(fleet.live.round(WIDE))
    assert fleet.tainted == set()
