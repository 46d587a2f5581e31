"""KServe (`serving.kserve.io`): services of models, and the runtimes that say how a model is served.

Sources: pkg/controller/v1beta1/inferenceservice/components/predictor.go and
pkg/controller/v1alpha1/llmisvc/workload_multi_node.go of KServe 0.16.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import Body, PodProvider, PodSet
from reconciler.kinds.immutable import value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import with_devices
from reconciler.kinds.pods import bounds, of_spec
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.sizing.devices import container_devices

_GROUP = "serving.kserve.io"
SERVING_RUNTIME = (_GROUP, "ServingRuntime")
CLUSTER_SERVING_RUNTIME = (_GROUP, "ClusterServingRuntime")
CONFIG = (_GROUP, "LLMInferenceServiceConfig")

_COMPONENTS = ("predictor", "transformer", "explainer")
_FRAMEWORKS = (
    *("sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm", "paddle"),
    *("art",),
)
_DEFAULT_GPU = "nvidia.com/gpu"


def _inference_service(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for name in _COMPONENTS:
        component = spec.get(name)
        if type(component) is not dict:
            continue
        least = count(component.get("minReplicas"), 1)
        for pods in _component(component, f"{prefix}{name}."):
            low, high = bounds(least, least, component.get("maxReplicas"))
            yield pods.times(least)._replace(
                least=None if low is None else pods.replicas * low, most=None if high is None else pods.replicas * high
            )


def _component(component: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of one replica. A model's container joins those of the pod, which its runtime completes."""
    field, model = next(
        ((field, component[field]) for field in ("model", *_FRAMEWORKS) if type(component.get(field)) is dict),
        ("", None),
    )
    containers = [one for one in sequence(component.get("containers")) if type(one) is dict]
    if model is not None:
        containers = [model, *(one for one in containers if one.get("name") != "kserve-container")]
    template = {
        "metadata": {"labels": component.get("labels"), "annotations": component.get("annotations")},
        "spec": {**component, "containers": containers},
    }
    runtime = text(mapping(model).get("runtime"))
    provider = None
    if runtime:
        kinds = (SERVING_RUNTIME, CLUSTER_SERVING_RUNTIME)
        provider = PodProvider(kinds, runtime, f"{prefix}{field}.runtime", is_optional=_has_devices(containers))
    workers = component.get("workerSpec")
    if type(workers) is dict:
        yield from _multi_node(template, containers, workers, prefix)
    else:
        yield PodSet(1, template, prefix, provider=provider)


def _multi_node(
    template: dict[str, Any], containers: list[dict[str, Any]], workers: Mapping[str, Any], prefix: str
) -> Iterator[PodSet]:
    """Yield a head and its workers: as many nodes as the GPUs of all parallel processes need."""
    total = max(count(workers.get("pipelineParallelSize"), 1), 1) * max(count(workers.get("tensorParallelSize"), 1), 1)
    resource, head = _gpus(containers)
    worker_resource, worker = _gpus(sequence(workers.get("containers")))
    resource = resource or worker_resource or _DEFAULT_GPU
    nodes, head, worker = _ray_nodes(total, head, worker)
    yield PodSet(1, _with_gpus(template, resource, head), prefix)
    if nodes > 1:
        yield PodSet(nodes - 1, with_devices(resource, worker), f"{prefix}workerSpec.")


def _ray_nodes(total: int, head: int, worker: int) -> tuple[int, int, int]:
    """Return the nodes, the GPUs of the head, and those of each worker, for so many GPUs (`computeRayNodeAndGPUs`)."""
    if worker:
        nodes = -(-total // worker)
        if head >= total:
            nodes = 1
        head = head or total - worker * (nodes - 1)
        return (1, total, 0) if nodes == 1 else (nodes, head, worker)
    if head:
        return 1 + max(total - head, 0), head, 1
    return total, 1, 1


def _gpus(containers: Any) -> tuple[str, int]:
    found = (device for container in containers for device in container_devices(container).items())
    return next(found, ("", 0))


def _has_devices(containers: Any) -> bool:
    return bool(_gpus(containers)[1])


def _with_gpus(template: dict[str, Any], resource: str, amount: int) -> dict[str, Any]:
    spec = template["spec"]
    first, rest = spec["containers"][:1], spec["containers"][1:]
    container = {**(first[0] if first else {}), "resources": {"limits": {resource: amount}}}
    return {**template, "spec": {**spec, "containers": [container, *rest]}}


def _runtime(body: Body, prefix: str) -> Iterator[PodSet]:
    spec = mapping(body.get("spec"))
    yield PodSet(1, {"metadata": {}, "spec": spec}, f"{prefix}spec.")


def _llm_service(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    base = next((text(mapping(one).get("name")) for one in sequence(spec.get("baseRefs"))), "")
    is_optional = type(spec.get("template")) is dict
    provider = PodProvider((CONFIG,), base, f"{prefix}baseRefs[0].name", is_optional=is_optional) if base else None
    yield from _llm_role(spec, prefix, provider)
    if type(spec.get("prefill")) is dict:
        yield from _llm_role(spec["prefill"], f"{prefix}prefill.", None)
    scheduler = value_of(spec, "router.scheduler.template")
    if type(scheduler) is dict:
        yield PodSet(1, {"metadata": {}, "spec": scheduler}, f"{prefix}router.scheduler.template.")


def _llm_role(role: Mapping[str, Any], prefix: str, provider: PodProvider | None) -> Iterator[PodSet]:
    """Yield the pods of a role: a Deployment, or with workers a LeaderWorkerSet whose size its parallelism sets."""
    replicas = count(role.get("replicas"), 1)
    template, worker = role.get("template"), role.get("worker")
    leader = {"metadata": {}, "spec": mapping(template)}
    if type(worker) is not dict:
        yield PodSet(replicas, leader, f"{prefix}template.", provider=provider)
        return
    size = _group_size(mapping(role.get("parallelism")))
    first = leader if type(template) is dict else {"metadata": {}, "spec": worker}
    yield PodSet(replicas, first, f"{prefix}template.", provider=provider)
    yield PodSet(replicas * (size - 1), {"metadata": {}, "spec": worker}, f"{prefix}worker.", provider=provider)


def _group_size(parallelism: Mapping[str, Any]) -> int:
    if count(parallelism.get("data"), 0) or count(parallelism.get("dataLocal"), 0):
        ranks, local = count(parallelism.get("data"), 1), count(parallelism.get("dataLocal"), 1)
        return max(max(ranks, 1) // max(local, 1), 1)
    return max(count(parallelism.get("pipeline"), 1), 1)


KINDS = (
    Kind(group=_GROUP, kind="InferenceService", pods=Pods(of_spec(_inference_service))),
    Kind(group=_GROUP, kind="LLMInferenceService", pods=Pods(of_spec(_llm_service))),
    Kind(group=_GROUP, kind=SERVING_RUNTIME[1], pods=Pods(provides=_runtime)),
    Kind(group=_GROUP, kind=CLUSTER_SERVING_RUNTIME[1], is_cluster_scoped=True, pods=Pods(provides=_runtime)),
    Kind(group=_GROUP, kind=CONFIG[1], pods=Pods(provides=of_spec(_llm_service))),
)
