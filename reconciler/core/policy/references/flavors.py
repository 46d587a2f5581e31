"""Workloads against queues that grant GPUs by flavor: a queue that never admits one is an error."""

from collections.abc import Mapping, Sequence

from reconciler.core.borrowing import Borrowing, Shortage
from reconciler.core.devices import WHOLE_GPUS
from reconciler.core.policy.references.rules import Evaluation
from reconciler.core.queues import QueueKey, QueueUsage
from reconciler.core.summary import ObjectSummary
from reconciler.core.values import plural

_FLAVOR_RULE = "quota.queue-limit"


def check_flavors(
    evaluation: Evaluation, by_queue: Mapping[QueueKey, Sequence[ObjectSummary]], usage: QueueUsage
) -> None:
    """Check that the queue of each workload could admit it if nothing else ran."""
    queues = [queue for queue in by_queue if usage.is_flavored(queue)]
    if not queues or not evaluation.is_enabled(_FLAVOR_RULE):
        return
    borrowing = Borrowing(usage, evaluation.cluster)
    for queue in queues:
        for row in by_queue[queue]:
            shortage = borrowing.shortage(queue, row.pod_requests, row.workloads)
            if shortage is not None:
                is_only = len(usage.queues[queue].quotas) == 1
                message, hint = _words(queue.name, shortage, usage, is_only=is_only, workloads=row.workloads)
                evaluation.report(_FLAVOR_RULE, row, message, hint=hint, field=row.references[0].field)


def _words(queue: str, shortage: Shortage, usage: QueueUsage, *, is_only: bool, workloads: int) -> tuple[str, str]:
    """Return message and hint."""
    if not shortage.flavor and not shortage.mismatches:
        message = f"requests {shortage.resource}, but queue {queue} grants none"
        return message, "use a queue that grants it, or add it to a flavor of the queue"
    if shortage.mismatches:
        message = f"requires node labels that no flavor of queue {queue} has ({', '.join(shortage.mismatches)})"
        return message, "change the node selector of the pods, or add a flavor with these labels to the queue"
    product = usage.flavors.get(shortage.flavor) if shortage.resource in WHOLE_GPUS else shortage.resource
    requested = f"requests {plural(shortage.gpus, f'{product} GPU' if product else 'GPU')}"
    limit = f"{shortage.largest:g}"
    hint = f"request at most {limit}, raise the queue's limit, or use another queue"
    if is_only and not shortage.taken:
        return f"{requested}, but the limit of queue {queue} is {limit}", hint
    requested += f" {workloads} times" if workloads > 1 else " in pods that share a flavor"
    message = f"{requested}, but flavor {shortage.flavor} of queue {queue} has at most {limit}"
    if shortage.taken:
        message += f", of which other pods of the workload take {shortage.taken:g}"
    return message, hint
