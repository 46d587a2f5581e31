"""`Borrowing`: limits of queues in cohorts. `tests/differential` compares them with Kueue's own."""

from math import inf
from typing import Any

import pytest

from reconciler.kinds.facts import Quota
from reconciler.kinds.kueue import CLUSTER_QUEUE
from reconciler.kinds.registry import BUILT_IN
from reconciler.queues.borrowing import Borrowing, Shortage
from reconciler.queues.queues import QueueKey, QueueUsage, usage_by_cluster
from reconciler.repo.config import Cluster
from tests.plan.plan_cases import KUEUE_QUEUE, Body, cluster_queue, evaluate, flavor, job, local_queue, rows

GPU = "nvidia.com/gpu"
H100 = ("h100", GPU)


def cohort(name: str, parent: str = "", **nominal: Any) -> Body:
    body = cluster_queue(name, nominal) if nominal else {**cluster_queue(name, {}), "spec": {}}
    spec = {**body["spec"], **({"parentName": parent} if parent else {})}
    return {**body, "kind": "Cohort", "spec": spec}


def usage(*bodies: Body) -> QueueUsage:
    return usage_by_cluster(rows([flavor("h100", "H100"), flavor("a100", "A100"), *bodies]))["main"]


def borrowing(*bodies: Body, external: tuple[str, ...] = ()) -> Borrowing:
    return Borrowing(usage(*bodies), Cluster(name="main", external=external))


def largest(name: str, *bodies: Body, external: tuple[str, ...] = ()) -> dict[tuple[str, str], float]:
    return borrowing(*bodies, external=external).largest(QueueKey(*CLUSTER_QUEUE, name))


def limits(*bodies: Body, external: tuple[str, ...] = ()) -> dict[str, float | None]:
    """Return the limits of queues and cohorts, of one product each."""
    found = borrowing(*bodies, external=external)
    quotas = {body["metadata"]["name"]: found.quotas(QueueKey(*body_id(body))) for body in bodies}
    return {name: only.limit for name, (only, *_) in quotas.items()}


def body_id(body: Body) -> tuple[str, str, str]:
    return body["apiVersion"].partition("/")[0], body["kind"], body["metadata"]["name"]


