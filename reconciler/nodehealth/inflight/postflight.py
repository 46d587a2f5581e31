"""The errors of a job: the growth of its GPUs' counters from its start to its end, as findings."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.checks.diagnostics import JOB_ERRORS
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.watch import WatchedJob
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import XID_CHECK
from reconciler.nodehealth.readings import GpuIdentity, NodeReading, ReadingId, Sweep
from reconciler.nodehealth.report import NodeReport, ProfileRun, with_found

KEPT_SECONDS = 7 * 86400.0


class JobErrors(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The errors of one job on one GPU. grown: counters that grew. ended_at, seconds: of the job, as it was watched."""

    node: str
    slot: str
    uuid: str = ""
    namespace: str
    job: str
    ended_at: float
    seconds: float
    grown: Mapping[str, float] = {}

    def finding(self) -> HealthFinding:
        """Return what the check says about it."""
        reading = NodeReading(name=ReadingId.JOB_ERRORS, slot=self.slot, value={**self.grown, "seconds": self.seconds})
        gpu = GpuIdentity(slot=self.slot, uuid=self.uuid)
        sweep = Sweep(node=self.node, taken_at=self.ended_at, gpus=(gpu,), readings=(reading,))
        (found,) = judge(sweep, only=(JOB_ERRORS,))
        return replace(found, message=f"{found.message} while {self.namespace}/{self.job} ran", since=self.ended_at)


def job_errors(job: WatchedJob, reports: Mapping[str, NodeReport]) -> tuple[JobErrors, ...]:
    """Return what a job left on each of its GPUs. A counter that fell was reset, and counts from there."""
    found = []
    for node, slots in sorted(job.first.items()):
        uuids = {gpu.slot: gpu.uuid for gpu in reports[node].gpus} if node in reports else {}
        for slot, before in sorted(slots.items()):
            after = job.last.get(node, {}).get(slot, {})
            grown = {
                name: after[name] - count if after[name] >= count else after[name]
                for name, count in before.items()
                if name in after and after[name] != count
            }
            found.append(
                JobErrors(
                    node=node,
                    slot=slot,
                    uuid=uuids.get(slot, ""),
                    namespace=job.job.namespace,
                    job=job.job.name,
                    ended_at=job.ended_at,
                    seconds=job.ended_at - job.since,
                    grown=grown,
                )
            )
    return tuple(found)


def xids_of(job: WatchedJob, reports: Mapping[str, NodeReport]) -> tuple[HealthFinding, ...]:
    """Return the Xids that began on the GPUs of a job while it ran."""
    return tuple(
        one
        for node, slots in sorted(job.first.items())
        if node in reports
        for one in reports[node].findings
        if one.check == XID_CHECK and one.slot in slots and job.since <= one.since <= job.ended_at
    )


def newest(known: Iterable[JobErrors], found: Iterable[JobErrors], now: float) -> tuple[JobErrors, ...]:
    """Return what the last job of each GPU left, of this week."""
    rows = sorted((*known, *found), key=lambda one: (one.node, one.slot, one.ended_at))
    last = (list(group)[-1] for _, group in groupby(rows, key=lambda one: (one.node, one.slot)))
    return tuple(one for one in last if 0 <= now - one.ended_at < KEPT_SECONDS)


def with_job_errors(reports: Mapping[str, NodeReport], errors: Iterable[JobErrors]) -> dict[str, NodeReport]:
    """Return the reports with what the last jobs left: findings, or a pass where there is nothing left of any.

    What a deep run passed after the job is over, and so is what a GPU has that was replaced.
    """
    by_node = {node: list(group) for node, group in groupby(errors, key=lambda one: one.node)}
    return {name: _with(report, by_node[name]) if name in by_node else report for name, report in reports.items()}


def _with(report: NodeReport, errors: Iterable[JobErrors]) -> NodeReport:
    present = {gpu.slot: gpu.uuid for gpu in report.gpus}
    tested = max((run.finished_at for run in report.runs if _is_deep_pass(run)), default=0.0)
    there = [one for one in errors if present.get(one.slot, "") == one.uuid]
    is_tested = bool(tested) and all(one.ended_at < tested for one in there)
    profile = ProbeProfile.DEEP if is_tested else ProbeProfile.POSTFLIGHT
    found = [(replace(one, grown={}) if one.ended_at < tested else one).finding() for one in there]
    return with_found(report, JOB_ERRORS, [replace(one, profile=profile) for one in found])


def _is_deep_pass(run: ProfileRun) -> bool:
    return run.profile.weight >= ProbeProfile.DEEP.weight and run.status is CheckStatus.PASS
