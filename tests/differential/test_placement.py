"""Where workloads fit: our forecast against the real kube-scheduler, on random nodes that are partly in use."""

import os
import random
from typing import Any, NamedTuple

import pytest

from tests.cluster.bed.bed import GPU, Bed
from tests.cluster.server import wait_until
from tests.placement.fleets import evidence, job, node, place, used

MIXES = int(os.environ.get("RECONCILER_TEST_PLACEMENTS", "40"))
STRATEGIES = ("least_utilized", "best_fit", "fragmentation")
_SECONDS = 240


class Mix(NamedTuple):
    """Nodes of eight GPUs with those in use, cordoned ones, and a workload of equal pods."""

    pool: str
    used: tuple[int, ...]
    cordoned: frozenset[int]
    pods: int
    gpus: int


def mix(seed: int) -> Mix:
    chance = random.Random(seed)  # noqa: S311 - the same mixes in every run
    nodes = chance.randint(1, 4)
    return Mix(
        pool=f"mix-{seed}",
        used=tuple(chance.choice((0, 0, 1, 2, 4, 6, 7, 8)) for _ in range(nodes)),
        cordoned=frozenset(number for number in range(nodes) if chance.random() < 0.15),
        pods=chance.choice((1, 1, 2, 3, 4)),
        gpus=chance.choice((1, 2, 4, 8)),
    )


def forecast(one: Mix, strategy: str) -> bool:
    """Return whether we say that all pods of the workload fit."""
    nodes = [node(f"n{at}", gpus=8, unschedulable=at in one.cordoned) for at in range(len(one.used))]
    running = [used(f"r{at}", [(f"n{at}", 1)], gpus=gpus) for at, gpus in enumerate(one.used) if gpus]
    found = place(evidence(nodes, running), strategy, job("new", gpus=one.gpus, pods=one.pods))
    (new,) = (placed for placed in found.after.jobs if placed.job.key.name == "new")
    return bool(new.nodes)


def pod(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}}
    container = {"name": "a", "image": "a:1", "resources": resources}
    body = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def decided(one: dict[str, Any]) -> bool | None:
    """Return whether the scheduler placed a pod; None while it has not tried."""
    if one["spec"].get("nodeName"):
        return True
    conditions = one["status"].get("conditions", ())
    tried = any((row["type"], row.get("reason")) == ("PodScheduled", "Unschedulable") for row in conditions)
    return False if tried else None


@pytest.mark.usefixtures("kwok", "scheduler")
def test_what_fits_is_what_the_scheduler_places(bed: Bed) -> None:
    """AF-24, F-160: no contradiction, by any strategy: equal pods fit or they do not, however they are spread."""
    mixes = [mix(seed) for seed in range(MIXES)]
    space = f"placement-{os.urandom(3).hex()}"
    bed.server.client.ensure_namespaces([space])
    path = f"/api/v1/namespaces/{space}/pods"
    for one in mixes:
        for at in range(len(one.used)):
            bed.node(f"{space}-{one.pool}-{at}", f"{space}-{one.pool}")
    pools = [f"{space}-{one.pool}" for one in mixes]
    bed.wait(
        lambda: all(bed.ready_nodes(pool) == len(one.used) for pool, one in zip(pools, mixes, strict=True)), "nodes"
    )
    for one, pool in zip(mixes, pools, strict=True):
        for at, gpus in enumerate(one.used):
            if gpus:
                bed.create(path, pod(f"{one.pool}-used-{at}", gpus, nodeName=f"{pool}-{at}", restartPolicy="Always"))
        for at in one.cordoned:
            found = bed.server.client.request(
                "PATCH", f"/api/v1/nodes/{pool}-{at}", {"spec": {"unschedulable": True}}, content_type=_MERGE
            )
            assert found.ok, found.body
    for one, pool in zip(mixes, pools, strict=True):
        for number in range(one.pods):
            bed.create(path, pod(f"{one.pool}-new-{number}", one.gpus, nodeSelector={"pool": pool}))

    def answers() -> dict[str, list[bool | None]]:
        seen: dict[str, list[bool | None]] = {one.pool: [] for one in mixes}
        for found in bed.pods(space):
            name, kind, _ = found["metadata"]["name"].rsplit("-", 2)
            if kind == "new":
                seen[name].append(decided(found))
        return seen

    wait_until(
        lambda: not any(None in found for found in answers().values()),
        "the scheduler tried every pod",
        seconds=_SECONDS,
    )
    real = {pool: all(found) for pool, found in answers().items()}
    wrong = [
        f"{one} by {strategy}: {forecast(one, strategy)}, the scheduler {real[one.pool]}"
        for one in mixes
        for strategy in STRATEGIES
        if forecast(one, strategy) is not real[one.pool]
    ]
    print(f"{len(mixes)} mixes, {sum(real.values())} fit")  # noqa: T201 - the figures of a large run
    assert 0 < sum(real.values()) < len(mixes)
    assert not wrong, "\n".join(wrong)


_MERGE = "application/merge-patch+json"
