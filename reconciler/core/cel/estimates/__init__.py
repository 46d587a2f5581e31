"""What expressions cost an API server at most, before they are evaluated: `highest_cost`."""

from reconciler.core.cel.estimates.expressions import ValuePath, highest_cost
from reconciler.core.cel.estimates.sizes import MOST, SizeRange, capped

__all__ = ["MOST", "SizeRange", "ValuePath", "capped", "highest_cost"]
