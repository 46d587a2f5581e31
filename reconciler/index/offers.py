"""Which cards a job's queue offers: TorchrunQueues, and Kueue's LocalQueue -> ClusterQueue -> ResourceFlavor."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from reconciler.core.devices import product_label
from reconciler.core.documents import Document
from reconciler.core.kinds.kai import QUEUE_LABELS as KAI_QUEUE_LABELS
from reconciler.core.kinds.kueue import QUEUE_LABEL as KUEUE_QUEUE_LABEL
from reconciler.core.kinds.torchrun.intent import TorchrunQueue
from reconciler.core.reasons import Origin
from reconciler.core.values import mapping, text

KUEUE_KINDS = ("LocalQueue", "ClusterQueue", "ResourceFlavor")
QUEUE_LABELS = (KUEUE_QUEUE_LABEL, *KAI_QUEUE_LABELS)
_GROUP = "kueue.x-k8s.io"


class Offer(Struct, frozen=True, kw_only=True):
    """A product (the value of the node label), and where it is offered."""

    product: str
    origin: Origin


class Flavors(Struct, frozen=True, kw_only=True):
    """Kueue's objects of one cluster: local queues by namespace and name, the others by name."""

    local: Mapping[tuple[str, str], Document] = field(default_factory=dict)
    queues: Mapping[str, Document] = field(default_factory=dict)
    flavors: Mapping[str, Document] = field(default_factory=dict)

    def offers(self, namespace: str, queue: str) -> Iterator[Offer]:
        """Yield the products of the flavors that a LocalQueue's ClusterQueue lists, in its order."""
        local = self.local.get((namespace, queue))
        cluster_queue = self.queues.get(text(_spec(local).get("clusterQueue"))) if local else None
        seen: set[str] = set()
        for name in _flavor_names(_spec(cluster_queue)) if cluster_queue else ():
            flavor = self.flavors.get(name)
            labels = mapping(_spec(flavor).get("nodeLabels")) if flavor else {}
            product = product_label(labels)
            if flavor and product and product not in seen:
                seen.add(product)
                label = next(key for key in labels if labels[key] == product)
                origin = Origin(document=flavor, field=("spec", "nodeLabels", label))
                yield Offer(product=product, origin=origin)


def flavors_of(documents: Iterable[Document], namespace: str) -> Flavors:
    """Sort Kueue's documents of one cluster; `namespace` is the cluster's own, for those that name none."""
    local: dict[tuple[str, str], Document] = {}
    queues: dict[str, Document] = {}
    flavors: dict[str, Document] = {}
    for document in documents:
        key = document.key
        if key.group != _GROUP:
            continue
        if key.kind == "LocalQueue":
            local.setdefault((key.namespace or namespace, key.name), document)
        else:
            (queues if key.kind == "ClusterQueue" else flavors).setdefault(key.name, document)
    return Flavors(local=local, queues=queues, flavors=flavors)


def offer_of(queue: TorchrunQueue) -> Offer | None:
    """Return the product that a queue's pods select; None where its nodes may be of any."""
    selected = dict(queue.scheduling.node_selector)
    product = product_label({key: value.value for key, value in selected.items()})
    for value in selected.values():
        if product and value.value == product and value.reason.origins:
            return Offer(product=product, origin=value.reason.origins[0])
    return None


def queue_named(labels: Mapping[str, str]) -> str:
    """Return the queue that a job's labels name, Kueue's or KAI's; empty where they name none."""
    return next((labels[label] for label in QUEUE_LABELS if labels.get(label)), "")


def _spec(document: Document | None) -> Mapping[str, Any]:
    return mapping(document.data.get("spec")) if document else {}


def _flavor_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for group in _items(spec.get("resourceGroups")):
        for flavor in _items(mapping(group).get("flavors")):
            yield text(mapping(flavor).get("name"))


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
