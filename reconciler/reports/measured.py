"""The use of GPUs from a Prometheus: who held them (kube-state-metrics), how busy they were, and what they drew.

GPU hours are those of OpenCost's allocation: what running containers request, for as long as they run. Without
kube-state-metrics they are the hours for which an exporter names a pod, and a note says so.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.kube.values import mapping, sequence, text
from reconciler.live.observe.prometheus import METRICS, PrometheusPort, instant, named_pod, number_of, ranged
from reconciler.reports.series import GpuHours, Samples, measure
from reconciler.reports.use import HeldGpus

POWER = ("DCGM_FI_DEV_POWER_USAGE", "gpu_package_power", "gpu_average_package_power")
"""Watts of a GPU: NVIDIA's exporter, and those of AMD's exporter, of which one is there."""

_WHERE = "namespace, pod, exported_namespace, exported_pod, node, Hostname, hostname"
_GPU = f"{_WHERE}, gpu, UUID, gpu_id, gpu_partition_id, modelName"
_HELD = (
    'sum by (namespace, pod, node) (kube_pod_container_resource_requests{resource=~"nvidia_com_gpu|amd_com_gpu",'
    'node!=""} * on (namespace, pod, container) group_left ()'
    " (max by (namespace, pod, container) (kube_pod_container_status_running) > 0))"
)
_OWNERS = (
    'max by (namespace, pod, owner_kind, owner_name) (last_over_time(kube_pod_owner{owner_is_controller="true"}[%ss]))'
)
_MAX_POINTS = 100_000  # of one answer: less than 4 MiB
_HOUR = 3600

Pod = tuple[str, str]


class ReportWindow(Struct, frozen=True, kw_only=True):
    """The time that a report is about, and the time between two samples."""

    end: dt.datetime
    seconds: int
    step: int

    @property
    def hours(self) -> float:
        """Its length."""
        return self.seconds / _HOUR


class PodOwner(Struct, frozen=True, kw_only=True):
    """The owner of the GPUs of a pod."""

    job: str
    queue: str = ""
    team: str = ""


class Directory(Struct, frozen=True, kw_only=True, eq=False):
    """Facts of the repository: owners of pods, and product and kind of nodes."""

    cluster: str
    owner: Callable[[Pod, str], PodOwner]
    product: Callable[[str], str]
    is_spot: Callable[[str], bool]


class Measured(Struct, frozen=True, kw_only=True):
    """Pods that held GPUs in a window, and what is missing, in sentences."""

    held: tuple[HeldGpus, ...]
    notes: tuple[str, ...] = ()


class _GpuFound(Struct, kw_only=True, eq=False):
    """The series of one GPU of a pod."""

    node: str
    product: str
    busy: dict[str, Samples]
    power: Samples = ()


def read_use(prometheus: PrometheusPort, window: ReportWindow, directory: Directory) -> Measured:
    """Return who held GPUs, and how busy these were. Raises `OutsideError` if a question has no answer."""
    requested: dict[Pod, tuple[str, float]] = {}
    for labels, samples in _series(prometheus, _HELD, window):
        pod = named_pod(labels)
        hours = sum(value for _, value in samples) * window.step / _HOUR
        requested[pod] = text(labels.get("node")), requested.get(pod, ("", 0.0))[1] + hours
    gpus = _gpus(prometheus, window)
    owners = _owners(prometheus, window) if requested else {}
    notes = () if requested or not gpus else ("kube-state-metrics is missing: GPU hours are those that were measured",)
    return Measured(held=tuple(_held(requested, gpus, owners, window, directory)), notes=notes)


def _held(
    requested: Mapping[Pod, tuple[str, float]],
    gpus: Mapping[Pod, Mapping[str, _GpuFound]],
    owners: Mapping[Pod, str],
    window: ReportWindow,
    directory: Directory,
) -> Iterator[HeldGpus]:
    for pod in sorted({*gpus} if not requested else {*requested}):
        found = [*gpus.get(pod, {}).values()]
        measured = tuple(_hours(one, window) for one in found)
        node, hours = requested.get(pod, ("", sum(one.covered for one in measured)))
        node = node or next((one.node for one in found), "")
        owner = directory.owner(pod, owners.get(pod, f"Pod/{pod[1]}"))
        yield HeldGpus(
            cluster=directory.cluster,
            pod="/".join(pod),
            job=owner.job,
            queue=owner.queue,
            team=owner.team,
            product=directory.product(node) or next((one.product for one in found), ""),
            spot=directory.is_spot(node),
            gpu_hours=hours,
            gpus=measured,
        )


def _hours(found: _GpuFound, window: ReportWindow) -> GpuHours:
    """Return the hours by the metric that says most: one of NVIDIA's is known to be 0 for weeks on busy GPUs."""
    busy = max(found.busy.values(), key=lambda samples: (sum(value for _, value in samples), len(samples)), default=())
    return measure(busy, found.power, window.step)


