"""Decisions about preemption: who is idle, for whom it is suspended, and what is never done."""

import datetime as dt
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kinds.preemption import (
    Aggregation,
    IdleRules,
    PreemptionBudgets,
    PreemptionMode,
    PreemptionPolicy,
    Pressure,
    with_annotations,
    with_duration,
)
from reconciler.kube.yaml import read
from reconciler.live.observe.prometheus import AMD, ENGINE, UTIL
from reconciler.live.preemption.decide import (
    Activity,
    PreemptionCandidate,
    PreemptionDecision,
    PreemptionInput,
    decide,
)
from reconciler.repo.evidence.utilisation import (
    GpuPod,
    GpuUtilisation,
    GpuWindow,
    GpuWorkload,
    WaitingPods,
    WaitingWorkload,
)
from reconciler.sizing.inventory import Inventory, Node, Taint

NOW = dt.datetime(2026, 11, 28, 12, 0, tzinfo=dt.UTC)
TAKEN = "2026-11-28T11:58:00Z"
DOCUMENT = read("p.yaml", b"kind: PreemptionPolicy\n").documents[0]
POLICY = PreemptionPolicy(
    name="idle", document=DOCUMENT, is_selecting=True, budgets=PreemptionBudgets(share_of_running=1.0)
)


def window(gpu: int = 0, value: float = 0.0, metric: str = AMD, **more: Any) -> GpuWindow:
    known = {"mean": value, "samples": 60, "expected": 60, **more}
    return GpuWindow(gpu=str(gpu), metric=metric, max=value, **known)


def pod(node: str, gpus: int = 1, values: tuple[float, ...] = (), name: str = "") -> GpuPod:
    windows = tuple(window(gpu, value) for gpu, value in enumerate(values or (0.0,) * gpus))
    return GpuPod(name=name or f"p-{node}", node=node, gpus=gpus, windows=windows)


def workload(name: str, *pods: GpuPod, **more: Any) -> GpuWorkload:
    known = {"resource": "amd.com/gpu", "queue": "kaiwo", "started_at": "2026-11-28T08:00:00Z", **more}
    return GpuWorkload(api_version="batch/v1", kind="Job", namespace="team", name=name, pods=pods, **known)


def waiting(gpus: int, count: int = 1, name: str = "new", **more: Any) -> WaitingWorkload:
    known = {"resource": "amd.com/gpu", "queue": "kaiwo", "since": "2026-11-28T11:00:00Z", **more}
    pods = (WaitingPods(count=count, gpus=gpus),)
    return WaitingWorkload(api_version="batch/v1", kind="Job", namespace="other", name=name, pods=pods, **known)


def nodes(*names: str, gpus: int = 8, **more: Any) -> Inventory:
    labels = {"amd.com/gpu.product-name": "MI300X", "nvidia.com/gpu.product": "H100"}
    made = tuple(Node(name=name, gpus=gpus, allocatable_gpus=gpus, labels=labels, **more) for name in names)
    return Inventory(cluster="main", taken_at=TAKEN, nodes=made)


def decided(
    running: list[GpuWorkload],
    demand: list[WaitingWorkload],
    inventory: Inventory | None = None,
    rules: IdleRules | None = None,
    policy: PreemptionPolicy = POLICY,
    **more: Any,
) -> PreemptionDecision:
    use = GpuUtilisation(
        cluster="main", taken_at=TAKEN, window_seconds=1800, workloads=tuple(running), waiting=tuple(demand)
    )
    candidates = tuple(PreemptionCandidate(workload=one, rules=rules or IdleRules(), policy=policy) for one in running)
    given = PreemptionInput(utilisation=use, inventory=inventory or nodes("n1", "n2"), candidates=candidates, now=NOW)
    return decide(replace(given, **more))


def suspended(decision: PreemptionDecision) -> list[str]:
    return [one.candidate.workload.name for one in decision.workloads if one.is_suspended]


def test_the_fewest_idle_workloads_make_room() -> None:
    """F-112: the idle ones of the queue, the oldest first, and no more of them than are needed; others stay."""
    running = [
        workload("busy", pod("n1", 4, (90, 90, 80, 99))),
        workload("young", pod("n1", 4), started_at="2026-11-28T10:00:00Z"),
        workload("old", pod("n2", 4), started_at="2026-11-28T01:00:00Z"),
        workload("older", pod("n2", 4), started_at="2026-11-27T01:00:00Z"),
    ]
    decision = decided(running, [waiting(8)])
    assert suspended(decision) == ["old", "older"]
    assert [one.is_served for one in decision.demands] == [True]
    assert suspended(decided(running, [waiting(4)])) == ["older"]
    assert suspended(decided(running, [])) == []
    assert suspended(decided(running, [], rules=IdleRules(pressure=Pressure.ALWAYS))) == ["young", "old", "older"]


