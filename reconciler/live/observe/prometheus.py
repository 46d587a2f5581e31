"""What a Prometheus knows of GPUs: the highest value, the mean and the number of samples in a window, for each GPU.

AMD: `gpu_gfx_activity`. NVIDIA: `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, which exporters are known to report as 0 for weeks on
busy GPUs, and `DCGM_FI_DEV_GPU_UTIL`: whoever decides wants both.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from math import isfinite
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from reconciler.errors import OutsideError, one_line
from reconciler.http import Endpoint, HttpClient
from reconciler.kube.values import mapping, sequence, text
from reconciler.repo.evidence.utilisation import GpuWindow

AMD, ENGINE, UTIL = "gpu_gfx_activity", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
METRICS: Mapping[str, float] = {AMD: 1.0, ENGINE: 100.0, UTIL: 1.0}
"""The metrics, and the factor that makes them percent."""

_LABELS = "namespace, pod, exported_namespace, exported_pod, gpu, UUID, gpu_id, gpu_partition_id"
_QUERIES = {
    "max": "max by ({labels}) (max_over_time({metric}[{seconds}s]))",
    "mean": "max by ({labels}) (avg_over_time({metric}[{seconds}s]))",
    "samples": "sum by ({labels}) (count_over_time({metric}[{seconds}s]))",
}
"""Where a GPU has several series, because an exporter restarted, the higher value counts, and all samples."""

PodGpu = tuple[str, str, str]
"""Namespace and name of a pod, and a GPU."""


class PrometheusPort(Protocol):
    """Access to a Prometheus."""

    def get(self, path: str) -> bytes:
        """Return the body of a successful answer. Raises `OutsideError`."""
        ...


class PrometheusClient:
    """A Prometheus that is asked over HTTP."""

    def __init__(self, url: str) -> None:
        self._client = HttpClient(Endpoint.parse(url, purpose="Prometheus"))

    def get(self, path: str) -> bytes:
        """Return the body of a successful answer."""
        answer = self._client.send("GET", path)
        if answer.status != HTTPStatus.OK:
            raise OutsideError(f"Prometheus at {self._client.endpoint.url} answered {answer.status}")
        return answer.body


class MetricsWindow(Struct, frozen=True, kw_only=True):
    """A window of time, and the time between two samples."""

    end: dt.datetime
    seconds: int
    interval: float


def read_windows(prometheus: PrometheusPort, window: MetricsWindow) -> dict[tuple[str, str], tuple[GpuWindow, ...]]:
    """Return the windows of all GPUs by pod. Raises `OutsideError` if any question has no answer."""
    found: dict[tuple[str, str], list[GpuWindow]] = {}
    for metric, factor in METRICS.items():
        values = {name: _query(prometheus, query, metric, window) for name, query in _QUERIES.items()}
        for gpu in sorted(values["samples"].keys() & values["max"].keys() & values["mean"].keys()):
            found.setdefault(gpu[:2], []).append(
                GpuWindow(
                    gpu=gpu[2],
                    metric=metric,
                    max=round(values["max"][gpu] * factor, 2),
                    mean=round(values["mean"][gpu] * factor, 2),
                    samples=int(values["samples"][gpu]),
                    expected=max(1, int(window.seconds / window.interval)),
                )
            )
    return {pod: tuple(windows) for pod, windows in found.items()}


def _query(prometheus: PrometheusPort, query: str, metric: str, window: MetricsWindow) -> dict[PodGpu, float]:
    asked = query.format(labels=_LABELS, metric=metric, seconds=window.seconds)
    parameters = urlencode({"query": asked, "time": f"{window.end.timestamp():.0f}"})
    try:
        answer = mapping(msgspec.json.decode(prometheus.get(f"/api/v1/query?{parameters}")))
    except msgspec.DecodeError:
        raise OutsideError("Prometheus: the answer is not JSON") from None
    if answer.get("status") != "success":
        raise OutsideError(f"Prometheus: {one_line(answer.get('error', 'no answer'))}")
    return dict(_rows(sequence(mapping(answer.get("data")).get("result"))))


def _rows(rows: Iterable[Any]) -> Iterable[tuple[PodGpu, float]]:
    for row in map(mapping, rows):
        labels, value = mapping(row.get("metric")), [*sequence(row.get("value")), ""]
        # A scrape that keeps its own labels names the pod of the workload `exported_pod`.
        namespace = text(labels.get("exported_namespace")) or text(labels.get("namespace"))
        pod = text(labels.get("exported_pod")) or text(labels.get("pod"))
        partition = text(labels.get("gpu_partition_id"))
        gpu = text(labels.get("UUID")) or text(labels.get("gpu")) or text(labels.get("gpu_id"))
        try:
            number = float(value[1])
        except (TypeError, ValueError):
            continue
        if pod and gpu and isfinite(number):
            yield (namespace, pod, f"{gpu}.{partition}" if partition else gpu), number
