"""What `reconciler size` prints: candidates with a bar of memory parts against the card's size, or JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.sizing.decision import Candidate, Decision
from reconciler.core.sizing.estimate import Estimate
from reconciler.core.sizing.note import SizingNote
from reconciler.core.sizing.question import Question
from reconciler.outputs.page import Page, Piece, Span, Tone
from reconciler.outputs.sizing import write_note


class SizeAnswer(Struct, frozen=True, kw_only=True):
    """One question and its decision. `name` is the job's; `requested` is the user's own number of GPUs, judged."""

    question: Question
    decision: Decision
    note: SizingNote
    name: str = ""
    requested: Candidate | None = None


# A letter and a tone a part, so that the bar reads the same without colour.
_PARTS = {
    "weights": ("W", Tone.MOVED),
    "gradients": ("G", Tone.UPDATED),
    "optimizer": ("O", Tone.CREATED),
    "transients": ("T", Tone.FAINT),
    "activations": ("A", Tone.STRONG),
    "logits": ("L", Tone.DELETED),
    "overhead": ("+", Tone.FAINT),
}
_BAR = 40
_NARROW_BAR = 24
_WIDE = 110
_MOST_BEYOND = 1.5  # of the card's memory that a bar shows; what is more is cut with an arrow
_NO_BAR = "-"


def render_size(answer: SizeAnswer, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """Write the answer to one question for a terminal of `width` cells."""
    decision = answer.decision
    page = Page(width=width, colour=colour, unicode=unicode)
    if answer.name:
        page.write(Span(answer.name, Tone.STRONG))
    write_note(page, answer.note, indent=0)
    _table(page, decision.candidates, decision.chosen)
    if decision.others:
        page.heading("Other cards")
        _table(page, decision.others, decision.chosen)
    page.blank()
    failed = "" if decision.chosen else f"No recommendation ({decision.reason}): "
    page.write(Span(failed, Tone.ALARM), Span(decision.text, Tone.FINE if decision.chosen else Tone.PLAIN))
    engines = ", ".join(f"{name} {version}" for name, version in decision.engines)
    if answer.requested is not None:
        verdict = "fits" if answer.requested.fits else f"does not do ({answer.requested.reason})"
        tone = Tone.FINE if answer.requested.fits else Tone.ALARM
        asked = answer.requested.layout.gpus
        page.write(
            "Your choice of ",
            Span(f"{asked} GPU{'s' if asked > 1 else ''} {verdict}", tone),
            f": {answer.requested.text}",
        )
    page.write(Span(f"goal {decision.goal} · confidence {decision.confidence} · {engines}", Tone.FAINT))
    return page.text()


def _table(page: Page, candidates: Sequence[Candidate], chosen: Candidate | None) -> None:
    cells = _BAR if page.width >= _WIDE else _NARROW_BAR
    table: list[list[Piece]] = []
    for one in candidates:
        tone = Tone.FINE if one.fits else Tone.ALARM
        estimate = one.estimate
        table.append(
            [
                Span(">" if one == chosen else " ", Tone.FINE),
                Span(str(one.layout.gpus), Tone.STRONG),
                str(one.layout.workers),
                f"{one.layout.batch} x {one.layout.accumulation}",
                f"{estimate.need_gib:.1f}" if estimate else _NO_BAR,
                Span(f"{estimate.peak_gib:.1f}" if estimate else _NO_BAR, tone),
                f"{one.gpu.memory_gib:.1f}",
                bar(estimate, one.gpu.memory_gib, cells) if estimate else "",
                Span("fits" if one.fits else one.reason, tone),
            ]
        )
    page.blank()
    header = ("", "GPUs", "nodes", "batch", "need", "peak", "of GiB", "memory", "")
    page.table(header, table, right=(1, 2, 4, 5, 6))
    if any(one.estimate for one in candidates):
        legend = "  ".join(f"{letter} {name}" for name, (letter, _) in _PARTS.items())
        page.write(Span(f"{legend}  | the card's memory", Tone.FAINT), indent=2)


def bar(estimate: Estimate, memory_gib: float, cells: int) -> str:
    """Draw the parts of a peak to scale, a letter each; `|` is where the card's memory ends, `>` where it is cut."""
    scale = cells / (memory_gib * _MOST_BEYOND)
    drawn = ""
    reached = 0.0
    for part in estimate.parts:
        reached += part.gib
        drawn += _PARTS.get(part.name, ("?", Tone.PLAIN))[0] * (round(reached * scale) - len(drawn))
    end = round(memory_gib * scale)
    line = drawn.ljust(end)
    line = f"{line[:end]}|{line[end:]}"
    return line if len(line) <= cells + 1 else f"{line[:cells]}>"


def size_json(answer: SizeAnswer) -> dict[str, Any]:
    """Return the answer to one question as plain values."""
    decision, note = answer.decision, answer.note
    chosen = decision.chosen
    data = {
        "job": answer.name,
        "question": msgspec.to_builtins(answer.question),
        "can_recommend": chosen is not None,
        "recommendation": None
        if chosen is None
        else {"workers": chosen.layout.workers, "gpus": chosen.layout.gpus_per_worker},
        "goal": decision.goal,
        "reason": decision.reason,
        "text": decision.text,
        "confidence": decision.confidence,
        "engines": dict(decision.engines),
        "chosen": candidate_json(chosen) if chosen else None,
        "candidates": [candidate_json(one) for one in decision.candidates],
        "others": [candidate_json(one) for one in decision.others],
        "read": note.read,
        "places": [str(place) for place in note.places],
    }
    if answer.requested is not None:
        data["requested"] = candidate_json(answer.requested)
    return data


def candidate_json(one: Candidate) -> dict[str, Any]:
    """Return a candidate as plain values: `gpus` in all, GiB of one GPU, rounded to a thousandth."""
    layout, estimate = one.layout, one.estimate
    return {
        "gpus": layout.gpus,
        "workers": layout.workers,
        "gpus_per_worker": layout.gpus_per_worker,
        "product": one.gpu.product,
        "memory_gib": _rounded(one.gpu.memory_gib),
        "batch": layout.batch,
        "accumulation": layout.accumulation,
        "peak_gib": _rounded(estimate.peak_gib) if estimate else None,
        "low_gib": _rounded(estimate.low_gib) if estimate else None,
        "high_gib": _rounded(estimate.high_gib) if estimate else None,
        "need_gib": _rounded(estimate.need_gib) if estimate else None,  # what `fits` is judged by
        "parts": {part.name: _rounded(part.gib) for part in estimate.parts} if estimate else {},
        "confidence": estimate.confidence if estimate else None,
        "fits": one.fits,
        "reason": one.reason,
        "text": one.text,
        "probability": one.probability,
        "tokens_per_s": one.tokens_per_s and round(one.tokens_per_s, 1),
    }


def row_json(identity: str, estimate: Estimate, *, fits: bool) -> dict[str, Any]:
    """Return the answer to one row of a table of runs."""
    return {
        "id": identity,
        "peak_gib": _rounded(estimate.peak_gib),
        "low_gib": _rounded(estimate.low_gib),
        "high_gib": _rounded(estimate.high_gib),
        "fits": fits,
        "confidence": estimate.confidence,
    }


def _rounded(value: float) -> float:
    return round(value, 3)
