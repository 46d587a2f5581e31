"""The read-only JSON paths of agentaflow's web page, with our values. What nothing says is null, never 0."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from reconciler.kinds.quantities import total
from reconciler.nodehealth.findings import CheckStatus
from reconciler.plan.outputs.findings import findings
from reconciler.repo.evidence.usage import RUNNING, WAITING
from reconciler.web.listener import HttpAnswer, text_answer
from reconciler.web.snapshot import ClusterState, Snapshot


def json_answer(snapshot: Snapshot, path: str) -> HttpAnswer:
    """Answer a path below `/api/`."""
    parts = path.rstrip("/").split("/")
    if parts[:4] == ["", "api", "v1", "gpu"] and len(parts) == 6:  # noqa: PLR2004 - gpu/<id>/<what>
        return text_answer(HTTPStatus.NOT_FOUND, "values of single GPUs are in the metrics of the agents")
    make = JSON_PATHS.get(path.rstrip("/"))
    if make is None:
        return text_answer(HTTPStatus.NOT_FOUND, "there is no such path")
    body = json.dumps(make(snapshot), indent=2, sort_keys=True, default=str).encode() + b"\n"
    return HttpAnswer(status=HTTPStatus.OK, body=body, content_type="application/json")


def _gpus(state: ClusterState) -> list[dict[str, Any]]:
    used = state.used_gpus
    return [
        {
            "cluster": state.name,
            "node": node.name,
            "product": node.product,
            "count": node.gpus,
            "memoryMiB": node.memory_mib or None,
            "inUse": None if used is None else used.get(node.name, 0),
            "available": None if used is None else node.gpus - used.get(node.name, 0),
            "health": None if state.health is None else str(state.health.status(node.name)),
            "isOpen": node.is_open,
        }
        for node in (state.inventory.nodes if state.inventory is not None else ())
        if node.gpus
    ]


def _all_gpus(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [row for state in snapshot.clusters for row in _gpus(state)]


def _stats(snapshot: Snapshot) -> dict[str, Any]:
    rows = _all_gpus(snapshot)
    known = all(state.inventory is not None for state in snapshot.clusters)
    seen = all(state.usage is not None for state in snapshot.clusters)
    workloads = [
        one for state in snapshot.clusters for one in (state.usage.workloads if state.usage is not None else ())
    ]
    return {
        "totalNodes": len({(row["cluster"], row["node"]) for row in rows}) if known else None,
        "activeNodes": sum(row["isOpen"] for row in rows) if known else None,
        "totalGPUs": sum(row["count"] for row in rows) if known else None,
        "availableGPUs": sum(row["available"] for row in rows) if known and seen else None,
        "inUseGPUs": sum(row["inUse"] for row in rows) if known and seen else None,
        "runningWorkloads": sum(one.state == RUNNING for one in workloads) if seen else None,
        "pendingWorkloads": sum(one.state == WAITING for one in workloads) if seen else None,
        "lastUpdateTime": max((state.usage.observed_at for state in snapshot.clusters if state.usage), default=None),
    }


def _overview(snapshot: Snapshot) -> dict[str, Any]:
    plan = snapshot.plan
    return {
        "revision": snapshot.revision,
        "plan": plan.digest,
        "changes": len(plan.changes),
        "clusters": [{"name": state.name, "jobs": len(state.jobs)} for state in snapshot.clusters],
        **_stats(snapshot),
    }


def _status(snapshot: Snapshot) -> dict[str, Any]:
    failed = [row for row in _all_gpus(snapshot) if row["health"] == CheckStatus.FAIL]
    known = all(state.health is not None for state in snapshot.clusters)
    return {"status": None if not known else "degraded" if failed else "healthy", "unhealthyNodes": len(failed)}


def _cost_lines(snapshot: Snapshot) -> list[dict[str, Any]]:
    found = []
    for state in snapshot.clusters:
        for (queue, product), gpus in sorted(state.queues.requested.items()):
            price = state.prices.hour(product)
            found.append(
                {
                    "cluster": state.name,
                    "queue": queue.name,
                    "product": product,
                    "gpus": float(gpus),
                    "currency": state.prices.currency or None,
                    "perHour": None if price is None else round(price * float(gpus), 4),
                }
            )
    return found


def _cost_summary(snapshot: Snapshot) -> dict[str, Any]:
    lines = _cost_lines(snapshot)
    priced = [line["perHour"] for line in lines if line["perHour"] is not None]
    return {
        "currency": next((line["currency"] for line in lines if line["currency"]), None),
        "perHour": round(float(total(priced)), 4) if priced else None,
        "withoutPrice": sorted({line["product"] for line in lines if line["perHour"] is None}),
    }


def _cost_forecast(snapshot: Snapshot) -> dict[str, Any]:
    summary = _cost_summary(snapshot)
    hour = summary["perHour"]
    return {
        **summary,
        "perDay": None if hour is None else round(24 * hour, 2),
        "basis": "all jobs of the repository run",
    }


def _alerts(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {"rule": one.rule, "level": str(one.level), "subject": one.subject, "message": one.message, "hint": one.hint}
        for one in findings(snapshot.plan)
    ]


def _alert_summary(snapshot: Snapshot) -> dict[str, int]:
    counted: dict[str, int] = {}
    for one in _alerts(snapshot):
        counted[one["level"]] = counted.get(one["level"], 0) + 1
    return counted


def _performance(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "cluster": state.name,
            "gpus": sum(row["count"] for row in _gpus(state)) or None,
            "inUse": None if state.used_gpus is None else sum(state.used_gpus.values()),
        }
        for state in snapshot.clusters
    ]


JSON_PATHS: Mapping[str, Callable[[Snapshot], Any]] = {
    "/api/v1/metrics": _stats,
    "/api/v1/gpus": _all_gpus,
    "/api/v1/system/stats": _stats,
    "/api/v1/system/overview": _overview,
    "/api/v1/system/status": _status,
    "/api/v1/costs": _cost_lines,
    "/api/v1/costs/summary": _cost_summary,
    "/api/v1/costs/forecast": _cost_forecast,
    "/api/v1/alerts": _alerts,
    "/api/v1/alerts/summary": _alert_summary,
    "/api/v1/performance": _performance,
}
"""Every JSON path, and what it answers."""
