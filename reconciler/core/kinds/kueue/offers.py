"""The GPU products that a LocalQueue offers: those of the flavors that its ClusterQueue lists."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.devices import product_label
from reconciler.core.documents import Document
from reconciler.core.kinds.kind import Lookup, Offer
from reconciler.core.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from reconciler.core.reasons import Origin
from reconciler.core.values import mapping, sequence, text


def offered_products(lookup: Lookup, namespace: str, queue: str) -> Iterator[Offer]:
    """Yield each product once, in the order of the ClusterQueue's flavors."""
    local = lookup.defined(LOCAL_QUEUE, namespace, queue)
    cluster_queue = lookup.defined(CLUSTER_QUEUE, "", text(_spec(local).get("clusterQueue"))) if local else None
    seen: set[str] = set()
    for name in _flavor_names(_spec(cluster_queue)):
        flavor = lookup.defined(RESOURCE_FLAVOR, "", name)
        labels = mapping(_spec(flavor).get("nodeLabels"))
        product = product_label(labels)
        if flavor and product and product not in seen:
            seen.add(product)
            label = next(key for key in labels if labels[key] == product)
            yield Offer(product=product, origin=Origin(document=flavor, field=("spec", "nodeLabels", label)))


def _spec(document: Document | None) -> Mapping[str, Any]:
    return mapping(document.data.get("spec")) if document else {}


def _flavor_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for group in sequence(spec.get("resourceGroups")):
        for flavor in sequence(mapping(group).get("flavors")):
            yield text(mapping(flavor).get("name"))
