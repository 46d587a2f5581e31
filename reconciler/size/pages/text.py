"""The text of `reconciler size`: candidates with a bar that compares their memory with the GPU's, and remedies.

`format_sizes` chooses between it and JSON.
"""

from collections.abc import Iterator, Sequence

import msgspec

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.console.terminal import terminal
from reconciler.kube.values import plural
from reconciler.plan.outputs.sections.sizing import sizing_facts
from reconciler.plan.outputs.summary.queues import gpus
from reconciler.plan.outputs.terminal_sections import write_facts
from reconciler.settings import Settings
from reconciler.size.pages.answer import SizeAnswer, instruction
from reconciler.size.pages.report import size_report
from reconciler.sizing.decision import Candidate, Estimate
from reconciler.sizing.remedies import Reach, Remedies, Remedy

# A letter for each part of the memory, so that the bar reads the same without color.
_PART_LETTERS = {
    "weights": "W",
    "gradients": "G",
    "optimizer": "O",
    "transients": "T",
    "activations": "A",
    "logits": "L",
    "overhead": "+",
    "models": "M",
    "rollout": "R",
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
    write_facts(page, (*sizing_facts(answer.note), *_assumptions(answer)), indent=0)
    _write_table(page, decision.candidates, decision.chosen)
    if decision.others:
        page.heading("Other GPU products")
        _write_table(page, decision.others, decision.chosen, names_products=True)
    page.blank()
    failure = "" if decision.chosen else f"No recommendation ({decision.reason}): "
    page.write(Styled(failure, Style.ERROR), Styled(decision.text, Style.SUCCESS if decision.chosen else Style.PLAIN))
    if answer.requested is not None:
        _write_requested(page, answer.requested)
    if answer.reach is not None:
        _write_reach(page, answer, answer.reach)
    if answer.remedies is not None:
        _write_remedies(page, answer, answer.remedies)
        page.blank()
    engines = ", ".join(f"{name} {version}" for name, version in decision.engines)
    page.write(Styled(f"goal {decision.goal} · confidence {decision.confidence} · {engines}", Style.DIM))
    return page.text()


def _assumptions(answer: SizeAnswer) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    """Yield what is assumed, and the number of GPUs by the length of the samples."""
    if answer.assumed:
        yield "assumed", ("; ".join(answer.assumed),)
    if answer.by_length:
        numbers = (f"{length:,}: {_NONE if count is None else gpus(count)}" for length, count in answer.by_length)
        yield "by tokens", (", ".join(numbers),)


def _write_requested(page: Page, requested: Candidate) -> None:
    count = requested.layout.gpus
    if requested.fits:
        verdict, style = f"{gpus(count)} {'fits' if count == 1 else 'fit'}", Style.SUCCESS
    else:
        verdict, style = f"{gpus(count)} {'is' if count == 1 else 'are'} rejected ({requested.reason})", Style.ERROR
    batch = f"batch {requested.layout.batch} x {requested.layout.accumulation} per GPU"
    page.write("Requested: ", Styled(verdict, style), f", {batch}: {requested.text}")


def _write_reach(page: Page, answer: SizeAnswer, reach: Reach) -> None:
    """Write the largest batch and the longest samples, each with the value that even the range's end allows."""
    length = answer.question.training.sequence
    batch = f"{plural(reach.batch, 'sample')} of {length:,} tokens{_safely(reach.batch, reach.safe_batch)}"
    sequence = f"{plural(reach.layout.batch, 'sample')} of {reach.sequence:,} tokens"
    sequence += _safely(reach.sequence, reach.safe_sequence)
    found = [text for text, most in ((batch, reach.batch), (sequence, reach.sequence)) if most]
    text = f"{' or '.join(dict.fromkeys(found))} per GPU" if found else "nothing, not even one short sample"
    page.write(f"At most on {gpus(reach.layout.gpus)}: ", Styled(text, Style.STRONG))


def _safely(most: int, safe: int) -> str:
    """Return the safe value, if it is another one."""
    return "" if safe == most else f" (safely {safe:,})" if safe else " (safely none)"


def _write_remedies(page: Page, answer: SizeAnswer, remedies: Remedies) -> None:
    remark = "" if remedies.enough else " (no change is enough, nor are two or three together)"
    page.heading("Remedies", Styled(remark, Style.DIM))
    shown = [*remedies.enough, *([] if remedies.enough else remedies.not_enough)]
    table: list[list[Piece]] = [_remedy_row(answer, remedy) for remedy in shown]
    header = ("change", "GPUs", "batch", "GiB needed", "of", "tokens/s", "cost", "set")
    if table:
        page.table(header, table, right=(1, 3, 4, 5, 6), keep=(0, 2), has_notes=True)
    if remedies.enough and remedies.not_enough:
        listed = "; ".join(f"{one.text} ({_saved(one)})" for one in remedies.not_enough)
        page.write(Styled("Not enough alone: ", Style.STRONG), listed, indent=2)
    for refusal in sorted({one.refusal for one in remedies.refused}):
        listed = "; ".join(f"{one.text} ({_saved(one)})" for one in remedies.refused if one.refusal == refusal)
        page.write(Styled(f"{refusal[0].upper()}{refusal[1:]}: ", Style.STRONG), listed, indent=2)
    legend = "cost: of a trained token, if the training as it is costs 1.00"
    if not all(one.keeps_training for one in shown):
        legend += " · * trains adapters instead of all weights, or on rounded weights"
    page.write(Styled(legend, Style.DIM), indent=2)


def _remedy_row(answer: SizeAnswer, remedy: Remedy) -> list[Piece]:
    after = remedy.after
    speed = "unknown" if after.tokens_per_s is None else f"{after.tokens_per_s:,.0f}"
    text = remedy.text if remedy.keeps_training else f"{remedy.text} *"
    return [
        Styled(text, Style.SUCCESS if remedy.is_enough else Style.PLAIN),
        str(after.layout.gpus),
        f"{after.layout.batch} x {after.layout.accumulation}",
        _saved(remedy),
        f"{after.gpu.memory_gib:.1f}",
        speed if after.fits else _NONE,
        "unknown" if remedy.cost is None else f"{remedy.cost:.2f}",
        instruction(answer, remedy),
    ]


def _saved(remedy: Remedy) -> str:
    before, after = remedy.before.estimate, remedy.after.estimate
    return f"{before.need_gib:.1f} → {after.need_gib:.1f}" if before is not None and after is not None else _NONE


def _write_table(
    page: Page, candidates: Sequence[Candidate], chosen: Candidate | None, *, names_products: bool = False
) -> None:
    cells = _BAR_CELLS if page.width >= _WIDE_PAGE else _NARROW_BAR_CELLS
    table: list[list[Piece]] = []
    for candidate in candidates:
        style = Style.SUCCESS if candidate.fits else Style.ERROR
        estimate = candidate.estimate
        product = f" on {candidate.gpu.product}" if names_products else ""
        table.append(
            [
                Styled(">" if candidate == chosen else " ", Style.SUCCESS),
                Styled(str(candidate.layout.gpus), Style.STRONG),
                str(candidate.layout.workers),
                f"{candidate.layout.batch} x {candidate.layout.accumulation}",
                f"{estimate.need_gib:.1f}" if estimate else _NONE,
                Styled(f"{estimate.peak_gib:.1f}" if estimate else _NONE, style),
                f"{candidate.gpu.memory_gib:.1f}",
                _NONE if candidate.tokens_per_s is None else f"{candidate.tokens_per_s:,.0f}",
                memory_bar(estimate, candidate.gpu.memory_gib, cells) if estimate else "",
                Styled(f"{'fits' if candidate.fits else candidate.reason}{product}", style),
            ]
        )
    page.blank()
    header = ("", "GPUs", "nodes", "batch", "need", "peak", "of GiB", "tokens/s", "memory", "")
    page.table(header, table, right=(1, 2, 4, 5, 6, 7), keep=(3, 8), has_notes=True)
    parts = {part.name for candidate in candidates if candidate.estimate for part in candidate.estimate.parts}
    if parts:
        legend = "  ".join(f"{letter} {name}" for name, letter in _PART_LETTERS.items() if name in parts)
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


def format_sizes(answers: Sequence[SizeAnswer], settings: Settings) -> str:
    """Format answers to sizing questions; as JSON, one indented object or one object per line."""
    if settings.output == "json":
        lines = [msgspec.json.encode(size_report(answer)) for answer in answers]
        lines = [msgspec.json.format(line, indent=2) for line in lines] if len(lines) == 1 else lines
        return "".join(line.decode() + "\n" for line in lines)

    return "\n".join(render_size(answer, **terminal(settings)) for answer in answers)
