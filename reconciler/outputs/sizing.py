"""How a job was sized: three lines a reviewer reads, and the table of all that was weighed."""

from collections.abc import Iterable, Iterator, Sequence

from reconciler.core.objects import SourceRef
from reconciler.core.plan import Change, Plan
from reconciler.core.sizing.note import SizingNote, Weighed
from reconciler.outputs.findings import where
from reconciler.outputs.markup import code, details, html_code, prose, table_of
from reconciler.outputs.page import Page, Piece, Span, Tone
from reconciler.outputs.summary import gpus

_MOST_PLACES = 3
_HEADER = ("", "GPUs", "nodes", "product", "peak", "band", "of", "")


def sized(plan: Plan) -> list[tuple[Change, SizingNote]]:
    """Return the changes whose GPUs were computed, in the order of the plan."""
    return [(change, change.sizing) for change in plan.changes if change.sizing is not None]


def write_sizings(page: Page, plan: Plan, *, full: bool) -> None:
    """Write the section of a plan: for each sized job what was read, chosen and rejected."""
    found = sized(plan)
    if not found:
        return
    page.heading("Sizing", Span(f" ({len(found):,})", Tone.FAINT))
    for change, note in found:
        page.write(Span(_name(change), Tone.STRONG), f" on {change.cluster}", indent=2)
        write_note(page, note, indent=4)
        if full:
            write_candidates(page, note.candidates)


def write_note(page: Page, note: SizingNote, *, indent: int) -> None:
    """Write the three lines."""
    at = f"  {_places(note.places)}" if note.places else ""
    page.write(Span("read      ", Tone.FAINT), note.read, Span(at, Tone.FAINT), indent=indent, hang=10)
    page.write(Span("chosen    ", Tone.FAINT), note.chosen, indent=indent, hang=10)
    if note.rejected:
        page.write(Span("rejected  ", Tone.FAINT), note.rejected, indent=indent, hang=10)


def write_candidates(page: Page, candidates: Sequence[Weighed]) -> None:
    """Write the table of what was weighed."""
    table: list[list[Piece]] = [
        [
            Span(_mark(one), Tone.FINE if one.fits else Tone.ALARM),
            Span(str(one.gpus), Tone.STRONG if one.chosen else Tone.PLAIN),
            str(one.workers),
            one.product,
            *_figures(one),
            one.text,
        ]
        for one in candidates
    ]
    page.table(_HEADER, table, right=(1, 2, 4, 5, 6), gives=(3, 7))


def markdown_sizings(plan: Plan, rows: int) -> Iterator[str]:
    """Yield the section of a comment: three lines for a job, its candidates folded."""
    found = sized(plan)
    if not found:
        return
    yield "#### Sizing" if rows else f"#### Sizing: {len(found):,}"
    for change, note in found[:rows]:
        size = gpus(change.gpus_after)
        at = f" ({', '.join(code(where(place)) for place in note.places[:_MOST_PLACES])})" if note.places else ""
        lines = [f"**{code(_name(change))}** on {code(change.cluster)}: {size}", f"- read: {prose(note.read)}{at}"]
        lines.append(f"- chosen: {prose(note.chosen)}")
        if note.rejected:
            lines.append(f"- rejected: {prose(note.rejected)}")
        yield "\n".join(lines)
        if note.candidates:
            yield details(f"Candidates of {html_code(_name(change))}", _table(note.candidates))
    if 0 < rows < len(found):
        yield f"… and {len(found) - rows:,} more"


def _table(candidates: Iterable[Weighed]) -> str:
    rows = [
        [
            f"**{one.gpus}**" if one.chosen else str(one.gpus),
            str(one.workers),
            code(one.product),
            *_figures(one),
            "yes" if one.fits else "**no**",
            prose(one.text),
        ]
        for one in candidates
    ]
    titles = ("GPUs:", "Nodes:", "Product", "Peak GiB:", "Band:", "Of:", "Fits", "")
    return table_of(titles, rows, most=len(rows))


def _figures(one: Weighed) -> list[str]:
    band = f"{one.low_gib:.1f}-{one.high_gib:.1f}" if one.low_gib is not None and one.high_gib is not None else ""
    return ["" if one.peak_gib is None else f"{one.peak_gib:.1f}", band, f"{one.memory_gib:.1f}"]


def _mark(one: Weighed) -> str:
    return ">" if one.chosen else "+" if one.fits else "-"


def _name(change: Change) -> str:
    return "/".join(part for part in (change.key.kind, change.key.namespace, change.key.name) if part)


def _places(places: tuple[SourceRef, ...]) -> str:
    shown = ", ".join(where(place) for place in places[:_MOST_PLACES])
    return shown + (", …" if len(places) > _MOST_PLACES else "")
