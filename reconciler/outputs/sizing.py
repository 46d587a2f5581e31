"""How jobs were sized: three lines per job and the table of candidates, for `plan`, `explain` and `size`."""

from collections.abc import Iterable, Iterator, Sequence

from reconciler.core.objects import SourceRef
from reconciler.core.plan import Change, Plan
from reconciler.core.sizing.summary import CandidateSummary, SizingSummary
from reconciler.outputs.findings import where
from reconciler.outputs.markup import code, details, html_code, prose, table_of
from reconciler.outputs.summary import gpus
from reconciler.outputs.terminal.page import Page, Piece, Style, Styled

_MAX_PLACES = 3
_HEADER = ("", "GPUs", "nodes", "product", "peak GiB", "range", "GPU GiB", "")


def sized_changes(plan: Plan) -> list[tuple[Change, SizingSummary]]:
    """Return the changes whose number of GPUs was computed, in the order of the plan."""
    return [(change, change.sizing) for change in plan.changes if change.sizing is not None]


def write_sizing_section(page: Page, plan: Plan, *, full: bool) -> None:
    """Write what was read, chosen and rejected for each sized job; with `full`, all candidates."""
    sized = sized_changes(plan)
    if not sized:
        return
    page.heading("Sizing", Styled(f" ({len(sized):,})", Style.DIM))
    for change, note in sized:
        page.write(Styled(str(change.key), Style.STRONG), f" on {change.cluster}", indent=2)
        write_note(page, note, indent=4)
        if full:
            write_candidates(page, note.candidates)


def write_note(page: Page, note: SizingSummary, *, indent: int) -> None:
    """Write what was read, chosen and rejected, a line each."""
    places = f"  {_list_places(note.places)}" if note.places else ""
    page.write(Styled("read      ", Style.DIM), note.read, Styled(places, Style.DIM), indent=indent, hang=10)
    page.write(Styled("chosen    ", Style.DIM), note.chosen, indent=indent, hang=10)
    if note.rejected:
        page.write(Styled("rejected  ", Style.DIM), note.rejected, indent=indent, hang=10)


def write_candidates(page: Page, candidates: Sequence[CandidateSummary]) -> None:
    """Write the table of candidates. `>` marks the chosen one, `+` one that fits, `-` one that does not."""
    table: list[list[Piece]] = [
        [
            Styled(_mark(candidate), Style.SUCCESS if candidate.fits else Style.ERROR),
            Styled(str(candidate.gpus), Style.STRONG if candidate.chosen else Style.PLAIN),
            str(candidate.workers),
            candidate.product,
            *_memory_cells(candidate),
            candidate.text,
        ]
        for candidate in candidates
    ]
    page.table(_HEADER, table, right=(1, 2, 4, 5, 6), keep=(3,), has_notes=True)


def markdown_sizing(plan: Plan, rows: int) -> Iterator[str]:
    """Yield the same section as Markdown, with the candidates of each job folded."""
    sized = sized_changes(plan)
    if not sized:
        return
    yield "#### Sizing" if rows else f"#### Sizing: {len(sized):,}"
    for change, note in sized[:rows]:
        places = ", ".join(code(where(place)) for place in note.places[:_MAX_PLACES])
        lines = [
            f"**{code(str(change.key))}** on {code(change.cluster)}: {gpus(change.gpus_after)}",
            f"- read: {prose(note.read)}" + (f" ({places})" if places else ""),
            f"- chosen: {prose(note.chosen)}",
        ]
        if note.rejected:
            lines.append(f"- rejected: {prose(note.rejected)}")
        yield "\n".join(lines)
        if note.candidates:
            yield details(f"Candidates for {html_code(str(change.key))}", _markdown_table(note.candidates))
    if 0 < rows < len(sized):
        yield f"… and {len(sized) - rows:,} more"


def _markdown_table(candidates: Iterable[CandidateSummary]) -> str:
    rows = [
        [
            f"**{candidate.gpus}**" if candidate.chosen else str(candidate.gpus),
            str(candidate.workers),
            code(candidate.product),
            *_memory_cells(candidate),
            "yes" if candidate.fits else "**no**",
            prose(candidate.text),
        ]
        for candidate in candidates
    ]
    titles = ("GPUs:", "Nodes:", "Product", "Peak GiB:", "Range:", "GPU GiB:", "Fits", "")
    return table_of(titles, rows, most=len(rows))


def _memory_cells(candidate: CandidateSummary) -> list[str]:
    """Return the predicted peak, its range, and the memory of the GPU, in GiB."""
    low, high = candidate.low_gib, candidate.high_gib
    band = "" if low is None or high is None else f"{low:.1f}-{high:.1f}"
    return ["" if candidate.peak_gib is None else f"{candidate.peak_gib:.1f}", band, f"{candidate.memory_gib:.1f}"]


def _mark(candidate: CandidateSummary) -> str:
    return ">" if candidate.chosen else "+" if candidate.fits else "-"


def _list_places(places: tuple[SourceRef, ...]) -> str:
    shown = ", ".join(where(place) for place in places[:_MAX_PLACES])
    return shown + (", …" if len(places) > _MAX_PLACES else "")
