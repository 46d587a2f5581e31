"""The output of `reconciler health`: pools, bad nodes with their reasons and the breaker, as a table or JSON."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import duration
from reconciler.kube.values import plural
from reconciler.nodehealth.fleet.overview import UNKNOWN, HealthOverview, NodeHealthRow
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.inflight.notes import JobNote

_ORDER = (*(phase.value for phase in HealthPhase), UNKNOWN)
_GOOD = frozenset({HealthPhase.HEALTHY.value, HealthPhase.PROBATION.value})


def render_health(
    cluster: str,
    view: HealthOverview | None,
    failure: str,
    now: float,
    *,
    node: str = "",
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
) -> str:
    """Render one cluster, or one node of it, for a terminal of `width` cells."""
    page = Page(width=width, color=color, unicode=unicode)
    page.heading(cluster)
    if view is None:
        page.write(Styled("warning: ", Style.WARNING), mask_text(failure))
        return page.text()
    rows = [row for row in view.nodes if row.node == node or (not node and not row.is_fine)]
    if not node:
        _pools(page, view)
    header = ("node", "phase", "GPU", "since", "report", "")
    if rows:
        page.table(header, [_row(row, now) for row in rows], right=(), keep=(0, 1), has_notes=True)
    elif not node:
        page.write("no node has a problem")
    for job in () if node else view.jobs:
        _job(page, job, now)
    _breaker(page, view)
    for note in view.notes:
        page.write(Styled("note: ", Style.DIM), mask_text(note))
    return page.text()


def _pools(page: Page, view: HealthOverview) -> None:
    gpus, lost = sum(row.gpus for row in view.pools), sum(row.lost for row in view.pools)
    page.write(f"{plural(len(view.nodes), 'node')}, {view.out} out of use, {lost} of {plural(gpus, 'GPU')} lost")
    phases = [phase for phase in _ORDER if any(phase in row.phases for row in view.pools)]
    header = ("pool", "nodes", *phases, "GPUs lost", "budget left")
    rows: list[list[Piece]] = [
        [
            row.pool or "-",
            str(row.nodes),
            *(str(row.phases.get(phase, 0)) for phase in phases),
            f"{row.lost}/{row.gpus}",
            f"{max(row.limit - row.used, 0)} of {row.limit}",
        ]
        for row in view.pools
    ]
    if rows:
        page.table(header, rows, right=tuple(range(1, len(header))), keep=(0, 1))


def _row(row: NodeHealthRow, now: float) -> list[Piece]:
    style = Style.SUCCESS if row.phase in _GOOD else Style.WARNING if row.phase == UNKNOWN else Style.ERROR
    more = [f"cordoned by {'others' if not row.owner else row.owner}"] if row.cordoned else []
    more += [f"proposed: {row.proposal}"] if row.proposal else []
    text = "; ".join([row.reason, *more] if row.reason else more)
    return [
        row.node,
        Styled(row.phase, style),
        ", ".join(row.slots) or "-",
        duration(now - row.since) if row.since else "-",
        "none" if row.age is None else duration(row.age),
        mask_text(text),
    ]


def _job(page: Page, job: JobNote, now: float) -> None:
    """Write one line about a job."""
    name = f"job {job.namespace}/{job.name}: {job.kind}"
    page.write(Styled(name, Style.WARNING), f", {duration(now - job.since)} ago: {mask_text(job.text)}")


def _breaker(page: Page, view: HealthOverview) -> None:
    breaker = view.breaker
    if breaker.tripped:
        page.write(Styled("breaker: tripped", Style.ERROR), f": {mask_text(breaker.tripped)}")
    else:
        page.write("breaker: closed")
    for check, why in sorted(breaker.frozen.items()):
        page.write(Styled(f"frozen: {check}", Style.WARNING), f": {mask_text(why)}")
    oldest = "no node reports" if view.oldest is None else f"the oldest report is {duration(view.oldest)} old"
    page.write(Styled(oldest, Style.DIM))


def health_json(cluster: str, view: HealthOverview | None, failure: str, node: str = "") -> dict[str, Any]:
    """Return one cluster as plain data; words from the cluster are masked."""
    body: dict[str, Any] = {"cluster": cluster, "failure": mask_text(failure)}
    if view is None:
        return body
    rows = [to_builtins(row) for row in view.nodes if node in ("", row.node)]
    for row in rows:
        row["reason"], row["refused"] = mask_text(row["reason"]), mask_text(row["refused"])
    breaker = {"tripped": mask_text(view.breaker.tripped), "frozen": dict(view.breaker.frozen)}
    return body | {
        "pools": [to_builtins(row) for row in view.pools],
        "nodes": rows,
        "breaker": breaker,
        "oldest": view.oldest,
        "notes": [mask_text(note) for note in view.notes],
        "jobs": [{**to_builtins(job), "text": mask_text(job.text)} for job in view.jobs],
    }


def to_json(clusters: Sequence[dict[str, Any]]) -> str:
    """Return all clusters as one JSON document."""
    return json.dumps({"clusters": list(clusters)}, indent=2, ensure_ascii=False) + "\n"
