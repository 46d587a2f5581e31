"""The built-in memory model: it predicts the peak memory of one GPU from the numbers of a training.

`stacks` are measured constants of frameworks, `states` the bytes of weights, gradients and optimizer and how strategies
shard them, `terms` everything that does not depend on the layout, `prediction` the estimate of one layout.
"""

from reconciler.sizing.memory.prediction import estimate, fits
from reconciler.sizing.memory.states import is_known_optimizer

__all__ = ["estimate", "fits", "is_known_optimizer"]
