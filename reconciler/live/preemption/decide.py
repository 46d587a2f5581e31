"""Decide which workloads are suspended, so that a waiting one starts: all that it needs, or none.

A workload may be suspended that is idle, or that has run for its duration.

What is not known is never idle: a missing, thin, stale or contradictory window is Unknown, with its reason.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from reconciler.kinds.preemption import (
    Aggregation,
    IdleRules,
    PreemptionBudgets,
    PreemptionMode,
    PreemptionPolicy,
    Pressure,
)
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.live.observe.prometheus import AMD, ENGINE, UTIL
from reconciler.repo.evidence.utilisation import (
    GpuPod,
    GpuUtilisation,
    GpuWindow,
    GpuWorkload,
    WaitingPods,
    WaitingWorkload,
)
from reconciler.sizing.inventory import Inventory, Node

COVERAGE = 0.9
_DAY_SECONDS = 86400
_FULL = 100.0
_MINUTE = 60
_WANTED: Mapping[str, tuple[str, ...]] = {"amd.com/gpu": (AMD,), "nvidia.com/gpu": (ENGINE, UTIL)}
"""The metrics that have to be there, and to agree, by resource."""


class Activity(StrEnum):
    """The use of a workload, as far as it is known."""

    ACTIVE = "Active"
    IDLE = "Idle"
    EXPIRED = "Expired"
    UNKNOWN = "Unknown"


_PREEMPTABLE = frozenset({Activity.IDLE, Activity.EXPIRED})


class Use(Struct, frozen=True, kw_only=True):
    """The use of one workload: its utilisation in percent, if known, and why it counts as it does."""

    activity: Activity
    reason: str
    percent: float | None = None


class PreemptionCandidate(Struct, frozen=True, kw_only=True):
    """A workload with its rules: those of its policy, KaiwoConfig, its namespace and its own annotations."""

    workload: GpuWorkload
    rules: IdleRules
    policy: PreemptionPolicy


class WorkloadVerdict(Struct, frozen=True, kw_only=True):
    """The decision about one workload. `wanted_for`: who gets its GPUs; None and suspended: policy Always.

    exceeded: the budget that its suspension exceeds, so that people decide; empty if none.
    """

    candidate: PreemptionCandidate
    use: Use
    is_suspended: bool
    reason: str
    wanted_for: ObjectKey | None = None
    exceeded: str = ""


class DemandVerdict(Struct, frozen=True, kw_only=True):
    """The decision about one waiting workload: whether suspensions let it start, and why not."""

    waiting: WaitingWorkload
    is_served: bool
    reason: str


class PreemptionDecision(Struct, frozen=True, kw_only=True):
    """The decisions about a cluster, in order."""

    workloads: tuple[WorkloadVerdict, ...]
    demands: tuple[DemandVerdict, ...]


class PreemptionInput(Struct, frozen=True, kw_only=True):
    """The facts of a decision. spent: GPUs that a policy suspended before, as (name, time, GPUs)."""

    utilisation: GpuUtilisation
    inventory: Inventory | None
    candidates: tuple[PreemptionCandidate, ...]
    now: dt.datetime
    spent: tuple[tuple[str, dt.datetime, int], ...] = ()


class _PreemptionState(Struct, kw_only=True, eq=False):
    """Decisions so far: the workloads that are chosen, for whom, why others were not, and the room that there is.

    exceeded: the chosen ones that people decide about, with the budget. free: GPUs by node.
    quota: GPUs by queue and resource that suspensions gave back, less those that were granted.
    """

    free: dict[str, int]
    chosen: dict[ObjectKey, ObjectKey | None] = field(default_factory=dict)
    exceeded: dict[ObjectKey, str] = field(default_factory=dict)
    refused: dict[ObjectKey, str] = field(default_factory=dict)
    quota: dict[tuple[str, str], int] = field(default_factory=dict)


def decide(given: PreemptionInput) -> PreemptionDecision:
    """Return what is suspended for whom. The same input gives the same decision."""
    uses = {one.workload.key: use_of(one, given) for one in given.candidates}
    state = _PreemptionState(free=_free(given))
    free = [one for one in given.candidates if uses[one.workload.key].activity in _PREEMPTABLE]
    state.refused |= {
        one.workload.key: reason for one in free if (reason := _protection(one, uses[one.workload.key], given))
    }
    allowed = _in_order((one for one in free if one.workload.key not in state.refused), uses)
    for one in allowed:
        if one.rules.pressure is Pressure.ALWAYS and uses[one.workload.key].activity is Activity.IDLE:
            _choose(state, given, [one], None)
    waiting = sorted(given.utilisation.waiting, key=lambda one: (one.since, one.key))
    demands = tuple(_serve(one, allowed, given, state) for one in waiting)
    verdicts = tuple(_verdict(one, uses[one.workload.key], state) for one in given.candidates)
    return PreemptionDecision(workloads=verdicts, demands=demands)


# --- use ---------------------------------------------------------------------------------------------------------


def use_of(candidate: PreemptionCandidate, given: PreemptionInput) -> Use:
    """Return the use of a workload; whatever is missing or contradictory makes it Unknown."""
    workload, rules = candidate.workload, candidate.rules
    reason = _unseen(candidate, given)
    if not reason and (expired := _expired(candidate, given)):
        return Use(activity=Activity.EXPIRED, reason=expired)
    reason = reason or _unknown(candidate, given)
    if reason:
        return Use(activity=Activity.UNKNOWN, reason=reason)
    values: dict[str, float] = {}
    metrics = _WANTED[workload.resource]
    for metric in metrics:
        pods = [_pod_percent(pod, metric) for pod in workload.pods]
        values[metric] = round(_aggregated(rules.aggregation, pods), 2)
    is_idle = {metric: value < rules.threshold for metric, value in values.items()}
    shown = ", ".join(f"{metric} {value:g} %" for metric, value in values.items())
    if len(set(is_idle.values())) > 1:
        return Use(activity=Activity.UNKNOWN, reason=f"the metrics contradict each other: {shown}")
    length = plural(given.utilisation.window_seconds // 60, "minute")
    if all(is_idle.values()):
        reason = f"{shown} in {length}, below {rules.threshold:g} %"
        return Use(activity=Activity.IDLE, reason=reason, percent=max(values.values()))
    return Use(activity=Activity.ACTIVE, reason=f"{shown} in {length}", percent=max(values.values()))


def _unseen(candidate: PreemptionCandidate, given: PreemptionInput) -> str:
    """Return why nothing at all is known of a workload; empty if it was seen to run."""
    workload = candidate.workload
    age = (given.now - dt.datetime.fromisoformat(given.utilisation.taken_at)).total_seconds()
    if not 0 <= age <= candidate.policy.max_age_seconds:
        when = "in the future" if age < 0 else f"{age / _MINUTE:.0f} minutes old"
        return f"the evidence is {when}"
    if workload.notes:
        return workload.notes[0]
    if not workload.pods:
        return "no pod is known"
    return "" if workload.started_at else "none of its pods runs yet"


def _expired(candidate: PreemptionCandidate, given: PreemptionInput) -> str:
    """Return that a workload has run for its duration, since its first pod runs; empty if it has none, or time left."""
    duration, ran = candidate.rules.duration_seconds, _ran(candidate, given)
    if duration is None or ran < duration:
        return ""
    return f"it runs for {ran / _MINUTE:.0f} minutes, and its duration is {duration / _MINUTE:.0f}"


def _ran(candidate: PreemptionCandidate, given: PreemptionInput) -> float:
    return (given.now - dt.datetime.fromisoformat(candidate.workload.started_at)).total_seconds()


def _unknown(candidate: PreemptionCandidate, given: PreemptionInput) -> str:
    """Return why it is not known how busy a workload is; empty if its windows are complete."""
    workload, rules = candidate.workload, candidate.rules
    if given.utilisation.window_seconds < rules.grace_seconds:
        return f"the window of {given.utilisation.window_seconds} s is shorter than gracePeriod"
    if workload.resource not in _WANTED:
        return f"there is no metric for {workload.resource}"
    return next(filter(None, (_unmeasured(pod, _WANTED[workload.resource]) for pod in workload.pods)), "")


def _unmeasured(pod: GpuPod, metrics: Sequence[str]) -> str:
    for metric in metrics:
        windows = [one for one in pod.windows if one.metric == metric]
        if len(windows) != pod.gpus or len({one.gpu for one in windows}) != pod.gpus:
            return f"pod {pod.name}: {metric} is known of {len(windows)} of {plural(pod.gpus, 'GPU')}"
        wrong = next(filter(None, map(_wrong, windows)), "")
        if wrong:
            return f"pod {pod.name}: {wrong}"
    return ""


def _wrong(window: GpuWindow) -> str:
    if window.samples < COVERAGE * window.expected:
        share = window.samples / window.expected if window.expected else 0
        return f"GPU {window.gpu}: {window.metric} has {share:.0%} of the samples, at least {COVERAGE:.0%} are needed"
    if not 0 <= window.mean <= window.max <= _FULL:
        return f"GPU {window.gpu}: {window.metric} is contradictory: mean {window.mean:g}, highest {window.max:g} %"
    return ""


def _pod_percent(pod: GpuPod, metric: str) -> float:
    """Return the mean over the GPUs of a pod of the highest value of each: one busy moment of a GPU counts."""
    values = [one.max for one in pod.windows if one.metric == metric]
    return sum(values) / len(values)


def _aggregated(aggregation: Aggregation, pods: Sequence[float]) -> float:
    match aggregation:
        case Aggregation.MIN:
            return min(pods)
        case Aggregation.MAX:
            return max(pods)
        case _:
            return sum(pods) / len(pods)


# --- limits ------------------------------------------------------------------------------------------------------


def _protection(candidate: PreemptionCandidate, use: Use, given: PreemptionInput) -> str:
    """Return why a workload stays, whoever waits; empty if it may be suspended."""
    workload, budgets = candidate.workload, candidate.policy.budgets
    if candidate.rules.is_enabled is False:
        return 'gpu-preemption.enabled is "false"'
    if use.activity is Activity.IDLE and not (candidate.policy.is_selecting or candidate.rules.is_enabled):
        return "its duration is not over, and nothing selects it while it is idle"
    if budgets.protected_priority is not None and workload.priority >= budgets.protected_priority:
        return f"priority {workload.priority} is protected"
    ran = _ran(candidate, given)
    if ran < budgets.min_age_seconds:
        return f"it runs for {ran / _MINUTE:.0f} minutes, less than minAge"
    return ""


def _over_budget(given: PreemptionInput, state: _PreemptionState, wanted: Iterable[PreemptionCandidate]) -> str:
    """Return the budget that further suspensions would exceed; empty if none."""
    chosen = [one for one in given.candidates if one.workload.key in state.chosen.keys() - state.exceeded.keys()]
    everybody = [*chosen, *(one for one in wanted if one.workload.key not in state.chosen)]
    running = sum(one.gpus for one in given.utilisation.workloads)
    for name in sorted({one.policy.name for one in everybody}):
        own = [one for one in everybody if one.policy.name == name]
        budgets: PreemptionBudgets = own[0].policy.budgets
        gpus = sum(one.workload.gpus for one in own)
        if gpus > budgets.share_of_running * running:
            return f"{gpus} of {running} running GPUs exceed shareOfRunning {budgets.share_of_running:g} of {name}"
        past = sum(
            count
            for policy, when, count in given.spent
            if policy == name and 0 <= (given.now - when).total_seconds() < _DAY_SECONDS
        )
        if budgets.gpus_per_day is not None and past + gpus > budgets.gpus_per_day:
            return f"{past + gpus} GPUs within 24 hours exceed gpusPerDay {budgets.gpus_per_day} of {name}"
    return ""


def _choose(
    state: _PreemptionState, given: PreemptionInput, wanted: Sequence[PreemptionCandidate], demand: ObjectKey | None
) -> str:
    """Choose workloads together, unless that exceeds a budget; return the budget.

    Where all of their policies enforce, a budget limits what is done without people: they are chosen, and noted.
    """
    exceeded = _over_budget(given, state, wanted)
    if exceeded and not all(one.policy.mode is PreemptionMode.ENFORCE for one in wanted):
        for one in wanted:
            state.refused.setdefault(one.workload.key, exceeded)
        return exceeded
    for one in wanted:
        state.chosen[one.workload.key] = demand
        if exceeded:
            state.exceeded[one.workload.key] = exceeded
        state.free = _with_freed(state.free, [one])
        queue = (one.workload.queue, one.workload.resource)
        state.quota[queue] = state.quota.get(queue, 0) + one.workload.gpus
    return ""


# --- demand ------------------------------------------------------------------------------------------------------


def _serve(
    demand: WaitingWorkload, allowed: Sequence[PreemptionCandidate], given: PreemptionInput, state: _PreemptionState
) -> DemandVerdict:
    """Choose the fewest of the allowed workloads that let a waiting one start; none, if all together do not."""

    def verdict(reason: str, *, is_served: bool = False) -> DemandVerdict:
        return DemandVerdict(waiting=demand, is_served=is_served, reason=reason)

    if given.inventory is None:
        return verdict("the nodes of the cluster are not known")
    missing = _missing(demand, (), given.inventory, state)
    if not missing:
        _take(demand, given.inventory, state)
        return verdict("nothing has to be suspended: it fits already")
    rivals = _rivals(demand, allowed, given, state)
    if not rivals:
        return verdict(f"{missing}, and no workload of its queue may be suspended")
    chosen: list[PreemptionCandidate] = []
    for one in rivals:
        chosen.append(one)
        if not (missing := _missing(demand, chosen, given.inventory, state)):
            break
    else:
        return verdict(f"{missing}, even without all {plural(len(rivals), 'preemptable workload')} of its queue")
    for one in reversed(tuple(chosen)):
        fewer = [other for other in chosen if other is not one]
        if not _missing(demand, fewer, given.inventory, state):
            chosen = fewer
    exceeded = _choose(state, given, chosen, demand.key)
    if exceeded:
        return verdict(exceeded)
    _take(demand, given.inventory, state)
    return verdict(f"it starts without {plural(len(chosen), 'workload')}", is_served=True)


def _rivals(
    demand: WaitingWorkload, allowed: Sequence[PreemptionCandidate], given: PreemptionInput, state: _PreemptionState
) -> list[PreemptionCandidate]:
    """Return the workloads of the same queue and kind of GPU that may be suspended for a waiting one."""
    waited = (given.now - dt.datetime.fromisoformat(demand.since)).total_seconds()
    return [
        one
        for one in allowed
        if one.workload.key not in state.chosen
        and (one.workload.resource, one.workload.queue) == (demand.resource, demand.queue)
        and one.workload.priority <= demand.priority
        and waited >= one.rules.pending_seconds
    ]


def _missing(
    demand: WaitingWorkload, without: Sequence[PreemptionCandidate], inventory: Inventory, state: _PreemptionState
) -> str:
    """Return what a waiting workload lacks without some others: quota of its queue, or nodes for its pods."""
    freed = sum(one.workload.gpus for one in without)
    granted = demand.headroom + state.quota.get((demand.queue, demand.resource), 0) + freed
    if demand.queue and granted < demand.gpus:
        return f"queue {demand.queue} grants {max(granted, 0)} of {plural(demand.gpus, 'GPU')}"
    placed = _place(demand, inventory, _with_freed(state.free, without))
    return placed if isinstance(placed, str) else ""


def _take(demand: WaitingWorkload, inventory: Inventory, state: _PreemptionState) -> None:
    """Take the room of a workload that starts from what others get."""
    placed = _place(demand, inventory, state.free)
    if not isinstance(placed, str):
        state.free = placed
    queue = (demand.queue, demand.resource)
    state.quota[queue] = state.quota.get(queue, 0) - demand.gpus


def _place(demand: WaitingWorkload, inventory: Inventory, free: Mapping[str, int]) -> dict[str, int] | str:
    """Return what is free once the pods are on nodes, each on the fullest that takes it; or which pod gets no node."""
    left = dict(free)
    for pods in sorted(demand.pods, key=lambda one: -one.gpus):
        nodes = [node.name for node in inventory.nodes if _takes(node, pods, demand.resource)]
        for _ in range(pods.count):
            fitting = [name for name in nodes if left.get(name, 0) >= pods.gpus]
            if not fitting:
                return f"no node gets {plural(pods.gpus, 'GPU')}"
            left[min(fitting, key=lambda name: (left[name], name))] -= pods.gpus
    return left


def _takes(node: Node, pods: WaitingPods, resource: str) -> bool:
    """Return whether a node takes pods: by its labels, taints and vendor."""
    vendor = resource.partition("/")[0]
    is_selected = all(node.labels.get(key) == value for key, value in pods.node_selector.items())
    is_tolerated = "*" in pods.tolerations or all(taint.key in pods.tolerations for taint in node.taints)
    return (
        node.is_open
        and is_selected
        and is_tolerated
        and any(vendor in label.partition("/")[0] for label in node.labels)
    )


def _free(given: PreemptionInput) -> dict[str, int]:
    """Return the GPUs that no pod holds, by node."""
    nodes = given.inventory.nodes if given.inventory is not None else ()
    free = {node.name: node.allocatable_gpus for node in nodes}
    for workload in given.utilisation.workloads:
        for pod in workload.pods:
            if pod.node in free:
                free[pod.node] -= pod.gpus
    return free


def _with_freed(free: Mapping[str, int], without: Iterable[PreemptionCandidate]) -> dict[str, int]:
    found = dict(free)
    for one in without:
        for pod in one.workload.pods:
            if pod.node in found:
                found[pod.node] += pod.gpus
    return found


# --- results -----------------------------------------------------------------------------------------------------


def _in_order(candidates: Iterable[PreemptionCandidate], uses: Mapping[ObjectKey, Use]) -> list[PreemptionCandidate]:
    """Order by priority, then the idle before those that are busy after their duration, then by age: oldest first."""

    def rank(one: PreemptionCandidate) -> tuple[int, bool, str, ObjectKey]:
        key = one.workload.key
        return one.workload.priority, uses[key].activity is Activity.EXPIRED, one.workload.started_at, key

    return sorted(candidates, key=rank)


def _verdict(candidate: PreemptionCandidate, use: Use, state: _PreemptionState) -> WorkloadVerdict:
    key = candidate.workload.key
    is_suspended, exceeded = key in state.chosen, state.exceeded.get(key, "")
    reason = use.reason
    if is_suspended:
        demand = state.chosen[key]
        reason = f"{use.reason}; suspended {f'for {demand}' if demand is not None else 'whoever waits'}"
        reason += f", if people agree: {exceeded}" if exceeded else ""
    elif use.activity in _PREEMPTABLE:
        reason = f"{use.reason}; stays: {state.refused.get(key, 'nobody who waits starts without it')}"
    return WorkloadVerdict(
        candidate=candidate,
        use=use,
        is_suspended=is_suspended,
        reason=reason,
        wanted_for=state.chosen.get(key),
        exceeded=exceeded,
    )
