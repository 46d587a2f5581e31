"""Operators that serve models: KubeAI, the vLLM production stack, AIBrix, RoleBasedGroups, and Llama Stack."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import PodSet
from reconciler.kinds.immutable import value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import reader, with_devices
from reconciler.kinds.pods import bounds, of_spec
from reconciler.kinds.ray import cluster_pods
from reconciler.kube.patterns import later
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.repo.config.pod_paths import PodPath

_AIBRIX = "orchestration.aibrix.ai"
_PROFILE = later(r"(?:(?P<vendor>nvidia|amd)-gpu|(?P<tpu>google-tpu)|(?P<cpu>cpu))[\w.-]*(?::(?P<count>\d{1,4}))?")


def _kubeai_model(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a Model: its profile says which resource, and how many of it (`nvidia-gpu-l4:2`)."""
    least = count(spec.get("minReplicas"), 0)
    replicas = max(count(spec.get("replicas"), least), least)
    scale = bounds(replicas, least, spec.get("maxReplicas"))
    profile = text(spec.get("resourceProfile"))
    match = _PROFILE.fullmatch(profile)
    if match is None or match["cpu"]:
        unknown = f"the GPUs of resource profile {profile}" if match is None and profile else ""
        yield PodSet(replicas, {}, prefix, None, unknown, *scale)
        return
    resource = f"{match['vendor']}.com/gpu" if match["vendor"] else "google.com/tpu"
    yield PodSet(replicas, with_devices(resource, int(match["count"] or 1)), prefix, None, "", *scale)


def _vllm_runtime(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a runtime: `gpu` is a number of devices, of the resource that `gpuType` names."""
    deployment = mapping(spec.get("deploymentConfig"))
    resources = mapping(deployment.get("resources"))
    amount = text(resources.get("gpu"))
    gpus = int(amount) if amount.isdecimal() else count(resources.get("gpu"), 0)
    yield PodSet(
        count(deployment.get("replicas"), 1),
        with_devices(text(resources.get("gpuType")) or "nvidia.com/gpu", count(gpus, 0)),
        f"{prefix}deploymentConfig.",
    )


def _roles(spec: Mapping[str, Any], prefix: str, times: int = 1) -> Iterator[PodSet]:
    """Yield the pods of roles: of one template, or of a leader and its workers."""
    templates = {text(one.get("name")): one for one in map(mapping, sequence(spec.get("roleTemplates")))}
    for index, role in enumerate(map(mapping, sequence(spec.get("roles")))):
        place, replicas = f"{prefix}roles[{index}].", count(role.get("replicas"), 1) * times
        replicas *= max(count(role.get("podGroupSize"), 1), 1)
        shared = templates.get(text(mapping(role.get("templateRef")).get("name")), {})
        template = mapping(role.get("template")) or mapping(shared.get("template"))
        group = role.get("leaderWorkerSet")
        size = max(count(mapping(group).get("size"), 1), 1) if type(group) is dict else 1
        if template:
            yield PodSet(replicas * size, template, f"{place}template.")
        for part, component in enumerate(map(mapping, sequence(role.get("components")))):
            inner = replicas * count(component.get("size"), 1)
            yield PodSet(inner, mapping(component.get("template")), f"{place}components[{part}].template.")


def _storm_service(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    inner = mapping(value_of(spec, "template.spec"))
    return _roles(inner, f"{prefix}template.spec.", count(spec.get("replicas"), 1))


def _ray_fleet(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    times = count(spec.get("replicas"), 1)
    for pods in cluster_pods(mapping(value_of(spec, "template.spec")), f"{prefix}template.spec."):
        yield pods.times(times)


_LLAMA_STACK = PodPath(at="spec", template="server.containerSpec")

KINDS = (
    Kind(group="kubeai.org", kind="Model", pods=Pods(of_spec(_kubeai_model))),
    Kind(group="production-stack.vllm.ai", kind="VLLMRuntime", pods=Pods(of_spec(_vllm_runtime))),
    Kind(group=_AIBRIX, kind="StormService", pods=Pods(of_spec(_storm_service))),
    Kind(group=_AIBRIX, kind="RoleSet", pods=Pods(of_spec(_roles))),
    Kind(group=_AIBRIX, kind="RayClusterFleet", pods=Pods(of_spec(_ray_fleet))),
    Kind(group=_AIBRIX, kind="RayClusterReplicaSet", pods=Pods(of_spec(_ray_fleet))),
    Kind(group="workloads.x-k8s.io", kind="RoleBasedGroup", pods=Pods(of_spec(_roles))),
    Kind(group="llamastack.io", kind="LlamaStackDistribution", pods=Pods(reader(_LLAMA_STACK))),
)
