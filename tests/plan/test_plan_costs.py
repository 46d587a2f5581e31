"""What a plan costs: prices of the repository, per queue, team and job, before and after."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kinds.facts import QueueRole, Quota
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.summary.summarize import ESTIMATE, summarize
from reconciler.kinds.terms import FlavorTerms
from reconciler.kube.objects import ObjectKey
from reconciler.plan.costs import CostSides, commitment_uses, cost_lines, idle_costs, owner_costs, sides_of, with_money
from reconciler.plan.gpus import gpu_hours, job_changes
from reconciler.plan.plan import CostLine, JobChange
from reconciler.queues.queues import QueueUsage, usage_by_cluster
from reconciler.repo.config import Cluster, Config
from reconciler.repo.evidence.runs import FinishedRun, FinishedRuns
from reconciler.repo.evidence.utilisation import GpuPod, GpuUtilisation, GpuWindow, GpuWorkload
from reconciler.sizing.inventory import Inventory, Node
from reconciler.sizing.prices import Prices, is_spot, parse_prices

A100, H100, L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
_WRITTEN = {"currency": "EUR", "source": "contract 7", "date": "2026-01-31", "gpuHours": {H100: 2.5}}
PRICES = parse_prices(_WRITTEN)


def config(**more: Any) -> Config:
    return Config(clusters=(Cluster(name="main", prices=parse_prices({**_WRITTEN, **more})), Cluster(name="other")))


def job(**changes: Any) -> JobChange:
    key = ObjectKey(group="batch", kind="Job", namespace="team", name="tune")
    fields = {"word": "resized", "cluster": "main", "key": key, "queue": "q", "product": H100}
    return JobChange(**{**fields, "gpus_before": 2, "gpus_after": 4, **changes})


def workload(gpus: int, product: str = H100, cluster: str = "main", **more: Any) -> ObjectSummary:
    """Return a Job with GPUs of a product, in the queue of KAI `q`."""
    selector = {"nvidia.com/gpu.product": product, **more.pop("selector", {})} if product else {}
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    metadata = {"name": "tune", "namespace": "team", "labels": {"kai.scheduler/queue": "q", **more.pop("labels", {})}}
    body: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata | more.pop("metadata", {})}
    pod: dict[str, Any] = {"metadata": {"labels": {"kai.scheduler/queue": "q"}}}
    pod["spec"] = {"containers": [container], "nodeSelector": selector}
    body["spec"] = {"template": pod, **more}
    return summarize(BUILT_IN, cluster=cluster, body=body, path="p", digest="d")


def sides(before: Iterable[ObjectSummary], after: Iterable[ObjectSummary], chosen: Config | None = None) -> CostSides:
    rows = [*before], [*after]
    usages = [usage_by_cluster(side) for side in rows]
    return sides_of(chosen or config(), (usages[0], rows[0]), (usages[1], rows[1]))


def only(lines: tuple[CostLine, ...]) -> CostLine:
    (found,) = lines
    return found


BOTH = sides([workload(2)], [workload(4)])


def test_money_of_a_queue_and_of_its_jobs() -> None:
    """F-008, F-129: GPU hours and money before and after."""
    (known,) = with_money([job(gpu_hours_before=10.0, gpu_hours_after=8.0)], BOTH)
    assert (known.money_before, known.money_after, known.currency) == (25.0, 20.0, "EUR")
    found = only(cost_lines(BOTH, [known]))
    assert (found.per_hour_before, found.per_hour_after) == (5.0, 10.0)
    assert (found.gpu_hours_before, found.gpu_hours_after) == (10.0, 8.0)
    assert (found.money_before, found.money_after) == (25.0, 20.0)
    assert (found.price, found.currency, found.source, found.date) == (2.5, "EUR", "contract 7", "2026-01-31")


def test_what_has_no_price_is_unknown_and_never_guessed() -> None:
    """F-008, AF-19: a product without a price has no money, a cluster without prices no lines."""
    unpriced = job(product=L40S, gpu_hours_after=8.0)
    both = sides([workload(2, L40S)], [workload(4, L40S)])
    assert with_money([unpriced], both) == (unpriced,)
    found = only(cost_lines(both, [unpriced]))
    assert (found.price, found.per_hour_after, found.money_after) == (None, None, None)
    assert found.gpu_hours_after == 8.0
    assert [(one.owner, one.unpriced) for one in owner_costs(both)] == [("team", (L40S,))]
    nowhere = sides([], [workload(4, cluster="other"), workload(4, cluster="gone")])
    assert (cost_lines(nowhere, []), owner_costs(nowhere)) == ((), ())


def test_a_job_of_unknown_length_has_no_hours() -> None:
    found = only(cost_lines(BOTH, with_money([job()], BOTH)))
    assert (found.gpu_hours_before, found.gpu_hours_after, found.money_after) == (None, None, None)
    assert found.per_hour_after == 10.0


def test_eight_gpus_for_four_hours() -> None:
    """AF-19: 8 A100 at 3.06 for 4 h are 97.92; with spot nodes at 60 % less 39.17; by an estimate or a limit."""
    prices = config(gpuHours={A100: 3.06}, spot={A100: 3.06 * 0.4})
    for more in ({"activeDeadlineSeconds": 14400}, {"metadata": {"annotations": {ESTIMATE: "4h"}, "namespace": "n"}}):
        for selector, cost in (({}, 97.92), ({"karpenter.sh/capacity-type": "spot"}, 39.17)):
            row = workload(8, A100, selector=selector, **more)
            hours = gpu_hours(row)
            assert hours == 32.0
            change = job(product=A100, gpus_after=8, gpu_hours_after=hours, spot=row.spot, length=row.length)
            (known,) = with_money([change], sides([], [row], prices))
            assert known.money_after == cost
            assert json.loads(json.dumps(known.money_after)) == cost


def test_a_workload_of_agentaflow() -> None:
    """AF-19: its estimate counts; in a cluster with one product a workload that asks for any has the price of it."""
    row = workload(8, "", metadata={"annotations": {"agentaflow.gpu/estimated-duration": "4h"}, "namespace": "n"})
    inventory = Inventory(cluster="main", taken_at="2026-11-28", nodes=(Node(name="n1", product=A100, gpus=8),))
    rows = [row]
    usage = usage_by_cluster(rows)
    both = sides_of(config(gpuHours={A100: 3.06}), ({}, []), (usage, rows), {"main": inventory})
    change = job(product="", gpus_before=0, gpus_after=8, gpu_hours_after=gpu_hours(row), length=row.length)
    (known,) = with_money([change], both)
    assert (known.money_after, known.length) == (97.92, "agentaflow.gpu/estimated-duration")
    assert only(cost_lines(both, [known])).per_hour_after == 24.48
    (unknown,) = with_money([change], sides_of(config(gpuHours={A100: 3.06}), ({}, []), (usage, rows)))
    assert unknown.money_after is None


def test_lengths_that_jobs_say() -> None:
    """F-129: an estimate wins over a limit; what is no duration says nothing."""

    def length(annotation: str = "", **spec: Any) -> tuple[float, str]:
        row = workload(1, metadata={"annotations": {ESTIMATE: annotation}} if annotation else {}, **spec)
        return row.hours, row.length

    assert length("1h30m", activeDeadlineSeconds=60) == (1.5, ESTIMATE)
    assert length(runPolicy={"activeDeadlineSeconds": 7200}) == (2.0, "at most, by activeDeadlineSeconds")
    assert [length(text) for text in ("soon", "-4h", "0h", "4")] == [(0.0, "")] * 4
    assert length(activeDeadlineSeconds=True) == (0.0, "")


def test_the_history_of_a_name() -> None:
    """F-129: a job that says nothing takes the hours of its namesakes that succeeded, with median and p90."""

    def run(name: str, hours: int, result: str = "Succeeded") -> FinishedRun:
        key = ObjectKey(group="batch", kind="Job", namespace="team", name=name)
        return FinishedRun(
            api_version="batch/v1",
            key=key,
            uid="",
            result=result,
            started_at="2026-11-20T00:00:00Z",
            finished_at=f"2026-11-20T{hours:02}:00:00Z",
        )

    rows = [run("tune-1", 1), run("tune-20261101", 2), run("tune-v3", 6), run("tune-4", 20, "Failed"), run("other", 9)]
    runs = {"main": FinishedRuns(cluster="main", runs={one.key: one for one in rows})}
    (known,) = with_money([job()], BOTH, runs)
    assert known.length == "3 earlier runs: median 2.0 h, p90 5.2 h"
    assert (known.gpu_hours_before, known.gpu_hours_after, known.gpu_hours_most) == (4.0, 8.0, 20.8)
    assert (known.money_before, known.money_after, known.money_most) == (10.0, 20.0, 52.0)
    (own,) = with_money([job(gpu_hours_after=1.0)], BOTH, runs)
    assert own.money_after == 2.5


def test_commitments_are_used_first() -> None:
    """F-129: what is committed is cheaper, and what stays unused costs the same, so it is told."""
    chosen = config(commitments=[{"product": H100, "count": 3, "hour": 1.0}])
    both = sides([workload(2)], [workload(4)], chosen)
    found = only(cost_lines(both, []))
    assert (found.per_hour_before, found.per_hour_after, found.price) == (2.0, 5.5, 1.375)
    (use,) = commitment_uses(both)
    assert (use.count, use.used_before, use.used_after, use.unused_per_hour) == (3, 2, 3, 0.0)
    (use,) = commitment_uses(sides([], [], chosen))
    assert use.unused_per_hour == 3.0


def test_costs_of_teams() -> None:
    """F-129: by the label of `owners`, else by namespace."""
    both = sides([workload(2)], [workload(2), workload(4, labels={"team": "vision"})], config(owners="team"))
    found = [(one.owner, one.per_hour_before, one.per_hour_after) for one in owner_costs(both)]
    assert found == [("team", 5.0, 5.0), ("vision", 0.0, 10.0)]


def flavored(flavor: str, labels: tuple[tuple[str, str], ...]) -> list[ObjectSummary]:
    row: dict[str, Any] = {"cluster": "main", "group": "kueue.x-k8s.io", "path": "", "digest": "", "source": ""}
    row |= {"line": 0, "column": 0}
    queue: dict[str, Any] = {"kind": "ClusterQueue", "namespace": "", "name": "q", "queue_role": QueueRole.FLAVORED}
    made: dict[str, Any] = {"kind": "ResourceFlavor", "namespace": "", "name": flavor, "queue_role": QueueRole.FLAVOR}
    alias: dict[str, Any] = {"kind": "LocalQueue", "namespace": "team", "name": "lq", "queue_role": QueueRole.ALIAS}
    return [
        ObjectSummary(**row, **queue, quotas=(Quota(flavor, 8.0, None, "nvidia.com/gpu"),)),
        ObjectSummary(**row, **made, product=H100, terms=FlavorTerms(labels=labels)),
        ObjectSummary(**row, **alias, parent="q", parent_kind=CLUSTER_QUEUE),
    ]


@pytest.mark.parametrize(
    ("flavor", "labels", "spot"),
    [
        ("h100-spot", (), True),
        ("h100", (("cloud.google.com/gke-spot", "true"),), True),
        ("h100", (("cloud.google.com/gke-spot", "false"),), False),
        ("spotless", (), False),
    ],
)
def test_spot_flavors(flavor: str, labels: tuple[tuple[str, str], ...], spot: bool) -> None:
    """F-129: a queue whose flavors are all of spot nodes has the price of these, and its only product."""
    row = replace(workload(4, ""), queue="lq", queue_role=QueueRole.ALIAS, queue_kind=LOCAL_QUEUE)
    both = sides([], [*flavored(flavor, labels), row], config(spot={H100: 0.5}))
    found = only(cost_lines(both, []))
    assert (found.product, found.spot, found.per_hour_after) == (H100, spot, 2.0 if spot else 10.0)
    (known,) = with_money([job(product="", gpu_hours_after=2.0)], both)
    assert known.money_after == (1.0 if spot else 5.0)
    assert is_spot(labels, flavor) is spot
    assert RESOURCE_FLAVOR[1] == "ResourceFlavor"


def test_idle_gpus_cost_on_a_line_of_their_own() -> None:
    """F-129, defect 20 of agentaflow: allocated x price x idle share; the price never depends on how busy a GPU is."""

    def window(gpu: str, metric: str, idle: float | None, high: float = 100.0) -> GpuWindow:
        return GpuWindow(gpu=gpu, metric=metric, max=high, mean=1.0, samples=60, expected=60, idle=idle)

    measured = GpuPod(
        name="a",
        node="n1",
        gpus=4,
        windows=(window("0", "x", 0.5), window("0", "y", 1.0), window("1", "x", None, 2.0), window("2", "x", None)),
    )
    pods = (measured, GpuPod(name="b", node="n1", gpus=2))
    held = GpuWorkload(
        api_version="batch/v1", kind="Job", namespace="team", name="w", resource="r", queue="q", pods=pods
    )
    use = GpuUtilisation(cluster="main", taken_at="2026-11-28T12:00:00Z", window_seconds=1800, workloads=(held,))
    nodes = Inventory(cluster="main", taken_at="2026-11-28", nodes=(Node(name="n1", product=H100, gpus=8),))
    (found,) = idle_costs({"main": use}, {"main": nodes}, config())
    assert (found.gpus, found.covered, found.idle, found.per_hour) == (6, 2, 0.75, 3.75)
    (found,) = idle_costs({"main": use}, {}, config())
    assert (found.product, found.per_hour) == ("", None)
    assert only(cost_lines(BOTH, [])).price == 2.5


def test_prices_of_a_cluster_replace_those_of_the_repository() -> None:
    own = {"source": "owned", "date": "2026-02-01", "gpuHours": {L40S: 0.5}}
    found = parse_prices(_WRITTEN, own)
    assert found == Prices(currency="EUR", source="owned", date="2026-02-01", gpu_hours=((L40S, 0.5),))
    assert parse_prices({}) == Prices()
    assert PRICES.spend(L40S, 1) is None


def test_hours_are_those_that_sizing_wrote() -> None:
    """F-008: both sides are read from the annotation of the rendered object."""

    def hours(note: Any) -> float:
        return workload(1, metadata={"annotations": {"gpureconciler.io/sizing": note}}).gpu_hours

    assert hours('{"gpus":1,"gpu_hours":12.5}') == 12.5
    assert [hours(note) for note in ("{}", '{"gpu_hours":"x"}', "gpu_hours", 7, '{"gpu_hours":-1}')] == [0.0] * 5
    assert job_changes([]) == ()
    assert replace(job(), gpu_hours_after=1.0) != job()
    assert QueueUsage().queues == {}
