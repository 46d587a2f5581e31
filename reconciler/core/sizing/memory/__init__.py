"""The peak memory of one GPU, predicted from numbers: what lies there, what passes through, what the stack adds.

`states` counts weights, gradients and optimizer; `transients` what sharding gathers; `activations` what the forward
pass keeps; `stacks` holds the measured constants of training stacks; `prediction` puts them together; `verdict` says
whether a layout fits.
"""

from reconciler.core.sizing.memory.prediction import estimate
from reconciler.core.sizing.memory.states import optimizer_known
from reconciler.core.sizing.memory.verdict import fits

__all__ = ["estimate", "fits", "optimizer_known"]
