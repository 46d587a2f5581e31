"""The status of jobs, from live clusters and the repository."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from difflib import get_close_matches

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision
from reconciler.kinds.facts import KindId
from reconciler.kinds.kai import POD_GROUP, QUEUE
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from reconciler.kinds.progress import Phase, Workers
from reconciler.kinds.workloads import NODE, PERSISTENT_VOLUME_CLAIM, POD
from reconciler.kube.client.port import CONCURRENCY, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.live.observe.reading import KindObjects, OpenCluster, for_each_cluster, open_all, read_kind
from reconciler.live.status.job_status import JobStatus, absent_status, gone_status, job_statuses
from reconciler.live.status.live import Body, ClusterObjects
from reconciler.plan.workspace import Workspace
from reconciler.repo.config import Cluster
from reconciler.repo.evidence.runs import FinishedRun
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, SUSPENDED, WAITING, UsedWorkload


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """The jobs of one cluster. `failures`: what could not be read, or why the cluster could not be reached."""

    cluster: str
    jobs: tuple[JobStatus, ...] = ()
    failures: tuple[str, ...] = ()


class RenderedJobs(Struct, frozen=True, kw_only=True):
    """The jobs that the repository renders for one cluster, its services with GPUs, and jobs that have ended."""

    cluster: Cluster
    keys: tuple[ObjectKey, ...]
    runs: dict[ObjectKey, FinishedRun]


def rendered_jobs(workspace: Workspace) -> tuple[CompiledRevision, tuple[RenderedJobs, ...]]:
    """Compile the repository, and return its jobs by cluster."""
    index = workspace.compile()
    kinds = index.context.kinds
    keys: dict[str, list[ObjectKey]] = {}
    for row in index.first_summaries():
        life = kinds.find(row.group, row.kind).life
        if life.progress is not None or (life.serving is not None and row.gpus):
            keys.setdefault(row.cluster, []).append(row.key)
    runs = index.context.evidence.runs
    return index, tuple(
        RenderedJobs(
            cluster=cluster,
            keys=tuple(keys.get(cluster.name, ())),
            runs=dict(runs[cluster.name].runs) if cluster.name in runs else {},
        )
        for cluster in index.clusters
    )


def status(index: CompiledRevision, jobs: RenderedJobs, live: LiveCluster) -> ClusterStatus:
    """Return the status of the jobs of one cluster. What cannot be read is a failure, and is not guessed."""
    kinds, name = index.context.kinds, jobs.cluster.name
    services = dict.fromkeys((key.group, key.kind) for key in jobs.keys)
    read = _read_all(live, [*(row.id for row in kinds.values() if row.life.progress is not None), *services])
    state, failures = _state(read)
    return ClusterStatus(
        cluster=name, jobs=job_statuses(kinds, name, state, jobs.keys, jobs.runs), failures=tuple(failures)
    )


def statuses(workspace: Workspace, open_cluster: OpenCluster) -> Iterator[ClusterStatus]:
    """Return the status of every chosen cluster."""
    index, clusters = rendered_jobs(workspace)

    def seen(opened: tuple[RenderedJobs, LiveCluster | ClusterError]) -> ClusterStatus:
        jobs, live = opened
        if isinstance(live, ClusterError):
            return ClusterStatus(cluster=jobs.cluster.name, failures=(live.message,))
        return status(index, jobs, live)

    with ExitStack() as stack:
        lives = [live for _, live in open_all(stack, open_cluster, [jobs.cluster for jobs in clusters])]
        yield from for_each_cluster(seen, list(zip(clusters, lives, strict=True)))


_OTHERS: tuple[KindId, ...] = (
    POD,
    WORKLOAD,
    POD_GROUP,
    LOCAL_QUEUE,
    CLUSTER_QUEUE,
    QUEUE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
)


def _read_all(live: LiveCluster, jobs: Sequence[KindId]) -> dict[KindId, KindObjects]:
    kinds = list(dict.fromkeys((*jobs, *_OTHERS)))
    live.discover()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return dict(zip(kinds, pool.map(lambda kind: read_kind(live, kind), kinds), strict=True))


def _state(read: dict[KindId, KindObjects]) -> tuple[ClusterObjects, list[str]]:
    def objects(*kinds: KindId) -> Sequence[Body] | None:
        """Return the objects of kinds; None if one of them could not be read."""
        if any(read[kind].failure for kind in kinds):
            return None
        return [body for kind in kinds for body in read[kind].objects]

    others = set(_OTHERS)
    state = ClusterObjects(
        jobs=[body for kind, found in read.items() if kind not in others for body in found.objects],
        pods=objects(POD),
        workloads=objects(WORKLOAD),
        pod_groups=objects(POD_GROUP),
        aliases=objects(LOCAL_QUEUE),
        queues=objects(CLUSTER_QUEUE, QUEUE),
        nodes=objects(NODE),
        claims=objects(PERSISTENT_VOLUME_CLAIM),
        unread={kind: found.failure for kind, found in read.items() if found.failure and kind not in others},
    )
    return state, [found.failure for found in read.values() if found.failure]


def choose(found: Sequence[ClusterStatus], name: str) -> list[ClusterStatus]:
    """Return the jobs that a name means: `NAME`, `NAMESPACE/NAME` or `KIND/NAMESPACE/NAME`; raises if none."""
    chosen = [
        ClusterStatus(
            cluster=one.cluster, failures=one.failures, jobs=tuple(job for job in one.jobs if _is_named(job, name))
        )
        for one in found
    ]
    if name and not any(one.jobs or one.failures for one in chosen):
        raise ConfigError(f"no job {name!r}", hint=_near(found, name))
    return chosen


def _is_named(job: JobStatus, name: str) -> bool:
    parts = (job.key.kind, job.key.namespace, job.key.name)
    words = name.split("/")
    return not name or parts[-len(words) :] == tuple(words)


def _near(found: Sequence[ClusterStatus], name: str) -> str:
    names = sorted({job.key.name for one in found for job in one.jobs})
    near = get_close_matches(name.rpartition("/")[2], names, n=3)
    return f"did you mean {' or '.join(near)}?" if near else "`reconciler status` lists all jobs"


def watch_statuses(
    workspace: Workspace, open_cluster: OpenCluster, wait: Callable[[], None]
) -> Iterator[list[ClusterStatus]]:
    """Yield the status of every cluster whenever it differs from the last one; `wait` ends it by an exception."""
    index, clusters = rendered_jobs(workspace)
    nothing: list[ClusterStatus | None] = [None] * len(clusters)
    opened = [(jobs, open_cluster(jobs.cluster)) for jobs in clusters]
    last: list[ClusterStatus] | None = None
    try:
        while True:
            found = [
                _after(status(index, jobs, live), before)
                for (jobs, live), before in zip(opened, last or nothing, strict=True)
            ]
            if found != last:
                yield found
            last = found
            wait()
    finally:
        for _, live in opened:
            live.close()


def _after(now: ClusterStatus, before: ClusterStatus | None) -> ClusterStatus:
    """Return a status that still shows the jobs of the last one that are gone."""
    if before is None or now.failures:
        return now
    known = {job.key for job in now.jobs}
    gone = [gone_status(job) for job in before.jobs if job.key not in known]
    jobs = sorted((*now.jobs, *gone), key=lambda job: (job.key.namespace, job.key.name, job.key.kind))
    return ClusterStatus(cluster=now.cluster, jobs=tuple(jobs), failures=now.failures)


_OF_USAGE = {RUNNING: Phase.RUNNING, ADMITTED: Phase.STARTING, WAITING: Phase.QUEUED, SUSPENDED: Phase.SUSPENDED}


def recorded_statuses(workspace: Workspace) -> Iterator[ClusterStatus]:
    """Yield the status of jobs as evidence has it: what runs and waits, and what has ended. The rest is unknown."""
    index, clusters = rendered_jobs(workspace)
    index.reject_broken_evidence()
    for jobs in clusters:
        usage = index.context.evidence.usage.get(jobs.cluster.name)
        used = {one.key: one for one in (usage.workloads if usage is not None else ())}
        nothing = ClusterObjects(
            unread={(key.group, key.kind): _NO_USAGE for key in jobs.keys} if usage is None else {}
        )
        keys = sorted({*jobs.keys, *used}, key=lambda key: (key.namespace, key.name, key.kind))
        found = [
            _recorded(jobs.cluster.name, used[key], usage.observed_at)
            if key in used and usage is not None
            else absent_status(jobs.cluster.name, key, jobs.runs.get(key), nothing)
            for key in keys
        ]
        yield ClusterStatus(cluster=jobs.cluster.name, jobs=tuple(found), failures=usage.coverage if usage else ())


_NO_USAGE = "no evidence says what runs; run `reconciler observe`"


def _recorded(cluster: str, workload: UsedWorkload, moment: str) -> JobStatus:
    wanted = sum(pods.count for pods in workload.pod_sets)
    nodes = sorted({name for pods in workload.pod_sets for name, _ in pods.nodes})
    reason = next(iter(workload.conditions), None)
    return JobStatus(
        cluster=cluster,
        key=workload.key,
        phase=_OF_USAGE.get(workload.state, Phase.UNKNOWN),
        queue=workload.queue,
        gpus=workload.gpus,
        workers=Workers(wanted=wanted, running=wanted if workload.state == RUNNING else 0),
        started_at=workload.started_at,
        reason=reason.reason if reason is not None else "",
        message=(reason.message if reason is not None else "") or f"as of {moment}",
        nodes=tuple(nodes),
    )
