"""The `torchrun.ai` family: queues and distributed jobs."""

from reconciler.kinds.kind import Kind, Lookup
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
        parse=queue_intent,
        render=_render,
        is_definition=True,
        offers=offered_products,
        node_gpus=node_gpus,
    ),
    Kind(
        group=GROUP,
        kind="TorchrunJob",
        parse=job_intent,
        render=_render,
        training=torchrun_training,
        queue_kind=QUEUE,
        queue_field=("spec", "jobQueue"),
    ),
)
