"""Metrics of a running process, by the names of a catalogue, in the formats that Prometheus reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import prometheus_client as prometheus

from reconciler.controller.catalogue import FLEET_METRICS, METRICS, PREFIX, Metric, MetricType
from reconciler.version import __version__


class Metrics:
    """Counts, values and durations by metric, safe to use from any thread. An unknown name or label is a `KeyError`."""

    def __init__(self, catalogue: Sequence[Metric] = (*METRICS, *FLEET_METRICS)) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        makers = {
            MetricType.COUNTER: prometheus.Counter,
            MetricType.GAUGE: prometheus.Gauge,
        }
        self._metrics: dict[str, Any] = {}
        for metric in catalogue:
            names = tuple(metric.labels)
            if metric.type is MetricType.HISTOGRAM:
                made: Any = prometheus.Histogram(
                    metric.name, metric.help, names, registry=self._registry, buckets=metric.buckets
                )
            else:
                made = makers[metric.type](metric.name, metric.help, names, registry=self._registry)
            self._metrics[metric.name.removeprefix(PREFIX)] = made
        for name in ("build_info", "gpuhealth_agent_info"):
            if name in self._metrics:
                self.set(name, 1, version=__version__)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._labelled(name, labels).inc(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        self._labelled(name, labels).observe(max(seconds, 0.0))

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._labelled(name, labels).set(value)

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """Set all values of a gauge by its label values, in the order of the catalogue; others are removed."""
        metric = self._metrics[name]
        metric.clear()
        for labels, value in values.items():
            metric.labels(*labels).set(value)

    def _labelled(self, name: str, labels: Mapping[str, str]) -> Any:
        metric = self._metrics[name]
        return metric.labels(**labels) if labels else metric

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and all metrics in the format that the header `Accept` asks for."""
        encode, content_type = prometheus.exposition.choose_encoder(accept)
        return content_type, encode(self._registry)