def member(name: str, nominal: int, *, lending: Any = None, **rest: Any) -> Body:
    body = cluster_queue(name, {"h100": nominal}, **{"cohort": "all", **rest})
    if lending is not None:
        body["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = lending
    return body


def test_a_cohort_is_the_limit_of_its_members() -> None:
    assert largest("a", member("a", 8), member("b", 16)) == {H100: 24}
    assert largest("a", member("a", 8, borrowing=4), member("b", 16)) == {H100: 12}
    assert largest("a", member("a", 8), member("b", 16, cohort="")) == {H100: 8}


def test_a_member_lends_up_to_its_lending_limit() -> None:
    queues = [member("a", 8), member("b", 16, lending=4), member("c", 16, lending=0)]
    assert [largest(name, *queues)[H100] for name in "abc"] == [12, 24, 28]


def test_cohorts_are_trees() -> None:
    tree = [cohort("top", h100=32), cohort("all", "top", h100=4), member("a", 8), member("b", 1, cohort="top")]
    assert [largest(name, *tree)[H100] for name in "ab"] == [45, 45]


def test_a_cycle_has_no_limit_of_its_own() -> None:
    assert largest("a", cohort("all", "other"), cohort("other", "all"), member("a", 8)) == {}


def test_members_outside_the_repository_may_lend_anything() -> None:
    elsewhere = ("ClusterQueue/other",)
    assert largest("a", member("a", 8), external=elsewhere) == {H100: inf}
    assert largest("a", member("a", 8, borrowing=4), external=elsewhere) == {H100: 12}
    assert largest("a", member("a", 8, cohort=""), external=elsewhere) == {H100: 8}
    assert limits(member("a", 8), member("b", 8, borrowing=4), external=elsewhere) == {"a": None, "b": 12}


def test_limits_are_what_cohorts_lend_and_never_the_sum_of_the_settings_alone() -> None:
    queues = [member("a", 8), member("b", 16, lending=4), member("c", 1, borrowing=64)]
    assert limits(*queues) == {"a": 8 + 4 + 1, "b": 16 + 8 + 1, "c": 1 + 8 + 4}


def test_the_limit_of_a_cohort_is_what_it_adds_to_the_quotas_of_its_members() -> None:
    tree = [cohort("top", h100=32), cohort("all", "top", h100=4), member("a", 8), member("b", 1, cohort="top")]
    assert limits(*tree) == {"top": 32, "all": 4 + 32 + 1, "a": 45, "b": 45}
    tree[1]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = 2
    assert limits(*tree) == {"top": 32, "all": 4 + 2, "a": 8 + 4 + 2, "b": 45}


def test_flavors_of_one_product_have_one_limit() -> None:
    queue, other = (cluster_queue(name, {"h100": 8, "spot": 2}, cohort="all") for name in ("a", "b"))
    found = borrowing(flavor("spot", "H100"), queue, other).quotas(QueueKey(*CLUSTER_QUEUE, "a"))
    assert found == (Quota("H100", 10, 20),)


def test_queues_in_a_cycle_of_cohorts_get_nothing() -> None:
    assert limits(cohort("all", "other", h100=1), cohort("other", "all", h100=1), member("a", 8))["a"] == 0


def test_deep_trees_need_no_deep_stack() -> None:
    chain = [cohort(f"c{number}", f"c{number + 1}") for number in range(5_000)]
    assert largest("a", *chain, cohort("c5000", h100=3), member("a", 8, cohort="c0")) == {H100: 11}


def messages(*bodies: Body, external: tuple[str, ...] = ()) -> list[str]:
    found = rows([flavor("h100", "H100"), flavor("a100", "A100"), local_queue("l", "q"), *bodies])
    verdicts = evaluate(BUILT_IN, found, Cluster(name="main", external=external), None, {})
    return [verdict.message for verdict in verdicts if verdict.rule == "quota.queue-limit"]


def queued(*, amd: bool = False, **rest: Any) -> Body:
    body = job(queue="l", label=KUEUE_QUEUE, **rest)
    if amd:
        body["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": 8}
    return body


@pytest.mark.parametrize(
    ("queue", "workload", "words"),
    [
        (cluster_queue("q", {"h100": 8}), queued(), "requests 16 H100 GPUs, but the limit of queue q is 8"),
        (cluster_queue("q", {"h100": 64}), queued(amd=True), "requests amd.com/gpu, but queue q grants none"),
        (cluster_queue("q", {}), queued(), "requests nvidia.com/gpu, but queue q grants none"),
        (
            cluster_queue("q", {"h100": 8, "a100": 12}),
            queued(),
            "requests 16 A100 GPUs in pods that share a flavor, but flavor a100 of queue q has at most 12",
        ),
        (
            cluster_queue("q", {"h100": 64}),
            queued(product="A100"),
            "requires node labels that no flavor of queue q has (h100)",
        ),
        (cluster_queue("q", {"h100": 16}), queued(), None),
        (cluster_queue("q", {"a100": 8, "h100": 16}), queued(), None),
        (cluster_queue("q", {"h100": "15.5"}), queued(), None),
    ],
)
def test_a_workload_that_its_queue_never_admits(queue: Body, workload: Body, words: str | None) -> None:
    """F-047: an AMD quota serves no NVIDIA job, and pods of one template take one flavor."""
    assert messages(queue, workload) == ([words] if words else [])


def test_a_cohort_with_members_elsewhere_bounds_nothing() -> None:
    queue = cluster_queue("q", {"h100": 8}, cohort="all")
    assert messages(queue, queued()) == ["requests 16 H100 GPUs, but the limit of queue q is 8"]
    assert messages(queue, queued(), external=("ClusterQueue/other",)) == []


def test_pods_of_several_templates_share_a_flavor() -> None:
    """The second template finds what the first left."""
    limits = {"limits": {GPU: 8}}
    templates = [
        {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "resources": limits}]}}}
        for _ in range(2)
    ]
    replicas = dict(zip(("Master", "Worker"), templates, strict=True))
    metadata = {"name": "train", "namespace": "ml", "labels": {KUEUE_QUEUE: "l"}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata}
    (message,) = messages(cluster_queue("q", {"h100": 12}), {**body, "spec": {"pytorchReplicaSpecs": replicas}})
    assert message.endswith("flavor h100 of queue q has at most 12, of which other pods of the workload take 8")


def copies(kind: str, replicas: int, **spec: Any) -> Body:
    api = "leaderworkerset.x-k8s.io/v1" if kind == "LeaderWorkerSet" else "apps/v1"
    metadata = {"name": "serve", "namespace": "ml", "labels": {KUEUE_QUEUE: "l"}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {"replicas": replicas, **spec}}


_POD = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: 1}}}]}}
_HAS_8 = "flavor h100 of queue q has at most 8"
_GROUP = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": _POD}}


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (copies("Deployment", 16, template=_POD), []),
        (
            copies("Deployment", 17, template=_POD),
            [f"requests 1 H100 GPU 17 times, but {_HAS_8}, of which other pods of the workload take 8"],
        ),
        (copies("LeaderWorkerSet", 4, **_GROUP), []),
        (
            copies("StatefulSet", 16, template=_POD),
            [f"requests 16 H100 GPUs in pods that share a flavor, but {_HAS_8}"],
        ),
    ],
)
def test_each_pod_of_a_deployment_and_each_group_is_a_workload(workload: Body, words: list[str]) -> None:
    assert messages(cluster_queue("q", {"h100": 8, "a100": 8}), workload) == words


def test_a_shortage_names_the_flavor_that_misses_least() -> None:
    known = usage(cluster_queue("q", {"h100": 8, "a100": 12}), local_queue("l", "q"))
    (row,) = rows([queued()])
    found = Borrowing(known, Cluster(name="main")).shortage(QueueKey(*CLUSTER_QUEUE, "q"), row.pod_requests)
    assert found == Shortage(GPU, 16, "a100", 12)
