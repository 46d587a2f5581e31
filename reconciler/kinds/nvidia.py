"""NVIDIA's operators for inference: NIM (`apps.nvidia.com`), Dynamo (`nvidia.com`) and Grove (`grove.io`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import PodSet
from reconciler.kinds.immutable import value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import with_containers
from reconciler.kinds.pods import bounds, of_spec
from reconciler.kube.values import count, mapping, sequence, text

_NIM, _DYNAMO, _GROVE = "apps.nvidia.com", "nvidia.com", "grove.io"
_GPU = "nvidia.com/gpu"
_POD_FIELDS = ("nodeSelector", "tolerations", "runtimeClassName", "affinity")


# --- NIM (api/apps/v1alpha1/nimservice_types.go) -----------------------------------------------------------------


def _nim_service(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    replicas = count(spec.get("replicas"), 1)
    scale: tuple[int | None, int | None] = (None, None)
    if value_of(spec, "scale.enabled") is True:
        replicas = count(value_of(spec, "scale.hpa.minReplicas"), 1)
        scale = bounds(replicas, replicas, value_of(spec, "scale.hpa.maxReplicas"))
    nodes = spec.get("multiNode")
    size = count(mapping(nodes).get("size"), 1) if type(nodes) is dict else 1
    size = max(count(value_of(spec, "multiNode.parallelism.pipeline"), size), 1)
    container = {"name": "nim", "resources": spec.get("resources"), "env": spec.get("env")}
    pod = {field: spec[field] for field in _POD_FIELDS if field in spec}
    pod |= {"resourceClaims": claims} if (claims := _nim_claims(spec)) else {}
    template = with_containers(container, **pod)
    template["metadata"] = {"labels": spec.get("labels"), "annotations": spec.get("annotations")}
    yield PodSet(replicas, template, prefix, None, "", *scale).times(size)


def _nim_claims(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the claims on devices that name an object; the operator makes the others itself."""
    names = ("resourceClaimName", "resourceClaimTemplateName")
    return [
        {"name": f"claim-{index}", **{name: claim[name] for name in names if name in claim}}
        for index, claim in enumerate(map(mapping, sequence(spec.get("draResources"))))
        if any(name in claim for name in names)
    ]


def _nim_pipeline(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, service in enumerate(map(mapping, sequence(spec.get("services")))):
        if service.get("enabled") is not False:
            yield from _nim_service(mapping(service.get("spec")), f"{prefix}services[{index}].spec.")


# --- Dynamo (api/v1alpha1/dynamocomponentdeployment_types.go) ---------------------------------------------------


def _dynamo_component(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a component: `gpu` is a number of devices, of the resource that `gpuType` names."""
    extra = mapping(spec.get("extraPodSpec"))
    main = mapping(extra.get("mainContainer"))
    containers = [{**main, "resources": _dynamo_resources(spec, main)}, *sequence(extra.get("containers"))]
    pod = {**{name: value for name, value in extra.items() if name != "mainContainer"}, "containers": containers}
    metadata = mapping(spec.get("extraPodMetadata")) or {"labels": spec.get("labels")}
    nodes = max(count(value_of(spec, "multinode.nodeCount"), 1), 1)
    replicas = count(spec.get("replicas"), 1)
    scale: tuple[int | None, int | None] = (None, None)
    if value_of(spec, "autoscaling.enabled") is True:
        least = count(value_of(spec, "autoscaling.minReplicas"), 1)
        most = max(count(value_of(spec, "autoscaling.maxReplicas"), least), least)
        replicas = min(max(replicas, least), most)
        scale = bounds(replicas, least, most)
    yield PodSet(replicas, {"metadata": metadata, "spec": pod}, prefix, None, "", *scale).times(nodes)


def _dynamo_resources(spec: Mapping[str, Any], main: Mapping[str, Any]) -> dict[str, Any]:
    resources = {field: dict(mapping(mapping(main.get("resources")).get(field))) for field in ("requests", "limits")}
    for field, amounts in resources.items():
        own = mapping(mapping(spec.get("resources")).get(field))
        amounts.update(mapping(own.get("custom")))
        if "gpu" in own:
            amounts[text(own.get("gpuType")) or _GPU] = own["gpu"]
    return resources


def _dynamo_graph(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for name, service in mapping(spec.get("services")).items():
        yield from _dynamo_component(mapping(service), f"{prefix}services.{name}.")


# --- Grove (operator/api/core/v1alpha1/podcliqueset.go) ----------------------------------------------------------


def _clique(spec: Mapping[str, Any], prefix: str, times: int = 1) -> Iterator[PodSet]:
    template = {"metadata": {}, "spec": mapping(spec.get("podSpec"))}
    replicas = count(spec.get("replicas"), 1)
    scale = mapping(spec.get("autoScalingConfig"))
    least, most = bounds(replicas, scale.get("minReplicas"), scale.get("maxReplicas"))
    yield PodSet(replicas, template, f"{prefix}podSpec.", least=least, most=most).times(times)


def _clique_set(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of all cliques: those of a scaling group are multiplied by its replicas."""
    times, template = count(spec.get("replicas"), 0), mapping(spec.get("template"))
    groups: dict[str, int] = {}
    for group in map(mapping, sequence(template.get("podCliqueScalingGroups"))):
        groups |= dict.fromkeys(map(text, sequence(group.get("cliqueNames"))), count(group.get("replicas"), 1))
    for index, clique in enumerate(map(mapping, sequence(template.get("cliques")))):
        pods = times * groups.get(text(clique.get("name")), 1)
        metadata = {"labels": clique.get("labels"), "annotations": clique.get("annotations")}
        for found in _clique(mapping(clique.get("spec")), f"{prefix}template.cliques[{index}].spec.", pods):
            found.template["metadata"] = metadata
            yield found


KINDS = (
    Kind(group=_NIM, kind="NIMService", pods=Pods(of_spec(_nim_service))),
    Kind(group=_NIM, kind="NIMPipeline", pods=Pods(of_spec(_nim_pipeline))),
    Kind(group=_DYNAMO, kind="DynamoGraphDeployment", pods=Pods(of_spec(_dynamo_graph))),
    Kind(group=_DYNAMO, kind="DynamoComponentDeployment", pods=Pods(of_spec(_dynamo_component))),
    Kind(group=_GROVE, kind="PodCliqueSet", pods=Pods(of_spec(_clique_set))),
    Kind(group=_GROVE, kind="PodClique", pods=Pods(of_spec(_clique))),
)
