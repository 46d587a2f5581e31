"""Rendering of torchrun queues and jobs for one cluster: `render_queue`, `render_job`.

What all jobs of a queue share is worked out once per queue, cluster and evidence, and remembered while they live.
"""

from collections.abc import Callable
from functools import lru_cache

from reconciler.kinds.rendered import Rendered
from reconciler.kinds.same import Same
from reconciler.kinds.torchrun.intent import TorchrunJob, TorchrunQueue
from reconciler.kinds.torchrun.render import job as _job
from reconciler.kinds.torchrun.render import queue as _queue
from reconciler.kinds.torchrun.render.shape import TRAIN_JOB
from reconciler.kinds.torchrun.render.template import Template, resolve_template
from reconciler.kinds.torchrun.render.workload import ttl_problems
from reconciler.repo.config import Cluster
from reconciler.sizing.inventory import Inventory

__all__ = ["Rendered", "render_job", "render_queue"]


def render_queue(queue: TorchrunQueue, cluster: Cluster, inventory: Inventory | None) -> Rendered:
    """Render a queue for `cluster`, whose evidence is `inventory` (None: nothing was measured)."""
    return _queue.render(_template(queue, cluster, Same(inventory)))


def render_job(
    job: TorchrunJob,
    queue: TorchrunQueue | None,
    cluster: Cluster,
    inventory: Inventory | None,
    *,
    known_queues: tuple[str, ...] = (),
    generation: _job.Generation = lambda _: "",
    has_runs: Callable[[], bool] = lambda: False,
) -> Rendered:
    """Render a job for `cluster`. `queue` is the queue that it names, in its namespace; None if it does not exist.

    `known_queues` are names to suggest for a queue that is not there. `generation` returns the suffix of a workload's
    name. `has_runs` tells whether finished jobs of the cluster are recorded.
    """
    if queue is None:
        return _job.unknown_queue(job, known_queues)
    rendered = _job.render(job, _template(queue, cluster, Same(inventory)), generation)
    ttl, wanted = job.reliability.ttl, job.workload or queue.workload
    if ttl is None or (wanted and wanted.value == TRAIN_JOB.kind):  # which has no time to live
        return rendered
    warnings = ttl_problems(ttl, cluster.name, has_runs=has_runs())
    return Rendered(manifests=rendered.manifests, problems=(*rendered.problems, *warnings))


@lru_cache(maxsize=1024)
def _template(queue: TorchrunQueue, cluster: Cluster, evidence: Same) -> Template:
    return resolve_template(queue, cluster, evidence.find())
