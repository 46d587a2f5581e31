"""The use of GPUs on /metrics: equal to the evidence while it is fresh, and absent afterwards."""

from typing import Any

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from reconciler.controller.outcome import PassOutcome
from reconciler.controller.use import ClusterUse, UseGauges, use_of
from reconciler.kube.times import unix_time
from reconciler.plan.use_cases import plan
from reconciler.repo.evidence.usage import RUNNING, WAITING, Usage, UsedPodSet, UsedWorkload, write_usage
from reconciler.repo.evidence.utilisation import GpuPod, GpuUtilisation, GpuWindow, GpuWorkload, write_utilisation
from reconciler.web.metrics import SEED_METRICS, Metrics
from tests.plan.use_cases.workspaces import open_workspace, template_repository

AT = "2026-11-30T01:33:20Z"
NOW = unix_time(AT)
JOB: dict[str, Any] = {"api_version": "batch/v1", "kind": "Job", "namespace": "team"}
DAY = 86_400


def workload(name: str, state: str, gpus: int, **more: Any) -> UsedWorkload:
    nodes = (("h100-01", 1),) if state == RUNNING else ()
    sets = (UsedPodSet(name="main", count=1, requests={"nvidia.com/gpu": str(gpus)}, nodes=nodes),)
    return UsedWorkload(**JOB, name=name, state=state, cluster_queue="h100", pod_sets=sets, **more)


def window(gpu: str, mean: float, samples: int = 60) -> GpuWindow:
    idle = 0.25 if samples else None
    return GpuWindow(gpu=gpu, metric="m", max=100.0, mean=mean, samples=samples, expected=60, idle=idle)


@pytest.fixture(scope="module")
def found() -> dict[str, ClusterUse]:
    """Return what a pass over the template repository finds with evidence of use."""
    running = workload("a", RUNNING, 6, created_at="2026-11-30T00:00:00Z", started_at="2026-11-30T00:00:30Z")
    waiting = workload("b", WAITING, 8, created_at="2026-11-30T01:23:20Z")
    usage = Usage(cluster="main", observed_at=AT, workloads=(running, waiting))
    windows = (window("0", 90.0), window("1", 30.0), window("2", 0.0, samples=0))
    pods = (GpuPod(name="a-0", node="h100-01", gpus=6, windows=windows),)
    held = GpuWorkload(**JOB, name="a", resource="nvidia.com/gpu", queue="h100", pods=pods)
    use = GpuUtilisation(cluster="main", taken_at=AT, window_seconds=1800, workloads=(held,))
    repository = template_repository()
    repository.work["evidence/main/usage.yaml"] = write_usage(usage)
    repository.work["evidence/main/utilisation.yaml"] = write_utilisation(use)
    planned = plan(open_workspace(repository))
    return use_of(planned.plan, planned.index)


def shown(metrics: Metrics, accept: str = "text/plain") -> dict[str, float]:
    _, text = metrics.exposition(accept)
    parse = open_metrics if "openmetrics" in accept else text_string_to_metric_families
    samples = [sample for family in parse(text.decode()) for sample in family.samples]
    names = ("agentaflow_", "reconciler_gpu", "reconciler_longest")
    return {
        f"{one.name}{'/' + one.labels['queue'] if 'queue' in one.labels else ''}": one.value
        for one in samples
        if one.name.startswith(names) and one.labels.get("cluster") == "main" and "le" not in one.labels
    }


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text"])
def test_the_six_names_are_equal_to_the_snapshot(found: dict[str, ClusterUse], accept: str) -> None:
    """AF-21, F-126: they parse strictly in both formats; unmeasured GPUs are in no mean (defect 22 of agentaflow)."""
    metrics = Metrics()
    gauges = UseGauges(metrics)
    outcome = PassOutcome(use=found)
    gauges.take("gitops/fleet", msgspec.json.decode(msgspec.json.encode(outcome), type=PassOutcome).use or {})
    gauges.update({"gitops/fleet"}, NOW)
    values = shown(metrics, accept)
    total = values["agentaflow_gpu_total"]
    assert total > 8
    assert values["agentaflow_gpu_available"] == total - 6
    assert values["agentaflow_gpu_utilization"] == 60.0
    assert (values["agentaflow_workloads_pending"], values["agentaflow_workloads_running"]) == (1, 1)
    for name in ("agentaflow_scheduling_duration", "agentaflow_scheduling_duration_seconds"):
        assert (values[f"{name}_count"], values[f"{name}_sum"]) == (1, 30.0)
    assert values["reconciler_gpus_held/h100"] == 6
    assert values["reconciler_gpus_wanted/h100"] == 8
    assert values["reconciler_gpus_idle/h100"] == 0.5
    assert values["reconciler_longest_wait_seconds/h100"] == 600
    assert values["reconciler_gpu_quota/h100"] > 0


def test_stale_evidence_is_absent_and_no_zero(found: dict[str, ClusterUse]) -> None:
    """AF-21, F-126: after maxAge, and for a source that this replica does not work on; Git's own figures stay."""
    metrics = Metrics()
    gauges = UseGauges(metrics)
    gauges.take("gitops/fleet", found)
    gauges.update({"gitops/fleet"}, NOW + found["main"].fresh_seconds + 1)
    left = {name for name in shown(metrics) if "scheduling_duration" not in name}
    assert {name.partition("/")[0] for name in left} == {"agentaflow_gpu_total", "reconciler_gpu_quota"}
    gauges.update(set(), NOW)
    assert {name for name in shown(metrics) if "scheduling_duration" not in name} == set()
    assert shown(Metrics()) == {}


def test_each_wait_counts_once(found: dict[str, ClusterUse]) -> None:
    """F-126: a pass that sees the same workloads again adds nothing to the histogram."""
    metrics = Metrics()
    gauges = UseGauges(metrics)
    for source in ("gitops/fleet", "gitops/fleet", "gitops/apply"):
        gauges.take(source, found)
    gauges.update({"gitops/fleet"}, NOW)
    assert shown(metrics)["agentaflow_scheduling_duration_count"] == 1


def test_a_repository_without_evidence_of_use() -> None:
    """F-126: GPUs of the evidence of nodes are known; what runs is not, and has no value."""
    planned = plan(open_workspace(template_repository()))
    names = {one.name for one in use_of(planned.plan, planned.index)["main"].samples}
    assert "agentaflow_gpu_total" in names
    assert not names & {metric.name for metric in SEED_METRICS if "gpu_total" not in metric.name}
