"""The forecast of admission in a plan: what starts, waits, preempts, or never starts, by the evidence of use."""

from typing import Any

import msgspec
import pytest

from reconciler.outputs import RenderOptions
from reconciler.plan import AdmissionLine, Plan
from reconciler.plan.admissions import with_topology
from reconciler.plan.codec import encode, from_json
from reconciler.plan.inputs import UsageEvidence
from reconciler.plan.outputs.text import render_text
from reconciler.plan.plan import PlacedWorkload, PlacementLine
from reconciler.repo.config import Cluster, Config
from reconciler.repo.evidence.usage import QueueWaits, Usage, UsedPodSet, UsedWorkload
from tests.plan.plan_cases import KUEUE_QUEUE, Body, cluster_queue, flavor, inventory, job, kai_queue, local_queue, plan

NOW = "2026-11-28T12:00:00Z"
_REQUESTS = {"nvidia.com/gpu": "8", "cpu": "4", "memory": "64Gi"}


def used(name: str, *, pods: int = 1, state: str = "running", queue: str = "team-a", priority: int = 0) -> UsedWorkload:
    flavors = dict.fromkeys(_REQUESTS, "h100") if state == "running" else {}
    return UsedWorkload(
        api_version="batch/v1",
        kind="Job",
        namespace="ml",
        name=name,
        queue=queue,
        cluster_queue=queue,
        priority=priority,
        state=state,
        created_at="2026-11-28T08:00:00Z",
        pod_sets=(UsedPodSet(name="main", count=pods, requests=_REQUESTS, flavors=flavors),),
        admitted_at="2026-11-28T09:00:00Z" if state == "running" else "",
        started_at="2026-11-28T09:30:00Z" if state == "running" else "",
    )


def evidence(*workloads: UsedWorkload, days: int | None = 0, waits: tuple[QueueWaits, ...] = ()) -> dict[str, Any]:
    found = Usage(cluster="main", observed_at=NOW, workloads=workloads, waits=waits)
    return {"usage": {"main": UsageEvidence(found=found, days=days)}}


def queues(gpus: Any = 16, **more: Any) -> list[Body]:
    return [flavor("h100"), cluster_queue("team-a", {"h100": gpus}, **more), local_queue("team-a", "team-a")]


def kueue_job(name: str, *, pods: int = 1, **more: Any) -> Body:
    return job(name, pods=pods, label=KUEUE_QUEUE, suspend=True, **more)


def lines(found: Plan) -> dict[str, AdmissionLine]:
    return {line.key.name: line for line in found.admissions}


def test_a_job_starts_in_free_quota() -> None:
    """F-158: it starts now, on the flavor with room."""
    found = plan(queues(), [*queues(), kueue_job("new")], **evidence(used("old")))
    assert [(line.verdict, line.flavors, line.displaces) for line in found.admissions] == [("starts", ("h100",), ())]


def test_a_job_waits_behind_others() -> None:
    """F-158: for what it waits, behind whom; F-159: and how long others waited there, as a band."""
    waits = (QueueWaits(queue="team-a", samples=34, p50_seconds=720, p90_seconds=4000, window="7d", source="kueue"),)
    known = evidence(used("old", pods=2), used("first", state="waiting"), waits=waits)
    line = lines(plan(queues(), [*queues(), kueue_job("new")], **known))["new"]
    assert (line.verdict, line.queue) == ("waits", "team-a")
    assert line.reason == "for 8 more nvidia.com/gpu of h100, behind ml/first"
    assert (line.wait_seconds, line.wait_samples, line.wait_window) == ((720, 4000), 34, "7d")


def with_preemption(found: list[Body], **policies: Any) -> list[Body]:
    body: list[Body] = msgspec.to_builtins(found)
    body[1]["spec"]["preemption"] = policies
    return body


HIGH = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "high"},
    "value": 9,
}


def urgent(name: str) -> Body:
    body = kueue_job(name)
    body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    return body


def test_a_job_preempts_others() -> None:
    """F-158: whom it displaces, with their GPUs and how long they ran."""
    before = [*with_preemption(queues(), withinClusterQueue="LowerPriority"), HIGH]
    found = plan(before, [*before, urgent("new")], **evidence(used("old", pods=2)))
    line = lines(found)["new"]
    assert line.verdict == "preempts"
    assert [(one.key.name, one.gpus, one.seconds, one.reason) for one in line.displaces] == [
        ("old", 16, 9000, "InClusterQueue")
    ]
    text = render_text(found, RenderOptions())
    assert "Admission" in text
    assert "preempts ml/old (16 GPUs, which ran for 2h 30m; InClusterQueue)" in " ".join(text.split())


