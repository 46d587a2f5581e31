"""The `torchrun.ai` family: queues and distributed jobs."""

from reconciler.kinds.aspects import Dependents, Lookup, NamedQueue, Queueing, Source
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered
from reconciler.kinds.torchrun.intent import TorchrunJob, TorchrunQueue, job_intent, queue_intent
from reconciler.kinds.torchrun.training import node_gpus, offered_products, torchrun_training

GROUP = "torchrun.ai"
QUEUE = (GROUP, "TorchrunQueue")


def _render(intent: TorchrunQueue | TorchrunJob, lookup: Lookup) -> Rendered:
    from reconciler.kinds.torchrun.render import render_job, render_queue  # noqa: PLC0415 - many plans hold neither

    if isinstance(intent, TorchrunQueue):
        return render_queue(intent, lookup.cluster, lookup.inventory())
    job = intent
    namespace = job.namespace or lookup.cluster.namespace
    queue = lookup.defined(QUEUE, namespace, job.queue)
    known = (job.queue,) if queue is not None else lookup.defined_names(QUEUE, namespace)
    return render_job(
        job,
        queue,
        lookup.cluster,
        lookup.inventory(),
        known_queues=known,
        generation=lookup.generation,
        has_runs=lookup.has_runs,
    )


KINDS = (
    Kind(
        group=GROUP,
        kind="TorchrunQueue",
        source=Source(parse=queue_intent, render=_render, dependents=Dependents.NAMED),
        queueing=Queueing(offers=offered_products),
    ),
    Kind(
        group=GROUP,
        kind="TorchrunJob",
        source=Source(parse=job_intent, render=_render, training=torchrun_training),
        queueing=Queueing(queue=NamedQueue(kind=QUEUE, field=("spec", "jobQueue"), node_gpus=node_gpus)),
    ),
)
