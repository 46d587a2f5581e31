"""The section about storage: claims that are added, removed or resized, and what they cost for a month."""

from collections import defaultdict

from reconciler.console.page import Style, Styled
from reconciler.plan import ClaimChange
from reconciler.plan.outputs.findings import qualified_name, where
from reconciler.plan.outputs.sections.model import Column, Form, Name, PageSection, Row, TableBlock, View, strong
from reconciler.plan.outputs.summary.storage import gib, money, sizes, total_storage

_MANY = 4  # claims that differ only in their names, and are shown as one row
_COLUMNS = (
    Column("claim"),
    Column("cluster"),
    Column("class"),
    Column("GiB", Form.NUMBER),
    Column("+/-", Form.NUMBER),
    Column("per month", Form.NUMBER),
    Column("source", Form.PLACE),
)


def storage(view: View) -> PageSection | None:
    """Return the claims whose storage changes. Many equal rows become one, except with `full`."""
    claims = view.plan.claims
    if not claims:
        return None
    alike: dict[object, list[ClaimChange]] = defaultdict(list)
    for claim in claims:
        alike[claim.key if view.full else _alike(claim)].append(claim)
    groups = sorted(alike.values(), key=lambda group: -abs(sum(one.after - one.before for one in group)))
    rows = [
        row for group in groups for row in ([_row(group)] if len(group) >= _MANY else [_row([one]) for one in group])
    ]
    has_prices = any(claim.currency for claim in claims)
    columns = [index for index, column in enumerate(_COLUMNS) if has_prices or column.title != "per month"]
    table = TableBlock(
        columns=tuple(_COLUMNS[index] for index in columns),
        rows=tuple(tuple(row[index] for index in columns) for row in rows),
    )
    return PageSection(title="Storage", count=len(claims), blocks=(table,))


def _alike(claim: ClaimChange) -> tuple[object, ...]:
    return claim.cluster, claim.key.namespace, claim.storage_class, claim.before, claim.after


def _row(claims: list[ClaimChange]) -> Row:
    """Return one row for claims that change equally, with the sums of their sizes."""
    first, *others = claims
    total = total_storage(claims)
    delta = total.after - total.before
    return (
        strong(qualified_name(first.key) + (f" and {len(others):,} more" if others else "")),
        Name(first.cluster),
        Name(first.storage_class) if first.storage_class else "default",
        sizes(total.before, total.after),
        Styled(gib(delta, sign=True), Style.CREATED if delta > 0 else Style.DELETED),
        money(claims) or Styled("unknown", Style.WARNING),
        Name(where(first.source), Style.DIM) if first.source else "",
    )
