"""The GPU product that a TorchrunQueue offers."""

from reconciler.core.devices import product_label
from reconciler.core.kinds.kind import Offer
from reconciler.core.kinds.torchrun.intent import TorchrunQueue


def offered_product(queue: TorchrunQueue) -> Offer | None:
    """Return the product that the queue's pods select; None if they may run on any."""
    selected = dict(queue.scheduling.node_selector)
    product = product_label({key: value.value for key, value in selected.items()})
    for value in selected.values():
        if product and value.value == product and value.reason.origins:
            return Offer(product=product, origin=value.reason.origins[0])
    return None
