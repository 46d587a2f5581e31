"""The section about sized jobs: what was read, chosen and rejected, and the table of candidates."""

from collections.abc import Sequence

from msgspec.structs import replace

from reconciler.console.page import Piece, Style, Styled
from reconciler.kube.objects import SourceRef
from reconciler.plan import Change
from reconciler.plan.outputs.findings import where
from reconciler.plan.outputs.sections.model import (
    Column,
    FactsBlock,
    Form,
    Name,
    PageSection,
    Row,
    TableBlock,
    View,
    strong,
)
from reconciler.plan.outputs.summary.queues import gpus
from reconciler.sizing.summary import CandidateSummary, SizingSummary

_MAX_PLACES = 3
_COLUMNS = (
    Column(""),
    Column("GPUs", Form.NUMBER),
    Column("nodes", Form.NUMBER),
    Column("product", Form.PRODUCT),
    Column("peak GiB", Form.NUMBER),
    Column("range", Form.NUMBER),
    Column("GPU GiB", Form.NUMBER),
)
_SPEED_COLUMNS = (Column("tokens/s", Form.NUMBER), Column("per M tokens", Form.NUMBER))
_REASON = Column("", Form.NOTE)


def sizing(view: View) -> PageSection | None:
    """Return the jobs whose number of GPUs was computed, in the order of the view.plan."""
    full = view.full
    records = tuple(
        _record(change, change.sizing, full=full) for change in view.plan.changes if change.sizing is not None
    )
    return PageSection(title="Sizing", count=len(records), blocks=records) if records else None


def _record(change: Change, note: SizingSummary, *, full: bool) -> FactsBlock:
    return FactsBlock(
        title=(strong(str(change.key)), " on ", Name(change.cluster), f": {gpus(change.gpus_after)}"),
        facts=sizing_facts(note) if full else _short_facts(note),
        details=candidate_table(note.candidates) if note.candidates else None,
        details_title="Candidates",
    )


def sizing_facts(note: SizingSummary) -> tuple[tuple[str, tuple[Piece, ...]], ...]:
    """Return the facts, the choice and the rejections."""
    places = ("  ", Name(_list_places(note.places), Style.DIM)) if note.places else ()
    facts: list[tuple[str, tuple[Piece, ...]]] = [("read", (note.read, *places)), ("chosen", (note.chosen,))]
    if note.rejected:
        facts.append(("rejected", (note.rejected,)))
    return tuple(facts)


def _short_facts(note: SizingSummary) -> tuple[tuple[str, tuple[Piece, ...]], ...]:
    """Return the facts without defaults, and the rejection that was closest."""
    short = replace(note, read=note.read.partition("; defaults: ")[0], rejected=note.rejected.partition("; ")[0])
    return sizing_facts(short)


def candidate_table(candidates: Sequence[CandidateSummary]) -> TableBlock:
    """Return the table of candidates. `>` marks the chosen one, `+` one that fits, `-` one that does not."""
    has_speed = any(candidate.tokens_per_s is not None for candidate in candidates)
    columns = (*_COLUMNS, *(_SPEED_COLUMNS if has_speed else ()), _REASON)
    return TableBlock(columns=columns, rows=tuple(_candidate(one, has_speed=has_speed) for one in candidates))


def _candidate(candidate: CandidateSummary, *, has_speed: bool) -> Row:
    speed = "" if candidate.tokens_per_s is None else f"{candidate.tokens_per_s:,.0f}"
    return (
        Name(_mark(candidate), Style.SUCCESS if candidate.fits else Style.DELETED),
        Styled(str(candidate.gpus), Style.STRONG if candidate.chosen else Style.PLAIN),
        str(candidate.workers),
        Name(candidate.product),
        *_memory_cells(candidate),
        *((speed, _token_cost(candidate)) if has_speed else ()),
        candidate.text,
    )


def _memory_cells(candidate: CandidateSummary) -> list[str]:
    """Return the predicted peak, its range, and the memory of the GPU, in GiB."""
    low, high = candidate.low_gib, candidate.high_gib
    band = "" if low is None or high is None else f"{low:.1f}-{high:.1f}"
    return ["" if candidate.peak_gib is None else f"{candidate.peak_gib:.1f}", band, f"{candidate.memory_gib:.1f}"]


def _token_cost(candidate: CandidateSummary) -> str:
    """Return the cost of a million tokens; without a price relative to an hour of an A100 with 80 GB."""
    cost = candidate.cost_per_million_tokens
    return "" if cost is None else f"{cost:.3f}{f' {candidate.currency}' if candidate.currency else ''}"


def _mark(candidate: CandidateSummary) -> str:
    return ">" if candidate.chosen else "+" if candidate.fits else "-"


def _list_places(places: tuple[SourceRef, ...]) -> str:
    shown = ", ".join(where(place) for place in places[:_MAX_PLACES])
    return shown + (", …" if len(places) > _MAX_PLACES else "")
