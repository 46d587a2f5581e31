"""Kaiwo (`kaiwo.silogen.ai`): jobs and services with or without Ray, queues of Kueue, and defaults of a cluster.

Its workloads become the objects that they describe: no operator of Kaiwo is needed.
"""

from reconciler.kinds.aspects import Dependents, Life, Lookup, Source
from reconciler.kinds.kaiwo.config import KaiwoConfig, config_intent
from reconciler.kinds.kaiwo.progress import kaiwo_progress
from reconciler.kinds.kaiwo.queues import KaiwoQueueConfig, queue_config_intent, render_queues
from reconciler.kinds.kaiwo.workload import Workload, job_intent, service_intent
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered

GROUP = "kaiwo.silogen.ai"


def _render(work: Workload, lookup: Lookup) -> Rendered:
    from reconciler.kinds.kaiwo.render import render_workload  # noqa: PLC0415 - many plans have none

    return render_workload(work, lookup)


def _nothing(_: KaiwoConfig, __: Lookup) -> Rendered:
    """Render nothing: workloads look the defaults up."""
    return Rendered()


def _queues(config: KaiwoQueueConfig, lookup: Lookup) -> Rendered:
    return render_queues(config, lookup)


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
        source=Source(parse=queue_config_intent, render=_queues, dependents=Dependents.NAMED),
    ),
    Kind(
        group="config.kaiwo.silogen.ai",
        kind="KaiwoConfig",
        is_cluster_scoped=True,
        source=Source(parse=config_intent, render=_nothing, dependents=Dependents.NAMED),
    ),
)