def test_nobody_is_preempted_for_nothing() -> None:
    """KA-20, D-25: eight single idle GPUs on eight nodes are no node with eight: all, or none."""
    names = [f"n{number}" for number in range(8)]
    running = [workload(f"w-{name}", pod(name)) for name in names]
    running += [workload(f"b-{name}", pod(name, 7, (99.0,) * 7)) for name in names]
    decision = decided(running, [waiting(8)], nodes(*names))
    assert suspended(decision) == []
    assert decision.demands[0].reason.startswith("no node gets 8 GPUs")
    assert len(suspended(decided(running, [waiting(1, count=8)], nodes(*names)))) == 8
    assert suspended(decided(running, [waiting(1, count=9)], nodes(*names))) == []


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({"queue": "another"}, "no workload of its queue"),
        ({"resource": "nvidia.com/gpu"}, "no workload of its queue"),
        ({"priority": -1}, "no workload of its queue"),
        ({"since": "2026-11-28T11:58:00Z"}, "no workload of its queue"),
    ],
)
def test_only_the_queue_with_the_demand_gives_way(more: dict[str, Any], left: str) -> None:
    """D-22: another queue, another vendor, a lower priority or a short wait free nothing."""
    decision = decided([workload("idle", pod("n1", 8)), workload("other", pod("n2", 8))], [waiting(8, **more)])
    assert suspended(decision) == []
    assert left in decision.demands[0].reason


def test_demand_is_counted_by_pods_and_quota() -> None:
    """D-22: two pods of eight GPUs need sixteen, of quota as well; what the queue still grants counts."""
    running = [workload("a", pod("n1", 8)), workload("b", pod("n2", 8, (99.0,) * 8))]
    inventory = nodes("n1", "n2", "n3")
    decision = decided(running, [waiting(8, count=2)], inventory)
    assert suspended(decision) == []
    assert "grants 8 of 16 GPUs" in decision.demands[0].reason
    assert suspended(decided(running, [waiting(8, count=2, headroom=8)], inventory)) == ["a"]


def test_room_is_given_once() -> None:
    """Two that wait do not get the same GPUs; what fits already needs nobody."""
    running = [workload("a", pod("n1", 8))]
    decision = decided(running, [waiting(8), waiting(8, name="next", since="2026-11-28T11:30:00Z")], nodes("n1"))
    assert [one.is_served for one in decision.demands] == [True, False]
    decision = decided(running, [waiting(8, headroom=8)])
    assert suspended(decision) == []
    assert decision.demands[0].reason == "nothing has to be suspended: it fits already"


def test_thin_measurements_are_unknown() -> None:
    """KA-19, D-23, F-111: 0 % from 40 % of the samples is Unknown: no action, and the reason is printed."""
    thin = GpuPod(name="p", node="n1", gpus=1, windows=(window(samples=24),))
    decision = decided([workload("w", thin), workload("x", pod("n2", 8))], [waiting(8)], nodes("n1"))
    verdict = decision.workloads[0]
    assert (verdict.use.activity, verdict.is_suspended) == (Activity.UNKNOWN, False)
    assert verdict.reason == f"pod p: GPU 0: {AMD} has 40% of the samples, at least 90% are needed"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"pods": (GpuPod(name="p", node="n1", gpus=1),)}, "is known of 0 of 1 GPU"),
        ({"pods": (pod("n1", 2, (0.0,)),)}, "is known of 1 of 2 GPUs"),
        ({"pods": (GpuPod(name="p", node="n1", gpus=1, windows=(window(value=1.0, mean=3.0),)),)}, "is contradictory"),
        ({"pods": (GpuPod(name="p", node="n1", gpus=1, windows=(window(value=-1.0),)),)}, "is contradictory"),
        ({"pods": ()}, "no pod is known"),
        ({"notes": ("its owner RayJob/x cannot be read",)}, "cannot be read"),
        ({"resource": "gpu.intel.com/xe"}, "there is no metric for gpu.intel.com/xe"),
    ],
)
def test_what_is_missing_or_contradictory_is_unknown(changed: dict[str, Any], reason: str) -> None:
    """D-23: never a zero."""
    rules = IdleRules(pressure=Pressure.ALWAYS)
    decision = decided([replace(workload("w", pod("n1")), **changed)], [], rules=rules)
    assert decision.workloads[0].use.activity is Activity.UNKNOWN
    assert reason in decision.workloads[0].reason
    assert suspended(decision) == []


