"""The sums of a cluster: nodes, GPUs and workloads, as AgentaFlow's scheduler counted them."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from reconciler.kinds.progress import Phase
from reconciler.live.status.capacity import NodeCapacity
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, WAITING, Usage

_PENDING = frozenset({Phase.PENDING, Phase.QUEUED, Phase.SYNCING, Phase.STARTING, Phase.PREEMPTED, Phase.SUSPENDED})


class WorkloadCounts(Struct, frozen=True, kw_only=True):
    """Workloads by how far they are; None: not known."""

    pending: int | None = None
    running: int | None = None
    completed: int | None = None


class ClusterSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """The sums of a cluster, or of several; None: not known, which is never 0.

    Utilisation is in percent, and that of the GPUs of which it is known: `measured_gpus`.
    """

    total_nodes: int | None = None
    active_nodes: int | None = None
    total_gpus: int | None = field(default=None, name="totalGPUs")
    available_gpus: int | None = field(default=None, name="availableGPUs")
    utilized_gpus: int | None = field(default=None, name="utilizedGPUs")
    measured_gpus: int | None = field(default=None, name="measuredGPUs")
    average_utilization: float | None = None
    memory_utilization: float | None = None
    pending_workloads: int | None = None
    running_workloads: int | None = None
    completed_workloads: int | None = None
    last_update_time: str | None = None


def counts_of_phases(phases: Iterable[Phase]) -> WorkloadCounts:
    """Count jobs of a live cluster."""
    found = list(phases)
    return WorkloadCounts(
        pending=sum(phase in _PENDING for phase in found),
        running=found.count(Phase.RUNNING),
        completed=found.count(Phase.SUCCEEDED),
    )


def counts_of_usage(usage: Usage | None, completed: int | None) -> WorkloadCounts:
    """Count workloads of recorded evidence. completed: jobs whose end is recorded."""
    if usage is None:
        return WorkloadCounts(completed=completed)
    states = [one.state for one in usage.workloads]
    return WorkloadCounts(
        pending=states.count(WAITING) + states.count(ADMITTED), running=states.count(RUNNING), completed=completed
    )


def summarize_nodes(
    nodes: Sequence[NodeCapacity] | None, workloads: WorkloadCounts, moment: str | None
) -> ClusterSummary:
    """Return the sums of nodes and workloads; nodes is None if they could not be read."""
    counted: dict[str, Any] = {
        "pending_workloads": workloads.pending,
        "running_workloads": workloads.running,
        "completed_workloads": workloads.completed,
        "last_update_time": moment,
    }
    if nodes is None:
        return ClusterSummary(**counted)
    used = [node.used_gpus for node in nodes]
    free = [max(node.gpus - node.used_gpus, 0) for node in nodes if node.is_open and node.used_gpus is not None]
    loads = [node.load for node in nodes if node.load is not None]
    measured = sum(load.gpus for load in loads)
    memories = [(load.used_mib, load.total_mib) for load in loads if load.used_mib is not None and load.total_mib]
    return ClusterSummary(
        total_nodes=len(nodes),
        active_nodes=sum(node.is_open for node in nodes),
        total_gpus=sum(node.gpus for node in nodes),
        available_gpus=None if None in used else sum(free),
        utilized_gpus=None if None in used else sum(number for number in used if number is not None),
        measured_gpus=measured,
        average_utilization=sum(load.percent * load.gpus for load in loads) / measured if measured else None,
        memory_utilization=100 * sum(one for one, _ in memories) / sum(all_ or 0 for _, all_ in memories)
        if memories
        else None,
        **counted,
    )


def total(summaries: Sequence[ClusterSummary]) -> ClusterSummary:
    """Return the sums of several clusters: what is not known of one is not known of all."""
    if len(summaries) == 1:
        return summaries[0]
    sums = (
        *("total_nodes", "active_nodes", "total_gpus", "available_gpus", "utilized_gpus", "measured_gpus"),
        *("pending_workloads", "running_workloads", "completed_workloads"),
    )
    found: dict[str, Any] = {name: _sum([getattr(one, name) for one in summaries]) for name in sums}
    moments = [one.last_update_time for one in summaries]
    known = [one for one in moments if one is not None]
    return ClusterSummary(
        **found,
        average_utilization=_weighted(summaries, "average_utilization"),
        memory_utilization=_weighted(summaries, "memory_utilization"),
        last_update_time=min(known) if len(known) == len(moments) and known else None,
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _weighted(summaries: Sequence[ClusterSummary], name: str) -> float | None:
    """Return a mean over clusters by their measured GPUs."""
    values = [(getattr(one, name), one.measured_gpus or 0) for one in summaries]
    known = [(value, gpus) for value, gpus in values if value is not None and gpus]
    return sum(value * gpus for value, gpus in known) / sum(gpus for _, gpus in known) if known else None
