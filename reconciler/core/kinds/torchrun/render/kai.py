"""A TorchrunQueue as KAI's Queue: parent, guaranteed quota, limit and weight; -1 stays -1, which is unlimited there."""

from typing import Any

from reconciler.core.kinds.torchrun.intent.queue import Share, TorchrunQueue
from reconciler.core.reasons import Reason, Traced

PARENT = Traced("default", Reason(rule="torchrun.default", text="the parent queue defaults to `default`"))
UNLIMITED = Traced(-1, Reason(rule="torchrun.default", text="unlimited by default"))
WEIGHT = Traced(1, Reason(rule="torchrun.default", text="overQuotaWeight defaults to 1"))


def kai_queue(queue: TorchrunQueue, labels: dict[str, Any]) -> dict[str, Any]:
    """Return the tree of the Queue. It is cluster-scoped, as all of KAI's are."""
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": queue.queue_name, "labels": labels},
        "spec": {
            "parentQueue": queue.parent or PARENT,
            "resources": {resource: _amounts(share) for resource, share in queue.shares},
        },
    }


def _amounts(share: Share) -> dict[str, Traced]:
    return {
        "quota": share.quota or UNLIMITED,
        "limit": share.limit or UNLIMITED,
        "overQuotaWeight": share.weight or WEIGHT,
    }
