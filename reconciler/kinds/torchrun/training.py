"""Sizing of TorchrunJobs: the training of a job, and the GPUs that its queue offers."""

from collections.abc import Iterator

from reconciler.kinds.aspects import Lookup, Offer
from reconciler.kinds.torchrun.intent import TorchrunQueue
from reconciler.kube.reasons import Reason
from reconciler.kube.values import plural, text
from reconciler.sizing.devices import product_label
from reconciler.sizing.training_jobs.container import parse_container, parse_environment
from reconciler.sizing.training_jobs.job import Allocation, Editor, JobFormat, PodCounts, TrainingJob, TrainingPods
from reconciler.sizing.training_jobs.reader import JobReader

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
