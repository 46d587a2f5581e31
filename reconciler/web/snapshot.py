"""The state of a config repository that the pages show: its plan, and for each cluster jobs, queues, nodes and use."""

import contextlib
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.index.evidence import Evidence
from reconciler.index.totals import evaluate_totals
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import is_too_old
from reconciler.kube.values import plural
from reconciler.live.observe.capacity import recorded_summaries
from reconciler.live.status.summary import ClusterSummary
from reconciler.nodehealth.fleet.evidence import FleetHealth
from reconciler.plan import Plan, use_cases
from reconciler.plan.findings import age_of
from reconciler.plan.opening import Run
from reconciler.plan.outputs.commit import PLAN_DIGEST, trailers_of
from reconciler.plan.placement import ClusterForecast
from reconciler.plan.planning import Planned
from reconciler.queues.queues import NO_QUEUE, QueueUsage
from reconciler.repo.evidence.usage import Usage, UsedWorkload
from reconciler.repo.port import Commit, Repository
from reconciler.reports.making import recorded_report
from reconciler.reports.pages import Report
from reconciler.sizing.inventory import Inventory
from reconciler.sizing.prices import Prices

_COMMITS = 30
_MAX_SHOWN = 3 << 20  # bytes of a file


class ClusterState(Struct, frozen=True, kw_only=True):
    """One cluster: what the repository wants there, and what its evidence says.

    None: there is no such evidence, or `spec.evidence.maxAge` does not allow its age; then `expired` says so, by the
    name of the evidence, with the place of its document.
    """

    name: str
    jobs: tuple[ObjectSummary, ...]
    queues: QueueUsage
    prices: Prices
    inventory: Inventory | None
    usage: Usage | None
    health: FleetHealth | None
    expired: Mapping[str, tuple[SourceRef | None, str]] = {}

    @property
    def used_gpus(self) -> dict[str, int] | None:
        """The GPUs in use by node; None: nothing says so."""
        return None if self.usage is None else self.usage.held_gpus()

    @property
    def observed(self) -> dict[ObjectKey, UsedWorkload]:
        """The workloads that were seen, by identity."""
        return {} if self.usage is None else {one.key: one for one in self.usage.workloads}


class PastCommit(Struct, frozen=True, kw_only=True):
    """A commit of the history. `plan`: the digest of the plan that it carried out; empty for one of a person."""

    oid: str
    committed_at: str
    subject: str
    plan: str


class Snapshot(Struct, frozen=True, kw_only=True):
    """One state of the repository, as the pages show it."""

    repository: str
    plan: Plan
    clusters: tuple[ClusterState, ...]
    history: tuple[PastCommit, ...] = ()
    reports: tuple[Report, ...] = ()
    sums: tuple[tuple[str, str, ClusterSummary], ...] = ()
    forecasts: tuple[ClusterForecast, ...] = ()

    @property
    def revision(self) -> str:
        """The state in words."""
        head = self.plan.head
        return f"{head.label} {head.commit[:12]}".strip()


def take(run: Run, *, name: str) -> Snapshot:
    """Plan the working tree, and collect the rest of what the pages show."""
    planned = use_cases.plan(run.workspace, base=run.settings.base, date=run.settings.date)
    index = planned.index
    usage = evaluate_totals(index).usage
    jobs: dict[str, list[ObjectSummary]] = {}
    for row in index.first_summaries():
        if row.is_workload and not row.provides and (row.gpus or row.demands):
            jobs.setdefault(row.cluster, []).append(row)
    clusters = tuple(
        _cluster(planned, cluster.name, tuple(jobs.get(cluster.name, ())), usage.get(cluster.name, QueueUsage()))
        for cluster in index.clusters
    )
    repository = run.workspace.repository
    commit = run.workspace.tree.commit or (None if repository.is_unborn() else repository.resolve("HEAD"))
    history = tuple(islice(_history(repository, commit), _COMMITS))
    return Snapshot(
        repository=name,
        plan=planned.plan,
        clusters=clusters,
        history=history,
        reports=tuple(recorded_report(index, kind) for kind in ("efficiency", "cost")),
        sums=tuple(recorded_summaries(index)),
        forecasts=planned.forecasts(),
    )


def _history(repository: Repository, commit: Commit | None) -> Iterator[PastCommit]:
    """Yield the main line of the history, the newest commit first."""
    while commit is not None:
        yield PastCommit(
            oid=commit.oid,
            committed_at=commit.committed_at,
            subject=commit.subject,
            plan=trailers_of(commit.message).get(PLAN_DIGEST, ""),
        )
        commit = repository.resolve(commit.parents[0]) if commit.parents else None


def _cluster(planned: Planned, name: str, jobs: tuple[ObjectSummary, ...], queues: QueueUsage) -> ClusterState:
    evidence: Evidence = planned.index.context.evidence
    cluster = next(one for one in planned.index.clusters if one.name == name)
    inventory, usage, health = evidence.measured.get(name), evidence.usage.get(name), evidence.health.get(name)
    taken = [("nodes", inventory.document, inventory.taken_at)] if inventory is not None else []
    taken += [("use", usage.document, usage.observed_at)] if usage is not None else []
    taken += [("health", health.document, health.taken_at)] if health is not None else []
    expired = {
        kind: (document.source if document is not None else None, why)
        for kind, document, moment in taken
        if (why := _too_old(planned, moment))
    }
    return ClusterState(
        name=name,
        jobs=jobs,
        queues=queues,
        prices=cluster.prices,
        inventory=None if "nodes" in expired else inventory,
        usage=None if "use" in expired else usage,
        health=None if "health" in expired else health,
        expired=expired,
    )


def _too_old(planned: Planned, moment: str) -> str:
    """Return why evidence of a moment says nothing any more; empty if it does."""
    days, most = age_of(planned.index, moment, planned.day), planned.index.context.config.evidence_days
    if days is None or not is_too_old(days, most):
        return ""
    return f"taken at {moment}, {plural(days, 'day')} old, and spec.evidence.maxAge allows {most}"


def queue_name(state: ClusterState, job: ObjectSummary) -> str:
    """Return the name of the queue that a job is counted in; empty without one."""
    queue = state.queues.queue_of(job)
    return "" if queue == NO_QUEUE else queue.name


def read_shown(repository: Repository, path: str, revision: str = "") -> str | None:
    """Return a file of a revision, or of the working tree, for people: only YAML, and none that mentions a Secret."""
    if not path.endswith((".yaml", ".yml")):
        return None
    with contextlib.suppress(ReconcilerError):
        commit = repository.resolve(revision).oid if revision else ""
        entry = repository.tree(commit, (path,)).get(path) if commit else repository.work_file(path)
        if entry is not None and entry.is_file:
            raw = next(iter(repository.read([entry.oid])))
            if len(raw) <= _MAX_SHOWN and b"Secret" not in raw:
                return mask_text(raw.decode("utf-8", "replace"))
    return None
