"""The number of nodes of a job, and of GPUs on each. All nodes get the same share of the request."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import plural
from reconciler.sizing.inventory import Node


class Rejected(Struct, frozen=True, kw_only=True):
    """A distribution that is not possible, and why."""

    nodes: int
    per_node: int
    why: str


class Distribution(Struct, frozen=True, kw_only=True):
    """`nodes` x `per_node` GPUs, exactly the request. `because` is the computation."""

    nodes: int
    per_node: int
    because: str
    rejected: tuple[Rejected, ...] = ()

    @property
    def gpus(self) -> int:
        """All GPUs of the job."""
        return self.nodes * self.per_node


class DistributionFailure(Struct, frozen=True, kw_only=True):
    """No even distribution is possible: why, what was tried, and the nearest requests that are possible."""

    why: str
    rejected: tuple[Rejected, ...] = ()
    nearest: tuple[int, ...] = ()


class NodeKind(Struct, frozen=True, kw_only=True):
    """Nodes with the same number of GPUs. `count` is their number; None: unlimited."""

    gpus: int
    count: int | None = None


def node_kinds(nodes: Sequence[Node]) -> tuple[NodeKind, ...]:
    """Return the kinds of measured nodes, the largest first."""
    sizes = sorted({node.gpus for node in nodes}, reverse=True)
    return tuple(NodeKind(gpus=size, count=sum(node.gpus == size for node in nodes)) for size in sizes)


def refusal(failure: DistributionFailure) -> tuple[str, str]:
    """Return message and hint for a request that cannot be distributed."""
    tried = "; ".join(rejected.why for rejected in failure.rejected)
    hint = f"request {' or '.join(map(str, failure.nearest))}" if failure.nearest else ""
    return f"{failure.why} ({tried})" if tried else failure.why, hint


def computation(spread: Distribution) -> str:
    """Return how a distribution was found, with what was tried before."""
    tried = "; ".join(f"not {rejected.nodes} x {rejected.per_node}: {rejected.why}" for rejected in spread.rejected)
    return f"{spread.because} ({tried})" if tried else spread.because


def distribute(gpus: int, kinds: Sequence[NodeKind]) -> Distribution | DistributionFailure:
    """Spread `gpus` (1 or more) over the fewest nodes, trying the nodes with most GPUs first.

    A request that fits on one node stays on one. Otherwise every node gets the same share, at least half of its GPUs:
    17 GPUs on nodes with 8 would need 17 nodes with one GPU each, which is hardly intended.
    """
    rejected: list[Rejected] = []
    for kind in sorted(kinds, key=lambda kind: -kind.gpus):
        spread = _even(gpus, kind.gpus)
        rejected.extend(spread.rejected)
        if isinstance(spread, DistributionFailure):
            continue
        available = _with_at_least(spread.per_node, kinds)
        if available is not None and available < spread.nodes:
            why = f"needs {plural(spread.nodes, 'node')} with {plural(spread.per_node, 'GPU')}; available: {available}"
            rejected.append(Rejected(nodes=spread.nodes, per_node=spread.per_node, why=why))
            continue
        return replace(spread, rejected=tuple(rejected))
    return DistributionFailure(
        why=f"{plural(gpus, 'GPU')} cannot be spread evenly over nodes with {_listed(kinds)}"
        if kinds
        else "no node has a GPU",
        rejected=tuple(rejected),
        nearest=_nearest(gpus, kinds),
    )


@lru_cache(maxsize=4096)
def _even(gpus: int, per_node: int) -> Distribution | DistributionFailure:
    if gpus <= per_node:
        because = f"{plural(gpus, 'GPU')} on one node with {per_node}"
        return Distribution(nodes=1, per_node=gpus, because=because)
    fewest, rejected = -(-gpus // per_node), []
    for nodes in range(fewest, 2 * gpus // per_node + 1):
        share, rest = divmod(gpus, nodes)
        if rest:
            rejected.append(Rejected(nodes=nodes, per_node=share, why=f"{gpus} GPUs / {nodes} nodes: remainder {rest}"))
            continue
        because = f"{plural(gpus, 'GPU')} / {per_node} per node = {plural(nodes, 'node')}"
        if share != per_node:
            because = _partial(gpus, per_node, nodes, share)
        return Distribution(nodes=nodes, per_node=share, because=because, rejected=tuple(rejected))
    return DistributionFailure(why="", rejected=tuple(rejected))


def _partial(gpus: int, per_node: int, nodes: int, share: int) -> str:
    total = f"{plural(gpus, 'GPU')} = {plural(nodes, 'node')} x {share}"
    return f"{total}, the fewest nodes with up to {per_node} GPUs for an even spread"


def _with_at_least(gpus: int, kinds: Sequence[NodeKind]) -> int | None:
    counts = [kind.count for kind in kinds if kind.gpus >= gpus]
    return None if None in counts else sum(count for count in counts if count is not None)


def _nearest(gpus: int, kinds: Sequence[NodeKind]) -> tuple[int, ...]:
    """Return the closest possible requests below and above."""
    if not kinds:
        return ()
    most = max(kind.gpus for kind in kinds)
    fits = (
        next((n for n in range(gpus - 1, max(gpus - 2 * most, 0), -1) if _is_possible(n, kinds)), None),
        next((n for n in range(gpus + 1, gpus + 2 * most) if _is_possible(n, kinds)), None),
    )
    return tuple(n for n in fits if n is not None) or _largest(kinds)


def _largest(kinds: Sequence[NodeKind]) -> tuple[int, ...]:
    """Return the number of GPUs of all nodes of the largest kind."""
    return (max(kind.gpus * (kind.count or 1) for kind in kinds),)


def _is_possible(gpus: int, kinds: Sequence[NodeKind]) -> bool:
    for kind in kinds:
        spread = _even(gpus, kind.gpus)
        if isinstance(spread, Distribution):
            available = _with_at_least(spread.per_node, kinds)
            if available is None or available >= spread.nodes:
                return True
    return False


def _listed(kinds: Sequence[NodeKind]) -> str:
    sizes = " or ".join(str(size) for size in sorted({kind.gpus for kind in kinds}, reverse=True))
    return f"{sizes} GPU{'' if sizes == '1' else 's'}"
