"""Measure the forecast of admission: `python -m benchmarks.forecast`, a part of `make bench`.

First: 1,000 waiting workloads on 300 ClusterQueues in 30 cohorts, where 1,000 others run, and the same with fair
sharing, beside the least that has to be done: to sort what waits and to add up what runs. Then waiting times: tasks of
the openb trace against the band of those of their queue in the week before. Half of them should be below its lower end
(p50), four of ten inside, one of ten above (p90).
"""

import csv
import gzip
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from reconciler.queues.forecast.kueue import forecast
from reconciler.queues.forecast.values import (
    AdmissionPolicies,
    CellLimits,
    FairSharing,
    FlavorGroup,
    HeldQuota,
    PodSetAsk,
    QueuedWorkload,
    QueueNodeSpec,
)

QUEUES, COHORTS, WAITING, RUNNING = 300, 30, 1000, 1000
_CELLS = ("h100", "nvidia.com/gpu"), ("a100", "nvidia.com/gpu")
_TRACE = Path(__file__).parent / "placement" / "data" / "openb_pod_list_default.csv.gz"
_WEEK = 7 * 86400
_LEAST = 20  # samples of a band
_RUNS = 3
World = tuple[list[QueueNodeSpec], list[QueueNodeSpec], list[QueuedWorkload]]


def world(seed: int = 1) -> World:
    """Return cohorts, queues and workloads: most queues are full, some borrow, and a third of them may preempt."""
    random = Random(seed)
    cohorts = [QueueNodeSpec(name=f"c{number}", limits={}) for number in range(COHORTS)]
    queues = [
        QueueNodeSpec(
            name=f"q{number}",
            parent=f"c{number % COHORTS}",
            limits={cell: CellLimits(random.choice((8, 16, 32))) for cell in _CELLS},
            groups=(FlavorGroup(frozenset(("nvidia.com/gpu",)), ("h100", "a100")),),
            policies=AdmissionPolicies(within="LowerPriority", reclaim="Any", is_strict=number % 3 == 0),
        )
        for number in range(QUEUES)
    ]
    workloads = []
    for number in range(WAITING + RUNNING):
        gpus, pods = random.choice((1, 2, 4, 8)), random.choice((1, 2, 4))
        runs = number < RUNNING
        usage = ((random.choice(_CELLS), gpus * pods),)
        workloads.append(
            QueuedWorkload(
                name=f"w{number}",
                queue=f"q{random.randrange(QUEUES)}",
                priority=random.choice((0, 0, 100)),
                created=float(number),
                sets=(PodSetAsk("main", pods, (("nvidia.com/gpu", gpus),)),),
                running=HeldQuota(usage, float(number)) if runs else None,
            )
        )
    return cohorts, queues, workloads


def floor(found: World) -> int:
    """Do the least: put what waits in order, and add up what runs by queue and cell."""
    _, _, workloads = found
    order = sorted((one.order, one.name) for one in workloads if one.running is None)
    totals: dict[tuple[str, tuple[str, str]], int] = {}
    for one in workloads:
        for cell, amount in one.running.usage if one.running is not None else ():
            totals[one.queue, cell] = totals.get((one.queue, cell), 0) + amount
    return len(order) + len(totals)


def seconds(action: Callable[[], object]) -> float:
    """Return the median processor time of an action."""
    times = []
    for _ in range(_RUNS):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return statistics.median(times)


def waits() -> list[tuple[str, float, float]]:
    """Return the tasks of the trace with GPUs: a queue by class and number of GPUs, creation, and waiting time."""
    with gzip.open(_TRACE, "rt", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["scheduled_time"] and int(row["num_gpu"])]
    found = (
        (f"{row['qos']}/{row['num_gpu']}", float(row["creation_time"]), float(row["scheduled_time"])) for row in rows
    )
    return sorted(((queue, created, max(0.0, started - created)) for queue, created, started in found), key=_created)


def _created(one: tuple[str, float, float]) -> float:
    return one[1]


def back_test(tasks: Sequence[tuple[str, float, float]]) -> dict[str, int]:
    """Count the tasks of the later half: below, inside or above the band of their queue in the week before."""
    counts = dict.fromkeys(("below", "inside", "above", "no band"), 0)
    by_queue: dict[str, list[tuple[float, float]]] = {}
    for index, (queue, created, waited) in enumerate(tasks):
        earlier = by_queue.setdefault(queue, [])
        if index >= len(tasks) // 2:
            known = earlier[bisect_left(earlier, (created - _WEEK, 0.0)) :]
            ended = sorted(wait for moment, wait in known if moment + wait <= created)
            if len(ended) < _LEAST:
                counts["no band"] += 1
            else:
                low, high = (ended[min(len(ended) - 1, int(len(ended) * share))] for share in (0.5, 0.9))
                counts["below" if waited < low else "above" if waited > high else "inside"] += 1
        earlier.append((created, waited))
    return counts


def main() -> None:
    """Print all figures."""
    found = world()
    least = seconds(lambda: floor(found))
    for name, fair in (("classical", None), ("fair sharing", FairSharing())):
        outcome = forecast(*found, fairness=fair)
        taken = seconds(lambda fair=fair: forecast(*found, fairness=fair))  # type: ignore[misc]
        print(
            f"{name}: {WAITING} workloads on {QUEUES} queues in {taken:.2f} s, {taken / least:.0f} times the least"
            f" ({least * 1000:.1f} ms): {len(outcome.admitted)} start, {len(outcome.preempted)} are preempted"
        )
    tasks = waits()
    counts = back_test(tasks)
    banded = sum(counts.values()) - counts["no band"]
    shares = ", ".join(f"{counts[name] / banded:.1%} {name}" for name in ("below", "inside", "above"))
    print(f"openb: {len(tasks)} tasks with GPUs, {banded} of the later half with a band (p50 to p90): {shares}")


if __name__ == "__main__":
    main()
