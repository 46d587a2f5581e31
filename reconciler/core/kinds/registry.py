"""The registry of built-in kinds: one row per family."""

from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.torchrun import KINDS as TORCHRUN

BUILT_IN = Kinds(TORCHRUN)
"""Every kind that ships with the package."""
