"""The read-only JSON paths of agentaflow's web page, with our values. What nothing says is null, never 0."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from msgspec import to_builtins

from reconciler.live.pages.status import summary_json
from reconciler.nodehealth.findings import CheckStatus
from reconciler.plan.outputs.findings import findings
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
    """Return what `reconciler status --summary -o json` prints."""
    found: dict[str, Any] = json.loads(summary_json(snapshot.sums))
    return found


def _overview(snapshot: Snapshot) -> dict[str, Any]:
    plan = snapshot.plan
    return {
        "revision": snapshot.revision,
        "plan": plan.digest,
        "changes": len(plan.changes),
        "jobs": {state.name: len(state.jobs) for state in snapshot.clusters},
        **_stats(snapshot),
    }


def _status(snapshot: Snapshot) -> dict[str, Any]:
    failed = [row for row in _all_gpus(snapshot) if row["health"] == CheckStatus.FAIL]
    known = all(state.health is not None for state in snapshot.clusters)
    return {"status": None if not known else "degraded" if failed else "healthy", "unhealthyNodes": len(failed)}


def _report(snapshot: Snapshot, kind: str) -> dict[str, Any]:
    report: dict[str, Any] = to_builtins(next(one for one in snapshot.reports if one.kind == kind))
    return report


def _cost_lines(snapshot: Snapshot) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _report(snapshot, "cost")["rows"]
    return rows


def _cost_forecast(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return what the jobs of the repository cost, if all of them run."""
    return [
        {
            "cluster": state.name,
            "queue": queue.name,
            "product": product,
            "gpus": float(gpus),
            "currency": state.prices.currency or None,
            "perHour": None if (price := state.prices.hour(product)) is None else round(price * float(gpus), 4),
        }
        for state in snapshot.clusters
        for (queue, product), gpus in sorted(state.queues.requested.items())
    ]


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


JSON_PATHS: Mapping[str, Callable[[Snapshot], Any]] = {
    "/api/v1/metrics": _stats,
    "/api/v1/gpus": _all_gpus,
    "/api/v1/system/stats": _stats,
    "/api/v1/system/overview": _overview,
    "/api/v1/system/status": _status,
    "/api/v1/costs": _cost_lines,
    "/api/v1/costs/summary": lambda snapshot: _report(snapshot, "cost"),
    "/api/v1/costs/forecast": _cost_forecast,
    "/api/v1/alerts": _alerts,
    "/api/v1/alerts/summary": _alert_summary,
    "/api/v1/performance": lambda snapshot: _report(snapshot, "efficiency"),
    "/api/v1/performance/efficiency": lambda snapshot: _report(snapshot, "efficiency")["rows"],
}
"""Every JSON path, and what it answers."""
