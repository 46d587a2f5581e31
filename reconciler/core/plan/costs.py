"""A plan in money: GPUs and GPU hours at the prices of `reconciler.yaml`, before and after."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import NO_PRICES, Config, Prices

if TYPE_CHECKING:
    from reconciler.core.plan.plan import GpuLine, JobChange

_DIGITS = 2


class CostLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the GPUs of one product in one queue cost, before and after, at the prices of `reconciler.yaml`.

    Money is None if the product has no price. Per hour are all running jobs of the queue. GPU hours are those of the
    jobs in this plan whose whole run is known, and None if there is none on that side.
    """

    cluster: str
    queue: str  # empty: no queue
    product: str  # empty: any, whose price is unknown
    currency: str
    price: float | None  # of a GPU hour
    source: str  # of the price
    date: str  # of the price, YYYY-MM-DD
    per_hour_before: float | None
    per_hour_after: float | None
    gpu_hours_before: float | None = None
    gpu_hours_after: float | None = None
    money_before: float | None = None  # for those hours
    money_after: float | None = None


def with_money(jobs: "Iterable[JobChange]", config: Config) -> "tuple[JobChange, ...]":
    """Return the jobs with the money for their GPU hours, where both are known."""
    return tuple(_priced(job, _prices(config, job.cluster)) for job in jobs)


def cost_lines(gpus: "Iterable[GpuLine]", jobs: "Sequence[JobChange]", config: Config) -> tuple[CostLine, ...]:
    """Return what each queue costs by product, for clusters with prices. Both sides have the prices of the head."""
    return tuple(_lines(gpus, jobs, config))


def _prices(config: Config, cluster: str) -> Prices:
    found = config.cluster(cluster)
    return found.prices if found is not None else NO_PRICES


def _priced(job: "JobChange", prices: Prices) -> "JobChange":
    price = prices.hour(job.product)
    if price is None or (job.gpu_hours_before is None and job.gpu_hours_after is None):
        return job
    return replace(
        job,
        money_before=_times(job.gpu_hours_before, price),
        money_after=_times(job.gpu_hours_after, price),
        currency=prices.currency,
    )


def _lines(gpus: "Iterable[GpuLine]", jobs: "Sequence[JobChange]", config: Config) -> Iterator[CostLine]:
    for line in gpus:
        prices = _prices(config, line.cluster)
        if not prices.gpu_hours:
            continue
        own = [job for job in jobs if (job.cluster, job.queue, job.product) == (line.cluster, line.queue, line.product)]
        price = prices.hour(line.product)
        before, after = _sum(job.gpu_hours_before for job in own), _sum(job.gpu_hours_after for job in own)
        yield CostLine(
            cluster=line.cluster,
            queue=line.queue,
            product=line.product,
            currency=prices.currency,
            price=price,
            source=prices.source,
            date=prices.date,
            per_hour_before=_times(line.before, price),
            per_hour_after=_times(line.after, price),
            gpu_hours_before=before,
            gpu_hours_after=after,
            money_before=_times(before, price),
            money_after=_times(after, price),
        )


def _sum(hours: Iterable[float | None]) -> float | None:
    known = [one for one in hours if one is not None]
    return round(sum(known), _DIGITS) if known else None


def _times(amount: float | None, price: float | None) -> float | None:
    return None if amount is None or price is None else round(amount * price, _DIGITS)
