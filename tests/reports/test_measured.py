"""The use of GPUs from a Prometheus: GPU hours as OpenCost counts them, hours by metric, energy, owners.

The Prometheus answers as the HTTP API describes. The allocation of OpenCost is a fixture in the form of its API
(`/allocation/compute`), written after its source (v1.105.0: `pkg/costmodel/allocation.go`, `allocation_helpers.go`): GPU
hours are the mean of `kube_pod_container_resource_requests` times the hours that the container ran.
"""

import datetime as dt
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.errors import OutsideError
from reconciler.reports.measured import Directory, PodOwner, ReportWindow, read_use

END = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
DAY, STEP = 86_400, 300
WINDOW = ReportWindow(end=END, seconds=DAY, step=STEP)
START = int(END.timestamp()) - DAY
Samples = list[tuple[int, float]]


def during(first: float, last: float, value: float = 1.0) -> Samples:
    """Return samples from one hour of the day to another."""
    times = range(START + STEP, START + DAY + STEP, STEP)
    return [(time, value) for time in times if first * 3600 < time - START <= last * 3600]


class Answers:
    """A Prometheus that answers by what a query names."""

    def __init__(self, **series: Any) -> None:
        self.series, self.asked = series, list[str]()

    def get(self, path: str) -> bytes:
        parts = urlsplit(path)
        rows: list[dict[str, Any]]
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        query = given["query"]
        found: Any = next((rows for name, rows in self.series.items() if name in query), [])
        self.asked.append(query)
        if parts.path.endswith("query_range"):
            start, end = int(given["start"]), int(given["end"])
            inside = ((labels, [one for one in samples if start <= one[0] <= end]) for labels, samples in found)
            rows = [
                {"metric": labels, "values": [[t, str(v)] for t, v in samples]} for labels, samples in inside if samples
            ]
        elif query.startswith("count("):
            rows = [{"metric": {}, "value": [0, str(len(found))]}] if found else []
        else:
            rows = [{"metric": labels, "value": [0, "1"]} for labels, _ in found]
        return json.dumps({"status": "success", "data": {"result": rows}}).encode()


def where(pod: str, **more: str) -> dict[str, str]:
    return {"namespace": "team", "pod": pod, **more}


def directory() -> Directory:
    def owner(pod: tuple[str, str], fallback: str) -> PodOwner:
        return PodOwner(job=fallback, queue="q", team=pod[0])

    return Directory(cluster="main", owner=owner, product={"n1": "A"}.get, is_spot=lambda node: node == "n2")  # type: ignore[arg-type]


REQUESTS = "kube_pod_container_resource_requests"
UTIL, ENGINE, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"


def test_hours_energy_and_owners() -> None:
    """F-130: of two metrics the busier counts, and what no exporter saw is not covered."""
    gpu = where("a", UUID="GPU-1", modelName="NVIDIA A100", Hostname="n1")
    found = read_use(
        Answers(
            **{
                REQUESTS: [(where("a", node="n1"), during(0, 12, 2.0)), (where("b", node="n2"), during(6, 12, 1.0))],
                UTIL: [(gpu, during(0, 3, 80.0) + during(3, 6, 2.0))],
                ENGINE: [(gpu, during(0, 6, 0.0))],
                POWER: [(gpu, during(0, 6, 500.0))],
                "kube_pod_owner": [(where("a", owner_kind="Job", owner_name="train"), [])],
            }
        ),
        WINDOW,
        directory(),
    )
    first, second = found.held
    assert (first.job, first.product, first.spot) == ("Job/train", "A", False)
    (hours,) = first.gpus
    assert [first.gpu_hours, hours.covered, hours.idle] == pytest.approx([24.0, 6.0, 3.0])
    assert hours.busy == pytest.approx(3 * 0.8 + 3 * 0.02)
    assert hours.kwh == pytest.approx(0.5 * (6 - STEP / 3600))
    assert (second.job, second.spot, second.gpus) == ("Pod/b", True, ())
    assert second.gpu_hours == pytest.approx(6.0)
    assert found.notes == ()


def test_without_kube_state_metrics() -> None:
    """F-130: the hours are those that an exporter saw, and a note says so; the product is the model."""
    gpu = {"exported_namespace": "team", "exported_pod": "a", "namespace": "monitoring", "pod": "dcgm"}
    gpu |= {"gpu": "3", "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "n9"}
    found = read_use(Answers(**{UTIL: [(gpu, during(0, 2, 50.0))]}), WINDOW, directory())
    (held,) = found.held
    assert held.pod == "team/a"
    assert held.gpu_hours == pytest.approx(2.0)
    assert "kube-state-metrics is missing" in found.notes[0]
    assert read_use(Answers(), WINDOW, directory()).held == ()


def test_many_series_are_asked_in_parts() -> None:
    """F-130: 1,000 GPUs over a day are more than one answer may hold; the parts are one series again."""
    gpus = [(where(f"p{number}", UUID=f"GPU-{number}"), during(0, 24, 10.0)) for number in range(1000)]
    prometheus = Answers(**{UTIL: gpus})
    found = read_use(prometheus, WINDOW, directory())
    assert {round(one.gpu_hours, 6) for one in found.held} == {24.0}
    assert sum(UTIL in query and not query.startswith("count(") for query in prometheus.asked) == 3


def test_an_error_is_no_idle_fleet() -> None:
    """D-23, F-130: without an answer there is no report."""

    class Failing:
        def get(self, _: str) -> bytes:
            return b'{"status": "error", "error": "out of memory"}'

    with pytest.raises(OutsideError, match="out of memory"):
        read_use(Failing(), WINDOW, directory())


def opencost(name: str, start: float, end: float, gpus: float) -> dict[str, Any]:
    """Return an allocation in the form of OpenCost's API: minutes that the container ran, and mean GPUs x hours."""
    minutes = (end - start) * 60
    return {
        "name": f"main/n1/team/{name}/c",
        "properties": {"cluster": "main", "node": "n1", "container": "c", "namespace": "team", "pod": name},
        "window": {"start": "2026-11-27T12:00:00Z", "end": "2026-11-28T12:00:00Z"},
        "minutes": minutes,
        "gpuCount": gpus,
        "gpuHours": gpus * minutes / 60,
    }


def test_allocation_agrees_with_opencost() -> None:
    """F-129: GPU hours of the same window, in total and for each pod, within one step of the samples."""
    runs = {"a": (0.0, 24.0, 8.0), "b": (3.5, 9.25, 4.0), "c": (23.0, 24.0, 1.0)}
    answer = {"code": 200, "data": [{name: opencost(name, *run) for name, run in runs.items()}]}
    requests = [(where(name, node="n1"), during(*run)) for name, run in runs.items()]
    found = read_use(Answers(**{REQUESTS: requests}), WINDOW, directory())
    theirs = {one["properties"]["pod"]: one["gpuHours"] for one in answer["data"][0].values()}  # type: ignore[index]
    ours = {one.pod.removeprefix("team/"): one.gpu_hours for one in found.held}
    assert sum(ours.values()) == pytest.approx(sum(theirs.values()))
    for name, hours in theirs.items():
        assert ours[name] == pytest.approx(hours, abs=runs[name][2] * STEP / 3600)
