"""LeaderWorkerSet (`leaderworkerset.x-k8s.io`): groups of a leader and its workers."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Life, Pods
from reconciler.kinds.facts import PodSet
from reconciler.kinds.immutable import every, only
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import frozen_labels_of_serving, frozen_pods, in_queue
from reconciler.kinds.pods import REPLICAS, of_spec
from reconciler.kube.values import count, mapping


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    groups, inner = count(spec.get("replicas"), 1), mapping(spec.get("leaderWorkerTemplate"))
    size, worker = count(inner.get("size"), 1), mapping(inner.get("workerTemplate"))
    leader = mapping(inner.get("leaderTemplate"))
    if leader:
        yield PodSet(groups, leader, f"{prefix}leaderWorkerTemplate.leaderTemplate.")
        size -= 1
    yield PodSet(groups * max(size, 0), worker, f"{prefix}leaderWorkerTemplate.workerTemplate.")


_immutable = every(
    only("spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"),  # lws 0.9, pkg/webhooks/leaderworkerset_webhook.go
    frozen_labels_of_serving,
    in_queue(only("spec.leaderWorkerTemplate.size")),
    frozen_pods("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
)

KINDS = (
    Kind(
        group="leaderworkerset.x-k8s.io",
        kind="LeaderWorkerSet",
        pods=Pods(of_spec(_pods), queued_one_by_one=True, scale=REPLICAS),
        life=Life(immutable=_immutable),
    ),
)
