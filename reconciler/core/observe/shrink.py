"""Fleets that shrink: an observation that misses many nodes is more often a fault than a decision."""

from reconciler.core.evidence.inventory import Inventory
from reconciler.core.values import plural

_EVERYDAY_NODES = 2
_EVERYDAY_GPUS = 16
"""Two common nodes may go at any time, whatever the share."""


def shrink(before: Inventory | None, after: Inventory, share: float) -> str:
    """Return what is missing if more than a share of the nodes or of the GPUs is gone; else an empty text."""
    if before is None or not before.nodes:
        return ""
    nodes, gpus = len(before.nodes), sum(node.gpus for node in before.nodes)
    left = len(after.nodes)
    if not left:
        return f"none of {plural(nodes, 'node')} is left"
    lost = nodes - left
    if lost > max(share * nodes, _EVERYDAY_NODES):
        return f"{lost} of {plural(nodes, 'node')} are gone ({lost / nodes:.0%}); at most {share:.0%} may go at once"
    fewer = gpus - sum(node.gpus for node in after.nodes)
    if fewer > max(share * gpus, _EVERYDAY_GPUS):
        return f"{fewer} of {plural(gpus, 'GPU')} are gone ({fewer / gpus:.0%}); at most {share:.0%} may go at once"
    return ""
