"""Bars and maps as inline SVG: amounts with the limits that they are compared with, and nodes by rack."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct

from reconciler.html.page import fragment

WIDTH = 720
_LABEL = 190
_VALUE = 130
_ROW = 30
_CELL = 22
_CELLS = (WIDTH - _LABEL) // _CELL


class Mark(Struct, frozen=True, kw_only=True):
    """A line across a bar, such as a quota."""

    name: str
    at: float


class AmountBar(Struct, frozen=True, kw_only=True):
    """One amount. None as `after` is unknown, which is drawn hatched.

    text: the amount in words; marks: lines across it; is_over: the amount exceeds what is allowed.
    """

    label: str
    before: float
    after: float | None
    text: str
    marks: tuple[Mark, ...] = ()
    is_over: bool = False


def bars(rows: Sequence[AmountBar], *, title: str) -> Markup:
    """Draw bars below each other, all to one scale. A screen reader hears the title and each row in words."""
    if not rows:
        return Markup()
    largest = max((amount for row in rows for amount in _amounts(row)), default=0) or 1
    room = WIDTH - _LABEL - _VALUE
    scale = room / largest
    drawn = [
        {
            "row": row,
            "y": index * _ROW,
            "before": round(row.before * scale, 1),
            "after": room if row.after is None else round(row.after * scale, 1),
            "hatch": _hatch(index * _ROW, room) if row.after is None else "",
            "marks": [(mark.name, round(_LABEL + mark.at * scale, 1), mark.at) for mark in row.marks],
        }
        for index, row in enumerate(rows)
    ]
    return fragment("bars.svg", rows=drawn, title=title, width=WIDTH, height=len(rows) * _ROW, label=_LABEL, row=_ROW)


def _hatch(y: int, room: int) -> str:
    """Return slanted lines across the bar of an unknown amount, as the path of an SVG."""
    return "".join(f"M{_LABEL + x} {y + 21}l12-12" for x in range(0, room - 12, 10))


def _amounts(row: AmountBar) -> list[float]:
    return [row.before, row.after or 0, *(mark.at for mark in row.marks)]


class Cell(Struct, frozen=True, kw_only=True):
    """A node on a map. `filled`: the share that is in use, 0 to 1; None: unknown. `status`: pass, warn, fail, …."""

    text: str
    status: str
    filled: float | None


def cells(rows: Mapping[str, Sequence[Cell]], *, title: str) -> Markup:
    """Draw rows of cells, such as the nodes of each rack. Long rows go on below."""
    if not rows:
        return Markup()
    drawn, y = [], 0
    for name, row in rows.items():
        places = [
            {
                "cell": cell,
                "x": _LABEL + index % _CELLS * _CELL,
                "y": y + index // _CELLS * _CELL,
                "filled": None if cell.filled is None else round((_CELL - 6) * cell.filled, 1),
            }
            for index, cell in enumerate(row)
        ]
        drawn.append({"name": name, "y": y, "places": places})
        y += -(-len(row) // _CELLS) * _CELL + 4
    return fragment("cells.svg", rows=drawn, title=title, width=WIDTH, height=y, size=_CELL - 4)
