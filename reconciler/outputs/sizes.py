"""The output of `reconciler size`: candidates with a bar that compares their memory with the GPU's, or JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.sizing.decision import Candidate, Decision, Estimate
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.summary import SizingSummary
from reconciler.outputs.sections.sizing import sizing_facts
from reconciler.outputs.summary import gpus
from reconciler.outputs.terminal.page import Page, Piece, Style, Styled
from reconciler.outputs.terminal.sections import write_facts


class SizeAnswer(Struct, frozen=True, kw_only=True):
    """A question and its decision. `requested` evaluates the number of GPUs that the user asked about."""

    question: Question
    decision: Decision
    note: SizingSummary
    name: str = ""  # of the job
    requested: Candidate | None = None


# A letter for each part of the memory, so that the bar reads the same without color.
_PART_LETTERS = {
    "weights": "W",
    "gradients": "G",
    "optimizer": "O",
    "transients": "T",
    "activations": "A",
    "logits": "L",
    "overhead": "+",
}
_BAR_CELLS = 40
_NARROW_BAR_CELLS = 24
_WIDE_PAGE = 110
_BAR_RANGE = 1.5  # of the GPU's memory; a longer bar is cut
_NONE = "-"


def render_size(answer: SizeAnswer, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """Render the answer to one question for a terminal of `width` cells."""
    decision = answer.decision
    page = Page(width=width, color=color, unicode=unicode)
    if answer.name:
        page.write(Styled(answer.name, Style.STRONG))
    write_facts(page, sizing_facts(answer.note), indent=0)
    _write_table(page, decision.candidates, decision.chosen)
    if decision.others:
        page.heading("Other GPU products")
        _write_table(page, decision.others, decision.chosen)
    page.blank()
    failure = "" if decision.chosen else f"No recommendation ({decision.reason}): "
    page.write(Styled(failure, Style.ERROR), Styled(decision.text, Style.SUCCESS if decision.chosen else Style.PLAIN))
    if answer.requested is not None:
        _write_requested(page, answer.requested)
    engines = ", ".join(f"{name} {version}" for name, version in decision.engines)
    page.write(Styled(f"goal {decision.goal} · confidence {decision.confidence} · {engines}", Style.DIM))
    return page.text()


def _write_requested(page: Page, requested: Candidate) -> None:
    count = requested.layout.gpus
    if requested.fits:
        verdict, style = f"{gpus(count)} {'fits' if count == 1 else 'fit'}", Style.SUCCESS
    else:
        verdict, style = f"{gpus(count)} {'is' if count == 1 else 'are'} rejected ({requested.reason})", Style.ERROR
    batch = f"batch {requested.layout.batch} x {requested.layout.accumulation} per GPU"
    page.write("Requested: ", Styled(verdict, style), f", {batch}: {requested.text}")


def _write_table(page: Page, candidates: Sequence[Candidate], chosen: Candidate | None) -> None:
    cells = _BAR_CELLS if page.width >= _WIDE_PAGE else _NARROW_BAR_CELLS
    table: list[list[Piece]] = []
    for candidate in candidates:
        style = Style.SUCCESS if candidate.fits else Style.ERROR
        estimate = candidate.estimate
        table.append(
            [
                Styled(">" if candidate == chosen else " ", Style.SUCCESS),
                Styled(str(candidate.layout.gpus), Style.STRONG),
                str(candidate.layout.workers),
                f"{candidate.layout.batch} x {candidate.layout.accumulation}",
                f"{estimate.need_gib:.1f}" if estimate else _NONE,
                Styled(f"{estimate.peak_gib:.1f}" if estimate else _NONE, style),
                f"{candidate.gpu.memory_gib:.1f}",
                memory_bar(estimate, candidate.gpu.memory_gib, cells) if estimate else "",
                Styled("fits" if candidate.fits else candidate.reason, style),
            ]
        )
    page.blank()
    header = ("", "GPUs", "nodes", "batch", "need", "peak", "of GiB", "memory", "")
    page.table(header, table, right=(1, 2, 4, 5, 6), keep=(3, 7), has_notes=True)
    if any(candidate.estimate for candidate in candidates):
        legend = "  ".join(f"{letter} {name}" for name, letter in _PART_LETTERS.items())
        page.write(Styled(f"{legend}  | memory of the GPU", Style.DIM), indent=2)


def memory_bar(estimate: Estimate, memory_gib: float, cells: int) -> str:
    """Draw the parts of a peak to scale. `|` marks the memory of the GPU, and `>` a bar that was cut."""
    scale = cells / (memory_gib * _BAR_RANGE)
    drawn = ""
    end_gib = 0.0
    for part in estimate.parts:
        end_gib += part.gib
        drawn += _PART_LETTERS.get(part.name, "?") * (round(end_gib * scale) - len(drawn))
    limit = round(memory_gib * scale)
    padded = drawn.ljust(limit)
    line = f"{padded[:limit]}|{padded[limit:]}"
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
        "candidates": [candidate_json(candidate) for candidate in decision.candidates],
        "others": [candidate_json(candidate) for candidate in decision.others],
        "read": note.read,
        "places": [str(place) for place in note.places],
    }
    if answer.requested is not None:
        data["requested"] = candidate_json(answer.requested)
    return data


def candidate_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as plain values: `gpus` of all workers, GiB per GPU, rounded to a thousandth."""
    layout, estimate = candidate.layout, candidate.estimate
    return {
        "gpus": layout.gpus,
        "workers": layout.workers,
        "gpus_per_worker": layout.gpus_per_worker,
        "product": candidate.gpu.product,
        "memory_gib": _rounded(candidate.gpu.memory_gib),
        "batch": layout.batch,
        "accumulation": layout.accumulation,
        "peak_gib": _rounded(estimate.peak_gib) if estimate else None,
        "low_gib": _rounded(estimate.low_gib) if estimate else None,
        "high_gib": _rounded(estimate.high_gib) if estimate else None,
        "need_gib": _rounded(estimate.need_gib) if estimate else None,  # what decides `fits`
        "parts": {part.name: _rounded(part.gib) for part in estimate.parts} if estimate else {},
        "confidence": estimate.confidence if estimate else None,
        "fits": candidate.fits,
        "reason": candidate.reason,
        "text": candidate.text,
        "probability": candidate.probability,
        "tokens_per_s": candidate.tokens_per_s and round(candidate.tokens_per_s, 1),
    }


def row_json(identity: str, estimate: Estimate, *, fits: bool) -> dict[str, Any]:
    """Return the prediction for one row of a table of runs as plain values."""
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
