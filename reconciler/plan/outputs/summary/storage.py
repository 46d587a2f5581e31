"""Storage of a plan in words: sizes in GiB, and the price of a month."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reconciler.plan import ClaimChange

_GIB = 1 << 30


class StorageTotal(NamedTuple):
    """Bytes that claims request, before and after."""

    before: int
    after: int


def total_storage(claims: Iterable[ClaimChange]) -> StorageTotal:
    """Sum the sizes of claims."""
    sizes = [(one.before, one.after) for one in claims]
    return StorageTotal(before=sum(before for before, _ in sizes), after=sum(after for _, after in sizes))


def gib(size: int, *, sign: bool = False) -> str:
    """Format bytes in GiB, with at most two digits after the point: `1,600`, `0.5`."""
    digits = f"{size / _GIB:{'+' if sign else ''},.2f}".rstrip("0").rstrip(".")
    return "0" if digits in ("+0", "-0") else digits


def sizes(before: int, after: int) -> str:
    """Format a size as `800 → 1,600`, or as `800` if it stays."""
    return gib(after) if before == after else f"{gib(before)} → {gib(after)}"


def money(claims: Sequence[ClaimChange]) -> str:
    """Return `81.60 → 163.20 USD` for a month; empty if a price is unknown."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in claims:
        if one.per_month_before is None or one.per_month_after is None:
            return ""
        sums[one.currency][0] += one.per_month_before
        sums[one.currency][1] += one.per_month_after
    return ", ".join(f"{before:,.2f} → {after:,.2f} {currency}" for currency, (before, after) in sorted(sums.items()))
