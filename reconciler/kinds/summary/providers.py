"""Workloads whose devices another object says.

A claim template, a runtime, a workflow template, a runtime class and a device class say what pods request, a LimitRange
what their containers get by default, and an autoscaler how many pods there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from msgspec.structs import replace

from reconciler.kinds.dra import DEVICE_CLASS
from reconciler.kinds.facts import KindId, QueueRole, Scale
from reconciler.kinds.quantities import Gpus, total
from reconciler.kinds.summary.object_summary import Demand, Need, ObjectSummary, Uncounted, add_demands
from reconciler.kinds.terms import PodRequest
from reconciler.sizing.devices import WHOLE_GPUS

ProviderKey = tuple[KindId, str, str]
"""Kind, namespace (empty for cluster scope) and name."""


def with_provided(row: ObjectSummary, providers: Mapping[ProviderKey, ObjectSummary]) -> ObjectSummary:
    """Return a workload with the devices that other objects say, and with what cannot be counted without them."""
    if not row.needs:
        return row
    found = [*row.demands]
    uncounted, pods = [*row.uncounted], row.pods
    more: Gpus = 0
    requests, stated = row.requests, row.stated
    for need in row.needs:
        provider = _find(need, providers)
        if provider is not None:
            added = list(_provided(need, provider))
            found += added
            more += 0 if need.own and not need.adds else max((one.gpus_per_pod for one in added), default=0)
            uncounted += [
                Uncounted(need.field, f"{one.what} ({provider.kind} {need.name})") for one in provider.uncounted
            ]
            pods += provider.pods - need.pods if need.sets_pods else 0
            if DEVICE_CLASS in need.kinds:
                uncounted = [one for one in uncounted if one.what != unknown_resource(need.name)]
            if row.queue_role is QueueRole.ALIAS and need.adds:
                requests = tuple(sorted({*requests, *provider.requests}))
            elif row.queue_role is QueueRole.ALIAS and not row.requests:
                requests, stated = provider.requests, provider.stated
        elif not need.is_optional:
            what = f"{need.kinds[0][1]} {need.name}, which is not in the repository"
            uncounted.append(Uncounted(need.field, what))
    return replace(
        _with_demands(row, found),
        gpus_per_pod=max(row.gpus_per_pod, more),
        pods=pods,
        needs=(),
        uncounted=tuple(dict.fromkeys(uncounted)),
        requests=requests,
        stated=stated,
    )


def _with_demands(row: ObjectSummary, found: Iterable[Demand]) -> ObjectSummary:
    """Return a workload with other requests of its pods."""
    demands = add_demands(found)
    products = {demand.product for demand in demands}
    return replace(
        row,
        gpus=total(demand.gpus for demand in demands),
        product=products.pop() if len(products) == 1 else "",
        vendor=max(demands, key=lambda one: (one.gpus, one.resource)).resource if demands else "",
        demands=demands,
    )


def unknown_resource(name: str) -> str:
    """Return what is not counted of a pod that requests a resource which nobody knows."""
    return f"the resource {name}"


def with_defaults(row: ObjectSummary, defaults: Iterable[tuple[str, int, str]]) -> ObjectSummary:
    """Return a workload with the devices that LimitRanges add to containers which name none.

    defaults: devices of one container by resource, with the name of the LimitRange.
    """
    found, given, requests = [*row.demands], [], [*row.pod_requests]
    more: Gpus = 0
    for resource, amount, name in defaults:
        for position, bare in enumerate(row.bare):
            each = (bare.containers - dict(bare.stated).get(resource, 0)) * amount
            if each:
                product = bare.product if resource in WHOLE_GPUS else resource
                found.append(Demand(resource, product, each, bare.pods, least=bare.least, most=bare.most))
                given.append(f"{amount} {resource} for each container (LimitRange {name})")
                more = max(more, each)
                if position < len(requests):
                    requests[position] = _with_devices(requests[position], resource, each)
    if not given:
        return row
    return replace(
        _with_demands(row, found),
        gpus_per_pod=max(row.gpus_per_pod, more),
        pod_requests=tuple(requests),
        bare=(),
        given=tuple(dict.fromkeys(given)),
    )


def _with_devices(request: PodRequest, resource: str, each: int) -> PodRequest:
    """Return a request of pods with so many more devices for each of them."""
    devices = dict(request.devices)
    devices[resource] = devices.get(resource, 0) + each * request.pods
    return replace(request, devices=tuple((name, amount) for name, amount in devices.items() if amount))


def with_scale(row: ObjectSummary, scale: Scale) -> ObjectSummary:
    """Return a workload with the copies that its autoscaler starts, and how few and how many there may be."""
    if row.suspended or not row.is_workload or not (row.replicas or scale.starts):
        return row
    start = min(max(row.replicas, scale.least), scale.most)

    def pods(now: int, copies: int) -> int:
        return now // row.replicas * copies if row.replicas else copies

    demands = [
        replace(
            one,
            pods=pods(one.pods, start),
            least=pods(one.pods, min(scale.least, start)),
            most=pods(one.pods, scale.most),
        )
        for one in row.demands
    ]
    scaled = replace(_with_demands(row, demands), pods=pods(row.pods, start), replicas=start)
    if row.workloads == row.replicas:  # a queue by flavor admits each copy by itself
        return replace(scaled, workloads=max(1, start))
    requests = (
        replace(
            one,
            devices=tuple((name, ceil(amount * start / row.replicas)) for name, amount in one.devices),
            pods=pods(one.pods, start),
        )
        for one in (row.pod_requests if row.replicas else ())
    )
    return replace(scaled, pod_requests=tuple(requests) or row.pod_requests)


def _find(need: Need, providers: Mapping[ProviderKey, ObjectSummary]) -> ObjectSummary | None:
    for kind in need.kinds:
        for namespace in (need.namespace, ""):
            found = providers.get((kind, namespace, need.name))
            if found is not None:
                return found
    return None


def _provided(need: Need, provider: ObjectSummary) -> Iterator[Demand]:
    """Yield the requests that a provider adds to the pods of one need."""
    if need.own and not need.adds:
        for shape in need.own if need.sets_pods else ():
            yield Demand(*shape, provider.pods - need.pods)
        return
    for demand in provider.demands:
        each = (demand.resource, demand.product, demand.gpus_per_pod * need.each)
        if need.adds:
            least, most = (None if pods is None else demand.pods * pods for pods in (need.least, need.most))
            yield Demand(*each, demand.pods * need.pods, least=least, most=most)
        elif need.sets_pods:
            yield demand
        else:
            yield Demand(*each, need.pods, least=need.least, most=need.most)
