"""The use of GPUs on `/metrics`: what the evidence of each cluster said in the last pass, as long as it is fresh."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.index.build import CompiledRevision
from reconciler.kube.times import unix_time
from reconciler.plan import Plan
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, WAITING, Usage, UsedWorkload
from reconciler.repo.evidence.utilisation import GpuUtilisation
from reconciler.sizing.inventory import Inventory
from reconciler.web.metrics import PREFIX, USE_METRICS, Metrics

_DAY_SECONDS = 86_400
WAIT = "agentaflow_scheduling_duration"
_SINCE = "longest_wait_seconds"


class UseSample(Struct, frozen=True, kw_only=True):
    """One value of a gauge of a cluster, or of a queue in it. taken_at: when evidence of it was taken; None: from Git.

    is_start: the value is a time, and the gauge shows how long ago it was.
    """

    name: str
    value: float
    taken_at: float | None
    queue: str | None = None
    is_start: bool = False


class ClusterUse(Struct, frozen=True, kw_only=True):
    """The known use of a cluster. started: how long each workload waited, by its identity.

    fresh_seconds: how long evidence counts.
    """

    samples: tuple[UseSample, ...] = ()
    started: dict[str, float] = {}
    fresh_seconds: float = _DAY_SECONDS


def use_of(plan: Plan, index: CompiledRevision) -> dict[str, ClusterUse]:
    """Return the use of each cluster with evidence, by cluster.

    Evidence is fresh for `spec.evidence.maxAge`. Without it the use of a cluster is for a day, and its nodes for ever:
    their file is not written again while they stay the same.
    """
    evidence, days = index.context.evidence, index.context.config.evidence_days
    found = {}
    for cluster in (one.name for one in index.clusters):
        usage, use = evidence.usage.get(cluster), evidence.utilisation.get(cluster)
        samples = [
            *_nodes(evidence.inventories.get(cluster), usage, is_limited=days is not None),
            *_workloads(usage),
            *_busy(use),
            *_money(plan, cluster, use),
        ]
        if samples:
            found[cluster] = ClusterUse(
                samples=tuple(samples),
                started=_started(usage),
                fresh_seconds=_DAY_SECONDS * (days or 1),
            )
    return found


def _nodes(inventory: Inventory | None, usage: Usage | None, *, is_limited: bool) -> Iterator[UseSample]:
    if inventory is None:
        return
    taken = unix_time(inventory.taken_at) if is_limited else None
    yield UseSample(name="agentaflow_gpu_total", value=sum(node.gpus for node in inventory.nodes), taken_at=taken)
    if usage is not None:
        held = usage.held_gpus()
        free = sum(max(0, one.allocatable_gpus - held.get(one.name, 0)) for one in inventory.nodes if one.is_open)
        yield UseSample(name="agentaflow_gpu_available", value=free, taken_at=unix_time(usage.observed_at))


def _workloads(usage: Usage | None) -> Iterator[UseSample]:
    if usage is None:
        return
    taken = unix_time(usage.observed_at)
    with_gpus = [one for one in usage.workloads if one.gpus]
    for state, name in ((WAITING, "pending"), (RUNNING, "running")):
        number = sum(one.state == state for one in with_gpus)
        yield UseSample(name=f"agentaflow_workloads_{name}", value=number, taken_at=taken)
    queues: dict[str, list[UsedWorkload]] = {}
    for one in with_gpus:
        queues.setdefault(one.cluster_queue or one.queue, []).append(one)
    for queue, members in sorted(queues.items()):
        held = sum(one.gpus for one in members if one.state in (RUNNING, ADMITTED))
        waiting = [one for one in members if one.state == WAITING]
        wanted = sum(one.gpus for one in waiting)
        yield UseSample(name="gpus_held", value=held, taken_at=taken, queue=queue)
        yield UseSample(name="gpus_wanted", value=wanted, taken_at=taken, queue=queue)
        since = min((unix_time(one.created_at) for one in waiting if one.created_at), default=0.0)
        if since:
            yield UseSample(name=_SINCE, value=since, taken_at=taken, queue=queue, is_start=True)


def _busy(use: GpuUtilisation | None) -> Iterator[UseSample]:
    """Yield how busy GPUs are: those that were measured alone, because the others are not idle."""
    if use is None:
        return
    taken = unix_time(use.taken_at)
    means: list[float] = []
    idle: dict[str, float] = {}
    for workload in use.workloads:
        for pod in workload.pods:
            means += (one.mean for one in pod.busiest())
            shares = pod.idle_shares()
            if shares:
                idle[workload.queue] = idle.get(workload.queue, 0.0) + sum(shares)
    if means:
        yield UseSample(name="agentaflow_gpu_utilization", value=round(sum(means) / len(means), 4), taken_at=taken)
    for queue, gpus in sorted(idle.items()):
        yield UseSample(name="gpus_idle", value=round(gpus, 4), taken_at=taken, queue=queue)


def _money(plan: Plan, cluster: str, use: GpuUtilisation | None) -> Iterator[UseSample]:
    """Yield quotas and costs. They follow from Git, and are as fresh as it is; idle costs are as old as the use."""
    quotas: dict[str, float | None] = {}
    for line in plan.queues:
        if line.cluster == cluster and not line.is_total and not line.is_cohort:
            known = quotas.get(line.queue, 0.0)
            quotas[line.queue] = None if known is None or line.after is None else known + line.after
    for queue, quota in sorted(quotas.items()):
        if quota is not None:
            yield UseSample(name="gpu_quota", value=quota, taken_at=None, queue=queue)
    costs = ((one.queue, one.per_hour_after) for one in plan.costs if one.cluster == cluster)
    idle = ((one.queue, one.per_hour) for one in plan.idle if one.cluster == cluster)
    for queue, money in sorted(_sums(costs).items()):
        yield UseSample(name="gpu_cost_per_hour", value=money, taken_at=None, queue=queue)
    for queue, money in sorted(_sums(idle).items()):
        taken = unix_time(use.taken_at) if use is not None else 0.0
        yield UseSample(name="gpu_idle_cost_per_hour", value=money, taken_at=taken, queue=queue)


def _sums(rows: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return the money of each queue, as far as it is known."""
    total: dict[str, float] = {}
    for queue, money in rows:
        if money is not None:
            total[queue] = total.get(queue, 0.0) + money
    return total


