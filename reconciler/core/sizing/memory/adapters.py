"""How many weights are trained beside a frozen base."""

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.models import adapter_parameters, default_targets
from reconciler.core.sizing.models.adapters import ALL_LINEAR

__all__ = ["ALL_LINEAR", "adapter_weights"]


def adapter_weights(architecture: Architecture, rank: int, targets: tuple[str, ...]) -> int:
    """Count the weights of adapters. A model that has none of the targets is counted with those that PEFT would take.

    Reading the job is where an unknown target is refused; a prediction answers for any.
    """
    known = {linear.name for linear in architecture.linears if not linear.fused}
    chosen = tuple(target for target in targets if target == ALL_LINEAR or target in known)
    return adapter_parameters(architecture, rank, chosen or default_targets(architecture))
