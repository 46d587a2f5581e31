"""KAITO (`kaito.sh`): models on nodes of an instance type that the operator provisions.

Sources: api/v1beta1/workspace_types.go, pkg/sku/azure_sku_handler.go and pkg/sku/aws_sku_handler.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import with_devices
from reconciler.kinds.pods import of_spec
from reconciler.kube.values import count, mapping, text

_GROUP = "kaito.sh"
_GPU = "nvidia.com/gpu"

INSTANCE_GPUS = {
    **dict.fromkeys(("Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3"), 1),
    "Standard_NC64as_T4_v3": 4,
    "Standard_NV36ads_A10_v5": 1,
    "Standard_NV72ads_A10_v5": 2,
    "Standard_NC24ads_A100_v4": 1,
    "Standard_NC48ads_A100_v4": 2,
    "Standard_NC96ads_A100_v4": 4,
    **dict.fromkeys(("Standard_ND96asr_A100_v4", "Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"), 8),
    **dict.fromkeys(("Standard_NC40ads_H100_v5", "Standard_NCC40ads_H100_v5"), 1),
    "Standard_NC80adis_H100_v5": 2,
    **dict.fromkeys(("Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5"), 8),
    **dict.fromkeys(("Standard_NC6s_v3", "Standard_NV12s_v3"), 1),
    **dict.fromkeys(("Standard_NC12s_v3", "Standard_NV24s_v3"), 2),
    **dict.fromkeys(("Standard_NC24s_v3", "Standard_NC24rs_v3", "Standard_NV48s_v3"), 4),
    "p3.2xlarge": 1,
    "p3.8xlarge": 4,
    **dict.fromkeys(
        ("p3.16xlarge", "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge"), 8
    ),
    **dict.fromkeys(("g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge", "g4dn.8xlarge", "g4dn.16xlarge"), 1),
    "g4dn.12xlarge": 4,
    "g4dn.metal": 8,
    **dict.fromkeys(("g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g5.8xlarge", "g5.16xlarge"), 1),
    **dict.fromkeys(("g5.12xlarge", "g5.24xlarge"), 4),
    "g5.48xlarge": 8,
    **dict.fromkeys(("g6.xlarge", "g6.2xlarge", "g6.4xlarge", "g6.8xlarge", "g6.16xlarge"), 1),
    **dict.fromkeys(("g6.12xlarge", "g6.24xlarge"), 4),
    "g6.48xlarge": 8,
}
"""GPUs of the instance types that KAITO knows."""


def _workspace(body: Body, prefix: str) -> Iterator[PodSet]:
    resource = mapping(body.get("resource"))
    template = mapping(mapping(body.get("inference")).get("template"))
    yield _nodes(resource, template, f"{prefix}resource.")


def _nodes(resource: Mapping[str, Any], template: Mapping[str, Any], prefix: str, times: int = 1) -> PodSet:
    """Return one pod for each node: without a template of its own it takes all GPUs of the node."""
    nodes = count(resource.get("count"), 1) * times
    if template:
        return PodSet(nodes, dict(template), f"{prefix.removesuffix('resource.')}inference.template.")
    instance = text(resource.get("instanceType"))
    gpus = INSTANCE_GPUS.get(instance, 0)
    unknown = "" if gpus else f"the GPUs of {f'a node of instance type {instance}' if instance else 'its nodes'}"
    return PodSet(nodes, with_devices(_GPU, gpus), prefix, unknown=unknown)


def _inference_set(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    inner = mapping(spec.get("template"))
    template = mapping(mapping(inner.get("inference")).get("template"))
    resource = mapping(inner.get("resource"))
    yield _nodes(resource, template, f"{prefix}template.resource.", count(spec.get("replicas"), 1))


def _rag_engine(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the node of a local embedding; a remote one, without `compute`, has none."""
    compute = mapping(spec.get("compute"))
    if compute and "local" in mapping(spec.get("embedding")):
        yield _nodes(compute, {}, f"{prefix}compute.")


KINDS = (
    Kind(group=_GROUP, kind="Workspace", pods=Pods(_workspace)),
    Kind(group=_GROUP, kind="InferenceSet", pods=Pods(of_spec(_inference_set))),
    Kind(group=_GROUP, kind="RAGEngine", pods=Pods(of_spec(_rag_engine))),
)
