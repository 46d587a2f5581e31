"""The Spark operator (`sparkoperator.k8s.io`): a driver and its executors.

Sources: api/v1beta2/sparkapplication_types.go and internal/webhook/sparkpod_defaulter.go of spark-operator 2.3.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Pods, Queueing
from reconciler.kinds.facts import Body, PodSet, QueueName
from reconciler.kinds.kind import Kind
from reconciler.kinds.pods import bounds, of_spec
from reconciler.kinds.volcano import QUEUE, SCHEDULER
from reconciler.kube.values import count, mapping, sequence, text

_GROUP = "sparkoperator.k8s.io"
_POD_FIELDS = ("nodeSelector", "affinity", "tolerations")
_SPARK_CONTAINERS = ("spark-kubernetes-driver", "spark-kubernetes-executor")  # the names that Spark gives them


def _application(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    yield PodSet(1, _pod(spec, "driver"), f"{prefix}driver.")
    executor, dynamic = mapping(spec.get("executor")), mapping(spec.get("dynamicAllocation"))
    replicas = count(executor.get("instances"), 1)
    scale: tuple[int | None, int | None] = (None, None)
    if dynamic.get("enabled") is True:
        least = count(dynamic.get("minExecutors"), 0)
        replicas = max(count(executor.get("instances"), 0), count(dynamic.get("initialExecutors"), 0), least)
        scale = bounds(replicas, least, dynamic.get("maxExecutors"))
    yield PodSet(replicas, _pod(spec, "executor"), f"{prefix}executor.", None, "", *scale)


def _pod(spec: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return the template of a role, whose `gpu` the webhook adds to the container of Spark."""
    own = mapping(spec.get(role))
    template = mapping(own.get("template"))
    pod = dict(mapping(template.get("spec")))
    containers: list[Any] = [*sequence(pod.get("containers")), *sequence(own.get("sidecars"))]
    gpu = mapping(own.get("gpu"))
    if text(gpu.get("name")) and count(gpu.get("quantity"), 0):
        first: dict[str, Any] = next((one for one in containers if mapping(one).get("name") in _SPARK_CONTAINERS), {})
        limits = {**mapping(mapping(first.get("resources")).get("limits")), gpu["name"]: gpu["quantity"]}
        containers = [one for one in containers if one is not first]
        containers.append({**first, "resources": {"limits": limits}})
    pod |= {field: own[field] for field in _POD_FIELDS if field in own} | {"containers": containers}
    pod["initContainers"] = [*sequence(pod.get("initContainers")), *sequence(own.get("initContainers"))]
    metadata = {"labels": own.get("labels"), "annotations": own.get("annotations")}
    return {"metadata": mapping(template.get("metadata")) or metadata, "spec": pod}


def _scheduled(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    return _application(mapping(spec.get("template")), f"{prefix}template.")


def _connect(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield a server, which is the driver, and its executors."""
    return _application({**spec, "driver": spec.get("server")}, prefix)


def _queue(application: Body) -> QueueName | None:
    """Return the queue of Volcano (internal/scheduler/volcano/scheduler.go)."""
    spec = mapping(application.get("spec"))
    name = text(mapping(spec.get("batchSchedulerOptions")).get("queue"))
    is_queued = name and spec.get("batchScheduler") == SCHEDULER
    return QueueName(QUEUE, name, "spec.batchSchedulerOptions.queue") if is_queued else None


KINDS = (
    Kind(
        group=_GROUP,
        kind="SparkApplication",
        pods=Pods(of_spec(_application)),
        queueing=Queueing(named=_queue),
    ),
    Kind(group=_GROUP, kind="ScheduledSparkApplication", pods=Pods(of_spec(_scheduled), job_metadata=("metadata",))),
    Kind(group=_GROUP, kind="SparkConnect", pods=Pods(of_spec(_connect))),
)