def _started(usage: Usage | None) -> dict[str, float]:
    """Return how long workloads with GPUs waited until their pods ran."""
    found = {}
    for one in usage.workloads if usage is not None else ():
        if one.gpus and one.created_at and one.started_at:
            waited = unix_time(one.started_at) - unix_time(one.created_at)
            if waited >= 0:
                found[f"{one.kind}/{one.namespace}/{one.name}/{one.created_at}"] = waited
    return found


class UseGauges:
    """The use that the last passes of all sources found. Safe to use from any thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: dict[str, Mapping[str, ClusterUse]] = {}
        self._counted: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def take(self, source: str, found: Mapping[str, ClusterUse]) -> None:
        """Keep what a pass found, and count the waits of workloads that started since the last one."""
        with self._lock:
            self._known[source] = found
            for cluster, use in found.items():
                new = use.started.keys() - self._counted.get(cluster, frozenset())
                for identity in sorted(new):
                    for name in (WAIT, f"{WAIT}_seconds"):
                        self._metrics.observe(name, use.started[identity], cluster=cluster)
                self._counted[cluster] = frozenset(use.started)

    def update(self, sources: Collection[str], now: float) -> None:
        """Set the gauges to this moment. What is stale or unknown has no value, which is not a 0."""
        with self._lock:
            self._known = {source: found for source, found in self._known.items() if source in sources}
            rows = [(cluster, use) for found in self._known.values() for cluster, use in found.items()]
        gauges = (metric.name.removeprefix(PREFIX) for metric in USE_METRICS if not metric.buckets)
        values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in gauges}
        for cluster, use in rows:
            for one in use.samples:
                if one.taken_at is None or now - one.taken_at <= use.fresh_seconds:
                    labels = (cluster,) if one.queue is None else (cluster, one.queue)
                    values[one.name][labels] = max(0.0, now - one.value) if one.is_start else one.value
        for name, found in values.items():
            self._metrics.replace(name, found)
