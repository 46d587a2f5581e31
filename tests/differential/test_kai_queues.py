"""Jobs that KAI never starts: our verdicts against the real scheduler, on random queues with one job each."""

import os
from collections.abc import Sequence
from functools import partial

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.repo.config import Cluster
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.kai import are_refused
from tests.cluster.server import wait_until
from tests.differential.kai_queues import PRIORITY_CLASSES, Body, Case, Tree, case, tree
from tests.plan.plan_cases import evaluate, rows

CASES = int(os.environ.get("RECONCILER_TEST_KAI_QUEUES", "12"))
_BATCH = 12
POOL = "kai-queues"
RULES = ("quota.queue-limit", "quota.non-preemptible", "quota.root-queue")
TREES = CASES // 2
_TREES = 8  # at a time
_ROOM = 9 * _TREES  # nodes
_SECONDS = 300  # at most for one step of a large run


def priority_class(name: str, value: int) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


CLASSES = [priority_class(*item) for item in PRIORITY_CLASSES.items()]


@pytest.mark.usefixtures("kai", "training_operator", "kwok")
def test_what_never_starts_is_what_kai_refuses(bed: Bed) -> None:
    """F-047: a job beyond a limit, one that is not preemptible beyond a quota, its queue's or one above, and in a root."""
    bed.apply(*CLASSES)
    for number in range(3 * _BATCH):  # room for all of a batch: what waits, waits for its queue
        bed.node(f"{POOL}-{number}", POOL)
    bed.wait(lambda: bed.ready_nodes(POOL) == 3 * _BATCH, "the nodes are ready")
    cases = [case(seed, POOL) for seed in range(CASES)]
    wrong: list[str] = []
    for first in range(0, CASES, _BATCH):
        batch = cases[first : first + _BATCH]
        bed.apply(*(body for one in batch for body in (one.parent, one.queue, one.job)))
        names = [one.name for one in batch]
        wait_until(partial(are_decided, bed, names), "KAI placed or refused every job", seconds=_SECONDS)
        wrong += [line for one in batch for line in differences(bed, one)]
        for one in batch:
            bed.delete(f"/apis/kubeflow.org/v1/namespaces/{one.name}/pytorchjobs/train", propagationPolicy="Background")
        wait_until(partial(are_gone, bed, names), "the pods are gone", seconds=_SECONDS)
    ours = [bool(verdicts(one)) for one in cases]
    print(f"{CASES} jobs, {ours.count(True)} never start")  # noqa: T201 - the figures of a large run
    assert not wrong, "\n".join(wrong)
    assert ours.count(True) > CASES / 5 < ours.count(False), "the cases are worth it"


def verdicts(one: Case) -> list[str]:
    found = evaluate(BUILT_IN, rows([one.parent, one.queue, one.job, *CLASSES]), Cluster(name="main"), None, {})
    return [one.message for one in found if one.rule in RULES]


def differences(bed: Bed, one: Case) -> list[str]:
    starts, messages = bool(bed.bound(one.name)), verdicts(one)
    if starts is not bool(messages):
        return []
    labels, replicas = one.job["metadata"]["labels"], one.job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]
    shares = [body["spec"]["resources"]["gpu"] for body in (one.parent, one.queue)]
    elastic = one.job["spec"].get("elasticPolicy")
    ours = messages or "it starts"
    return [f"{one.name}: {replicas} x 8 GPUs {elastic} {labels}, {shares}: we say {ours}, KAI starts it: {starts}"]


@pytest.mark.usefixtures("kai", "training_operator", "kwok")
def test_guarantees_beyond_those_of_the_parent_are_not_kept(bed: Bed) -> None:
    """F-040: where children are guaranteed more than their parent, a job of a child's whole guarantee waits forever."""
    pool = f"{POOL}-trees"
    for number in range(_ROOM):
        bed.node(f"{pool}-{number}", pool)
    bed.wait(lambda: bed.ready_nodes(pool) == _ROOM, "the nodes are ready")
    trees = [tree(seed, pool) for seed in range(TREES)]
    kept: list[bool] = []
    for first in range(0, TREES, _TREES):
        batch = trees[first : first + _TREES]
        bed.apply(*(body for one in batch for body in (one.parent, *one.children, *one.jobs)))
        names = [job["metadata"]["namespace"] for one in batch for job in one.jobs]
        wait_until(partial(are_decided, bed, names), "every job is decided", seconds=_SECONDS)
        kept += [all(bed.bound(job["metadata"]["namespace"]) for job in one.jobs) for one in batch]
        for name in names:
            bed.delete(f"/apis/kubeflow.org/v1/namespaces/{name}/pytorchjobs/train", propagationPolicy="Background")
        wait_until(partial(are_gone, bed, names), "the pods are gone", seconds=_SECONDS)
    ours = [not overcommitted(one) for one in trees]
    print(f"{TREES} trees, {ours.count(False)} guarantee too much")  # noqa: T201 - the figures of a large run
    assert [one.name for one, ok, said in zip(trees, kept, ours, strict=True) if ok is not said] == []
    assert True in ours
    assert False in ours


def are_decided(bed: Bed, names: Sequence[str]) -> bool:
    """Whether KAI has placed a pod in each namespace, or refused all; one list, as many requests would keep it waiting."""
    found = pods_of(bed, names)
    return all(any(pod["spec"].get("nodeName") for pod in pods) or are_refused(pods) for pods in found.values())


def are_gone(bed: Bed, names: Sequence[str]) -> bool:
    return not any(pods_of(bed, names).values())


def pods_of(bed: Bed, names: Sequence[str]) -> dict[str, list[Body]]:
    found: dict[str, list[Body]] = {name: [] for name in names}
    for pod in bed.get("/api/v1/pods")["items"]:
        if pod["metadata"]["namespace"] in found:
            found[pod["metadata"]["namespace"]].append(pod)
    return found


def overcommitted(one: Tree) -> bool:
    found = evaluate(BUILT_IN, rows([one.parent, *one.children]), Cluster(name="main"), None, {})
    return any(verdict.rule == "quota.children" for verdict in found)
