"""How many nodes a job takes, and how many GPUs on each: every node alike, none of the request lost or added."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct


class Rejected(Struct, frozen=True, kw_only=True):
    """A way to spread a request that does not serve, and why."""

    nodes: int
    per_node: int
    why: str


class Distribution(Struct, frozen=True, kw_only=True):
    """`nodes` x `per_node` GPUs, which is exactly the request; `because` is its arithmetic."""

    nodes: int
    per_node: int
    because: str
    rejected: tuple[Rejected, ...] = ()

    @property
    def gpus(self) -> int:
        """All GPUs of the job."""
        return self.nodes * self.per_node


class Refusal(Struct, frozen=True, kw_only=True):
    """No even spread serves: why, what was tried, and the nearest requests that would."""

    why: str
    rejected: tuple[Rejected, ...] = ()
    nearest: tuple[int, ...] = ()


class NodeKind(Struct, frozen=True, kw_only=True):
    """Nodes that offer the same number of GPUs. `count` is how many there are; None: as many as it takes."""

    gpus: int
    count: int | None = None


def distribute(gpus: int, kinds: Sequence[NodeKind]) -> Distribution | Refusal:
    """Spread `gpus` over the fewest nodes, trying the kinds with most GPUs first. `gpus` is at least 1.

    A request that fits on one node stays on one. Otherwise every node takes the same share, and at least half of a
    node: 17 GPUs on nodes of 8 would be 17 nodes of one GPU each, which nobody means.
    """
    rejected: list[Rejected] = []
    for kind in sorted(kinds, key=lambda kind: -kind.gpus):
        spread = _even(gpus, kind.gpus)
        rejected.extend(spread.rejected)
        if isinstance(spread, Refusal):
            continue
        available = _with_at_least(spread.per_node, kinds)
        if available is not None and available < spread.nodes:
            why = f"nodes with {spread.per_node} GPUs or more: {available}, not {spread.nodes}"
            rejected.append(Rejected(nodes=spread.nodes, per_node=spread.per_node, why=why))
            continue
        return Distribution(
            nodes=spread.nodes, per_node=spread.per_node, because=spread.because, rejected=tuple(rejected)
        )
    return Refusal(
        why=f"{gpus} GPUs cannot be shared out evenly over nodes of {_listed(kinds)}" if kinds else "no node has a GPU",
        rejected=tuple(rejected),
        nearest=_nearest(gpus, kinds),
    )


@lru_cache(maxsize=4096)
def _even(gpus: int, per_node: int) -> Distribution | Refusal:
    if gpus <= per_node:
        because = f"{gpus} GPUs fit on one node of {per_node}"
        return Distribution(nodes=1, per_node=gpus, because=because)
    fewest, rejected = -(-gpus // per_node), []
    for nodes in range(fewest, 2 * gpus // per_node + 1):
        share, rest = divmod(gpus, nodes)
        if rest:
            rejected.append(Rejected(nodes=nodes, per_node=share, why=f"{gpus} / {nodes} nodes leaves {rest} over"))
            continue
        exact = share == per_node
        because = f"{gpus} GPUs / {per_node} a node = {nodes} nodes" if exact else _uneven(gpus, per_node, nodes, share)
        return Distribution(nodes=nodes, per_node=share, because=because, rejected=tuple(rejected))
    return Refusal(why="", rejected=tuple(rejected))


def _uneven(gpus: int, per_node: int, nodes: int, share: int) -> str:
    return f"{gpus} GPUs over nodes of {per_node}: {nodes} nodes of {share}, the fewest that share evenly"


def _with_at_least(gpus: int, kinds: Sequence[NodeKind]) -> int | None:
    counts = [kind.count for kind in kinds if kind.gpus >= gpus]
    return None if None in counts else sum(count for count in counts if count is not None)


def _nearest(gpus: int, kinds: Sequence[NodeKind]) -> tuple[int, ...]:
    """Return the closest requests below and above that would be granted."""
    if not kinds:
        return ()
    most = max(kind.gpus for kind in kinds)
    fits = (
        next((n for n in range(gpus - 1, max(gpus - 2 * most, 0), -1) if _granted(n, kinds)), None),
        next((n for n in range(gpus + 1, gpus + 2 * most) if _granted(n, kinds)), None),
    )
    return tuple(n for n in fits if n is not None) or _largest(kinds)


def _largest(kinds: Sequence[NodeKind]) -> tuple[int, ...]:
    """Return the most GPUs that nodes of one kind hold together."""
    return (max(kind.gpus * (kind.count or 1) for kind in kinds),)


def _granted(gpus: int, kinds: Sequence[NodeKind]) -> bool:
    for kind in kinds:
        spread = _even(gpus, kind.gpus)
        if isinstance(spread, Distribution):
            available = _with_at_least(spread.per_node, kinds)
            if available is None or available >= spread.nodes:
                return True
    return False


def _listed(kinds: Sequence[NodeKind]) -> str:
    return " or ".join(str(kind.gpus) for kind in sorted(kinds, key=lambda kind: -kind.gpus))
