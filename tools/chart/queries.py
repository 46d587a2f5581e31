"""Names of metrics in PromQL. A name that the controller does not export is a `KeyError`."""

from reconciler.web.metrics import MetricType, by_name

_METRICS = by_name()
_PROCESS = ("process_cpu_seconds_total", "process_resident_memory_bytes")
"""Metrics of the process, which the Prometheus client library exports."""


def metric(name: str) -> str:
    """Return the exported name of a metric of the catalogue."""
    row = _METRICS[name]
    return row.name if row.type is not MetricType.HISTOGRAM else _no_histogram(name)


def buckets(name: str) -> str:
    """Return the name of the buckets of a histogram."""
    if _METRICS[name].type is not MetricType.HISTOGRAM:
        raise KeyError(f"{name} is no histogram")
    return f"{_METRICS[name].name}_bucket"


def process(name: str) -> str:
    """Return the name of a metric of the process."""
    return next(known for known in _PROCESS if known == name)


def exported() -> frozenset[str]:
    """Return every name of a time series that the controller exports."""
    names = set(_PROCESS)
    for row in _METRICS.values():
        if row.type is MetricType.HISTOGRAM:
            names |= {f"{row.name}_{suffix}" for suffix in ("bucket", "count", "sum")}
        else:
            names.add(row.name)
    return frozenset(names)


def _no_histogram(name: str) -> str:
    raise KeyError(f"{name} is a histogram: use its buckets")
