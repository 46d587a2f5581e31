"""Sized jobs: a decision written into the job's own document, without any other change."""

from reconciler.index.sized.apply import (
    LaunchWords,
    Sized,
    apply_decision,
    mark_refused,
    mark_waiting,
    sized_intent,
    sized_manifest,
    stamp,
)
from reconciler.index.sized.fields import SIZING, details, recommendation

__all__ = [
    "SIZING",
    "LaunchWords",
    "Sized",
    "apply_decision",
    "details",
    "mark_refused",
    "mark_waiting",
    "recommendation",
    "sized_intent",
    "sized_manifest",
    "stamp",
]
