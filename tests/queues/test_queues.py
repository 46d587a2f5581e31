"""`QueueUsage`: where GPUs are counted, and how objects are added and subtracted."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.kai import QUEUE
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from reconciler.plan.gpus import guarantee_delta, queue_lines, sum_of_trees
from reconciler.queues.queues import (
    NO_QUEUE,
    QueueKey,
    QueueUsage,
    defines_queues,
    subtract_workloads,
    usage_by_cluster,
)
from reconciler.repo.config import Config
from tests.plan.plan_cases import (
    KUEUE_QUEUE,
    Body,
    as_row,
    cluster_queue,
    flavor,
    job,
    kai_queue,
    local_queue,
    plain,
    rows,
)

QUEUES = [
    kai_queue("root"),
    kai_queue("team-a", parent="root"),
    flavor("h100", "H100"),
    cluster_queue("shared", {"h100": 16}),
    local_queue("ml-queue", "shared"),
]
KAI_JOB = job("kai", pods=2, gpus=8)
KUEUE_JOB = job("kueue", pods=1, gpus=4, queue="ml-queue", label=KUEUE_QUEUE)
TEAM_A, SHARED = QueueKey(*QUEUE, "team-a"), QueueKey(*CLUSTER_QUEUE, "shared")


def usage(*bodies: Body) -> QueueUsage:
    return usage_by_cluster(rows([*QUEUES, *bodies]))["main"]


def test_gpus_are_counted_in_the_queue_that_grants_them() -> None:
    assert usage(KAI_JOB, KUEUE_JOB).requested == {(TEAM_A, ""): 16, (SHARED, "H100"): 4}


def test_ancestors_count_the_gpus_below_them() -> None:
    totals = usage(KAI_JOB).requested_with_children()
    assert totals == {TEAM_A: {"": 16}, QueueKey(*QUEUE, "root"): {"": 16}}


@given(st.lists(st.integers(-1, 8), min_size=1, max_size=9), st.lists(st.integers(0, 8), max_size=6))
def test_sums_of_a_forest_are_those_of_all_ancestors(parents: list[int], jobs: list[int]) -> None:
    names = [f"q{number}" for number in range(len(parents))]
    above = {name: names[parent] for name, parent in zip(names, parents, strict=True) if -1 < parent < int(name[1:])}
    bodies = [kai_queue(name, parent=above.get(name, "")) for name in names]
    bodies += [job(f"j{at}", pods=1, gpus=1, queue=names[place % len(names)]) for at, place in enumerate(jobs)]
    forest = usage_by_cluster(rows(bodies))["main"]
    expected: dict[QueueKey, dict[str, float]] = {}
    for (queue, product), gpus in forest.requested.items():
        place: QueueKey | None = queue
        while place is not None:
            products = expected.setdefault(place, {})
            products[product] = products.get(product, 0) + gpus
            place = forest.parent_of(place)
    assert forest.requested_with_children() == expected


def test_a_chain_of_queues_of_any_length_is_summed() -> None:
    """The GPUs of one job count in each of 2,600 queues, and the guarantee of the whole tree counts once."""
    chain = [kai_queue(f"q{n}", 16, parent=f"q{n - 1}" if n else "") for n in range(2_600)]
    deep = usage_by_cluster(rows([*chain, job("deep", pods=2, gpus=8, queue="q2599")]))
    totals = deep["main"].requested_with_children()
    assert len(totals) == 2_600
    assert {gpus for products in totals.values() for gpus in products.values()} == {16}
    assert sum_of_trees(queue_lines({}, deep, Config(clusters=())), guarantee_delta) == 16


def test_a_cycle_of_queues_counts_nothing_twice() -> None:
    ring = [kai_queue("a", parent="c"), kai_queue("b", parent="a"), kai_queue("c", parent="b")]
    totals = usage_by_cluster(rows([*ring, job("one", pods=2, gpus=8, queue="b")]))["main"].requested_with_children()
    assert {gpus for products in totals.values() for gpus in products.values()} == {16}


def test_queues_that_are_not_here() -> None:
    lost = job("lost", gpus=1, pods=1, queue="gone", label=KUEUE_QUEUE)
    free = job("free", gpus=1, pods=1, queue="")
    assert usage(lost, free).requested == {(QueueKey(*LOCAL_QUEUE, "ml/gone"), ""): 1, (NO_QUEUE, ""): 1}


def test_suspended_workloads_request_nothing() -> None:
    assert usage(job("later", suspend=True)).requested == {}


def test_subtracted_workloads_are_gone() -> None:
    before = {"main": usage(KAI_JOB, KUEUE_JOB)}
    rest = subtract_workloads(before, rows([KAI_JOB]))
    assert rest["main"].requested == {(SHARED, "H100"): 4}
    assert before["main"].requested == {(TEAM_A, ""): 16, (SHARED, "H100"): 4}, "the original is unchanged"
    assert subtract_workloads(rest, rows([KUEUE_JOB]))["main"].requested == {}


def test_a_part_is_subtracted() -> None:
    rest = subtract_workloads({"main": usage(KAI_JOB, job("other", pods=1, gpus=8))}, rows([KAI_JOB]))
    assert rest["main"].requested == {(TEAM_A, ""): 8}


def test_another_cluster_keeps_its_gpus() -> None:
    bodies = [*QUEUES, KAI_JOB]
    both = usage_by_cluster([*rows(bodies), *rows(bodies, cluster="west")])
    rest = subtract_workloads(both, rows([KAI_JOB]))
    assert (rest["main"].requested, rest["west"].requested) == ({}, {(TEAM_A, ""): 16})


_WORKLOADS = [
    job("a", pods=2, gpus=8),
    job("b", pods=1, gpus=3),
    job("c", pods=4, gpus=1, queue="ml-queue", label=KUEUE_QUEUE),
    job("d", pods=1, gpus=8, suspend=True),
    job("e", pods=1, gpus=8, queue=""),
]


@given(st.sets(st.integers(0, len(_WORKLOADS) - 1)))
def test_adding_undoes_subtracting(chosen: set[int]) -> None:
    part = rows([_WORKLOADS[index] for index in sorted(chosen)])
    whole = {"main": usage(*_WORKLOADS)}
    rest = subtract_workloads(whole, part)
    assert rest["main"].requested == usage(*(w for i, w in enumerate(_WORKLOADS) if i not in chosen)).requested
    assert usage_by_cluster(part, base=rest)["main"].requested == whole["main"].requested


def test_objects_that_decide_where_gpus_are_counted() -> None:
    assert all(defines_queues(as_row(body)) for body in QUEUES)
    assert not any(defines_queues(as_row(body)) for body in (KAI_JOB, KUEUE_JOB, plain("ConfigMap", "x")))
    foreign = kai_queue("x") | {"apiVersion": "example.com/v1"}
    assert not defines_queues(as_row(foreign))
