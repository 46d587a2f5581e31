"""Whose turn it is to measure bandwidth: a function of the names of all nodes and of the time, so nobody is asked."""

from collections.abc import Collection

from msgspec import Struct

from reconciler.core.health.active.links import IperfPair, pairs_of


class IperfTurn(Struct, frozen=True, kw_only=True):
    """The turn of one node: with whom, and until when. Times are in seconds since the epoch."""

    pair: IperfPair
    starts_at: float
    ends_at: float


def slot_start(now: float, slot: float) -> float:
    """Return when the turns of this time began: at the same moment on every node."""
    return now // slot * slot


def turn_of(node: str, nodes: Collection[str], now: float, *, every: float, slot: float) -> IperfTurn | None:
    """Return the turn of a node now; None while it rests. Every two nodes meet once after each multiple of `every`."""
    starts_at = slot_start(now, slot)
    number = int((starts_at - now // every * every) // slot)
    if number < 0:  # a period that began within this turn
        return None
    found = next((pair for pair in pairs_of(nodes, number) if node in (pair.client, pair.server)), None)
    return None if found is None else IperfTurn(pair=found, starts_at=starts_at, ends_at=starts_at + slot)
