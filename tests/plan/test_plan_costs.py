"""What a plan costs: prices of the repository, per queue and per job, before and after."""

from typing import Any

from msgspec.structs import replace

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary.summarize import summarize
from reconciler.kube.objects import ObjectKey
from reconciler.plan.gpus import cost_lines, job_changes, with_money
from reconciler.plan.plan import GpuLine, JobChange
from reconciler.repo.config import Cluster, Config
from reconciler.sizing.prices import Prices, parse_prices

H100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
_WRITTEN = {"currency": "EUR", "source": "contract 7", "date": "2026-01-31", "gpuHours": {H100: 2.5}}
PRICES = parse_prices(_WRITTEN)
CONFIG = Config(clusters=(Cluster(name="main", prices=PRICES), Cluster(name="other")))


def job(**changes: Any) -> JobChange:
    key = ObjectKey(group="batch", kind="Job", namespace="team", name="tune")
    fields = {"word": "resized", "cluster": "main", "key": key, "queue": "q", "product": H100}
    return JobChange(**{**fields, "gpus_before": 2, "gpus_after": 4, **changes})


def line(product: str = H100, cluster: str = "main") -> GpuLine:
    return GpuLine(cluster=cluster, queue="q", product=product, before=2, after=4)


def test_money_of_a_queue_and_of_its_jobs() -> None:
    """F-008: GPU hours and money before and after."""
    (known,) = with_money([job(gpu_hours_before=10.0, gpu_hours_after=8.0)], CONFIG)
    assert (known.money_before, known.money_after, known.currency) == (25.0, 20.0, "EUR")
    (found,) = cost_lines([line()], [known], CONFIG)
    assert (found.per_hour_before, found.per_hour_after) == (5.0, 10.0)
    assert (found.gpu_hours_before, found.gpu_hours_after) == (10.0, 8.0)
    assert (found.money_before, found.money_after) == (25.0, 20.0)
    assert (found.price, found.currency, found.source, found.date) == (2.5, "EUR", "contract 7", "2026-01-31")


def test_what_has_no_price_is_unknown_and_never_guessed() -> None:
    """F-008: a product without a price has no money, a cluster without prices no lines."""
    unpriced = job(product=L40S, gpu_hours_after=8.0)
    assert with_money([unpriced], CONFIG) == (unpriced,)
    (found,) = cost_lines([line(L40S)], [unpriced], CONFIG)
    assert (found.price, found.per_hour_after, found.money_after) == (None, None, None)
    assert found.gpu_hours_after == 8.0
    assert cost_lines([line(cluster="other"), line(cluster="gone")], [], CONFIG) == ()


def test_a_job_of_unknown_length_has_no_hours() -> None:
    (found,) = cost_lines([line()], with_money([job()], CONFIG), CONFIG)
    assert (found.gpu_hours_before, found.gpu_hours_after, found.money_after) == (None, None, None)
    assert found.per_hour_after == 10.0


def test_prices_of_a_cluster_replace_those_of_the_repository() -> None:
    own = {"source": "owned", "date": "2026-02-01", "gpuHours": {L40S: 0.5}}
    found = parse_prices(_WRITTEN, own)
    assert found == Prices(currency="EUR", source="owned", date="2026-02-01", gpu_hours=((L40S, 0.5),))
    assert parse_prices({}) == Prices()


def test_hours_are_those_that_sizing_wrote() -> None:
    """F-008: both sides are read from the annotation of the rendered object."""

    def hours(note: Any) -> float:
        container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        metadata = {"name": "tune", "annotations": {"gpureconciler.io/sizing": note}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
        body["spec"] = {"template": {"spec": {"containers": [container]}}}
        return summarize(BUILT_IN, cluster="main", body=body, path="p", digest="d").gpu_hours

    assert hours('{"gpus":1,"gpu_hours":12.5}') == 12.5
    assert [hours(note) for note in ("{}", '{"gpu_hours":"x"}', "gpu_hours", 7, '{"gpu_hours":-1}')] == [0.0] * 5
    assert job_changes([]) == ()
    assert replace(job(), gpu_hours_after=1.0) != job()