def _gpus(prometheus: PrometheusPort, window: ReportWindow) -> dict[Pod, dict[str, _GpuFound]]:
    """Return the series of all GPUs by pod. One that two exporters see has one series for each metric."""
    found: dict[Pod, dict[str, _GpuFound]] = {}
    for metric in (*METRICS, *POWER):
        factor = METRICS.get(metric, 1.0)
        for labels, samples in _series(prometheus, f"max by ({_GPU}) ({metric})", window):
            pod, gpu = named_pod(labels), _gpu(labels)
            if not pod[1] or not gpu:
                continue
            one = found.setdefault(pod, {}).setdefault(
                gpu, _GpuFound(node=_node(labels), product=_model(labels), busy={})
            )
            if metric in METRICS:
                one.busy[metric] = [(time, value * factor) for time, value in samples]
            elif not one.power:
                one.power = samples
    return found


def _series(
    prometheus: PrometheusPort, query: str, window: ReportWindow
) -> Iterator[tuple[Mapping[str, object], Samples]]:
    """Yield the series of a query, which is asked in parts that answers have room for."""
    counted = instant(prometheus, f"count(last_over_time(({query})[{window.seconds}s:{window.step}s]))", window.end)
    number = next((found for row in counted if (found := number_of(sequence(mapping(row).get("value"))))), 0.0)
    if not number:
        return
    points = max(1, int(_MAX_POINTS / number))
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    end = int(window.end.timestamp())
    start = end - window.seconds + window.step
    while start <= end:
        last = min(end, start + (points - 1) * window.step)
        for labels, samples in ranged(prometheus, query, (start, last, window.step)):
            series.setdefault(tuple(sorted(labels.items())), []).extend(samples)
        start = last + window.step
    for key, samples in sorted(series.items()):
        yield dict(key), samples


def _owners(prometheus: PrometheusPort, window: ReportWindow) -> dict[Pod, str]:
    """Return what owns pods, as kube-state-metrics says: `Job/train`."""
    rows: Iterable[Mapping[str, object]] = map(mapping, instant(prometheus, _OWNERS % window.seconds, window.end))
    labels = [mapping(row.get("metric")) for row in rows]
    return {named_pod(one): f"{text(one.get('owner_kind'))}/{text(one.get('owner_name'))}" for one in labels}


def _gpu(labels: Mapping[str, object]) -> str:
    partition = text(labels.get("gpu_partition_id"))
    gpu = text(labels.get("UUID")) or text(labels.get("gpu")) or text(labels.get("gpu_id"))
    return f"{gpu}.{partition}" if partition else gpu


def _node(labels: Mapping[str, object]) -> str:
    return next((text(labels[name]) for name in ("node", "Hostname", "hostname") if labels.get(name)), "")


def _model(labels: Mapping[str, object]) -> str:
    """Return the product as the node label names it: the model without spaces."""
    return text(labels.get("modelName")).replace(" ", "-")
