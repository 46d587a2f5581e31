"""The strategies, on fleets that a person can check in their head (F-020 to F-026, AF-03 to AF-06, AF-11)."""

import random

import pytest

from reconciler.kinds.terms import LabelRequirement, TopologyRequest
from reconciler.nodehealth.findings import CheckStatus
from reconciler.placement import STRATEGIES, PodSite, QueuedJob
from reconciler.placement.jobs import GPU_MEMORY
from tests.placement.fleets import A100, H100, L40S, RACK, busy, evidence, job, node, nodes_of, place, used, waiting

NAMES = ("a", "b", "c")


def _three(*percents: float | None) -> list[object]:
    """Return nodes with two GPUs, of which one is in use, as busy as it says."""
    return [
        [node(name, gpus=2) for name in NAMES],
        [used(f"job-{name}", [(name, 1)]) for name in NAMES],
        [busy(f"job-{name}", name, percent) for name, percent in zip(NAMES, percents, strict=True)],
    ]


@pytest.mark.parametrize(
    ("percents", "chosen"),
    [((70, 20, 50), "b"), ((30, 30, 30), "a"), ((None, 90, 95), "b"), ((None, None, 10), "c")],
    ids=["lowest", "tie goes to the first", "unknown is last, above the goal, too", "unknown is not 0"],
)
def test_least_utilized_takes_the_lowest_known_utilisation(percents: tuple[float | None, ...], chosen: str) -> None:
    """AF-03, F-020; defects 2 and 25 of agentaflow: utilisation is never 0 because nobody read it."""
    assert nodes_of(place(evidence(*_three(*percents)), "least_utilized", job("new"))) == {"new": chosen}  # type: ignore[arg-type]


def test_a_node_above_the_goal_is_tried_last_and_the_plan_says_so() -> None:
    """F-026: the goal is a soft cap."""
    nodes = [node("a", gpus=1), node("b", gpus=4)]
    known = evidence(nodes, [used("job", [("b", 2)])], [busy("job", "b", 95, gpus=2)], goal=40)
    found = place(known, "best_fit", job("one"), job("two"))
    assert nodes_of(found) == {"one": "a", "two": "b"}
    assert found.after.jobs[1].notes == ("1 node above the utilisation goal of 40 %",)


def test_best_fit_takes_the_smallest_gpu_that_suffices_and_is_free() -> None:
    """AF-04, F-021; defect 4 of agentaflow: a GPU that is in use is never chosen."""
    nodes = [node("big", 1, memory=40 * 1024), node("small", 1, memory=16 * 1024), node("mid", 1, memory=24 * 1024)]
    needs = LabelRequirement(GPU_MEMORY, "Gt", (str(15 * 1024 - 1),))
    new = job("new", site=PodSite(resource="nvidia.com/gpu", terms=((needs,),)))
    assert nodes_of(place(evidence(nodes), "best_fit", new)) == {"new": "small"}
    assert nodes_of(place(evidence(nodes, [used("other", [("small", 1)])]), "best_fit", new)) == {"new": "mid"}


def test_priority_comes_before_age_and_age_decides_within_a_priority() -> None:
    """AF-05, F-022: of priorities 1, 9 and 5 the 9 gets the only GPU, of two of 9 the older one."""
    one = [node("a", gpus=1)]
    jobs = [job(f"p{priority}", priority=priority) for priority in (1, 9, 5)]
    found = place(evidence(one), "priority", *jobs)
    assert {name: at for name, at in nodes_of(found).items() if at} == {"p9": "a"}
    older, newer = (
        job("older", priority=9, since="2026-11-28T09:00:00Z"),
        job("newer", priority=9, since="2026-11-28T11:00:00Z"),
    )
    assert nodes_of(place(evidence(one), "priority", newer, older)) == {"older": "a", "newer": ""}


@pytest.mark.parametrize(
    ("seconds", "starts"), [(1800.0, True), (7200.0, False), (None, False)], ids=["ends before", "delays", "unknown"]
)
def test_backfill_never_delays_the_head(seconds: float | None, starts: bool) -> None:
    """EASY: what is behind a large job starts only if it ends before that job can (F-022)."""
    running = used("now", [("a", 1)], gpus=6)
    known = evidence([node("a", gpus=8)], [running])
    jobs = [job("large", gpus=8, priority=9), job("small", gpus=2, seconds=seconds)]
    held = job("now", gpus=6, seconds=3 * 3600.0)  # began two hours ago: it ends in an hour
    found = place(known, "priority", *jobs, known={held.key: held})
    assert (nodes_of(found)["small"] == "a") is starts
    assert nodes_of(found)["large"] == ""
    assert "backfilled" in found.after.jobs[1].notes[0] if starts else "delay" in found.after.jobs[1].why