@pytest.mark.parametrize("taken", ["2026-11-28T11:30:00Z", "2026-11-28T12:10:00Z"])
def test_stale_evidence_is_unknown(taken: str) -> None:
    """D-23: a dead exporter, or a clock that runs ahead, keeps no last low value."""
    use = GpuUtilisation(taken_at=taken, window_seconds=1800, workloads=(workload("w", pod("n1")),))
    decision = decided(list(use.workloads), [], rules=IdleRules(pressure=Pressure.ALWAYS), utilisation=use)
    assert decision.workloads[0].use.activity is Activity.UNKNOWN
    decision = decided(list(use.workloads), [], rules=IdleRules(pressure=Pressure.ALWAYS, grace_seconds=3600))
    assert "shorter than gracePeriod" in decision.workloads[0].reason


@pytest.mark.parametrize(
    ("engine", "util", "activity"),
    [(0.0, 0.0, Activity.IDLE), (0.0, 97.0, Activity.UNKNOWN), (80.0, 90.0, Activity.ACTIVE)],
)
def test_both_metrics_of_nvidia_have_to_agree(engine: float, util: float, activity: Activity) -> None:
    """D-23: an engine that reports 0 on a busy GPU is a contradiction, and one metric alone is not enough."""
    windows = (window(value=engine, metric=ENGINE), window(value=util, metric=UTIL))
    busy = workload("w", GpuPod(name="p", node="n1", gpus=1, windows=windows), resource="nvidia.com/gpu")
    assert decided([busy], []).workloads[0].use.activity is activity
    alone = replace(busy, pods=(replace(busy.pods[0], windows=windows[:1]),))
    assert decided([alone], []).workloads[0].use.activity is Activity.UNKNOWN


@pytest.mark.parametrize(
    ("aggregation", "percent", "activity"),
    [
        (Aggregation.MIN, 2.0, Activity.IDLE),
        (Aggregation.MAX, 45.0, Activity.ACTIVE),
        (Aggregation.AVG, 23.5, Activity.ACTIVE),
    ],
)
def test_every_gpu_of_every_pod_counts(aggregation: Aggregation, percent: float, activity: Activity) -> None:
    """D-24: the mean over all GPUs of a pod, then the workload over all pods; one idle GPU is no idle workload."""
    both = workload("w", pod("n1", 2, (0.0, 4.0)), pod("n2", 2, (0.0, 90.0)))
    use = decided([both], [], rules=IdleRules(aggregation=aggregation)).workloads[0].use
    assert (use.percent, use.activity) == (percent, activity)


def test_limits_of_a_policy() -> None:
    """Budgets by day and share, a protected priority and a minimum age; what exceeds one stays, with its reason."""
    running = [workload("a", pod("n1", 8)), workload("b", pod("n2", 8, (99.0,) * 8))]

    def reason(budgets: PreemptionBudgets, **more: Any) -> str:
        decision = decided(running, [waiting(8)], policy=replace(POLICY, budgets=budgets), **more)
        assert suspended(decision) == []
        return decision.workloads[0].reason.partition("stays: ")[2]

    assert reason(PreemptionBudgets(share_of_running=0.25)).startswith(
        "8 of 16 running GPUs exceed shareOfRunning 0.25"
    )
    day = PreemptionBudgets(share_of_running=1.0, gpus_per_day=12)
    spent = (("idle", NOW - dt.timedelta(hours=3), 8), ("idle", NOW - dt.timedelta(hours=30), 80))
    assert reason(day, spent=spent).startswith("16 GPUs within 24 hours exceed gpusPerDay 12")
    assert suspended(decided(running, [waiting(8)], policy=replace(POLICY, budgets=day))) == ["a"]
    assert reason(PreemptionBudgets(share_of_running=1.0, protected_priority=0)) == "priority 0 is protected"
    assert reason(PreemptionBudgets(share_of_running=1.0, min_age_seconds=6 * 3600)).endswith("less than minAge")


