"""What a plan says in GPUs equals what a brute-force reading of the bodies says."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan import CapacityLine, GpuLine, Plan, QueueLine
from reconciler.plan.outputs.summary import headline
from reconciler.plan.outputs.summary.queues import queue_rows
from reconciler.repo.config import Budgets, Cluster, Config
from reconciler.sizing.inventory import Inventory, Node
from tests.plan.plan_cases import (
    KUEUE_QUEUE,
    PRODUCT,
    Body,
    cluster_queue,
    flavor,
    inventory,
    job,
    kai_queue,
    local_queue,
    plain,
    plan,
    pod_spec,
)


def queue(made: Plan, name: str, product: str = "") -> QueueLine:
    (line,) = [line for line in made.queues if (line.queue, line.product) == (name, product)]
    return line


def test_gpus_by_queue_and_product_before_and_after() -> None:
    before = [kai_queue("team-a"), job("a"), job("b", suspend=True), job("c", product="H100")]
    after = [kai_queue("team-a"), job("a", pods=4), job("b"), job("c", product="H100", queue="")]
    assert plan(before, after).gpus == (
        GpuLine(cluster="main", queue="", product="H100", before=0, after=16),
        GpuLine(cluster="main", queue="team-a", product="", before=16, after=48),
        GpuLine(cluster="main", queue="team-a", product="H100", before=16, after=0),
    )


def test_jobs_in_one_word() -> None:
    before = [job("gone"), job("grows"), job("stops"), job("starts", suspend=True), job("same"), job("edited")]
    after = [
        job("comes", gpus=4, product="X"),
        job("grows", pods=4),
        job("stops", suspend=True),
        job("starts"),
        job("same"),
        job("edited", hostname="x"),
    ]
    found = [
        (change.word, change.key.name, change.gpus_before, change.gpus_after) for change in plan(before, after).jobs
    ]
    assert found == [
        ("added", "comes", 0, 8),
        ("refused", "edited", 16, 16),
        ("removed", "gone", 16, 0),
        ("refused", "grows", 16, 32),
        ("resumed", "starts", 0, 16),
        ("suspended", "stops", 16, 0),
    ]


def test_a_job_that_becomes_another_kind_is_one_resize() -> None:
    """Under KAI a job on one node is a Job, one on several a PyTorchJob of the same name."""
    template = {"spec": pod_spec(8)}
    torch = plain(
        "PyTorchJob",
        "train",
        api="kubeflow.org/v1",
        spec={"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    )
    (change,) = plan([job(pods=1)], [torch]).jobs
    assert (change.word, change.key.kind, change.gpus_before, change.gpus_after) == ("resized", "PyTorchJob", 8, 16)


def test_a_change_of_product_replaces_a_job() -> None:
    (change,) = plan([job(product="A100")], [job(product="H100")]).jobs
    assert (change.word, change.product) == ("refused", "H100")


def test_a_parent_counts_the_workloads_below_it() -> None:
    tree = [kai_queue("root", 64), kai_queue("a", 16, parent="root"), kai_queue("b", 8, limit=32, parent="a")]
    made = plan([], [*tree, job("x", queue="a"), job("y", queue="b")])
    assert [(line.queue, line.after, line.limit, line.requested) for line in made.queues] == [
        ("a", 16, None, 32),
        ("b", 8, 32, 16),
        ("root", 64, None, 32),
    ]


def test_queues_that_come_and_go() -> None:
    made = plan([kai_queue("old", 8)], [kai_queue("new", -1, limit=4)])
    old, new = queue(made, "old"), queue(made, "new")
    assert (old.before, old.after, old.limit, old.exists_after) == (8, 0, 0, False)
    assert (new.before, new.after, new.limit, new.exists_before) == (0, None, 4, False)


KUEUE = [flavor("hopper", "H100"), flavor("ampere", "A100"), local_queue("lq", "cq")]


def queued(name: str, **keywords: Any) -> Body:
    return job(name, queue="lq", label=KUEUE_QUEUE, **keywords)


def test_kueue_counts_by_the_products_of_its_flavors() -> None:
    quotas = cluster_queue("cq", {"hopper": 16, "ampere": 8})
    made = plan([], [*KUEUE, quotas, queued("a", product="H100"), queued("b", pods=1, product="A100")])
    assert (queue(made, "cq", "H100").after, queue(made, "cq", "H100").requested) == (16, 16)
    assert (queue(made, "cq", "A100").after, queue(made, "cq", "A100").requested) == (8, 8)
    assert {(line.queue, line.product) for line in made.gpus} == {("cq", "H100"), ("cq", "A100")}


def test_a_queue_of_one_flavor_decides_the_product() -> None:
    made = plan([], [*KUEUE, cluster_queue("cq", {"hopper": 16}), queued("a")])
    assert [(line.product, line.after) for line in made.gpus] == [("H100", 16)]


def test_flavors_of_one_product_add_up() -> None:
    flavors = [flavor("spot", "H100"), flavor("reserved", "H100"), local_queue("lq", "cq")]
    made = plan([], [*flavors, cluster_queue("cq", {"spot": 8, "reserved": 16}), queued("a")])
    assert [(line.product, line.after, line.requested) for line in made.queues] == [("H100", 24, 16)]


def test_workloads_that_do_not_choose_are_compared_with_the_queue_as_a_whole() -> None:
    quotas = cluster_queue("cq", {"hopper": 16, "ampere": 8})
    made = plan([], [*KUEUE, quotas, queued("a"), queued("b", pods=1, product="H100")])
    assert (queue(made, "cq").after, queue(made, "cq").requested) == (24, 24)
    assert queue(made, "cq", "H100").requested == 8


def test_the_queue_as_a_whole_is_not_added_to_its_products() -> None:
    before, after = ([*KUEUE, cluster_queue("cq", {"hopper": hopper, "ampere": 8}), queued("a")] for hopper in (16, 32))
    budgets = Budgets(delete_count=None, delete_share=None, gpu_quota_count=15, gpu_quota_share=0.6)
    made = plan(before, after, budgets=budgets)
    assert queue(made, "cq").is_total
    assert headline(made) == "+16 GPUs of quota on main (cq: 16 → 32)"
    assert [(breach.budget, breach.actual) for breach in made.breaches] == [
        ("gpu-quota.count", "16"),
        ("gpu-quota.share", "66.7%"),
    ]


def test_the_queue_as_a_whole_stays_when_its_last_workload_leaves() -> None:
    quotas = cluster_queue("cq", {"hopper": 16, "ampere": 8})
    made = plan([*KUEUE, quotas, queued("a")], [*KUEUE, quotas])
    assert (queue(made, "cq").before, queue(made, "cq").after, queue(made, "cq").requested) == (24, 24, 0)
    assert headline(made) == "-16 GPUs requested on main (cq: 16 → 0, quota 24)"


def test_a_cohort_that_has_the_name_of_a_member_is_another_object() -> None:
    def objects(size: int) -> list[Body]:
        cohort = cluster_queue("cq", {"hopper": size}) | {"kind": "Cohort"}
        return [*KUEUE, cohort, cluster_queue("cq", {"hopper": 8}, cohort="cq"), queued("a", product="H100")]

    (risk,) = plan(objects(8), objects(4)).risks
    assert (risk.key.kind, risk.message) == (
        "Cohort",
        "the GPU quota for H100 changes from 8 to 4, but the workloads of the queue request 8 GPUs",
    )


def test_a_deleted_cohort_is_not_requested_by_members_within_their_quotas() -> None:
    cohort = cluster_queue("all", {"hopper": 8}) | {"kind": "Cohort"}
    rest = [*KUEUE, cluster_queue("cq", {"hopper": 16}, cohort="all"), queued("a", product="H100")]
    (line,) = (line for line in plan([cohort, *rest], rest).queues if line.is_cohort)
    assert (line.before, line.after, line.requested) == (8, 0, 0)


def test_a_parent_and_its_child_that_grow_together_are_counted_once() -> None:
    before, after = ([kai_queue("root", size), kai_queue("a", size, parent="root")] for size in (16, 24))
    assert headline(plan(before, after)) == "+8 GPUs of quota on main (a: 16 → 24, root: 16 → 24)"
    assert headline(plan(after, before)).startswith("-8 GPUs of quota on main")
    grown = plan([kai_queue("root", 64), *before[1:]], [kai_queue("root", 64), *after[1:]])
    assert headline(grown) == "+8 GPUs of quota on main (a: 16 → 24)"


@pytest.mark.parametrize(
    ("jobs", "beyond"),
    [
        ([], 0),
        ([queued("a", pods=1, product="H100")], 0),
        ([queued("a", pods=1, product="H100"), queued("b", pods=1)], 0),
        ([queued("a", pods=3, product="H100")], 8),
        ([queued("a", pods=3, product="H100"), queued("b", pods=2)], 24),
    ],
)
def test_the_quota_of_a_cohort_is_for_what_its_members_request_beyond_their_own(jobs: list[Body], beyond: int) -> None:
    cohort = cluster_queue("all", {"hopper": 8}) | {"kind": "Cohort"}
    members = [cluster_queue(name, {"hopper": 8}, cohort="all") for name in ("cq", "all")]
    made = plan([], [*KUEUE, cohort, *members, *jobs])
    (line,) = (line for line in made.queues if line.is_cohort)
    assert (line.after, line.limit, line.requested) == (8, 8, beyond)
    rows = {(row.queue, row.is_cohort): row for row in queue_rows(made)}
    assert rows["all", True].over_limit == max(0, beyond - 8)
    assert rows["all", False].guaranteed_after == 8


def test_a_cohort_that_shrinks_is_no_risk_for_members_within_their_quotas() -> None:
    def objects(size: int) -> list[Body]:
        cohort = cluster_queue("all", {"hopper": size}) | {"kind": "Cohort"}
        return [*KUEUE, cohort, cluster_queue("cq", {"hopper": 16}, cohort="all"), queued("a", product="H100")]

    assert not plan(objects(8), objects(4)).risks


@pytest.mark.parametrize(
    ("borrowing", "external", "limit", "remark"),
    [
        (None, (), 24, "8 over the limit, 16 borrowed"),
        (4, (), 12, "20 over the limit, 4 borrowed"),
        (64, (), 24, "8 over the limit, 16 borrowed"),
        (None, ("ClusterQueue/other",), None, "24 borrowed"),
    ],
)
def test_the_limit_of_a_queue_is_what_its_cohort_lends(
    borrowing: int | None, external: tuple[str, ...], limit: int | None, remark: str
) -> None:
    """F-047: neither the borrowing limit alone, nor none at all."""
    members = [
        cluster_queue("cq", {"hopper": 8}, cohort="all", borrowing=borrowing),
        cluster_queue("other", {"hopper": 16}, cohort="all"),
    ]
    after = [*KUEUE, *members, queued("a", pods=4, product="H100")]
    made = plan([], after, config=Config(clusters=(Cluster(name="main", external=external),)))
    assert queue(made, "cq", "H100").limit == limit
    (row,) = (row for row in queue_rows(made) if row.queue == "cq")
    assert row.remark == f"new queue, {remark}"


def test_a_local_queue_that_points_nowhere_keeps_its_name() -> None:
    made = plan([], [job("a", queue="nope", label=KUEUE_QUEUE)])
    assert [line.queue for line in made.gpus] == ["ml/nope"]


def capacity(bodies: list[Body], *inventories: Inventory) -> list[tuple[str, int, float | None, float]]:
    nodes = tuple(node for one in inventories for node in one.nodes)
    whole = {"main": Inventory(cluster="main", taken_at="", nodes=nodes)}
    made = plan([], bodies, inventories=whole)
    return [(line.product, line.capacity, line.guaranteed, line.requested) for line in made.capacity]


H100, A100 = inventory(4), inventory(2, product="A100")


def test_children_are_not_counted_beside_their_parent() -> None:
    tree = [
        kai_queue("root", 24),
        kai_queue("a", 16, parent="root"),
        kai_queue("b", 8, parent="root"),
        job("x", queue="a"),
    ]
    assert capacity(tree, H100) == [("H100", 32, 24, 16)]


def test_an_unlimited_root_is_as_large_as_its_children() -> None:
    tree = [kai_queue("root", -1), kai_queue("a", 16, parent="root"), kai_queue("b", 8, parent="root")]
    assert capacity(tree, H100) == [("H100", 32, 24, 0)]
    assert capacity([*tree, kai_queue("c", -1, parent="root")], H100) == [("H100", 32, None, 0)]


def test_a_parent_that_lives_elsewhere_leaves_its_children_as_roots() -> None:
    assert capacity([kai_queue("a", 16, parent="default"), kai_queue("b", 24, parent="default")], H100) == [
        ("H100", 32, 40, 0)
    ]


def test_a_ring_of_parents_is_counted_as_nothing_and_ends() -> None:
    assert capacity([kai_queue("a", -1, parent="b"), kai_queue("b", -1, parent="a")], H100) == [("H100", 32, 0.0, 0)]


def test_members_of_a_cohort_and_its_own_quota_add_up_once() -> None:
    cohort = cluster_queue("all", {"hopper": 4}) | {"kind": "Cohort"}
    members = [cluster_queue(name, {"hopper": 8}, cohort="all") for name in ("a", "b")]
    assert capacity([*KUEUE, cohort, *members], H100) == [("H100", 32, 20, 0)]


def test_several_products_and_a_quota_for_any() -> None:
    bodies = [kai_queue("a", 40), job("x", queue="a", product="H100"), job("y", queue="a", pods=1)]
    assert capacity(bodies, H100, A100) == [("A100", 16, 0, 0), ("H100", 32, 0, 16), ("", 48, 40, 24)]


def test_a_product_that_nobody_counted_has_no_capacity() -> None:
    assert capacity([job("x", product="B200")], H100) == [("B200", 0, 0, 16), ("H100", 32, 0, 0)]


def test_cordoned_nodes_give_no_capacity() -> None:
    nodes = (Node(name="a", product="H100", gpus=8), Node(name="b", product="H100", gpus=8, unschedulable=True))
    assert capacity([], Inventory(cluster="main", taken_at="", nodes=nodes)) == [("H100", 8, 0, 0)]


def test_without_evidence_there_is_no_line_rather_than_a_zero() -> None:
    assert plan([], [job()]).capacity == ()


# The oracle: the same totals from the bodies, by the plainest reading.

QUEUES = ("root", "a", "b", "c")
PARENTS = {"a": "root", "b": "root", "c": "a"}
one_job = st.fixed_dictionaries(
    {
        "pods": st.integers(0, 4),
        "gpus": st.sampled_from([None, 0, 1, 8, "4"]),
        "queue": st.sampled_from(("", *QUEUES)),
        "product": st.sampled_from(["", "H100", "A100"]),
        "suspend": st.booleans(),
    }
)
job_sets = st.dictionaries(st.sampled_from([f"job-{number}" for number in range(6)]), one_job, max_size=6)
quotas = st.fixed_dictionaries({name: st.integers(-1, 64) for name in QUEUES})


def bodies_of(jobs: dict[str, dict[str, Any]], amounts: dict[str, int]) -> list[Body]:
    tree = [kai_queue(name, amount, parent=PARENTS.get(name, "")) for name, amount in amounts.items()]
    return [*(job(name, **wanted) for name, wanted in jobs.items()), *tree]


def by_hand(bodies: list[Body]) -> dict[tuple[str, str], int]:
    totals: dict[tuple[str, str], int] = {}
    for body in bodies:
        if body["kind"] != "Job" or body["spec"].get("suspend"):
            continue
        pod = body["spec"]["template"]["spec"]
        each = int(pod["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0))
        place = (
            body["metadata"]["labels"].get("kai.scheduler/queue", ""),
            pod.get("nodeSelector", {}).get(PRODUCT, ""),
        )
        totals[place] = totals.get(place, 0) + each * body["spec"]["parallelism"]
    return {place: gpus for place, gpus in totals.items() if gpus}


def below(name: str, root: str) -> bool:
    while name:
        if name == root:
            return True
        name = PARENTS.get(name, "")
    return False


@given(job_sets, job_sets, quotas, quotas)
def test_totals_equal_a_count_by_hand(
    old_jobs: dict[str, Any], new_jobs: dict[str, Any], old_quotas: dict[str, int], new_quotas: dict[str, int]
) -> None:
    before, after = bodies_of(old_jobs, old_quotas), bodies_of(new_jobs, new_quotas)
    made = plan(copy.deepcopy(before), copy.deepcopy(after), inventories={"main": H100})
    was, now = by_hand(before), by_hand(after)
    assert {(line.queue, line.product): line.before for line in made.gpus if line.before} == was
    assert {(line.queue, line.product): line.after for line in made.gpus if line.after} == now
    for line in made.queues:
        assert line.before == (None if old_quotas[line.queue] < 0 else old_quotas[line.queue])
        assert line.after == (None if new_quotas[line.queue] < 0 else new_quotas[line.queue])
        assert line.requested == sum(gpus for (name, _), gpus in now.items() if below(name, line.queue))
    asked = sum(now.values())
    assert [line.requested for line in made.capacity if line.product == ""] in ([], [asked])
    assert sum(line.requested for line in made.capacity if line.product) <= asked
    change = sum(one.gpus_after - one.gpus_before for one in made.changes)
    assert change == asked - sum(was.values())
    assert sum(one.gpus_after - one.gpus_before for one in made.jobs) == change


@given(quotas)
def test_what_the_roots_promise_equals_a_count_by_hand(amounts: dict[str, int]) -> None:
    def promised(name: str) -> float | None:
        if amounts[name] >= 0:
            return amounts[name]
        children = [promised(child) for child, parent in PARENTS.items() if parent == name]
        finite = [child for child in children if child is not None]
        return sum(finite) if children and len(finite) == len(children) else None

    made = plan([], bodies_of({}, amounts), inventories={"main": H100})
    assert made.capacity == (
        CapacityLine(cluster="main", product="H100", before=32, capacity=32, guaranteed=promised("root"), requested=0),
    )


def test_shares_of_gpus_add_up_as_kai_counts_them() -> None:
    """Ten pods of half a GPU are 5 GPUs, and sums have no traces of floats."""

    def shared(name: str, fraction: str, pods: int) -> Body:
        body = job(name, gpus=None, pods=pods, queue="q")
        body["spec"]["template"]["metadata"] = {"annotations": {"gpu-fraction": fraction}}
        return body

    tenths = [shared(f"j{number}", "0.1", 1) for number in range(3)]
    made = plan(tenths, [kai_queue("q", 5, limit=5), shared("x", "0.5", 10), *tenths])
    (line,) = made.gpus
    assert (line.before, line.after) == (0.3, 5.3)
    (own,) = made.queues
    assert own.requested == 5.3
    (change,) = made.jobs
    assert (change.gpus_before, change.gpus_after, type(change.gpus_after)) == (0, 5, int)
