"""Over how many GPUs weights, gradients and optimizer are divided."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from reconciler.core.sizing.training import Layout, Strategy, Training

DEEPSPEED = frozenset({Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3})
FSDP = frozenset({Strategy.FSDP_FULL, Strategy.FSDP_HYBRID, Strategy.FSDP_GRAD_OP})


class Shards(NamedTuple):
    """Ways of each division; 1: every GPU holds all."""

    weights: int
    gradients: int
    optimizer: int


_DIVIDED: Mapping[Strategy, tuple[bool, bool, bool]] = MappingProxyType(
    {
        Strategy.DDP: (False, False, False),
        Strategy.FSDP_FULL: (True, True, True),
        Strategy.FSDP_HYBRID: (True, True, True),
        Strategy.FSDP_GRAD_OP: (False, True, True),
        Strategy.ZERO1: (False, False, True),
        Strategy.ZERO2: (False, True, True),
        Strategy.ZERO3: (True, True, True),
    }
)


def shards_of(training: Training, layout: Layout) -> Shards:
    """Return the divisions: over all replicas of the model, or over those of one node (`fsdp-hybrid`).

    ZeRO (arXiv 1910.02054, section 5) and FSDP (arXiv 2304.11277, section 3). Tensor and pipeline parallel ways divide
    the model itself, and so leave fewer replicas.
    """
    gpus = layout.gpus_per_worker if training.strategy is Strategy.FSDP_HYBRID else layout.gpus
    ways = max(1, gpus // (training.tensor * training.pipeline))
    weights, gradients, optimizer = _DIVIDED[training.strategy]
    return Shards(ways if weights else 1, ways if gradients else 1, ways if optimizer else 1)
