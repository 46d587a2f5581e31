"""The quotas in `spec.resourceGroups` of a ClusterQueue or Cohort."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.kinds.terms import CellQuota
from reconciler.kube.values import mapping, sequence, text
from reconciler.sizing.devices import is_gpu


class FlavorQuota(NamedTuple):
    """The fields of one resource of a flavor. `group` is the number of its resource group."""

    group: int
    flavor: str
    resource: str
    fields: Mapping[str, Any]


def gpu_quotas(spec: Any) -> Iterator[FlavorQuota]:
    """Yield the quotas of GPUs, in the order in which Kueue tries the flavors."""
    for number, group in enumerate(map(mapping, sequence(mapping(spec).get("resourceGroups")))):
        for flavor in map(mapping, sequence(group.get("flavors"))):
            for resource in map(mapping, sequence(flavor.get("resources"))):
                name = text(resource.get("name"))
                if is_gpu(name):
                    yield FlavorQuota(number, text(flavor.get("name")), name, resource)


def cell_quotas(spec: Any) -> Iterator[CellQuota]:
    """Yield the quotas of all resources, as they are written."""
    for group in map(mapping, sequence(mapping(spec).get("resourceGroups"))):
        for flavor in map(mapping, sequence(group.get("flavors"))):
            for quota in map(mapping, sequence(flavor.get("resources"))):
                amounts = ("" if quota.get(field) is None else str(quota[field]) for field in _AMOUNTS)
                yield CellQuota(text(flavor.get("name")), text(quota.get("name")), *amounts)


_AMOUNTS = ("nominalQuota", "borrowingLimit", "lendingLimit")


def covered_resources(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the resources that a ClusterQueue covers: it admits no pod that requests another one."""
    groups = map(mapping, sequence(spec.get("resourceGroups")))
    return tuple(sorted({text(name) for group in groups for name in sequence(group.get("coveredResources"))} - {""}))
