"""Facts of the repository for a report: owners of pods, nodes, use of GPUs as evidence, and edits that free them."""

import datetime as dt
from collections.abc import Iterator

from msgspec import Struct

from reconciler.index.build import CompiledRevision
from reconciler.kube.objects import format_path
from reconciler.kube.times import duration
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, Usage
from reconciler.repo.evidence.utilisation import GpuPod, GpuUtilisation, GpuWindow, GpuWorkload
from reconciler.reports.measured import Directory, Measured, Pod, PodOwner
from reconciler.reports.series import GpuHours
from reconciler.reports.use import HeldGpus
from reconciler.sizing.prices import is_spot

_HOUR = 3600


class Freeing(Struct, frozen=True, kw_only=True, rename="camel"):
    """An edit that frees the GPUs of a job: its place, and what to write there. Without a place others created it."""

    place: str = ""
    edit: str = ""


def directory_of(index: CompiledRevision, cluster: str) -> Directory:
    """Return what the evidence of a cluster says about pods and nodes."""
    evidence = index.context.evidence
    use, usage, inventory = (
        evidence.utilisation.get(cluster),
        evidence.usage.get(cluster),
        evidence.inventories.get(cluster),
    )
    nodes = {node.name: node for node in inventory.nodes} if inventory is not None else {}
    known = {str(one.key): one for one in usage.workloads} if usage is not None else {}
    held = {(one.namespace, pod.name): one for one in (use.workloads if use is not None else ()) for pod in one.pods}

    def owner(pod: Pod, fallback: str) -> PodOwner:
        workload = held.get(pod)
        kind, _, name = fallback.partition("/")
        job = str(workload.key) if workload is not None else f"{kind}/{pod[0]}/{name}"
        found = known.get(job)
        queue = (found.cluster_queue or found.queue) if found is not None else ""
        queue = queue or (workload.queue if workload is not None else "")
        return PodOwner(job=job, queue=queue, team=(found.owner if found is not None else "") or pod[0])

    return Directory(
        cluster=cluster,
        owner=owner,
        product=lambda node: nodes[node].product if node in nodes else "",
        is_spot=lambda node: node in nodes and is_spot(tuple(nodes[node].labels.items())),
    )


def recorded_use(index: CompiledRevision, directory: Directory) -> tuple[Measured, float, str]:
    """Return the use that evidence has, the hours of its window, and when it was taken.

    Without `utilisation.yaml` it is what `usage.yaml` says runs, for an hour, of which nothing is measured.
    """
    evidence = index.context.evidence
    use, usage = evidence.utilisation.get(directory.cluster), evidence.usage.get(directory.cluster)
    if use is not None:
        held = tuple(_held(use, one, pod, directory) for one in use.workloads for pod in one.pods)
        return Measured(held=held), use.window_seconds / _HOUR, use.taken_at
    if usage is not None:
        note = "there is no utilisation.yaml: how busy GPUs are is not known; GPU hours are those of one hour"
        return Measured(held=tuple(_running(usage, directory)), notes=(note,)), 1.0, usage.observed_at
    return Measured(held=(), notes=("there is no evidence of use; run `reconciler observe`",)), 0.0, ""


def _held(use: GpuUtilisation, workload: GpuWorkload, pod: GpuPod, directory: Directory) -> HeldGpus:
    owner = directory.owner((workload.namespace, pod.name), "Pod/")
    return HeldGpus(
        cluster=directory.cluster,
        pod=f"{workload.namespace}/{pod.name}",
        job=owner.job,
        queue=owner.queue,
        team=owner.team,
        product=directory.product(pod.node),
        spot=directory.is_spot(pod.node),
        gpu_hours=pod.gpus * _run_hours(use, workload),
        gpus=tuple(_hours(window, use) for window in pod.busiest()),
    )


def _run_hours(use: GpuUtilisation, workload: GpuWorkload) -> float:
    """Return the hours of the window in which a workload ran."""
    try:
        ran = dt.datetime.fromisoformat(use.taken_at) - dt.datetime.fromisoformat(workload.started_at)
    except (ValueError, TypeError):
        return use.window_seconds / _HOUR
    return min(max(ran.total_seconds(), 0.0), use.window_seconds) / _HOUR


def _hours(window: GpuWindow, use: GpuUtilisation) -> GpuHours:
    covered = min(1.0, window.samples / window.expected) * use.window_seconds / _HOUR if window.expected else 0.0
    idle = window.idle_share
    if idle is None:  # only its mean is known: neither idle nor covered
        return GpuHours(peak=window.max)
    return GpuHours(covered=covered, busy=covered * window.mean / 100, idle=covered * idle, peak=window.max)


def _running(usage: Usage, directory: Directory) -> Iterator[HeldGpus]:
    for one in usage.workloads:
        for pods in one.pod_sets if one.state in (RUNNING, ADMITTED) else ():
            for node, number in pods.nodes if pods.pod_gpus else ():
                yield HeldGpus(
                    cluster=directory.cluster,
                    pod="",
                    job=str(one.key),
                    queue=one.cluster_queue or one.queue,
                    team=one.owner or one.namespace,
                    product=directory.product(node),
                    spot=directory.is_spot(node),
                    gpu_hours=float(number * pods.pod_gpus),
                )


def freeing(index: CompiledRevision, cluster: str, jobs: set[str]) -> dict[str, Freeing]:
    """Return the edits of the repository that free the GPUs of jobs."""
    found = {}
    for row in index.first_summaries():
        job = str(row.key)
        if row.cluster == cluster and job in jobs:
            pods = index.context.kinds.find(row.group, row.kind).pods
            edit = f"{format_path(pods.suspend)}: true" if pods.suspend else ""
            edit = edit or (f"{format_path(pods.scale)}: 0" if pods.scale else "remove the document")
            found[job] = Freeing(place=f"{row.place.path}:{row.place.line}", edit=edit)
    return found


def usage_note(usage: Usage | None, now: dt.datetime) -> str:
    """Return when the use of a cluster was observed, and what of it is not known."""
    if usage is None:
        return "there is no usage.yaml: who runs and waits is not known; run `reconciler observe`"
    try:
        seconds = (now - dt.datetime.fromisoformat(usage.observed_at)).total_seconds()
        age = f" ({duration(seconds)} ago)" if seconds >= 0 else ""
    except (ValueError, TypeError):
        age = ""
    missing = f"; {'; '.join(usage.coverage)}" if usage.coverage else ""
    return f"usage.yaml of {usage.observed_at}{age}{missing}"
