"""F-030: GPUs over nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.distribution import Distribution, DistributionFailure, NodeKind, distribute

KINDS = st.lists(
    st.builds(NodeKind, gpus=st.integers(1, 16), count=st.none() | st.integers(1, 40)),
    min_size=1,
    max_size=4,
    unique_by=lambda kind: kind.gpus,
)


@pytest.mark.parametrize(
    ("gpus", "per_node", "nodes", "share"),
    [
        (32, 8, 4, 8),
        (16, 8, 2, 8),
        (6, 8, 1, 6),
        (12, 8, 2, 6),
        (8, 8, 1, 8),
        (1, 8, 1, 1),
        (20, 8, 4, 5),
        (9, 4, 3, 3),
    ],
)
def test_requests_are_shared_out_evenly(gpus: int, per_node: int, nodes: int, share: int) -> None:
    """F-030: 32/8 is 4x8, 16/8 is 2x8, 6/8 is 1x6, 12/8 is 2x6."""
    spread = distribute(gpus, [NodeKind(gpus=per_node)])
    assert isinstance(spread, Distribution)
    assert (spread.nodes, spread.per_node) == (nodes, share)
    assert str(gpus) in spread.because


@pytest.mark.parametrize(("gpus", "nearest"), [(17, (16, 18)), (22, (21, 24)), (26, (25, 28))])
def test_what_does_not_share_out_is_refused_with_the_nearest(gpus: int, nearest: tuple[int, ...]) -> None:
    """F-030: 17 GPUs on nodes of 8 are refused, 16 and 18 are offered, and what was tried is told."""
    spread = distribute(gpus, [NodeKind(gpus=8)])
    assert isinstance(spread, DistributionFailure)
    assert spread.nearest == nearest
    assert spread.rejected
    assert all(str(gpus) in rejected.why for rejected in spread.rejected)


def test_measured_nodes_limit_the_choice() -> None:
    """F-030: with three nodes of 8 measured, 32 GPUs go to eight nodes of 4, and the reason says why not 4 x 8."""
    kinds = [NodeKind(gpus=4, count=9), NodeKind(gpus=8, count=3)]
    spread = distribute(32, kinds)
    assert isinstance(spread, Distribution)
    assert (spread.nodes, spread.per_node) == (8, 4)
    assert [(r.nodes, r.per_node) for r in spread.rejected] == [(4, 8)]
    refused = distribute(64, kinds)
    assert isinstance(refused, DistributionFailure)
    assert refused.nearest


def test_without_nodes_there_is_no_choice() -> None:
    refused = distribute(8, [])
    assert isinstance(refused, DistributionFailure)
    assert refused.nearest == ()


@given(st.integers(1, 300), KINDS)
def test_the_sum_is_the_request_or_it_is_refused(gpus: int, kinds: list[NodeKind]) -> None:
    """F-030: no GPU is lost or added, no node is asked for more than it has, and there are enough such nodes."""
    spread = distribute(gpus, kinds)
    if isinstance(spread, DistributionFailure):
        assert spread.why
        assert all(isinstance(distribute(near, kinds), Distribution) for near in spread.nearest)
        return
    assert spread.nodes * spread.per_node == spread.gpus == gpus
    holding = [kind for kind in kinds if kind.gpus >= spread.per_node]
    assert holding
    if all(kind.count is not None for kind in holding):
        assert sum(kind.count or 0 for kind in holding) >= spread.nodes


@given(st.integers(1, 300), KINDS)
def test_the_order_of_the_nodes_does_not_matter(gpus: int, kinds: list[NodeKind]) -> None:
    assert distribute(gpus, kinds) == distribute(gpus, kinds[::-1])
