"""`spec.prices` of `reconciler.yaml`: what a GPU hour costs, who says so, and since when."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Prices(Struct, frozen=True, kw_only=True):
    """Prices of GPU hours by product, in one currency for the whole repository. Products without one are unknown.

    `source` is where the prices come from: a contract, or the address of a price list; `date` when they were read.
    """

    currency: str = ""
    source: str = ""
    date: str = ""
    gpu_hours: tuple[tuple[str, float], ...] = ()  # (product, price), sorted

    def hour(self, product: str) -> float | None:
        """Return the price of one hour of a product; None if it is unknown."""
        return dict(self.gpu_hours).get(product)


NO_PRICES = Prices()
"""A repository without prices."""


def parse_prices(spec: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> Prices:
    """Parse `prices` of the repository, and those of a cluster, which replace them but for the currency.

    Their JSON Schema has accepted them.
    """
    if not spec and not own:
        return NO_PRICES
    written = own or spec
    return Prices(
        currency=spec["currency"],
        source=written["source"],
        date=written["date"],
        gpu_hours=tuple((product, float(price)) for product, price in sorted(written["gpuHours"].items())),
    )
