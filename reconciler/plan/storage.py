"""The storage that a plan adds or removes: claims with their sizes, and what they cost by storage class."""

from collections.abc import Iterable, Mapping

from reconciler.plan.edits import Edit
from reconciler.plan.plan import ClaimChange
from reconciler.sizing.prices import NO_PRICES, Prices

_GIB = 1 << 30
_DIGITS = 2


def claim_changes(edits: Iterable[Edit], prices: Mapping[str, Prices]) -> tuple[ClaimChange, ...]:
    """Return the claims whose storage changes. Prices are of a GiB for a month, by cluster."""
    found = []
    for edit in edits:
        before, after = (row.volume if row is not None else None for row in (edit.row_before, edit.row_after))
        if edit.change.is_refused or before == after:
            continue
        known = prices.get(edit.change.cluster, NO_PRICES)
        money = [_per_month(known, volume) for volume in (before, after)]
        found.append(
            ClaimChange(
                cluster=edit.change.cluster,
                key=edit.change.key,
                storage_class=(after or before or ("", 0))[0],
                before=before[1] if before else 0,
                after=after[1] if after else 0,
                currency=known.currency,
                per_month_before=money[0],
                per_month_after=money[1],
                source=edit.change.source,
            )
        )
    return tuple(found)


def _per_month(prices: Prices, volume: tuple[str, int] | None) -> float | None:
    """Return the price of a volume for a month: nothing without one; None if its class has no price."""
    if volume is None:
        return 0.0
    price = prices.month(volume[0])
    return None if price is None else round(price * volume[1] / _GIB, _DIGITS)
