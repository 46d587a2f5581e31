"""Jobs on nodes whose agents report, for tests of what is said about running jobs."""

from typing import Any

from reconciler.nodehealth.inflight.watch import ObservedJobs, PlacedJob, WatchedJob, look
from reconciler.nodehealth.readings import GpuIdentity
from reconciler.nodehealth.report import GpuUse, NodeReport
from tests.nodehealth.reports import NOW, slot

MINUTE = 60.0
BUSY: dict[str, Any] = {"watts": 600.0, "utilization": 99.0, "traffic": 1e9, "occupied": True}
SPINS: dict[str, Any] = {**BUSY, "watts": 200.0, "traffic": 0.0, "utilization": 100.0}
IDLE: dict[str, Any] = {**BUSY, "watts": 90.0, "traffic": 0.0, "utilization": 0.0}


def job(gpus: dict[str, int] | None = None, **fields: Any) -> PlacedJob:
    placed = {"a": 8, "b": 8} if gpus is None else gpus
    known = {"api_version": "batch/v1", "kind": "Job", "namespace": "vision", "name": "train", "uid": "1"}
    return PlacedJob(**{**known, "gpus": placed, **fields})


def report(node: str, at: float, *, gpus: int = 8, errors: dict[str, float] | None = None, **use: Any) -> NodeReport:
    """Return a report of GPUs that are all used in the same way; the first has these counters."""
    uses = tuple(
        GpuUse(slot=slot(index), **{**BUSY, "errors": errors or {} if index == 0 else {}, **use})
        for index in range(gpus)
    )
    identities = tuple(GpuIdentity(slot=slot(index), index=index, uuid=f"GPU-{index}") for index in range(gpus))
    return NodeReport(node=node, measured_at=at, gpus=identities, activity=uses)


class Watched:
    """Looks at jobs once a minute, as the controller does."""

    def __init__(self) -> None:
        self.at = NOW
        self.known: tuple[WatchedJob, ...] = ()
        self.begun: list[tuple[str, float]] = []

    def look(
        self, placed: tuple[PlacedJob, ...] = (job(),), reports: dict[str, NodeReport] | None = None
    ) -> ObservedJobs:
        reports = reports if reports is not None else {node: report(node, self.at) for node in "ab"}
        observed = look(self.known, placed, reports, self.at)
        self.known = observed.jobs
        self.begun += [(one.problem.kind, self.at - NOW) for one in observed.begun if one.problem is not None]
        self.at += MINUTE
        return observed

    def minutes(self, count: int, **use: Any) -> ObservedJobs:
        """Look for some minutes, during which all GPUs are used like this; return the last look."""
        return [self.look(reports={node: report(node, self.at, **use) for node in "ab"}) for _ in range(count)][-1]
