"""Pods that held GPUs, with what is known of these, and rows of them by team, queue or job."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.reports.series import GpuHours, hourly_means, trend
from reconciler.sizing.prices import Prices, mean_rates

BY = ("team", "queue", "job")
_FIGURES = 6  # decimal places of hours; money has two


class HeldGpus(Struct, frozen=True, kw_only=True):
    """GPUs that one pod held: whose they were, for how many GPU hours, and what was measured of them.

    job: the object at the root, `Job/team/train`. spot: on a node that a cloud may take back.
    """

    cluster: str
    pod: str
    job: str
    queue: str = ""
    team: str = ""
    product: str = ""
    spot: bool = False
    gpu_hours: float
    gpus: tuple[GpuHours, ...] = ()


class UseRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """The use of the GPUs of one team, queue or job. None is unknown.

    gpu_hours: those that pods held. covered: of them, those that were measured; the following are about these alone.
    busy: at full load. idle: below 5 %. wasted: the money for the idle hours.
    slope: percent per hour. unpriced: products without a price, which are in no money.
    """

    cluster: str
    name: str
    gpu_hours: float
    covered: float
    busy: float
    idle: float
    idle_share: float | None
    mean: float | None
    peak: float | None
    kwh: float | None
    cost: float | None
    wasted: float | None
    currency: str
    unpriced: tuple[str, ...] = ()
    slope: float | None = None
    r2: float | None = None
    trend: str = ""

    @property
    def coverage(self) -> float | None:
        """The share of the GPU hours that was measured."""
        return min(1.0, self.covered / self.gpu_hours) if self.gpu_hours else None


_KEYS: Mapping[str, Callable[[HeldGpus], str]] = {
    "team": lambda one: one.team,
    "queue": lambda one: one.queue,
    "job": lambda one: one.job,
}


class UseRates(Struct, frozen=True, kw_only=True):
    """The cost of GPU hours in a window. Of each product commitments are used first, on the average of the window."""

    prices: Mapping[str, Prices]
    rates: Mapping[tuple[str, str, bool], float | None]

    @staticmethod
    def of(held: Iterable[HeldGpus], prices: Mapping[str, Prices], hours: Mapping[str, float]) -> "UseRates":
        """Return the rates of what was held in the window of each cluster, of so many hours."""
        totals: dict[tuple[str, str, bool], float] = {}
        for one in held:
            key = one.cluster, one.product, one.spot
            totals[key] = totals.get(key, 0.0) + one.gpu_hours / hours[one.cluster]
        return UseRates(prices=prices, rates=mean_rates(totals, prices))

    def spent(self, hours: Iterable[tuple[HeldGpus, float]]) -> tuple[float | None, tuple[str, ...]]:
        """Return the money for GPU hours, None if none of them has a price, and the products without one."""
        money, unpriced, is_priced = 0.0, set(), False
        for one, amount in hours:
            rate = self.rates.get((one.cluster, one.product, one.spot))
            if rate is None:
                unpriced.add(one.product or "any")
            else:
                money, is_priced = money + amount * rate, True
        return (round(money, 2) if is_priced else None), tuple(sorted(unpriced))


def use_rows(
    held: Sequence[HeldGpus], by: str, prices: Mapping[str, Prices], hours: Mapping[str, float]
) -> tuple[UseRow, ...]:
    """Return the rows of each cluster in its window of so many hours, those that waste most first."""
    rates = UseRates.of(held, prices, hours)
    groups: dict[tuple[str, str], list[HeldGpus]] = {}
    for one in held:
        groups.setdefault((one.cluster, _KEYS[by](one)), []).append(one)
    rows = [_row(name, group, rates) for (_, name), group in groups.items()]
    return tuple(sorted(rows, key=lambda row: (row.cluster, -(row.wasted or 0.0), -row.idle, row.name)))


def _row(name: str, group: Sequence[HeldGpus], rates: UseRates) -> UseRow:
    gpus, cluster = [gpu for one in group for gpu in one.gpus], group[0].cluster
    covered, busy, idle = (sum(getattr(gpu, field) for gpu in gpus) for field in ("covered", "busy", "idle"))
    energies = [gpu.kwh for gpu in gpus if gpu.kwh is not None]
    cost, unpriced = rates.spent((one, one.gpu_hours) for one in group)
    wasted, _ = rates.spent((one, sum(gpu.idle for gpu in one.gpus)) for one in group if one.gpus)
    line = trend(hourly_means(gpus))
    return UseRow(
        cluster=cluster,
        name=name,
        gpu_hours=round(sum(one.gpu_hours for one in group), _FIGURES),
        covered=round(covered, _FIGURES),
        busy=round(busy, _FIGURES),
        idle=round(idle, _FIGURES),
        idle_share=round(idle / covered, _FIGURES) if covered else None,
        mean=round(100 * busy / covered, _FIGURES) if covered else None,
        peak=max((gpu.peak for gpu in gpus if gpu.peak is not None), default=None),
        kwh=round(sum(energies), _FIGURES) if energies else None,
        cost=cost,
        wasted=wasted if covered else None,
        currency=rates.prices[cluster].currency if cluster in rates.prices else "",
        unpriced=unpriced,
        slope=None if line is None else round(line.slope, _FIGURES),
        r2=None if line is None else round(line.r2, _FIGURES),
        trend="not enough data" if line is None else "",
    )
