"""The links of the network to test: every interface of every node by ping, every pair of nodes by iperf, in turns."""

import json
from collections.abc import Collection, Mapping

from msgspec import Struct


class PingTarget(Struct, frozen=True, kw_only=True, order=True):
    """An address of another node. `interface` is the network there; `source` is ours to send from, empty for any."""

    node: str
    address: str
    interface: str = ""
    source: str = ""


class IperfPair(Struct, frozen=True, kw_only=True, order=True):
    """One measurement: the client sends to the server."""

    client: str
    server: str


def interfaces(annotation: str) -> dict[str, str]:
    """Return addresses by interface from the annotation of a pod. Raises `ValueError` if it is not valid."""
    rows = json.loads(annotation)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("not a list of networks")
    found: dict[str, str] = {}
    for row in rows:
        addresses = row.get("ips")
        if isinstance(addresses, list) and addresses:
            found[str(row.get("interface") or row.get("name") or "eth0")] = str(addresses[0])
    return found


def ping_targets(pods: Mapping[str, Mapping[str, str]], own: str) -> tuple[PingTarget, ...]:
    """Return every address of every other node; `pods` are the addresses by interface of the pod on each node.

    Where this node has the same interface, the ping leaves through it: a dead network is not hidden by another one.
    """
    mine = pods.get(own, {})
    return tuple(
        sorted(
            PingTarget(node=node, address=address, interface=interface, source=mine.get(interface, ""))
            for node, addresses in pods.items()
            if node != own
            for interface, address in addresses.items()
        )
    )


def rounds(nodes: Collection[str]) -> tuple[tuple[IperfPair, ...], ...]:
    """Return a schedule in which every two nodes meet once, and each node is in one pair a round.

    n nodes need n-1 rounds; an odd number needs n, and one node rests in each.
    """
    count = len(set(nodes))
    return tuple(pairs_of(nodes, number) for number in range(count + count % 2 - 1))


def pairs_of(nodes: Collection[str], number: int) -> tuple[IperfPair, ...]:
    """Return one round of the schedule, from 0; empty after the last one. One node stays, the others go round."""
    ring: list[str] = sorted(set(nodes))
    if len(ring) % 2:
        ring.append("")
    if not 0 <= number < len(ring) - 1:
        return ()
    first, *others = ring
    turned = [first, *others[len(others) - number :], *others[: len(others) - number]]
    half = len(turned) // 2
    pairs = zip(turned[:half], reversed(turned[half:]), strict=True)
    both = [(one, two) if number % 2 == 0 else (two, one) for one, two in pairs]
    return tuple(sorted(IperfPair(client=one, server=two) for one, two in both if one and two))


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
