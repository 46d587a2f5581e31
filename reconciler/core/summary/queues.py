"""What objects provide rather than ask for: quotas, parents and flavors of queues, storage classes of claims."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any

from reconciler.core.quantities import parse_quantity
from reconciler.core.summary.object_summary import Quota, Reference
from reconciler.core.summary.pods import WHOLE_GPUS, is_gpu, mapping, product_label, sequence, text

KAI_GROUP = "scheduling.run.ai"
KUEUE_GROUP = "kueue.x-k8s.io"

Fields = dict[str, Any]


def read_capacity(group: str, kind: str, namespace: str, spec: Mapping[str, Any]) -> Fields:
    """Return the fields of a row that a queue, a flavor, a quota or a claim fills."""
    return CAPACITY_KINDS[(group, kind)](spec, namespace)


def _kai_queue(spec: Mapping[str, Any], _: str) -> Fields:
    """KAI: -1 is unlimited; an absent number is Go's zero (KAI-Scheduler pkg/scheduler/api/queue_info)."""
    gpu = mapping(mapping(spec.get("resources")).get("gpu"))
    parent = text(spec.get("parentQueue"))
    return {
        "parent": parent,
        "quotas": (Quota("", _kai_number(gpu.get("quota")), _kai_number(gpu.get("limit"))),),
        "references": (Reference("Queue", "", parent, "spec.parentQueue"),) if parent else (),
    }


def _kai_number(value: Any) -> float | None:
    if type(value) not in (int, float) or not abs(value) < 1e15 or not isfinite(value):  # noqa: PLR2004 - beyond sense
        return 0.0
    return None if value < 0 else float(value)


def _cluster_queue(spec: Mapping[str, Any], _: str) -> Fields:
    parent = text(spec.get("cohortName")) or text(spec.get("cohort"))
    return {
        "parent": parent,
        "quotas": tuple(_flavor_quotas(spec, borrows=bool(parent))),
        "references": tuple(_flavors(spec)),
    }


def _cohort(spec: Mapping[str, Any], _: str) -> Fields:
    parent = text(spec.get("parentName")) or text(spec.get("parent"))
    return {
        "parent": parent,
        "quotas": tuple(_flavor_quotas(spec, borrows=bool(parent))),
        "references": tuple(_flavors(spec)),
    }


def _flavor_quotas(spec: Mapping[str, Any], *, borrows: bool) -> Iterator[Quota]:
    """Yield a quota per flavor: nominal is guaranteed; without a cohort nothing more can be had."""
    for group in map(mapping, sequence(spec.get("resourceGroups"))):
        for flavor in map(mapping, sequence(group.get("flavors"))):
            for resource in map(mapping, sequence(flavor.get("resources"))):
                name = resource.get("name")
                if not is_gpu(name):
                    continue
                nominal = _quantity(resource.get("nominalQuota")) or 0.0
                extra = _quantity(resource.get("borrowingLimit")) if borrows else 0.0
                product = text(flavor.get("name")) if name in WHOLE_GPUS else text(name)
                yield Quota(product, nominal, None if extra is None else nominal + extra)


def _quantity(value: Any) -> float | None:
    if type(value) is int and abs(value) < 1e15:  # noqa: PLR2004 - beyond sense
        return float(max(value, 0))
    exact = parse_quantity(value) if type(value) in (str, float) else None
    return None if exact is None else float(min(max(exact, Fraction(0)), Fraction(10**15)))


def _flavors(spec: Mapping[str, Any]) -> Iterator[Reference]:
    for outer, group in enumerate(sequence(spec.get("resourceGroups"))):
        for index, flavor in enumerate(sequence(mapping(group).get("flavors"))):
            name = text(mapping(flavor).get("name"))
            if name:
                yield Reference("ResourceFlavor", "", name, f"spec.resourceGroups[{outer}].flavors[{index}].name")


def _local_queue(spec: Mapping[str, Any], _: str) -> Fields:
    parent = text(spec.get("clusterQueue"))
    return {
        "parent": parent,
        "references": (Reference("ClusterQueue", "", parent, "spec.clusterQueue"),) if parent else (),
    }


def _resource_flavor(spec: Mapping[str, Any], _: str) -> Fields:
    topology = text(spec.get("topologyName"))
    return {
        "product": product_label(mapping(spec.get("nodeLabels"))),
        "references": (Reference("Topology", "", topology, "spec.topologyName"),) if topology else (),
    }


def _resource_quota(spec: Mapping[str, Any], _: str) -> Fields:
    """Read a namespace's hard limit on requests of GPUs: nothing is guaranteed, as it reserves nothing."""
    hard = mapping(spec.get("hard"))
    quotas = []
    for key, value in hard.items():
        resource = text(key).removeprefix("requests.")
        if is_gpu(resource):
            quotas.append(Quota("" if resource in WHOLE_GPUS else resource, 0.0, _quantity(value)))
    return {"quotas": tuple(quotas)}


def _claim(spec: Mapping[str, Any], _: str) -> Fields:
    name = text(spec.get("storageClassName"))
    return {"references": (Reference("StorageClass", "", name, "spec.storageClassName"),) if name else ()}


def _pod_group(spec: Mapping[str, Any], _: str) -> Fields:
    queue = text(spec.get("queue"))
    return {"references": (Reference("Queue", "", queue, "spec.queue"),) if queue else ()}


CAPACITY_KINDS: dict[tuple[str, str], Callable[[Mapping[str, Any], str], Fields]] = {
    (KAI_GROUP, "Queue"): _kai_queue,
    (KAI_GROUP, "PodGroup"): _pod_group,
    (KUEUE_GROUP, "ClusterQueue"): _cluster_queue,
    (KUEUE_GROUP, "Cohort"): _cohort,
    (KUEUE_GROUP, "LocalQueue"): _local_queue,
    (KUEUE_GROUP, "ResourceFlavor"): _resource_flavor,
    ("", "ResourceQuota"): _resource_quota,
    ("", "PersistentVolumeClaim"): _claim,
}
