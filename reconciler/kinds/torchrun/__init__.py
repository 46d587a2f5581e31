"""The `torchrun.ai` family: queues and distributed jobs."""

from collections.abc import Iterator

from reconciler.kinds.aspects import Dependents, Lookup, NamedQueue, Offer, Queueing, Source
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered
from reconciler.kinds.torchrun.intent import TorchrunJob, TorchrunQueue, job_intent, queue_intent
from reconciler.kube.reasons import Reason
from reconciler.kube.values import plural, text
from reconciler.sizing.devices import product_label
from reconciler.sizing.training_jobs.container import parse_container, parse_environment
from reconciler.sizing.training_jobs.job import Allocation, Editor, JobFormat, PodCounts, TrainingJob, TrainingPods
from reconciler.sizing.training_jobs.reader import JobReader

GROUP = "torchrun.ai"
QUEUE = (GROUP, "TorchrunQueue")


_SCHEDULING = ("spec", "scheduling")


class _TorchrunJobFormat(JobFormat):
    kind = "TorchrunJob"
    resources = ""
    total_gpus = ("spec", "numGPUs")
    starts_processes = True
    has_process_per_gpu = True

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write all GPUs; the queue spreads them over nodes, unless the job sets the number of nodes itself."""
        why = f"{plural(allocation.gpus, 'GPU')}; {allocation.memory}"
        editor.set(self.total_gpus, allocation.gpus, allocation.because("gpus", why))
        nodes = ("spec", "numNodes")
        if job.get(*nodes) is not None:
            editor.set(nodes, allocation.workers, allocation.because("workers", allocation.spread))
        return {}

    def select_product(self, editor: Editor, job: TrainingJob, label: str, product: str, reason: Reason) -> None:
        """Bind the job: its pod template belongs to its queue."""
        del job
        editor.set((*_SCHEDULING, "nodeSelector", label), product, reason)


_FORMAT = _TorchrunJobFormat()


def torchrun_training(reader: JobReader) -> TrainingJob | None:
    """Read a TorchrunJob that is not elastic."""
    for field in ("minNodes", "maxNodes"):
        if field in reader.mapping("spec", "distributed"):
            message = "an elastic job runs on any number of nodes, so it cannot be sized"
            path = ("spec", "distributed", field)
            reader.problem("sizing.shape", path, message, f"remove {field}, or the watch label")
            return None
    environment = reader.get("spec", "env")
    container = parse_container({"env": environment}, ("spec",))
    return TrainingJob(
        document=reader.document,
        format=_FORMAT,
        pods=(TrainingPods(role="trainer", replicas=reader.count("spec", "numNodes"), container=container),),
        command=("/bin/sh", "-c", text(reader.get("spec", "command"))),
        args=(),
        env=parse_environment(environment),
        line=("spec", "command"),
        suspended=reader.flag("spec", "suspend"),
        node_selectors=((*_SCHEDULING, "nodeSelector"),),
        node_affinities=((*_SCHEDULING, "affinity"),),
    )


def offered_products(queue: TorchrunQueue, lookup: Lookup) -> Iterator[Offer]:
    """Yield the product that the queue's pods select, unless they may run on any."""
    del lookup
    selected = dict(queue.scheduling.node_selector)
    product = product_label({key: value.value for key, value in selected.items()})
    for value in selected.values():
        if product and value.value == product and value.reason.origins:
            yield Offer(product=product, origin=value.reason.origins[0])
            return


def node_gpus(queue: TorchrunQueue) -> int | None:
    """Return the GPUs per node that the queue sets, if positive."""
    gpus = queue.node.gpus
    return gpus.value if gpus is not None and gpus.value > 0 else None


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