def test_backfill_needs_known_durations() -> None:
    known = evidence([node("a", gpus=8)], [used("now", [("a", 1)], gpus=6)])
    found = place(known, "priority", job("large", gpus=8, priority=9), job("small", gpus=2, seconds=60.0))
    assert nodes_of(found) == {"large": "", "small": ""}
    assert found.after.jobs[1].why == (
        "waits behind large, which has a higher priority and waits; when that starts is unknown"
    )


def test_round_robin_goes_on_where_the_evidence_in_git_ends() -> None:
    """AF-06, F-023: six jobs on three nodes are two each, and the next plan continues after the last assignment."""
    nodes = [node(name) for name in NAMES]
    found = nodes_of(place(evidence(nodes), "round_robin", *(job(f"j{number}") for number in range(6))))
    assert sorted(found.values()) == ["a", "a", "b", "b", "c", "c"]
    last = used("last", [("a", 1)], started_at="2026-11-28T11:00:00Z")
    again = evidence(nodes, [used("first", [("c", 1)]), last])
    assert nodes_of(place(again, "round_robin", job("next"))) == {"next": "b"}
    assert place(again, "round_robin", job("next")) == place(again, "round_robin", job("next"))


def test_fragmentation_keeps_whole_nodes_for_what_needs_them() -> None:
    """A small pod goes where a GPU is broken already, so that the pod with eight GPUs still has a node."""
    nodes = [node("a"), node("b")]
    known = evidence(nodes, [used("some", [("b", 3)]), used("large", [], gpus=8, count=1, state="waiting")])
    found = nodes_of(place(known, "fragmentation", job("small")))
    assert found == {"large": "a", "small": "b"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_failed_nodes_are_never_chosen_and_warned_ones_last(strategy: str) -> None:
    """AF-11, F-099, F-102: jobs leave nodes with warnings as soon as healthy ones have room."""
    nodes = [node("fail", 2), node("pass", 2), node("warn", 2), node("cordoned", 2, unschedulable=True)]
    health = {"fail": CheckStatus.FAIL, "warn": CheckStatus.WARN, "pass": CheckStatus.PASS}
    found = place(evidence(nodes, health=health), strategy, *(job(f"j{number}") for number in range(5)))
    assert nodes_of(found) == {"j0": "pass", "j1": "pass", "j2": "warn", "j3": "warn", "j4": ""}
    assert found.after.jobs[2].notes == ("health checks warn on warn: no healthy node has room",)
    assert [(one.why, one.gpus) for one in found.excluded] == [("cordoned", 2), ("failed health checks", 2)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_gang_is_placed_whole_or_not_at_all(strategy: str) -> None:
    nodes = [node(name, 4) for name in NAMES]
    found = place(evidence(nodes), strategy, job("gang", gpus=4, pods=4), job("other", gpus=4, pods=3))
    assert nodes_of(found) == {"gang": "", "other": "a b c"}
    assert "3 of 4 pods with 4 GPUs each have room" in found.after.jobs[0].why


def test_a_gang_takes_the_fewest_racks_and_a_required_rack_only() -> None:
    nodes = [node(f"n{number}", 4, labels={RACK: f"r{number // 2}"}) for number in range(6)]
    known = evidence(nodes, [used("held", [("n0", 1)], gpus=4)], levels=(RACK, "kubernetes.io/hostname"))
    found = place(known, "least_utilized", job("pair", gpus=4, pods=2), job("trio", gpus=4, pods=3))
    assert nodes_of(found) == {"pair": "n2 n3", "trio": "n1 n4 n5"}
    assert [one.racks for one in found.after.jobs] == [1, 2]
    strict = job("strict", gpus=4, pods=3, topology=TopologyRequest("required", RACK))
    assert place(known, "least_utilized", strict).after.jobs[0].why == (
        f"no single {RACK} has room for 3 pods of 4 GPUs"
    )


def test_hard_requirements_are_product_memory_taints_cores_and_memory() -> None:
    """F-025; defect 5 of agentaflow: every requirement decides."""
    nodes = [
        node("a", product=A100, allocatable_cpus=8, allocatable_memory_gib=64),
        node("h", product=H100),
        node("l", product=L40S, memory=46068),
    ]
    memory = LabelRequirement(GPU_MEMORY, "Gt", ("100000",))
    cases: dict[str, tuple[QueuedJob, str]] = {
        "cores": (
            job("x", cpu=9001, site=PodSite(product=A100)),
            "room for 1 GPU is on 1 node, but not the 9.001 cores",
        ),
        "memory": (job("x", memory=70000, site=PodSite(product=A100)), "GiB of memory that a pod requests"),
        "product": (job("x", site=PodSite(product="NVIDIA-B200")), f"no open node has NVIDIA-B200; there are {A100}"),
        "gpu memory": (job("x", site=PodSite(terms=((memory,),))), "it asks for a GPU with 100001 MiB"),
        "size": (job("x", gpus=16), "a pod requests 16 GPUs, and no node that it may use has more than 8"),
        "selector": (job("x", site=PodSite(selector=(("zone", "z"),))), "matches its selector or affinity (zone)"),
    }
    for name, (asked, why) in cases.items():
        (found,) = place(evidence(nodes), "best_fit", asked).after.jobs
        assert why in found.why, name


def test_preferred_nodes_are_used_while_they_have_room() -> None:
    """F-025: a preferred type is chosen when it is free, else there is a note."""
    wants = ((LabelRequirement("nvidia.com/gpu.product", "In", (H100,)),),)
    nodes = [node("a"), node("h", 1, product=H100)]
    found = place(evidence(nodes), "least_utilized", job("one", prefers=wants), job("two", prefers=wants))
    assert nodes_of(found) == {"one": "h", "two": "a"}
    assert found.after.jobs[1].notes == ("not on the nodes that it prefers: they have no room",)


def test_shares_of_gpus_fill_a_gpu_before_the_next_one() -> None:
    nodes = [node("a", 2), node("b", 2)]
    jobs = [job(f"s{number}", share=500) for number in range(4)]
    found = place(evidence(nodes), "best_fit", *jobs, job("whole", gpus=2))
    assert nodes_of(found) == {"s0": "a", "s1": "a", "s2": "a", "s3": "a", "whole": "b"}


def test_a_workload_may_have_its_own_strategy() -> None:
    """F-024: the strategy of one workload does not change the others."""
    nodes = [node("a", 4), node("b", 2)]
    known = evidence(nodes, [used("j", [("a", 1)])], [busy("j", "a", 90)])
    found = nodes_of(place(known, "least_utilized", job("idle"), job("tight", strategy="best_fit")))
    assert found == {"idle": "b", "tight": "b"}


def test_the_order_of_evidence_decides_nothing() -> None:
    """Defect 25 of agentaflow: equal inputs give equal placements, whatever order they come in."""
    nodes = [node(f"n{number}", 4, labels={RACK: f"r{number % 3}"}) for number in range(9)]
    running = [used(f"u{number}", [(f"n{number}", 1)], gpus=number % 4 + 1) for number in range(6)]
    queue = [waiting(f"w{number}", gpus=2, created_at=f"2026-11-28T0{number}:00:00Z") for number in range(5)]
    jobs = [job(f"j{number}", gpus=number % 3 + 1, pods=2) for number in range(4)]
    for strategy in STRATEGIES:
        expected = place(evidence(nodes, [*running, *queue], levels=(RACK,)), strategy, *jobs)
        shuffled, mixed = [*nodes], [*running, *queue]
        random.Random(1).shuffle(shuffled)  # noqa: S311
        random.Random(2).shuffle(mixed)  # noqa: S311
        assert place(evidence(shuffled, mixed, levels=(RACK,)), strategy, *jobs) == expected, strategy


def test_nothing_is_booked_twice() -> None:
    """Defect 3 of agentaflow: what runs keeps its GPUs, and the sum of what is placed is what is taken."""
    known = evidence([node("a"), node("b")], [used("held", [("a", 2), ("b", 1)], gpus=3)])
    found = place(known, "best_fit", *(job(f"j{number}", gpus=2) for number in range(5)))
    taken = [one for one in found.after.jobs if one.is_placed]
    assert (found.after.used, found.after.allocated) == (9, 9 + 2 * len(taken))
    assert [one.nodes for one in taken] == [(("a", 1),), (("b", 1),), (("b", 1),)]