def test_what_exceeds_a_budget_is_for_people_where_a_policy_enforces() -> None:
    """F-112: it is chosen and noted with the budget, does not count for others, and what is protected stays."""
    running = [workload("a", pod("n1", 8)), workload("b", pod("n2", 4)), workload("c", pod("n2", 4, (99.0,) * 4))]
    demand = [waiting(8), waiting(4, name="small", since="2026-11-28T11:30:00Z")]
    budgets = PreemptionBudgets(share_of_running=0.25)
    policy = replace(POLICY, mode=PreemptionMode.ENFORCE, budgets=budgets)
    decision = decided(running, demand, policy=policy)
    assert suspended(decision) == ["a", "b"]
    exceeded = [one.exceeded for one in decision.workloads]
    assert exceeded == ["8 of 16 running GPUs exceed shareOfRunning 0.25 of idle", "", ""]
    assert decision.workloads[0].reason.endswith(f"if people agree: {exceeded[0]}")
    assert suspended(decided(running, demand, policy=replace(policy, mode=PreemptionMode.PROPOSE))) == []
    assert (
        suspended(decided(running, demand, policy=replace(policy, budgets=replace(budgets, protected_priority=0))))
        == []
    )


def test_nodes_have_to_take_the_pods() -> None:
    """D-25: cordoned nodes, taints and selectors count, and a demand without known nodes is not served."""
    running = [workload("a", pod("n1", 8))]
    assert suspended(decided(running, [waiting(8)], nodes("n1", unschedulable=True))) == []
    tainted = nodes("n1", taints=(Taint(key="amd.com/gpu", value="", effect="NoSchedule"),))
    assert suspended(decided(running, [waiting(8)], tainted)) == []
    demand = waiting(8)
    tolerating = replace(demand, pods=(replace(demand.pods[0], tolerations=("amd.com/gpu",)),))
    assert suspended(decided(running, [tolerating], tainted)) == ["a"]
    selecting = replace(demand, pods=(replace(demand.pods[0], node_selector={"zone": "b"}),))
    assert suspended(decided(running, [selecting], nodes("n1"))) == []


def test_without_known_nodes_nobody_is_suspended() -> None:
    """D-25: where nothing is known of the nodes, it is not known whether the demand would start."""
    running = [workload("a", pod("n1", 8))]
    use = GpuUtilisation(taken_at=TAKEN, window_seconds=1800, workloads=tuple(running), waiting=(waiting(8),))
    candidates = (PreemptionCandidate(workload=running[0], rules=IdleRules(), policy=POLICY),)
    decision = decide(PreemptionInput(utilisation=use, inventory=None, candidates=candidates, now=NOW))
    assert suspended(decision) == []
    assert decision.demands[0].reason == "the nodes of the cluster are not known"


@pytest.mark.parametrize(
    ("annotations", "is_enabled", "wrong"),
    [
        ({"enabled": "true"}, True, []),
        ({"enabled": "false", "policy": "Always"}, False, []),
        ({"threshold": "10"}, True, []),
        ({}, None, []),
        ({"policy": "always"}, True, ['"always" is not valid']),
        ({"threshold": "101", "grace-period": "soon"}, True, ['"101" is not valid', '"soon" is not valid']),
        ({"enabled": "no"}, True, ['"no" is not valid']),
        ({"treshold": "5"}, True, ["is not an annotation of preemption"]),
    ],
)
def test_annotations_say_what_they_say(annotations: dict[str, str], is_enabled: bool | None, wrong: list[str]) -> None:
    """D-26: `enabled: "false"` disables, whatever else is set; a wrong value is an error at its place."""
    lines = "".join(f'    kaiwo.silogen.ai/gpu-preemption.{key}: "{value}"\n' for key, value in annotations.items())
    raw = f"kind: Job\nmetadata:\n  annotations:\n    a: b\n{lines}".encode()
    document = read("job.yaml", raw).documents[0]
    rules, problems = with_annotations(IdleRules(), document)
    assert rules.is_enabled is is_enabled
    assert [one.message for one in problems] == wrong
    assert all(str(one).startswith("job.yaml:") and one.place.line >= 5 for one in document.problems(problems))


