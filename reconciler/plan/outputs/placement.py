"""A report about placement as text: strategies side by side, moves between them, and a scenario."""

from collections.abc import Iterable, Iterator
from typing import Any

from reconciler.console.page import Page, Style, Styled
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    Form,
    Name,
    NamesBlock,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
)
from reconciler.plan.outputs.sections.placement import nodes_in_words, placement_blocks
from reconciler.plan.outputs.summary.queues import arrow
from reconciler.plan.outputs.terminal_sections import write_sections
from reconciler.plan.plan import PlacementLine
from reconciler.plan.what_if import CostDelta, PlacementReport

_STRATEGIES = (
    Column("strategy"),
    Column("GPUs allocated", Form.NUMBER),
    Column("stranded", Form.NUMBER),
    Column("start", Form.NUMBER),
    Column("wait", Form.NUMBER),
    Column("racks", Form.NUMBER),
    Column("cost per hour", Form.NUMBER),
)
_MOVES = (Column("moves"), Column("by"), Column("nodes"), Column("by"), Column("nodes"))


def render_placement(reports: Iterable[PlacementReport], *, full: bool, **terminal: Any) -> str:
    """Render reports for a terminal."""
    page = Page(**terminal)
    write_sections(page, placement_sections(reports, full=full), full=full)
    return page.text()


def placement_sections(reports: Iterable[PlacementReport], *, full: bool) -> list[PageSection]:
    """Return a section for each cluster."""
    return [
        PageSection(title=f"Placement on {report.cluster}", blocks=tuple(_blocks(report, full=full)))
        for report in reports
    ]


def _blocks(report: PlacementReport, *, full: bool) -> Iterator[Block]:
    if report.unknown:
        yield SentenceBlock((Styled(f"Unknown: {report.unknown}", Style.WARNING),))
        return
    rows = [_strategy(line, cost) for line, cost in zip(report.strategies, report.costs, strict=True)]
    before = report.before
    if before is not None:
        rows.insert(0, (f"{before.strategy}, now", *_strategy(before, report.cost_before)[1:]))
    yield TableBlock(columns=_STRATEGIES, rows=tuple(rows))
    if report.currency:
        text = f"Costs per hour are those of the workloads that start, in {report.currency}"
        yield SentenceBlock((Styled(text, Style.DIM),))
    if report.unpriced and None in report.costs:
        yield SentenceBlock((Styled(f"No price of {', '.join(report.unpriced)} in spec.prices", Style.WARNING),))
    yield from _scenario(report)
    yield from placement_blocks(report.strategies[0], full=full)
    if report.unplaced is not None and len(report.strategies) > 1:
        one = report.unplaced
        yield SentenceBlock(("The first that no strategy can place: ", Name(one.key.name), f": {one.why}"))
    moves = report.moves if full else report.moves[:20]
    if moves:
        yield TableBlock(
            columns=_MOVES, rows=tuple((Name(one.workload), *_sides(one.strategies, one.nodes)) for one in moves)
        )
    elif len(report.strategies) > 1:
        yield SentenceBlock(("No workload moves between these strategies",))


def _sides(strategies: tuple[str, str], nodes: tuple[tuple[tuple[str, int], ...], ...]) -> Row:
    first, second = (nodes_in_words(one) or "-" for one in nodes)
    return (strategies[0], first, strategies[1], second)


def _strategy(line: PlacementLine, cost: float | None) -> Row:
    starts = sum(one.word == "starts" for one in line.workloads)
    return (
        line.strategy,
        f"{line.allocated_after} of {line.gpus}",
        str(line.stranded_after),
        str(starts),
        str(len(line.workloads) - starts),
        str(line.racks_after or "-"),
        "unknown" if cost is None else f"{cost:,.2f}",
    )


def _scenario(report: PlacementReport) -> Iterator[Block]:
    """Yield what a scenario changes, what it costs, and the edits that would make it true."""
    if report.before is None:
        return
    first = report.strategies[0]
    change = arrow(report.before.allocated_after, first.allocated_after)
    yield SentenceBlock((f"With the scenario: {change} GPUs allocated, {len(report.starts)} more start",))
    for title, names in (("Start:", report.starts), ("Wait:", report.stops)):
        if names:
            yield SentenceBlock((title,))
            yield NamesBlock(names)
    for one in report.added:
        yield SentenceBlock((f"Costs: {one.gpus} {one.product}: ", _cost(one)))
    if report.edits:
        yield SentenceBlock(("Nothing was written. What would make it true:",))
        yield NamesBlock(report.edits)


def _cost(one: CostDelta) -> Styled:
    if one.per_hour is None:
        return Styled("unknown, spec.prices has no price of it", Style.WARNING)
    return Styled(f"+{one.per_hour:,.2f} {one.currency} per hour", Style.PLAIN)
