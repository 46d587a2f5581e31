"""`spec.prices` of `reconciler.yaml`: what a GPU hour and storage cost, who says so, and since when."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct


class Commitment(Struct, frozen=True, kw_only=True):
    """GPUs that are paid for, used or not: how many of a product, and the price of one for an hour."""

    product: str
    count: int
    hour: float


class Prices(Struct, frozen=True, kw_only=True):
    """Prices of GPU hours by product, in one currency for the whole repository. Products without one are unknown.

    `source` is where the prices come from: a contract, or the address of a price list; `date` when they were read.
    owners: the label of workloads that says who is charged; empty: their namespace.
    """

    currency: str = ""
    source: str = ""
    date: str = ""
    gpu_hours: tuple[tuple[str, float], ...] = ()  # (product, price), sorted
    commitments: tuple[Commitment, ...] = ()  # by product, the cheapest first
    spot: tuple[tuple[str, float], ...] = ()  # (product, price), sorted
    owners: str = ""
    storage_months: tuple[tuple[str, float], ...] = ()  # (storage class, price of a GiB for a month), sorted

    def hour(self, product: str, *, spot: bool = False) -> float | None:
        """Return the price of one hour of a product, on demand or on the spot market; None if it is unknown."""
        return dict(self.spot if spot else self.gpu_hours).get(product)

    def month(self, storage_class: str) -> float | None:
        """Return the price of a GiB of a storage class for a month; None if it is unknown.

        A claim without a class gets the default of the cluster: its price is known if there is only one.
        """
        if not storage_class and len(self.storage_months) == 1:
            return self.storage_months[0][1]
        return dict(self.storage_months).get(storage_class)

    def spend(self, product: str, gpus: float, *, spot: bool = False) -> float | None:
        """Return what an hour of so many GPUs costs; None if a price is unknown.

        Commitments are used first. Of those that stay unused the cost is the same, so it is no cost of these GPUs.
        """
        total, left = 0.0, gpus
        for one in () if spot else self.commitments:
            if one.product == product:
                used = min(left, one.count)
                total, left = total + used * one.hour, left - used
        if left <= 0:
            return total
        hour = self.hour(product, spot=spot)
        return None if hour is None else total + left * hour


def mean_rates(
    gpus: Mapping[tuple[str, str, bool], float], prices: Mapping[str, Prices]
) -> dict[tuple[str, str, bool], float | None]:
    """Return what a GPU hour costs on the average, by cluster, product and spot; None if it is unknown.

    Of each product commitments are used first, then the list.
    """
    rates: dict[tuple[str, str, bool], float | None] = {}
    for (cluster, product, spot), amount in gpus.items():
        total = prices.get(cluster, NO_PRICES).spend(product, amount, spot=spot)
        rates[cluster, product, spot] = None if total is None or not amount else total / amount
    return rates


SPOT_LABELS = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "node.kubernetes.io/lifecycle": "spot",
}
"""Labels of nodes that a cloud may take back, with their values."""

_SPOT_NAME = re.compile(r"(?:^|[-_.])(?:spot|preemptible|interruptible)(?:$|[-_.])", re.IGNORECASE)


def is_spot(labels: Iterable[tuple[str, str | Sequence[str]]], name: str = "") -> bool:
    """Return whether labels, each with its value or its possible values, or the name of a flavor mean such nodes."""
    chosen = ((SPOT_LABELS.get(key), (value,) if isinstance(value, str) else tuple(value)) for key, value in labels)
    return bool(_SPOT_NAME.search(name)) or any(wanted is not None and values == (wanted,) for wanted, values in chosen)


NO_PRICES = Prices()
"""A repository without prices."""


def parse_prices(spec: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> Prices:
    """Parse `prices` of the repository, and those of a cluster, which replace them but for currency and owners.

    Their JSON Schema has accepted them.
    """
    if not spec and not own:
        return NO_PRICES
    written = own or spec
    commitments = (
        Commitment(product=one["product"], count=one["count"], hour=float(one["hour"]))
        for one in written.get("commitments", ())
    )
    return Prices(
        currency=spec["currency"],
        source=written["source"],
        date=written["date"],
        gpu_hours=_listed(written["gpuHours"]),
        commitments=tuple(sorted(commitments, key=lambda one: (one.product, one.hour, one.count))),
        spot=_listed(written.get("spot", {})),
        owners=spec.get("owners", ""),
        storage_months=_listed(written.get("storageMonths", {})),
    )


def _listed(prices: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    return tuple((name, float(price)) for name, price in sorted(prices.items()))
