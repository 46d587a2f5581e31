"""Random fleets and jobs: whatever the strategy, nothing is placed twice, in part, or where it must not be."""

import random
from collections import Counter

import pytest

from reconciler.kinds.terms import LabelRequirement, TopologyRequest
from reconciler.nodehealth.findings import CheckStatus
from reconciler.placement import STRATEGIES, ClusterPlacement, PlacementEvidence, QueuedJob
from reconciler.placement.scenario import PlacementScenario, with_scenario
from reconciler.sizing.inventory import Taint
from tests.placement.fleets import A100, H100, NOW, RACK, busy, evidence, job, node, place, used, waiting

_HOST = "kubernetes.io/hostname"


def _world(seed: int) -> tuple[PlacementEvidence, list[QueuedJob]]:
    chance = random.Random(seed)  # noqa: S311
    nodes = [
        node(
            f"n{number:02}",
            chance.choice((2, 4, 8)),
            product=chance.choice((A100, H100)),
            labels={RACK: f"r{number // 3}"},
            unschedulable=chance.random() < 0.1,
            taints=(Taint(key="reserved", effect="NoSchedule"),) if chance.random() < 0.1 else (),
            allocatable_cpus=chance.choice((0, 16, 64)),
        )
        for number in range(12)
    ]
    running = [
        used(f"u{number}", [(chance.choice(nodes).name, 1)], gpus=chance.choice((1, 2, 4)), requests={"cpu": "4"})
        for number in range(6)
    ]
    queue = [waiting(f"w{number}", chance.choice((1, 8)), count=chance.choice((1, 3))) for number in range(4)]
    use = [
        busy(f"u{number}", one.pod_sets[0].nodes[0][0], chance.choice((5, 95, None)))
        for number, one in enumerate(running)
    ]
    health = {
        one.name: chance.choice((CheckStatus.PASS, CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL))
        for one in nodes
    }
    wants = ((LabelRequirement("nvidia.com/gpu.product", "In", (H100,)),),)
    jobs = [
        job(
            f"j{number:02}",
            chance.choice((1, 1, 2, 4, 8)),
            pods=chance.choice((1, 1, 2, 4)),
            cpu=chance.choice((0, 8000, 40000)),
            priority=chance.randrange(3),
            seconds=chance.choice((None, 600.0, 9000.0)),
            strategy=chance.choice(("", "", "best_fit", "round_robin")),
            **(
                {"topology": TopologyRequest(chance.choice(("required", "preferred")), RACK)}
                if chance.random() < 0.3
                else {}
            ),
            **({"prefers": wants} if chance.random() < 0.2 else {}),
        )
        for number in range(14)
    ]
    return evidence(nodes, [*running, *queue], use, health, levels=(RACK, _HOST)), jobs


def _check(facts: PlacementEvidence, side: ClusterPlacement) -> None:
    nodes = {one.name: one for one in facts.inventory.nodes}
    free = {name: one.gpus for name, one in nodes.items()}
    for one in facts.usage.workloads:
        for pods in one.pod_sets:
            for name, count in pods.nodes:
                free[name] = max(0, free[name] - count * pods.pod_gpus)
    taken = Counter[str]()
    for placed in side.jobs:
        (asked,) = placed.job.pods
        assert placed.is_placed or placed.why, placed
        assert sum(count for _, count in placed.nodes) in (0, asked.pods)
        for name, count in placed.nodes:
            taken[name] += count * asked.gpus
            assert nodes[name].is_open
            assert not nodes[name].taints
            assert facts.health is None or facts.health.status(name) is not CheckStatus.FAIL
        if placed.is_placed and asked.topology is not None and asked.topology.mode == "required":
            assert len({nodes[name].labels[RACK] for name, _ in placed.nodes}) == 1
    assert all(taken[name] <= free[name] for name in taken)
    assert side.allocated <= side.gpus
    assert 0 <= round(side.stranded, 6) <= side.gpus - side.allocated + 1e-6


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_placed_has_room_and_may_be_there(strategy: str) -> None:
    """F-024 to F-026, F-160; defects 3 and 4 of agentaflow, in 16 random worlds."""
    for seed in range(16):
        facts, jobs = _world(seed)
        found = place(facts, strategy, *jobs)
        _check(facts, found.after)
        _check(facts, found.before)
        assert found == place(facts, strategy, *jobs)


def test_a_scenario_without_content_changes_nothing() -> None:
    facts, jobs = _world(7)
    assert with_scenario(facts, PlacementScenario()).inventory.nodes == facts.inventory.nodes
    assert place(with_scenario(facts, PlacementScenario()), "best_fit", *jobs) == place(facts, "best_fit", *jobs)
    assert facts.usage.observed_at == NOW
