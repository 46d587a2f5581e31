"""The use of GPUs by a Prometheus: the highest value, the mean and the number of samples in a window, for each GPU.

AMD: `gpu_gfx_activity`. NVIDIA: `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, which exporters are known to report as 0 for weeks on
busy GPUs, and `DCGM_FI_DEV_GPU_UTIL`: whoever decides wants both.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from math import isfinite
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from reconciler.errors import OutsideError, one_line
from reconciler.http import Endpoint, HttpClient
from reconciler.kube.values import mapping, sequence, text
from reconciler.repo.evidence.usage import QueueWaits
from reconciler.repo.evidence.utilisation import IDLE_PERCENT, GpuWindow

AMD, ENGINE, UTIL = "gpu_gfx_activity", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
METRICS: Mapping[str, float] = {AMD: 1.0, ENGINE: 100.0, UTIL: 1.0}
"""The metrics, and the factor that makes them percent."""

_LABELS = "namespace, pod, exported_namespace, exported_pod, gpu, UUID, gpu_id, gpu_partition_id"
_QUERIES = {
    "max": "max by ({labels}) (max_over_time({metric}[{seconds}s]))",
    "mean": "max by ({labels}) (avg_over_time({metric}[{seconds}s]))",
    "samples": "sum by ({labels}) (count_over_time({metric}[{seconds}s]))",
    "idle": "sum by ({labels}) (count_over_time(({metric} < {idle})[{seconds}s:{interval}s]))",
}
"""Of several series of a GPU, because an exporter restarted, the higher value counts, and all samples."""

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
        idle = IDLE_PERCENT / factor
        values = {name: _query(prometheus, query, metric, idle, window) for name, query in _QUERIES.items()}
        for gpu in sorted(values["samples"].keys() & values["max"].keys() & values["mean"].keys()):
            found.setdefault(gpu[:2], []).append(
                GpuWindow(
                    gpu=gpu[2],
                    metric=metric,
                    max=round(values["max"][gpu] * factor, 2),
                    mean=round(values["mean"][gpu] * factor, 2),
                    samples=int(values["samples"][gpu]),
                    expected=max(1, int(window.seconds / window.interval)),
                    idle=round(min(1.0, values["idle"].get(gpu, 0.0) / values["samples"][gpu]), 4),
                )
            )
    return {pod: tuple(windows) for pod, windows in found.items()}


def _query(
    prometheus: PrometheusPort, query: str, metric: str, idle: float, window: MetricsWindow
) -> dict[PodGpu, float]:
    interval = max(1, round(window.interval))
    asked = query.format(labels=_LABELS, metric=metric, seconds=window.seconds, interval=interval, idle=idle)
    return dict(_rows(instant(prometheus, asked, window.end)))


def instant(prometheus: PrometheusPort, query: str, moment: dt.datetime) -> Sequence[Any]:
    """Return the rows of an instant query. Raises `OutsideError` without a successful answer."""
    return _asked(prometheus, "query", query=query, time=f"{moment.timestamp():.0f}")


def ranged(
    prometheus: PrometheusPort, query: str, times: tuple[int, int, int]
) -> Iterator[tuple[dict[str, str], list[tuple[float, float]]]]:
    """Yield the series of a range query (start, end, step): labels, and times with finite values."""
    start, end, step = (str(time) for time in times)
    for row in map(mapping, _asked(prometheus, "query_range", query=query, start=start, end=end, step=step)):
        samples = ((one, number_of(one)) for one in map(sequence, sequence(row.get("values"))))
        labels = {str(name): text(value) for name, value in mapping(row.get("metric")).items()}
        yield labels, [(float(one[0]), number) for one, number in samples if number is not None]


def named_pod(labels: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of a pod: `exported_pod` is the workload's where a scrape keeps its own labels."""
    namespace = text(labels.get("exported_namespace")) or text(labels.get("namespace"))
    return namespace, text(labels.get("exported_pod")) or text(labels.get("pod"))


def _asked(prometheus: PrometheusPort, endpoint: str, **parameters: str) -> Sequence[Any]:
    try:
        answer = mapping(msgspec.json.decode(prometheus.get(f"/api/v1/{endpoint}?{urlencode(parameters)}")))
    except msgspec.DecodeError:
        raise OutsideError("Prometheus: the answer is not JSON") from None
    if answer.get("status") != "success":
        raise OutsideError(f"Prometheus: {one_line(answer.get('error', 'no answer'))}")
    return sequence(mapping(answer.get("data")).get("result"))


WAITS = "kueue_admission_wait_time_seconds"
"""The time from creation or requeueing until admission: a histogram of Kueue, by ClusterQueue."""


def read_waits(prometheus: PrometheusPort, now: dt.datetime, window: str = "7d") -> tuple[QueueWaits, ...]:
    """Return how long workloads waited in each ClusterQueue; a queue that admitted none in the window has no row."""
    rise = f"increase({WAITS}_{{part}}[{window}])"
    counts = _by_queue(prometheus, f"sum by (cluster_queue) ({rise.format(part='count')})", now)
    buckets = f"sum by (cluster_queue, le) ({rise.format(part='bucket')})"
    halves, nine_tenths = (
        _by_queue(prometheus, f"histogram_quantile({share}, {buckets})", now) for share in ("0.5", "0.9")
    )
    return tuple(
        QueueWaits(
            queue=queue,
            samples=round(counts[queue]),
            p50_seconds=round(halves[queue], 1),
            p90_seconds=round(nine_tenths[queue], 1),
            window=window,
            source=WAITS,
        )
        for queue in sorted(counts.keys() & halves.keys() & nine_tenths.keys())
        if round(counts[queue])
    )


def _by_queue(prometheus: PrometheusPort, query: str, now: dt.datetime) -> dict[str, float]:
    found = {}
    for row in map(mapping, instant(prometheus, query, now)):
        queue, number = text(mapping(row.get("metric")).get("cluster_queue")), number_of(sequence(row.get("value")))
        if queue and number is not None:
            found[queue] = number
    return found


def number_of(sample: Sequence[Any]) -> float | None:
    """Return the value of a sample (time, value); None for what is no finite number."""
    try:
        number = float(sample[1])
    except (TypeError, ValueError, IndexError):
        return None
    return number if isfinite(number) else None


def _rows(rows: Iterable[Any]) -> Iterable[tuple[PodGpu, float]]:
    for row in map(mapping, rows):
        labels, number = mapping(row.get("metric")), number_of(sequence(row.get("value")))
        namespace, pod = named_pod(labels)
        partition = text(labels.get("gpu_partition_id"))
        gpu = text(labels.get("UUID")) or text(labels.get("gpu")) or text(labels.get("gpu_id"))
        if pod and gpu and number is not None:
            yield (namespace, pod, f"{gpu}.{partition}" if partition else gpu), number
