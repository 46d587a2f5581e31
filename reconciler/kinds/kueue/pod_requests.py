"""The pods of a workload as Kueue sees them before it admits it (pkg/controller/jobframework/tas.go and others)."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import msgspec

from reconciler.kinds.facts import PodSet
from reconciler.kinds.quantities import Gpus
from reconciler.kinds.terms import (
    Amounts,
    ContainerRequest,
    LabelRequirement,
    PodRequest,
    TopologyRequest,
    requirements,
    texts,
    tolerations,
)
from reconciler.kube.values import NOT_JSON, mapping, sequence, text

_PREFIX = "kueue.x-k8s.io/podset-"
MODES = ("required", "preferred", "unconstrained")
REQUIRED, PREFERRED, UNCONSTRAINED = (f"{_PREFIX}{mode}-topology" for mode in MODES)
SLICE_LEVEL, SLICE_SIZE = f"{_PREFIX}slice-required-topology", f"{_PREFIX}slice-size"
SLICES = f"{SLICE_LEVEL}-constraints"
SET_GROUP = f"{_PREFIX}group-name"
TRUE, FALSE = (("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False"))
"""What Go reads as a boolean."""


def pod_requests(
    pod_sets: Sequence[PodSet], devices: Sequence[Mapping[str, Gpus]], workloads: int
) -> tuple[PodRequest, ...]:
    """Return the pods of one of so many equal workloads, by template; `devices` are those of each pod."""
    found = []
    for pod_set, each in zip(pod_sets, devices, strict=True):
        count = (pod_set.replicas - pod_set.spare) // workloads
        spec = mapping(pod_set.template.get("spec"))
        found.append(
            PodRequest(
                devices=tuple((resource, ceil(gpus * count)) for resource, gpus in each.items()) if count else (),
                pods=count,
                field=pod_set.prefix,
                selector=texts(spec.get("nodeSelector")),
                terms=tuple(_terms(spec)),
                tolerations=tolerations(spec.get("tolerations")),
                topology=topology_request(annotations_of(pod_set.template)),
                containers=tuple(container_requests(spec)),
                overhead=amounts_of(spec.get("overhead")),
                spare=pod_set.spare // workloads,
            )
        )
    return tuple(found)


def annotations_of(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of pods."""
    return dict(texts(mapping(template.get("metadata")).get("annotations")))


def topology_request(annotations: Mapping[str, str]) -> TopologyRequest | None:
    """Return what pods request of the topology; None if nothing."""
    slices = _slices(annotations)
    mode = next((mode for mode in MODES if f"{_PREFIX}{mode}-topology" in annotations), "")
    if not mode:
        return TopologyRequest(slices=slices) if slices else None
    value = annotations[f"{_PREFIX}{mode}-topology"]
    if mode == "unconstrained":
        return TopologyRequest(mode, slices=slices, is_off=value not in TRUE)
    return TopologyRequest(mode, value, slices)


def _slices(annotations: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    level, size = annotations.get(SLICE_LEVEL, ""), annotations.get(SLICE_SIZE, "")
    if level and size.isascii() and size.isdecimal():
        return ((level, int(size)),)
    return tuple((one["topology"], one["size"]) for one in constraints(annotations) or ())


def constraints(annotations: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """Return the slices of several levels, each with `topology` and `size`; None if the annotation cannot be read."""
    if SLICES not in annotations:
        return []
    try:
        found = msgspec.json.decode(annotations[SLICES], type=list[dict[str, Any]])
    except NOT_JSON:
        return None
    read = [{"topology": one.get("topology", ""), "size": one.get("size", 0)} for one in found]
    return read if all(type(one["topology"]) is str and type(one["size"]) is int for one in read) else None


def _terms(spec: Mapping[str, Any]) -> Iterator[tuple[LabelRequirement, ...]]:
    """Yield the required terms of the node affinity. Kueue reads no `matchFields`."""
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in map(mapping, sequence(required.get("nodeSelectorTerms"))):
        yield tuple(requirements(term.get("matchExpressions")))


def container_requests(spec: Mapping[str, Any]) -> Iterator[ContainerRequest]:
    """Yield what the containers of a pod request, and the pod itself."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(map(mapping, sequence(spec.get(field)))):
            resources = mapping(container.get("resources"))
            requests, limits = amounts_of(resources.get("requests")), amounts_of(resources.get("limits"))
            is_first = field == "initContainers" and text(container.get("restartPolicy")) != "Always"
            yield ContainerRequest(f"{field}[{index}]", requests, limits, is_first)
    if pod := mapping(spec.get("resources")):
        yield ContainerRequest("resources", amounts_of(pod.get("requests")), amounts_of(pod.get("limits")))


def amounts_of(value: Any) -> Amounts:
    """Return amounts by resource as they are written."""
    amounts = mapping(value).items()
    return tuple((key, str(amount)) for key, amount in amounts if type(key) is str and type(amount) in _AMOUNT)


_AMOUNT = (str, int, float)
