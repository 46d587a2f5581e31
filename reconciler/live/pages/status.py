"""The output of `reconciler status`: a table with the reason of each job that waits, or JSON."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.kinds.progress import ENDED, Phase
from reconciler.kube.secrets import mask_text
from reconciler.live.status.gpu_workload import gpu_workload_status
from reconciler.live.status.job_status import JobStatus
from reconciler.live.status.summary import ClusterSummary, total

_STYLES = {
    Phase.RUNNING: Style.SUCCESS,
    Phase.SUCCEEDED: Style.SUCCESS,
    Phase.FAILED: Style.ERROR,
    Phase.TIMED_OUT: Style.ERROR,
    Phase.ERROR: Style.ERROR,
    Phase.UNKNOWN: Style.ERROR,
    Phase.TERMINATED: Style.DIM,
    Phase.SUSPENDED: Style.DIM,
}
_HEADER = ("job", "phase", "workers", "restarts", "GPUs", "queue", "started", "ended", "")
_WISHED = ("priority", "GPU memory", "nodes")
_NUMBERS = (2, 3, 4)


def render_status(
    cluster: str,
    jobs: Sequence[JobStatus],
    failures: Sequence[str],
    *,
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
) -> str:
    """Render the jobs of one cluster for a terminal of `width` cells."""
    page = Page(width=width, color=color, unicode=unicode)
    page.heading(cluster)
    for failure in failures:
        page.write(Styled("warning: ", Style.WARNING), mask_text(failure))
    if jobs:
        if any(job.priority is not None or job.gpu_memory_mib is not None for job in jobs):
            rows = [[*_row(job)[:5], *_wished(job), *_row(job)[5:]] for job in jobs]
            header, right = (*_HEADER[:5], *_WISHED, *_HEADER[5:]), (*_NUMBERS, 5, 6)
            page.table(header, rows, right=right, keep=(0, 1, 5), has_notes=True)
        else:
            page.table(_HEADER, [_row(job) for job in jobs], right=_NUMBERS, keep=(0, 1, 6, 7), has_notes=True)
    elif not failures:
        page.write("no jobs")
    return page.text()


def _row(job: JobStatus) -> list[Piece]:
    workers = job.workers
    done = workers.succeeded if job.phase in ENDED else workers.running
    return [
        str(job.key),
        Styled(job.phase.value, _STYLES.get(job.phase, Style.WARNING)),
        f"{done}/{workers.wanted}" if workers.wanted else "-",
        "-" if job.restarts is None else str(job.restarts),
        str(job.gpus or "-"),
        job.queue or "-",
        _minute(job.started_at),
        _minute(job.finished_at),
        _note(job),
    ]


def _wished(job: JobStatus) -> list[Piece]:
    memory = job.gpu_memory_mib
    return [
        "-" if job.priority is None else str(job.priority),
        "-" if memory is None else f"{memory} MiB",
        ", ".join(job.nodes) or "-",
    ]


def _minute(moment: str) -> str:
    """Return a time of the API server, which is UTC, to the minute."""
    return f"{moment[:16].replace('T', ' ')}Z" if moment else "-"


def _note(job: JobStatus) -> str:
    message = mask_text(job.message)
    is_said = job.reason in {"", job.phase.value}
    return message if is_said or not message else f"{job.reason}: {message}"


def status_json(cluster: str, jobs: Sequence[JobStatus], failures: Sequence[str]) -> dict[str, Any]:
    """Return the jobs of one cluster as plain data; words from the cluster are masked."""
    rows = [(job, to_builtins(job)) for job in jobs]
    return {
        "cluster": cluster,
        "failures": [mask_text(failure) for failure in failures],
        "jobs": [
            {
                "kind": row["key"]["kind"],
                "group": row["key"]["group"],
                "namespace": row["key"]["namespace"],
                "name": row["key"]["name"],
                "phase": row["phase"],
                "reason": row["reason"],
                "message": mask_text(row["message"]),
                "queue": row["queue"],
                "gpus": row["gpus"],
                "workers": row["workers"],
                "restarts": row["restarts"],
                "startedAt": row["started_at"],
                "finishedAt": row["finished_at"],
                **_wishes(job),
            }
            for job, row in rows
        ],
    }


def _wishes(job: JobStatus) -> dict[str, Any]:
    """Return what a job says about its placement, and the status of a GPUWorkload; nothing of other jobs."""
    found: dict[str, Any] = {} if job.priority is None else {"priority": job.priority}
    if job.gpu_memory_mib is not None:
        found |= {"gpuMemoryMiB": job.gpu_memory_mib, "gpuWorkload": gpu_workload_status(job)}
    return found


def summary_page(
    rows: Sequence[tuple[str, str, ClusterSummary]], *, width: int = 80, color: bool = False, unicode: bool = True
) -> str:
    """Render the sums of clusters: name, where they come from, and the sums."""
    page = Page(width=width, color=color, unicode=unicode)
    for cluster, source, found in rows:
        page.heading(cluster, Styled(f" ({source})", Style.DIM))
        gpus = (("total", found.total_gpus), ("available", found.available_gpus), ("in use", found.utilized_gpus))
        jobs = (
            ("pending", found.pending_workloads),
            ("running", found.running_workloads),
            ("completed", found.completed_workloads),
        )
        page.table(
            ("", ""),
            [
                ["nodes", _amounts((("total", found.total_nodes), ("active", found.active_nodes)))],
                ["GPUs", _amounts(gpus)],
                ["mean utilisation", _utilisation(found)],
                ["memory in use", _percent(found.memory_utilization)],
                ["workloads", _amounts(jobs)],
                ["updated", found.last_update_time or "unknown"],
            ],
        )
    return page.text()


def _amounts(amounts: Sequence[tuple[str, int | None]]) -> str:
    return ", ".join(f"{'unknown' if number is None else number} {name}" for name, number in amounts)


def _utilisation(found: ClusterSummary) -> str:
    is_part = found.average_utilization is not None and found.measured_gpus != found.total_gpus
    return _percent(found.average_utilization) + (f" of {found.measured_gpus} measured GPUs" if is_part else "")


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} %"


def summary_json(rows: Sequence[tuple[str, str, ClusterSummary]]) -> str:
    """Return the sums of all clusters as JSON, and those of each; what is not known is null."""
    clusters = [{"cluster": name, "source": source, **to_builtins(found)} for name, source, found in rows]
    sums: dict[str, Any] = to_builtins(total([found for _, _, found in rows]))
    return json.dumps({**sums, "clusters": clusters}, indent=2, ensure_ascii=False) + "\n"


def to_json(found: Sequence[dict[str, Any]]) -> str:
    """Return the clusters as JSON."""
    return json.dumps({"clusters": list(found)}, indent=2, ensure_ascii=False) + "\n"
