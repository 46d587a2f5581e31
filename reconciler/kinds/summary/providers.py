"""Workloads whose devices another object says: a claim template, a runtime, a workflow template, a runtime class."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from reconciler.kinds.facts import KindId, QueueRole
from reconciler.kinds.summary.object_summary import Demand, Need, ObjectSummary, Uncounted, add_demands

ProviderKey = tuple[KindId, str, str]
"""Kind, namespace (empty for cluster scope) and name."""


def with_provided(row: ObjectSummary, providers: Mapping[ProviderKey, ObjectSummary]) -> ObjectSummary:
    """Return a workload with the devices that other objects say, and with what cannot be counted without them."""
    if not row.needs:
        return row
    found = [*row.demands]
    uncounted, more, pods = [*row.uncounted], 0, row.pods
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
            if row.queue_role is QueueRole.ALIAS and need.adds:
                requests = tuple(sorted({*requests, *provider.requests}))
            elif row.queue_role is QueueRole.ALIAS and not row.requests:
                requests, stated = provider.requests, provider.stated
        elif not need.is_optional:
            what = f"{need.kinds[0][1]} {need.name}, which is not in the repository"
            uncounted.append(Uncounted(need.field, what))
    demands = add_demands(found)
    products = {demand.product for demand in demands}
    return replace(
        row,
        gpus=sum(demand.gpus for demand in demands),
        gpus_per_pod=max(row.gpus_per_pod, more),
        pods=pods,
        product=products.pop() if len(products) == 1 else "",
        vendor=max(demands, key=lambda one: (one.gpus, one.resource)).resource if demands else "",
        demands=demands,
        needs=(),
        uncounted=tuple(dict.fromkeys(uncounted)),
        requests=requests,
        stated=stated,
    )


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
        each = (demand.resource, demand.product, demand.gpus_per_pod)
        if need.adds:
            least, most = (None if pods is None else demand.pods * pods for pods in (need.least, need.most))
            yield Demand(*each, demand.pods * need.pods, least=least, most=most)
        elif need.sets_pods:
            yield demand
        else:
            yield Demand(*each, need.pods, least=need.least, most=need.most)
