"""Labels and annotations that say what became of a job: those of the autoconf controller, and one of ours.

A source in Git keeps its watch label for ever. What is rendered from it carries the done label (with Kueue's queue
name as its key: the real queue) and the recommendation as well. The waiting label stands only where a person sees a
job that waits: in the source that `reconciler size write` edits, never in `rendered/`, where a job is held back
until it is answered.
"""

from typing import Any

import msgspec

from reconciler.core.config import SizingSettings
from reconciler.core.reasons import Origin, Reason
from reconciler.core.sized.draft import Draft
from reconciler.core.sizing.decision import Decision

SIZING = "gpureconciler.io/sizing"
"""Our annotation: engines with versions, the card, the predicted peak with its band, confidence, reason."""

_LABELS = ("metadata", "labels")
_ANNOTATIONS = ("metadata", "annotations")


def set_done(draft: Draft, decision: Decision, settings: SizingSettings, origins: tuple[Origin, ...]) -> None:
    """Mark a job as sized, or as left alone because nothing fits."""
    labels = settings.labels
    draft.remove((*_LABELS, labels.waiting_key), Reason(rule="sizing.label", text="the answer is there"))
    done = "sized" if decision.chosen else "asked for, without a recommendation"
    reason = Reason(rule="sizing.label", text=f"says that the job was {done}", origins=origins)
    draft.set((*_LABELS, labels.done_key), labels.done_value, reason)
    told = Reason(rule="sizing.annotation", text=decision.text, origins=origins)
    draft.set((*_ANNOTATIONS, labels.annotation_key), recommendation(decision), told)
    draft.set((*_ANNOTATIONS, SIZING), particulars(decision), told)


def set_waiting(draft: Draft, request: str, settings: SizingSettings) -> None:
    """Mark a job whose question was sent and is not answered yet; `request` is the id that its service gave it."""
    reason = Reason(rule="sizing.label", text=f"request {request} is not answered yet")
    draft.set((*_LABELS, settings.labels.waiting_key), request, reason)


def recommendation(decision: Decision) -> str:
    """Return the autoconf controller's JSON: nodes and GPUs of each, or that there is no recommendation."""
    if decision.chosen is None:
        return _json({"error": "No recommendation"})
    layout = decision.chosen.layout
    return _json({"recommendation": {"workers": layout.workers, "gpus": layout.gpus_per_worker}})


def particulars(decision: Decision) -> str:
    """Return what stands behind a recommendation, as compact JSON; GiB to two digits."""
    told: dict[str, Any] = {
        "goal": decision.goal.value,
        "reason": decision.reason,
        "confidence": decision.confidence.value,
        "engines": dict(decision.engines),
    }
    if decision.chosen is not None:
        layout, gpu, estimate = decision.chosen.layout, decision.chosen.gpu, decision.chosen.estimate
        told |= {"gpu": gpu.product, "gpus": layout.gpus, "workers": layout.workers}
        told |= {"batch": layout.batch, "accumulation": layout.accumulation, "memory_gib": round(gpu.memory_gib, 2)}
        if estimate is not None:
            told |= {f"{name}_gib": round(getattr(estimate, f"{name}_gib"), 2) for name in ("peak", "low", "high")}
    return _json(told)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
