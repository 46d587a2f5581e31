"""The forecast of admission: what starts and what is preempted, against the schedulers of Kueue and KAI."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from reconciler.queues.flavors import NEWEST, Flavors, Version
from reconciler.queues.forecast.gather import specs, used
from reconciler.queues.forecast.kai import KaiJob, KaiOutcome, KaiQueueSpec, forecast_kai
from reconciler.queues.forecast.kueue import forecast
from reconciler.queues.forecast.values import FairSharing, ForecastOutcome, QueuedWorkload
from reconciler.queues.queues import QueueUsage, usage_by_cluster
from reconciler.repo.evidence.usage import RUNNING, WAITING, Usage, UsedPodSet, UsedWorkload
from tests.cluster.fixtures import Parts
from tests.cluster.parts import KAI_FORECAST, KUEUE_016_FORECAST, KUEUE_FORECAST, Part
from tests.differential.crowds import POOL, Body, Crowd, crowd
from tests.differential.kai_crowds import UNLIMITED, KaiCrowd, kai_crowd

CROWDS = int(os.environ.get("RECONCILER_TEST_CROWDS", "100"))
_MOST_WRONG = {"admitted": 0.01, "preempted": 0.03}
_BATCH = 50  # of one process


class Difference(NamedTuple):
    """Workloads of which we and Kueue say something else."""

    seed: int
    what: str
    names: tuple[str, ...]


@pytest.mark.timeout(300 + 5 * CROWDS)
@pytest.mark.parametrize(
    ("part", "version"), [(KUEUE_FORECAST, NEWEST), (KUEUE_016_FORECAST, (0, 16))], ids=["newest", "0.16"]
)
def test_what_starts_and_what_is_preempted(parts: Parts, part: Part, version: Version) -> None:
    """F-158, AF-24: the same workloads have quota at the end, in the same flavors, and the same ones are preempted."""
    counts: Counter[str] = Counter()
    wrong: list[Difference] = []
    for first in range(0, CROWDS, _BATCH):
        seeds = range(first, min(first + _BATCH, CROWDS))
        made = [crowd(seed) for seed in seeds]
        for seed, one, said in zip(seeds, made, ask_kueue(parts.program(part), made), strict=True):
            if said["crash"]:
                counts["crash"] += 1
                continue
            ours = our_forecast(one, version)
            counts.update(tally(one, said))
            wrong += differences(seed, one, ours, said)
    found = Counter(what for _, what, names in wrong for _ in names)
    print(f"{CROWDS} crowds, {dict(counts)}, wrong: {dict(found)}")  # noqa: T201 - the figures of a large run
    for what, most in _MOST_WRONG.items():
        total = counts["workloads" if what == "admitted" else what]
        assert found[what] <= most * total, "\n".join(map(str, wrong[:20]))
    assert found["flavors"] <= 0.01 * counts["started"], "\n".join(map(str, wrong[:20]))
    assert counts["crash"] * 20 < CROWDS, "Kueue 0.16 crashes on few of them"
    assert counts["preempted"] > CROWDS / 4 < counts["started"], "the crowds are worth it"


def ask_kueue(program: Path, crowds: Sequence[Crowd]) -> list[Body]:
    """Return what the scheduler of Kueue does with crowds."""
    lines = "".join(f"{json.dumps(one.question)}\n" for one in crowds)
    answered = subprocess.run([program], input=lines, capture_output=True, text=True, check=False, timeout=900)
    assert answered.returncode == 0, answered.stderr
    return [json.loads(line) for line in answered.stdout.splitlines()]


def our_forecast(one: Crowd, version: Version) -> ForecastOutcome:
    """Forecast a crowd from its objects, and its workloads as evidence of use."""
    objects = [*one.flavors, *one.cohorts, *one.cluster_queues, *one.local_queues]
    rows = [
        summarize(BUILT_IN, cluster="main", body=body, path=f"{number}", digest="", source=None)
        for number, body in enumerate(objects)
    ]
    usage = usage_by_cluster(rows)["main"]
    found = Usage(cluster="main", observed_at="2026-01-01T00:00:00Z", workloads=tuple(map(as_used, one.workloads)))
    flavors = Flavors(usage, version)
    bodies = {body["metadata"]["name"]: body for body in one.workloads}
    asked = [with_selectors(each, bodies[name.name], usage, flavors) for name, each in used(found, usage)]
    fair = None
    if one.fair is not None:
        strategies = one.fair.get("preemptionStrategies")
        fair = FairSharing(tuple(strategies)) if strategies else FairSharing()
    return forecast(*specs(usage), asked, version, fair)


def as_used(body: Body) -> UsedWorkload:
    """Return a Workload as the evidence of use has it."""
    metadata, spec, status = body["metadata"], body["spec"], body.get("status", {})
    assigned = {each["name"]: each["flavors"] for each in status.get("admission", {}).get("podSetAssignments", ())}
    since = status["conditions"][0]["lastTransitionTime"] if status else ""
    return UsedWorkload(
        api_version="batch/v1",
        kind="Job",
        namespace="ml",
        name=metadata["name"],
        queue=spec["queueName"],
        cluster_queue=spec["queueName"] if status else "",
        priority=spec["priority"],
        state=RUNNING if status else WAITING,
        created_at=metadata["creationTimestamp"],
        admitted_at=since,
        pod_sets=tuple(
            UsedPodSet(
                name=each["name"],
                count=each["count"],
                min_count=each.get("minCount", 0),
                requests=each["template"]["spec"]["containers"][0]["resources"]["requests"],
                flavors=assigned.get(each["name"], {}),
            )
            for each in spec["podSets"]
        ),
    )


def with_selectors(asked: QueuedWorkload, body: Body, usage: QueueUsage, flavors: Flavors) -> QueuedWorkload:
    """Return a workload that does not take flavors of another pool, which the evidence of use does not say."""
    pools = {name: dict(terms.labels)[POOL] for name in usage.flavors if (terms := flavors.terms(name)) is not None}
    sets = []
    for pods, each in zip(asked.sets, body["spec"]["podSets"], strict=True):
        wanted = each["template"]["spec"].get("nodeSelector", {}).get(POOL)
        others = [(name, "labels") for name, pool in pools.items() if wanted and pool != wanted]
        sets.append(pods._replace(excluded=tuple(others)))
    return QueuedWorkload(
        name=body["metadata"]["name"],
        queue=asked.queue,
        priority=asked.priority,
        created=asked.created,
        sets=tuple(sets),
        running=asked.running,
    )


def tally(one: Crowd, said: Body) -> dict[str, int]:
    """Count what Kueue does with a crowd."""
    running = {body["metadata"]["name"] for body in one.workloads if "status" in body}
    return {
        "workloads": len(one.workloads),
        "started": len(said["admitted"].keys() - running),
        "preempted": len(said["preempted"]),
        "endless": int(not said["settled"]),
    }


def differences(seed: int, one: Crowd, ours: ForecastOutcome, said: Body) -> Iterator[Difference]:
    """Yield where we and Kueue differ."""
    running = {body["metadata"]["name"] for body in one.workloads if "status" in body}
    mine = (running - ours.preempted.keys()) | ours.admitted.keys()
    if names := mine ^ said["admitted"].keys():
        yield Difference(seed, "admitted", tuple(sorted(names)))
    if names := ours.preempted.keys() ^ said["preempted"].keys():
        yield Difference(seed, "preempted", tuple(sorted(names)))
    by = {name: each.by for name, each in ours.preempted.items()}
    if names := {name for name in by.keys() & said["preempted"].keys() if by[name] != said["preempted"][name]["by"]}:
        yield Difference(seed, "preemptor", tuple(sorted(names)))
    flavors = {name: list(map(dict, each.flavors)) for name, each in ours.admitted.items()}
    if names := {
        name
        for name in flavors.keys() & said["admitted"].keys()
        if flavors[name] != list(said["admitted"][name].values())
    }:
        yield Difference(seed, "flavors", tuple(sorted(names)))


KAI_CROWDS = int(os.environ.get("RECONCILER_TEST_KAI_CROWDS", "100"))


@pytest.mark.timeout(300 + KAI_CROWDS)
def test_what_kai_starts_and_evicts(parts: Parts) -> None:
    """F-158, AF-24: the same jobs run at the end, and the same ones were evicted, as KAI's own scheduler does it."""
    made = [kai_crowd(seed) for seed in range(KAI_CROWDS)]
    lines = "".join(f"{json.dumps(one.question)}\n" for one in made)
    program = parts.program(KAI_FORECAST)
    answered = subprocess.run([program], input=lines, capture_output=True, text=True, check=False, timeout=900)
    assert answered.returncode == 0, answered.stderr[-2000:]
    answers = [json.loads(line) for line in answered.stdout.splitlines()]
    counts: Counter[str] = Counter()
    wrong: list[Difference] = []
    for seed, (one, said) in enumerate(zip(made, answers, strict=True)):
        ours = our_kai_forecast(one)
        counts.update({"workloads": len(one.jobs), "preempted": len(ours.preempted.keys() | {*said["preempted"]})})
        for what, names in (
            ("running", ours.placed.keys() ^ {*said["running"]}),
            ("preempted", ours.preempted.keys() ^ {*said["preempted"]}),
        ):
            wrong += [Difference(seed, what, tuple(sorted(names)))] if names else []
    found = Counter(what for _, what, names in wrong for _ in names)
    print(f"{KAI_CROWDS} crowds, {dict(counts)}, wrong: {dict(found)}")  # noqa: T201 - the figures of a large run
    assert found["running"] <= 0.01 * counts["workloads"], "\n".join(map(str, wrong[:20]))
    assert found["preempted"] <= max(2, 0.03 * counts["preempted"]), "\n".join(map(str, wrong[:20]))
    assert counts["preempted"] > KAI_CROWDS / 10, "the crowds are worth it"


def our_kai_forecast(one: KaiCrowd) -> KaiOutcome:
    """Forecast a crowd of KAI."""
    queues = [
        KaiQueueSpec(
            name=body["name"],
            parent=body.get("parent", ""),
            quota=body["quota"],
            limit=inf if body["limit"] == UNLIMITED else body["limit"],
            weight=body.get("weight", 1.0),
        )
        for body in (*one.departments, *one.queues)
    ]
    jobs = [
        KaiJob(
            name=body["name"],
            queue=body["queue"],
            pods=body["pods"],
            gpus=body["gpus"],
            priority=body["priority"],
            created=-float(body["age"]),
            is_preemptible=body["priority"] < 100,
            nodes=tuple(body["nodes"]),
        )
        for body in one.jobs
    ]
    return forecast_kai(queues, jobs, one.nodes, lambda _job, _node: True)
