"""Where the jobs of a plan would run: what the evidence of use says of each cluster, and the forecast on it."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.renderer import Renderer
from reconciler.kinds.kind import Kinds
from reconciler.kinds.quantities import exact
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import TopologyTerms
from reconciler.kube.objects import ObjectKey
from reconciler.kube.times import is_too_old
from reconciler.kube.values import plural
from reconciler.placement import (
    Intent,
    JobPlacement,
    Outlook,
    PlacementEvidence,
    QueuedJob,
    outlook,
)
from reconciler.placement.jobs import job_of_row
from reconciler.plan.admissions_kai import NEVER, WAITS
from reconciler.plan.baseline import Baseline
from reconciler.plan.findings import age_of
from reconciler.plan.plan import PlacedWorkload, PlacementLine, Plan
from reconciler.queues.queues import QueueUsage
from reconciler.repo.config import Config
from reconciler.repo.config.placement import PlacementSettings
from reconciler.repo.evidence.usage import SUSPENDED, WAITING, Usage

_GONE = ("removed", "suspended", "finished")
_STAYS = ("refused", "renamed")
_RECENT_DAYS = 1
_MOST = 200  # workloads that the plan leaves as they are, and whose manifests are read


class ClusterForecast(Struct, frozen=True, kw_only=True):
    """The inputs of a forecast for one cluster. unknown: why there is none. days: age of the evidence.

    queues: those of the head.
    """

    cluster: str
    settings: PlacementSettings
    evidence: PlacementEvidence | None = None
    intent: Intent = Intent()
    queues: QueueUsage = msgspec.field(default_factory=QueueUsage)
    days: int | None = None
    unknown: str = ""

    def look(self, strategy: str = "", changed: PlacementEvidence | None = None) -> Outlook:
        """Return the placement by a strategy, by default that of the settings."""
        if self.evidence is None:
            raise ValueError(self.unknown)
        return outlook(self.evidence, strategy or self.settings.strategy, self.intent, changed=changed)


def forecasts(  # noqa: PLR0917 - the parts of a plan that is made
    plan: Plan,
    index: CompiledRevision,
    usage: Mapping[str, QueueUsage],
    renderer: Renderer,
    baseline: Baseline,
    day: dt.date | None,
) -> tuple[ClusterForecast, ...]:
    """Return what is known of each cluster with evidence of use, or with settings of placement."""
    found = []
    config = index.context.config
    is_set = config.placement != PlacementSettings()
    for cluster in index.clusters:
        name = cluster.name
        if name not in index.context.evidence.usage and not is_set:
            continue
        queues = usage.get(name, QueueUsage())
        evidence, days, unknown = _evidence(index, queues, config, name, day)
        one = ClusterForecast(
            cluster=name, settings=cluster.placement, evidence=evidence, days=days, unknown=unknown, queues=queues
        )
        if evidence is not None:
            reading = _JobReading(index, queues, renderer, baseline, name)
            one = replace(one, intent=reading.intent(plan, evidence.usage))
        found.append(one)
    return tuple(found)


def placement_lines(plan: Plan, found: Iterable[ClusterForecast]) -> tuple[PlacementLine, ...]:
    """Return the placement of the clusters in which the GPUs of jobs change."""
    changed = {job.cluster for job in plan.jobs} | {job.cluster_before for job in plan.jobs}
    return tuple(placement_line(one) for one in found if one.cluster in changed)


def placement_line(
    one: ClusterForecast, strategy: str = "", seen: Outlook | None = None, *, every: bool = False
) -> PlacementLine:
    """Return the line of a cluster for a strategy, by default its own; with `every` workload that waits."""
    strategy = strategy or one.settings.strategy
    line = PlacementLine(cluster=one.cluster, strategy=strategy, days=one.days, unknown=one.unknown)
    if one.evidence is None:
        return line
    found = seen or one.look(strategy)
    before, after = found.before, found.after
    earlier = {job.job.key: job for job in before.jobs}
    shown = (
        placed
        for placed in after.jobs
        if every or placed.job.is_changed or _differs(placed, earlier.get(placed.job.key))
    )
    return replace(
        line,
        observed_at=one.evidence.usage.observed_at,
        gpus=_gpus(after.gpus),
        used=_gpus(before.used),
        allocated_before=_gpus(before.allocated),
        allocated_after=_gpus(after.allocated),
        stranded_before=_gpus(before.stranded),
        stranded_after=_gpus(after.stranded),
        racks_before=before.racks,
        racks_after=after.racks,
        workloads=tuple(_workload(placed, earlier.get(placed.job.key)) for placed in shown),
        excluded=tuple(
            f"{plural(one.nodes, 'node')} with {plural(one.gpus, 'GPU')}: {one.why}" for one in found.excluded
        ),
        notes=found.notes,
    )


def word_of(placed: JobPlacement) -> str:
    """Return whether a workload starts, waits for room, or is queued for quota."""
    if placed.is_placed:
        return "starts"
    return "queued" if placed.job.held else "unknown" if placed.job.unknown else "waits"


def _differs(placed: JobPlacement, earlier: JobPlacement | None) -> bool:
    return earlier is not None and word_of(placed) != word_of(earlier)


def _workload(placed: JobPlacement, earlier: JobPlacement | None) -> PlacedWorkload:
    return PlacedWorkload(
        key=placed.job.key,
        word=word_of(placed),
        gpus=_gpus(placed.job.amount / 1000),
        strategy=placed.strategy,
        nodes=placed.nodes,
        racks=placed.racks,
        guaranteed_by=placed.job.guaranteed_by,
        why=placed.why,
        notes=placed.notes,
        before=word_of(earlier) if earlier is not None else "",
        source=placed.job.place,
    )


def _gpus(amount: float) -> int | float:
    return exact(round(float(amount), 2))


def _evidence(
    index: CompiledRevision, queues: QueueUsage, config: Config, cluster: str, day: dt.date | None
) -> tuple[PlacementEvidence | None, int | None, str]:
    """Return the evidence of a cluster and its age in days, or why it cannot be used."""
    known = index.context.evidence
    inventory, usage = known.inventories.get(cluster), known.usage.get(cluster)
    if usage is None:
        return None, None, "there is no evidence of use; `reconciler observe` records it"
    if inventory is None or not inventory.nodes:
        return None, None, "there is no evidence of nodes; `reconciler observe` records it"
    ages = [age_of(index, usage.observed_at, day), age_of(index, inventory.taken_at, day)]
    days = max((age for age in ages if age is not None), default=None)
    most = config.evidence_days
    if days is not None and is_too_old(days, most):
        return None, days, f"the evidence is {plural(days, 'day')} old, and spec.evidence.maxAge allows {most}"
    levels = [row.terms.levels for row in queues.deciding.values() if isinstance(row.terms, TopologyTerms)]
    evidence = PlacementEvidence(
        inventory=inventory,
        usage=usage,
        utilisation=known.utilisation.get(cluster),
        health=known.health.get(cluster),
        levels=max(levels, key=lambda names: (len(names), names), default=()),
        goal=config.placement.utilisation_goal,
    )
    shown = days is not None and (most is not None or days > _RECENT_DAYS)
    return evidence, days if shown else None, ""


class _JobReading:
    """Reads the jobs of a cluster that need nodes."""

    def __init__(
        self, index: CompiledRevision, queues: QueueUsage, renderer: Renderer, baseline: Baseline, cluster: str
    ) -> None:
        self._index, self._queues, self._renderer, self._baseline = index, queues, renderer, baseline
        self._cluster = cluster

    def intent(self, plan: Plan, usage: Usage) -> Intent:
        """Return what changes want, and what the repository says of workloads that they leave as they are.

        As admission is forecast, what is preempted gives its nodes back, and what gets no quota takes none.
        """
        admissions = [line for line in plan.admissions if line.cluster == self._cluster]
        held = {line.key: line.reason for line in admissions if line.verdict in (WAITS, NEVER)}
        jobs: dict[ObjectKey, QueuedJob] = {}
        gone = {displaced.key for line in admissions for displaced in line.displaces}
        for change in plan.jobs:
            if change.word in _STAYS:
                continue
            if (change.cluster_before or change.cluster) == self._cluster:
                gone.add(change.key_before or change.key)
            if change.cluster == self._cluster and change.word not in _GONE:
                job = self._changed(change.key)
                if job is not None:
                    jobs[change.key] = replace(job, place=change.source or job.place, held=held.get(change.key, ""))
        used = sorted(usage.workloads, key=lambda one: one.state != WAITING)  # what waits is read first
        known = self._known((one.key for one in used if one.state != SUSPENDED), jobs)
        return Intent(jobs=tuple(jobs[key] for key in sorted(jobs)), gone=frozenset(gone), known=known)

    def _changed(self, key: ObjectKey) -> QueuedJob | None:
        path = self._kinds.manifest_path(self._cluster, key)
        if path not in self._index.desired:
            return None
        return self._job(self._index.summaries([path])[path], self._renderer.object(path).manifest.body)

    def _known(self, keys: Iterable[ObjectKey], jobs: Mapping[ObjectKey, QueuedJob]) -> dict[ObjectKey, QueuedJob]:
        """Return what is known of other workloads of the repository; of the first ones with their manifests."""
        paths = {self._kinds.manifest_path(self._cluster, key): key for key in keys if key not in jobs}
        present = [path for path in paths if path in self._index.desired]
        return {
            paths[path]: self._job(row, self._baseline.body(path) if number < _MOST else None)
            for number, (path, row) in enumerate(self._index.summaries(present).items())
        }

    @property
    def _kinds(self) -> Kinds:
        return self._index.context.kinds

    def _job(self, row: ObjectSummary, body: Mapping[str, Any] | None) -> QueuedJob:
        return job_of_row(self._queues.resolve(row), body, self._kinds, self._queues.priorities)
