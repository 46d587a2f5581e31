"""Kaiwo (`kaiwo.silogen.ai`): jobs and services with or without Ray, queues of Kueue, and defaults of a cluster.

Its workloads become the objects that they describe: no operator of Kaiwo is needed.
"""

from collections.abc import Iterator

from reconciler.kinds.aspects import Dependents, Life, Lookup, Source
from reconciler.kinds.facts import Body
from reconciler.kinds.kaiwo.config import KaiwoConfig, config_intent
from reconciler.kinds.kaiwo.queues import queue_config_intent, render_queues
from reconciler.kinds.kaiwo.workload import Workload, job_intent, service_intent
from reconciler.kinds.kind import Kind
from reconciler.kinds.progress import ENDED, Phase, Progress, status_of
from reconciler.kinds.rendered import Rendered
from reconciler.kube.values import mapping, sequence, text

GROUP = "kaiwo.silogen.ai"


_PHASES = {
    "": Phase.PENDING,
    "NEW": Phase.PENDING,
    "DOWNLOADING": Phase.SYNCING,
    "PENDING": Phase.PENDING,
    "STARTING": Phase.STARTING,
    "READY": Phase.RUNNING,
    "RUNNING": Phase.RUNNING,
    "COMPLETE": Phase.SUCCEEDED,
    "ERROR": Phase.ERROR,
    "FAILED": Phase.FAILED,
    "TERMINATING": Phase.TERMINATING,
    "TERMINATED": Phase.TERMINATED,
}


def kaiwo_progress(body: Body) -> Progress:
    """Read a KaiwoJob or KaiwoService."""
    status = status_of(body)
    phase = _PHASES.get(text(status.get("status")), Phase.UNKNOWN)
    return Progress(
        phase=phase,
        started_at=text(status.get("startTime")),
        finished_at=text(status.get("completionTime")) if phase in ENDED else "",
        message=next(_messages(body), "") if phase not in (Phase.RUNNING, Phase.SUCCEEDED) else "",
    )


def _messages(body: Body) -> Iterator[str]:
    """Yield what the conditions say that are not met."""
    for condition in map(mapping, sequence(status_of(body).get("conditions"))):
        if condition.get("status") == "False" and text(condition.get("message")):
            yield text(condition.get("message"))


def _render(work: Workload, lookup: Lookup) -> Rendered:
    from reconciler.kinds.kaiwo.render import render_workload  # noqa: PLC0415 - many plans have none

    return render_workload(work, lookup)


def _nothing(_: KaiwoConfig, __: Lookup) -> Rendered:
    """Render nothing: workloads look the defaults up."""
    return Rendered()


KINDS = (
    Kind(
        group=GROUP,
        kind="KaiwoJob",
        source=Source(parse=job_intent, render=_render),
        life=Life(progress=kaiwo_progress),
    ),
    Kind(
        group=GROUP,
        kind="KaiwoService",
        source=Source(parse=service_intent, render=_render),
        life=Life(serving=kaiwo_progress),
    ),
    Kind(
        group=GROUP,
        kind="KaiwoQueueConfig",
        is_cluster_scoped=True,
        source=Source(parse=queue_config_intent, render=render_queues, dependents=Dependents.NAMED),
    ),
    Kind(
        group="config.kaiwo.silogen.ai",
        kind="KaiwoConfig",
        is_cluster_scoped=True,
        source=Source(parse=config_intent, render=_nothing, dependents=Dependents.NAMED),
    ),
)
