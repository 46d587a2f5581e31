"""Sized jobs: a decision written into the user's own document, and nothing else of it changed."""

from reconciler.core.sized.apply import apply_decision, refused, waiting
from reconciler.core.sized.line import Line
from reconciler.core.sized.protocol import SIZING, particulars, recommendation
from reconciler.core.sized.sized import Sized, sized_intent, sized_manifest, stamp

__all__ = [
    "SIZING",
    "Line",
    "Sized",
    "apply_decision",
    "particulars",
    "recommendation",
    "refused",
    "sized_intent",
    "sized_manifest",
    "stamp",
    "waiting",
]
