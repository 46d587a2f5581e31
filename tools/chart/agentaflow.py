"""Recording rules that offer the names of AgentaFlow's exporter, so that its dashboards work with dcgm-exporter.

Names that no exporter measures are not offered: fan speed, power limit, number of processes, and what was a simulation.
"""

from typing import Any

from tools.chart.queries import metric

_UTIL, _POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
_USED, _FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_MIB = 1 << 20

OF_GPUS = {
    "utilization_percent": _UTIL,
    "memory_used_bytes": f"{_USED} * {_MIB}",
    "memory_total_bytes": f"({_USED} + {_FREE}) * {_MIB}",
    "memory_utilization_percent": f"100 * {_USED} / ({_USED} + {_FREE})",
    "temperature_celsius": "DCGM_FI_DEV_GPU_TEMP",
    "power_draw_watts": _POWER,
    "clock_graphics_mhz": "DCGM_FI_DEV_SM_CLOCK",
    "clock_memory_mhz": "DCGM_FI_DEV_MEM_CLOCK",
    "efficiency_score": f"{_UTIL} / ({_POWER} > 0)",
    "idle_time_percent": f"100 * avg_over_time(({_UTIL} < bool 5)[1h:1m])",
}
"""Names after `agentaflow_gpu_`, by GPU."""

OF_CLUSTERS = {
    "gpus_total": metric("agentaflow_gpu_total"),
    "gpus_available": metric("agentaflow_gpu_available"),
    "cluster_utilization_percent": metric("agentaflow_gpu_utilization"),
}
"""Names after `agentaflow_`, by cluster, from the controller."""


def agentaflow_groups() -> dict[str, Any]:
    """Return the body of a rule file."""
    gpus = [_record(f"agentaflow_gpu_{name}", _labelled(expr)) for name, expr in OF_GPUS.items()]
    clusters = [_record(f"agentaflow_{name}", expr) for name, expr in OF_CLUSTERS.items()]
    return {"groups": [{"name": "agentaflow", "rules": [*gpus, *clusters]}]}


def _labelled(expr: str) -> str:
    """Return an expression with the labels that the names had: `gpu_id` and `gpu_name`."""
    gpu = f'label_replace({expr}, "gpu_id", "$1", "gpu", "(.*)")'
    return f'label_replace({gpu}, "gpu_name", "$1", "modelName", "(.*)")'


def _record(name: str, expr: str) -> dict[str, str]:
    return {"record": name, "expr": expr}
