"""The section about placement: where the jobs of a plan would run, what keeps them there, and why others wait."""

from collections.abc import Iterator, Sequence

from reconciler.console.page import Piece, Style, Styled
from reconciler.kinds.quantities import total
from reconciler.kube.values import plural
from reconciler.plan import CapacityLine, PlacedWorkload, PlacementLine
from reconciler.plan.outputs.findings import qualified_name
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    Form,
    Name,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
    View,
    strong,
)
from reconciler.plan.outputs.summary.queues import arrow, number

_COLUMNS = (
    Column("forecast"),
    Column("job"),
    Column("GPUs", Form.NUMBER),
    Column("nodes"),
    Column("kept by"),
    Column("", Form.NOTE),
)
_STYLES = {"starts": Style.CREATED}  # all others need attention
_MOST_ROWS, _MOST_NODES = 20, 4


def placement(view: View) -> PageSection | None:
    """Return where the jobs of the plan would run, by cluster."""
    blocks = [
        block
        for line in view.plan.placement
        for block in (*placement_blocks(line, full=view.full), *_difference(line, view.plan.capacity))
    ]
    return PageSection(title="Placement", blocks=tuple(blocks)) if blocks else None


def placement_blocks(line: PlacementLine, *, full: bool = False) -> Iterator[Block]:
    """Yield the figures of a cluster, and its workloads."""
    if line.unknown:
        text = f" will run is unknown: {line.unknown}. Nothing is pinned"
        yield SentenceBlock(("Where the jobs of ", Name(line.cluster), Styled(text, Style.WARNING)))
        return
    yield SentenceBlock(tuple(_figures(line)))
    shown = line.workloads if full else line.workloads[:_MOST_ROWS]
    if shown:
        yield TableBlock(columns=_COLUMNS, rows=tuple(map(_row, shown)))
    if len(shown) < len(line.workloads):
        waiting = sum(one.word != "starts" for one in line.workloads[len(shown) :])
        more = f"And {plural(len(line.workloads) - len(shown), 'more workload')}, of which {waiting} wait"
        yield SentenceBlock((more,))
    if line.excluded:
        yield SentenceBlock((f"No new work: {'; '.join(line.excluded)}",))
    for note in line.notes:
        yield SentenceBlock((Styled(f"Note: {note}", Style.WARNING),))


def _difference(line: PlacementLine, capacity: Sequence[CapacityLine]) -> Iterator[Block]:
    """Yield why GPUs that are allocated are not those that are requested."""
    requested = total(one.requested for one in capacity if one.cluster == line.cluster)
    if line.unknown or not capacity or requested == line.allocated_after:
        return
    text = f"Allocated are GPUs that pods of any workload hold or would get; the {number(requested)} requested ones are"
    yield SentenceBlock((Styled(f"{text} those of all jobs in this repository, also of jobs that wait", Style.DIM),))


def _figures(line: PlacementLine) -> Iterator[Piece]:
    yield "On "
    yield Name(line.cluster)
    yield f" by {line.strategy}: {arrow(line.allocated_before, line.allocated_after)} of {line.gpus} GPUs allocated"
    yield f", {arrow(line.stranded_before, line.stranded_after)} stranded"
    yield f", {arrow(line.racks_before, line.racks_after)} racks" if line.racks_after or line.racks_before else ""
    yield "; evidence of "
    yield Name(line.observed_at)
    if line.days is not None:
        yield ", "
        yield Styled(f"{plural(line.days, 'day')} old", Style.WARNING if line.days else Style.PLAIN)


def _row(one: PlacedWorkload) -> Row:
    word = f"{one.before} → {one.word}" if one.before not in ("", one.word) else one.word
    return (
        Styled(word, _STYLES.get(one.word, Style.WARNING)),
        strong(qualified_name(one.key)),
        str(one.gpus),
        Name(nodes_in_words(one.nodes)) if one.nodes else "-",
        one.guaranteed_by if one.nodes else "-",
        "; ".join(filter(None, (one.why, *one.notes))),
    )


def nodes_in_words(nodes: Sequence[tuple[str, int]]) -> str:
    """Return nodes with the number of pods on each, the first ones by name."""
    names = [name if pods == 1 else f"{name} x {pods}" for name, pods in nodes[:_MOST_NODES]]
    return ", ".join(names) + (f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else "")
