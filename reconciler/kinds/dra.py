"""Dynamic resource allocation (`resource.k8s.io`): claims on devices of a class.

Sources: KEP-4381 (structured parameters), KEP-5004 (extended resources of device classes).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Life, Pods
from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.immutable import only
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import with_devices
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.sizing.devices import resource_of_class

_GROUP = "resource.k8s.io"
RESOURCE_CLAIM_TEMPLATE = (_GROUP, "ResourceClaimTemplate")
DEVICE_CLASS = (_GROUP, "DeviceClass")


def _claim(body: Body, prefix: str) -> Iterator[PodSet]:
    return _requests(mapping(body.get("spec")), f"{prefix}spec.")


def _template(body: Body, prefix: str) -> Iterator[PodSet]:
    return _requests(mapping(mapping(body.get("spec")).get("spec")), f"{prefix}spec.spec.")


def _requests(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield what stands for the devices of each request. Of alternatives the first is what the claim prefers."""
    for index, request in enumerate(map(mapping, sequence(mapping(spec.get("devices")).get("requests")))):
        alternatives = sequence(request.get("firstAvailable"))
        exact = mapping(alternatives[0]) if alternatives else mapping(request.get("exactly")) or request
        if exact.get("adminAccess") is True:
            continue
        name = text(exact.get("deviceClassName"))
        resource = resource_of_class(name)
        place = f"{prefix}devices.requests[{index}]."
        if exact.get("allocationMode") == "All":
            yield PodSet(1, {}, place, unknown=f"how many devices of class {name} there are (allocationMode: All)")
        elif resource:
            yield PodSet(1, with_devices(resource, count(exact.get("count"), 1)), place)


def _class(body: Body, prefix: str) -> Iterator[PodSet]:
    """Yield what stands for one device of a class that pods may request as an extended resource, too."""
    resource = resource_of_class(text(mapping(body.get("metadata")).get("name")))
    if resource:
        yield PodSet(1, with_devices(resource, 1), prefix)


def _extended_resource(body: Body) -> str:
    return text(mapping(body.get("spec")).get("extendedResourceName"))


KINDS = (
    Kind(
        group=_GROUP,
        kind="ResourceSlice",
        is_cluster_scoped=True,
        life=Life(immutable=only("spec.driver", "spec.nodeName", "spec.pool.name")),
    ),
    Kind(group=_GROUP, kind="ResourceClaim", pods=Pods(_claim), life=Life(immutable=only("spec"))),
    Kind(
        group=_GROUP, kind=RESOURCE_CLAIM_TEMPLATE[1], pods=Pods(provides=_template), life=Life(immutable=only("spec"))
    ),
    Kind(
        group=_GROUP,
        kind=DEVICE_CLASS[1],
        is_cluster_scoped=True,
        pods=Pods(provides=_class, provided_as=_extended_resource),
    ),
)