@pytest.mark.parametrize(
    ("demand", "activity", "names"),
    [
        (waiting(8), Activity.EXPIRED, ["a"]),
        (waiting(4, count=2), Activity.EXPIRED, ["a"]),
        (waiting(8, since="2026-11-28T11:57:00Z"), Activity.EXPIRED, []),
        (waiting(8, queue="another"), Activity.EXPIRED, []),
        (waiting(8, resource="nvidia.com/gpu"), Activity.EXPIRED, []),
        (None, Activity.EXPIRED, []),
    ],
)
def test_after_its_duration_a_busy_workload_gives_way(
    demand: WaitingWorkload | None, activity: Activity, names: list[str]
) -> None:
    """F-110, D-22: only for a demand of its queue and vendor that has waited; without one it goes on, also by Always."""
    running = [workload("a", pod("n1", 8, (99.0,) * 8)), workload("b", pod("n2", 8, (99.0,) * 8), queue="b")]
    rules = IdleRules(duration_seconds=4 * 3600, pressure=Pressure.ALWAYS)
    decision = decided(running, [demand] if demand else [], rules=rules)
    assert [one.use.activity for one in decision.workloads] == [activity] * 2
    assert suspended(decision) == names
    assert decision.workloads[0].reason.startswith("it runs for 240 minutes, and its duration is 240")
    longer = decided(running, [demand] if demand else [], rules=replace(rules, duration_seconds=4 * 3600 + 1))
    assert suspended(longer) == []
    assert longer.workloads[0].use.activity is Activity.ACTIVE


def test_the_idle_go_before_those_past_their_duration() -> None:
    """F-110: what is idle costs nobody anything; the older one that is busy after its duration stays."""
    busy = workload("busy", pod("n1", 8, (99.0,) * 8), started_at="2026-11-27T08:00:00Z")
    decision = decided([busy, workload("idle", pod("n2", 8))], [waiting(8)], rules=IdleRules(duration_seconds=10**5))
    assert suspended(decision) == ["idle"]
    decision = decided([busy, workload("idle", pod("n2", 8))], [waiting(8)], rules=IdleRules(duration_seconds=20000))
    assert suspended(decision) == ["idle"]


def test_a_duration_says_nothing_about_idleness() -> None:
    """F-110: a policy without selector stops a workload with a duration when that is over, and not before."""
    policy = replace(POLICY, is_selecting=False)
    idle, demand = [workload("a", pod("n1", 8)), workload("b", pod("n2", 8), queue="b")], [waiting(8)]
    early = decided(idle, demand, rules=IdleRules(duration_seconds=10**5), policy=policy)
    assert suspended(early) == []
    assert early.workloads[0].reason.endswith("its duration is not over, and nothing selects it while it is idle")
    assert suspended(decided(idle, demand, rules=IdleRules(duration_seconds=60), policy=policy)) == ["a"]


@pytest.mark.parametrize("changed", [{"started_at": ""}, {"notes": ("its owner Job/x cannot be read",)}, {"pods": ()}])
def test_without_a_known_start_a_duration_is_unknown(changed: dict[str, Any]) -> None:
    """F-110, D-23: the duration counts from the first running pod; where that is not known, nothing is done."""
    running = [replace(workload("a", pod("n1", 8)), **changed)]
    decision = decided(running, [waiting(8)], nodes("n1"), rules=IdleRules(duration_seconds=60))
    assert decision.workloads[0].use.activity is Activity.UNKNOWN
    assert suspended(decision) == []


@pytest.mark.parametrize(
    ("kind", "duration", "seconds"),
    [("KaiwoJob", "2h30m", 9000), ("KaiwoService", "1.5h", 5400), ("KaiwoJob", "0s", 0), ("Job", "2h30m", None)],
)
def test_durations_are_those_of_kaiwo(kind: str, duration: str, seconds: int | None) -> None:
    """F-110: as Go writes them, of Kaiwo's kinds alone; a wrong one is an error at its place."""
    lines = f"apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: {kind}\nspec:\n  duration: {{}}\n"
    document = read("job.yaml", lines.format(duration).encode()).documents[0]
    assert with_duration(IdleRules(), document) == (IdleRules(duration_seconds=seconds), [])
    wrong = read("job.yaml", lines.format("-1h").encode()).documents[0]
    assert [one.message for one in with_duration(IdleRules(), wrong)[1]] == (
        [] if seconds is None else ['"-1h" is not valid']
    )


def test_disabled_workloads_stay() -> None:
    """D-26: the annotation of a workload wins over a policy that selects it."""
    decision = decided([workload("a", pod("n1", 8))], [waiting(8)], rules=IdleRules(is_enabled=False))
    assert suspended(decision) == []
    assert 'gpu-preemption.enabled is "false"' in decision.workloads[0].reason