def test_a_job_that_never_starts() -> None:
    """F-158: more than the queue can ever have."""
    line = lines(plan(queues(), [*queues(), kueue_job("new", pods=3)], **evidence(used("old"))))["new"]
    assert (line.verdict, line.reason) == ("never", "team-a has at most 16 nvidia.com/gpu of h100")


def test_a_quota_cut_evicts_nobody() -> None:
    """F-158: what runs keeps running; what would have started waits."""
    known = evidence(used("old", pods=2), used("next", state="waiting"))
    found = lines(plan(queues(24), queues(8), **known))
    assert (found["team-a"].verdict, found["next"].verdict) == ("over", "waits")
    assert found["team-a"].reason.startswith(
        "uses 8 nvidia.com/gpu of h100 beyond what it may: what runs keeps running"
    )
    assert found["next"].reason == "for 16 more nvidia.com/gpu of h100; it would start without this change"
    assert "old" not in found


def test_a_quota_cut_that_lets_the_owner_reclaim() -> None:
    """F-158: a borrower loses its workload to the queue that gets the quota."""
    lender = with_preemption(
        [flavor("h100"), cluster_queue("team-b", {"h100": 0}, cohort="all")], reclaimWithinCohort="Any"
    )

    def side(mine: int, theirs: int) -> list[Body]:
        other = msgspec.to_builtins(lender)
        other[1]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = theirs
        return [*queues(mine, cohort="all"), other[1], local_queue("team-b", "team-b")]

    known = evidence(used("old", pods=2), used("other", state="waiting", queue="team-b"))
    found = lines(plan(side(16, 0), side(8, 8), **known))
    assert (found["old"].verdict, found["old"].reason) == ("preempted", "by other (InCohortReclamation)")
    assert (found["other"].verdict, found["other"].reason) == ("starts", "it waits now")


def test_old_evidence_tells_nothing() -> None:
    """F-158: evidence older than allowed is unknown, never a start."""
    config = Config(clusters=(Cluster(name="main"),), evidence_days=3)
    known = evidence(used("old"), days=5)
    line = lines(plan(queues(), [*queues(), kueue_job("new")], config=config, **known))["new"]
    assert (line.verdict, line.evidence_days) == ("unknown", 5)
    assert line.reason == f"the evidence of use is of {NOW}, and spec.evidence.maxAge allows 3 days"
    nodes = {"inventories": {"main": inventory(2)}}
    of_kai = lines(plan(KAI_QUEUES, [*KAI_QUEUES, job("new", pods=1)], config=config, **nodes, **known))["new"]
    assert (of_kai.verdict, of_kai.reason) == ("unknown", line.reason)


def test_without_evidence_nothing_is_said() -> None:
    """F-158: a cluster without evidence of use has no forecast."""
    found = plan(queues(), [*queues(), kueue_job("new")])
    assert found.admissions == ()
    assert b'"admissions"' not in encode(found)


def test_a_resized_job_waits_again() -> None:
    """F-158: a running job that is resized gives its quota back, and asks again."""
    sides = [[*queues(), kueue_job("old", pods=2)] for _ in range(2)]
    sides[0][-1]["spec"]["parallelism"] = 1
    found = lines(plan(*sides, **evidence(used("old"))))
    assert (found["old"].verdict, found["old"].flavors) == ("starts", ("h100",))


@pytest.mark.parametrize("state", ["running", "waiting"])
def test_a_plan_with_a_forecast_is_read_back(state: str) -> None:
    """F-158: as JSON it is the same plan, and the evidence of use does not change its digest."""
    found = plan(queues(), [*queues(), kueue_job("new")], **evidence(used("old", state=state, pods=2)))
    assert from_json(encode(found)) == found
    assert found.digest == plan(queues(), [*queues(), kueue_job("new")]).digest


def kai_used(name: str, *nodes: str, queue: str = "team-a", priority: int = 50) -> UsedWorkload:
    found = used(name, pods=len(nodes) or 1, state="running" if nodes else "waiting", queue=queue, priority=priority)
    (pods,) = found.pod_sets
    on_nodes = msgspec.structs.replace(pods, nodes=tuple((node, 1) for node in nodes), flavors={})
    return msgspec.structs.replace(found, cluster_queue="", pod_sets=(on_nodes,))


