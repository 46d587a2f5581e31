"""What `reconciler health` says about jobs."""

from reconciler.health.pages.fleet import health_json, render_health
from reconciler.nodehealth.fleet.overview import HealthOverview
from reconciler.nodehealth.fleet.state import BreakerState
from reconciler.nodehealth.inflight.notes import JobNote, JobNoteKind
from tests.nodehealth.reports import NOW

NOTE = JobNote(
    kind=JobNoteKind.HUNG,
    api_version="batch/v1",
    object_kind="Job",
    namespace="vision",
    name="train",
    uid="1",
    since=NOW - 900,
    text="no progress for 10 min; 16 GPUs waiting, 4.0 GPU hours so far",
)
VIEW = HealthOverview(cluster="main", nodes=(), pools=(), breaker=BreakerState(), jobs=(NOTE,))


def test_a_hanging_job_is_a_line_of_its_cluster() -> None:
    """F-097: name, problem, since when, and what it costs."""
    text = render_health("main", VIEW, "", NOW, width=200)
    assert "job vision/train: hung, 15 min ago: no progress for 10 min; 16 GPUs waiting, 4.0 GPU hours so far" in text
    assert "job vision" not in render_health("main", VIEW, "", NOW, node="gpu-1", width=200)
    (row,) = health_json("main", VIEW, "")["jobs"]
    assert (row["kind"], row["namespace"], row["name"]) == ("hung", "vision", "train")
