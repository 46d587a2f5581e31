"""Random pairs of KAI's queues with one job each: quotas, limits, priorities, preemptibility, elastic gangs."""

from random import Random
from typing import Any, NamedTuple

from tests.cluster.bed.bed import GPU

Body = dict[str, Any]

PRIORITY_CLASSES = {"kai-test-99": 99, "kai-test-100": 100}
_CLASSES = ("", "train", "build", "inference", "no-such-class", *PRIORITY_CLASSES)
_SAID = ("", "", "", "preemptible", "non-preemptible", "Preemptible")
_ROOTS = 0.1  # of the jobs are in the queue without a parent
_AMOUNTS = (-1, 0, 8, 16, 24)


class Case(NamedTuple):
    """A job in a namespace of its own, the queue that it names, and the queue above that one."""

    name: str
    parent: Body
    queue: Body
    job: Body


def case(seed: int, pool: str) -> Case:
    """Return the case of a seed: its job needs no more than the nodes of the pool have."""
    random, name = Random(seed), f"{pool}-{seed}"  # noqa: S311 - no secret
    parent, queue = (_queue(random, f"{name}{suffix}", above) for suffix, above in (("-top", ""), ("", f"{name}-top")))
    named = f"{name}-top" if random.random() < _ROOTS else name
    return Case(name, parent, queue, _job(random, name, named, pool))


class Tree(NamedTuple):
    """A queue with children, and in each child a job of all that the child is guaranteed, which KAI never preempts."""

    name: str
    parent: Body
    children: tuple[Body, ...]
    jobs: tuple[Body, ...]


def tree(seed: int, pool: str) -> Tree:
    """Return the tree of a seed: its children are guaranteed at most 9 nodes of 8 GPUs together."""
    random, name = Random(seed), f"{pool}-tree-{seed}"  # noqa: S311 - no secret
    quotas = [random.choice((8, 16, 24)) for _ in range(random.choice((2, 3)))]
    total = sum(quotas)
    guaranteed = random.choice((-1, total, total + 8, total - 8, total - 8, max(quotas), min(quotas)))
    parent = _guaranteed(name, guaranteed, "")
    names = [f"{name}-{index}" for index in range(len(quotas))]
    return Tree(
        name=name,
        parent=parent,
        children=tuple(_guaranteed(child, quota, name) for child, quota in zip(names, quotas, strict=True)),
        jobs=tuple(_whole_job(child, quota // 8, pool) for child, quota in zip(names, quotas, strict=True)),
    )


def _guaranteed(name: str, quota: int, parent: str) -> Body:
    gpu, free = ({"quota": amount, "limit": -1, "overQuotaWeight": 1} for amount in (quota, -1))
    spec: Body = {"resources": {"gpu": gpu, "cpu": free, "memory": free}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _whole_job(queue: str, nodes: int, pool: str) -> Body:
    labels = {"kai.scheduler/queue": queue, "kai.scheduler/preemptibility": "non-preemptible"}
    return _pytorch_job(queue, labels, nodes, pool)


def _queue(random: Random, name: str, parent: str) -> Body:
    gpu = {"quota": random.choice(_AMOUNTS), "limit": random.choice((-1, -1, *_AMOUNTS)), "overQuotaWeight": 1}
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Body = {"resources": {"gpu": gpu, "cpu": free, "memory": free}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _job(random: Random, name: str, queue: str, pool: str) -> Body:
    labels = {"kai.scheduler/queue": queue}
    chosen, said = random.choice(_CLASSES), random.choice(_SAID)
    if chosen:
        labels["priorityClassName"] = chosen
    if said:
        labels["kai.scheduler/preemptibility"] = said
    nodes = random.choice((1, 2, 3))
    body = _pytorch_job(name, labels, nodes, pool)
    if nodes > 1 and random.random() < 0.3:
        body["spec"]["elasticPolicy"] = {"minReplicas": nodes - 1, "maxReplicas": nodes, "rdzvBackend": "c10d"}
    return body


def _pytorch_job(name: str, labels: Body, nodes: int, pool: str) -> Body:
    resources = {"limits": {GPU: "8"}, "requests": {GPU: "8", "cpu": "1"}}
    pod = {
        "schedulerName": "kai-scheduler",
        "nodeSelector": {"pool": pool},
        "containers": [{"name": "pytorch", "image": "train:1", "resources": resources}],
    }
    worker = {"replicas": nodes, "restartPolicy": "Never", "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec: Body = {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": {"Worker": worker}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": name, "labels": labels},
        "spec": spec,
    }