KAI_QUEUES = [kai_queue("all", 16), kai_queue("team-a", 8, parent="all"), kai_queue("team-b", 8, parent="all")]


def test_kai_starts_waits_and_reclaims() -> None:
    """F-158: a job in a queue of KAI starts on free nodes, waits for GPUs, or gets back the quota of its queue."""
    nodes = {"inventories": {"main": inventory(2)}}
    started = plan(KAI_QUEUES, [*KAI_QUEUES, job("new", pods=1)], **nodes, **evidence(kai_used("old", "H100-0")))
    assert [(line.verdict, line.queue) for line in started.admissions] == [("starts", "team-a")]
    both = evidence(kai_used("old", "H100-0"), kai_used("other", "H100-1", queue="team-b"))
    waits = lines(plan(KAI_QUEUES, [*KAI_QUEUES, job("new", pods=1)], **nodes, **both))["new"]
    assert (waits.verdict, waits.reason) == ("waits", "for 8 more GPUs")
    borrowed = evidence(kai_used("old", "H100-0", queue="team-b"), kai_used("other", "H100-1", queue="team-b"))
    gets = lines(plan(KAI_QUEUES, [*KAI_QUEUES, job("new", pods=1)], **nodes, **borrowed))["new"]
    assert gets.verdict == "preempts"
    assert [(one.gpus, one.seconds, one.reason) for one in gets.displaces] == [(8, 9000, "Reclaim")]


def test_kai_gets_back_what_a_suspended_job_holds() -> None:
    """F-158: a plan that suspends a job of KAI lets another one start on its GPUs."""
    known = {"inventories": {"main": inventory(1)}, **evidence(kai_used("old", "H100-0"))}
    before = [*KAI_QUEUES, job("old", pods=1)]
    assert lines(plan(before, [*before, job("new", pods=1)], **known))["new"].verdict == "waits"
    after = [*KAI_QUEUES, job("old", pods=1, suspend=True), job("new", pods=1)]
    assert lines(plan(before, after, **known))["new"].verdict == "starts"


def test_kai_without_nodes_is_unknown() -> None:
    """F-158: where the evidence has no nodes, nothing says whether a job starts."""
    found = plan(KAI_QUEUES, [*KAI_QUEUES, job("new", pods=1)], **evidence(kai_used("old", "H100-0")))
    assert [(line.verdict, line.reason) for line in found.admissions] == [
        ("unknown", "there is no evidence of its nodes")
    ]


def test_the_past_usage_of_queues_is_unknown() -> None:
    """F-158: with admission fair sharing, who of several comes first is not told; what is alone starts."""
    shared = queues()
    shared[1]["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    alone = lines(plan(shared, [*shared, kueue_job("new")], **evidence(used("old"))))["new"]
    assert alone.verdict == "starts"
    line = lines(plan(shared, [*shared, kueue_job("new")], **evidence(used("first", state="waiting"))))["new"]
    assert line.verdict == "unknown"
    assert line.reason == "others wait in team-a, and their order follows from past usage, which no evidence has"


@pytest.mark.parametrize(
    ("word", "bound", "verdict", "reason"),
    [
        ("waits", "Kueue TAS", "waits", "for room in a domain of its topology: no rack has 16 free GPUs"),
        ("unknown", "Kueue TAS", "unknown", "no rack has 16 free GPUs"),
        ("waits", "forecast only", "starts", ""),
        ("starts", "Kueue TAS", "starts", ""),
    ],
)
def test_a_domain_without_room_holds_a_workload_back(word: str, bound: str, verdict: str, reason: str) -> None:
    """F-158: quota is not enough where Kueue places pods by their topology."""
    (line,) = plan(queues(), [*queues(), kueue_job("new")], **evidence(used("old"))).admissions
    placed = PlacedWorkload(
        key=line.key, word=word, gpus=8, strategy="best_fit", guaranteed_by=bound, why="no rack has 16 free GPUs"
    )
    (found,) = with_topology([line], [PlacementLine(cluster="main", strategy="best_fit", workloads=(placed,))])
    assert (found.verdict, found.reason) == (verdict, reason)
