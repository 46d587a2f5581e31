"""The output of `reconciler status`: a table with the reason of each job that waits, or JSON."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.kinds.progress import ENDED, Phase
from reconciler.kube.secrets import mask_text
from reconciler.live.status.job_status import JobStatus

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


def _minute(moment: str) -> str:
    """Return a time of the API server, which is UTC, to the minute."""
    return f"{moment[:16].replace('T', ' ')}Z" if moment else "-"


def _note(job: JobStatus) -> str:
    message = mask_text(job.message)
    is_said = job.reason in {"", job.phase.value}
    return message if is_said or not message else f"{job.reason}: {message}"


def status_json(cluster: str, jobs: Sequence[JobStatus], failures: Sequence[str]) -> dict[str, Any]:
    """Return the jobs of one cluster as plain data; words from the cluster are masked."""
    rows = [to_builtins(job) for job in jobs]
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
            }
            for row in rows
        ],
    }


def to_json(found: Sequence[dict[str, Any]]) -> str:
    """Return the clusters as JSON."""
    return json.dumps({"clusters": list(found)}, indent=2, ensure_ascii=False) + "\n"
