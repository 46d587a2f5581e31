"""What a plan costs: GPUs per hour by queue and by team, runs of jobs, commitments, and GPUs that do nothing.

Both sides have the prices of the head. A product without a price is unknown, never free.
"""

import datetime as dt
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.kueue import RESOURCE_FLAVOR
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import FlavorTerms
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.plan.plan import CommitmentUse, CostLine, IdleCost, JobChange, OwnerCost
from reconciler.queues.queues import QueueKey, QueueUsage
from reconciler.repo.config import Config
from reconciler.repo.evidence.runs import FinishedRun, FinishedRuns
from reconciler.repo.evidence.utilisation import GpuPod, GpuUtilisation
from reconciler.sizing.inventory import Inventory
from reconciler.sizing.prices import NO_PRICES, Prices, is_spot, mean_rates

_Key = TypeVar("_Key")

_DIGITS, _RATE_DIGITS = 2, 4  # of money and hours, and of what one hour costs
_HOUR = 3600
_FEW = 2  # runs from which there are quantiles
_SUFFIX = re.compile(r"(?:[-.][a-z]?\d[0-9a-f]*)+$")


class Charge(Struct, frozen=True, kw_only=True, order=True):
    """GPUs that running workloads of a team request in a queue."""

    cluster: str
    queue: str
    product: str
    spot: bool = False
    owner: str = ""
    gpus: float = 0.0


class Charges(Struct, frozen=True, kw_only=True, eq=False):
    """The charges of one side, and the mean price of a GPU hour by cluster, product and kind of node."""

    rows: tuple[Charge, ...]
    prices: Mapping[str, Prices]
    rates: Mapping[tuple[str, str, bool], float | None]

    @staticmethod
    def of(rows: Iterable[Charge], prices: Mapping[str, Prices]) -> "Charges":
        """Return the charges with their rates: of each product commitments are used first, then the list."""
        found = tuple(rows)
        gpus = _sums(found, lambda one: (one.cluster, one.product, one.spot))
        return Charges(rows=found, prices=prices, rates=mean_rates(gpus, prices))

    def rate(self, cluster: str, product: str, *, spot: bool = False) -> float | None:
        """Return what a GPU hour costs on the average; None if it is unknown."""
        key = cluster, product, spot
        return self.rates[key] if key in self.rates else self.prices.get(cluster, NO_PRICES).hour(product, spot=spot)


class CostSides(Struct, frozen=True, kw_only=True, eq=False):
    """The charges of base and head.

    queues: of queues by flavor the only product, and whether all is spot. only: the product of clusters with one.
    """

    before: Charges
    after: Charges
    queues: Mapping[tuple[str, str], tuple[str, bool]] = {}
    only: Mapping[str, str] = {}

    def priced(self, job: JobChange) -> tuple[str, str, bool]:
        """Return cluster, product and kind of node that a job is charged for."""
        product, spot = self.queues.get((job.cluster, job.queue), ("", False))
        return job.cluster, job.product or product or self.only.get(job.cluster, ""), job.spot or spot


def sides_of(
    config: Config,
    before: tuple[Mapping[str, QueueUsage], Iterable[ObjectSummary]],
    after: tuple[Mapping[str, QueueUsage], Iterable[ObjectSummary]],
    inventories: Mapping[str, Inventory] | None = None,
) -> CostSides:
    """Return the charges of queues and rows of both sides; none where no cluster has prices.

    A cluster with one product gives it to workloads that ask for any.
    """
    prices = {one.name: one.prices for one in config.clusters if one.prices.gpu_hours}
    queues = {
        (cluster, queue.name): (_only_product(usage, queue), _is_spot_queue(usage, queue))
        for cluster, usage in after[0].items()
        if cluster in prices
        for queue in usage.queues
        if usage.is_flavored(queue)
    }
    products = {name: [*found.gpus_by_product] for name, found in (inventories or {}).items() if name in prices}
    only = {name: found[0] for name, found in products.items() if len(found) == 1}
    found = [Charges.of(_charges(*side, prices, only) if prices else (), prices) for side in (before, after)]
    return CostSides(before=found[0], after=found[1], queues=queues, only=only)


def _charges(
    usage: Mapping[str, QueueUsage],
    rows: Iterable[ObjectSummary],
    prices: Mapping[str, Prices],
    only: Mapping[str, str],
) -> list[Charge]:
    """Return the GPUs that running workloads request, by team."""
    total: dict[Charge, float] = {}
    spot_queues: dict[QueueKey, bool] = {}
    for row in rows:
        queues = usage.get(row.cluster)
        if queues is None or row.cluster not in prices or not row.is_workload or row.suspended:
            continue
        found = queues.resolve(row)
        queue = queues.queue_of(found)
        if queue not in spot_queues:
            spot_queues[queue] = _is_spot_queue(queues, queue)
        owner = dict(found.labels).get(prices[row.cluster].owners, "") or found.namespace
        for demand in found.demands:
            key = Charge(
                cluster=row.cluster,
                queue=queue.name,
                product=demand.product or queues.product_of(queue, demand) or only.get(row.cluster, ""),
                spot=found.spot or spot_queues[queue],
                owner=owner,
            )
            total[key] = total.get(key, 0.0) + float(demand.gpus)
    return [replace(key, gpus=gpus) for key, gpus in sorted(total.items()) if gpus]


def _only_product(usage: QueueUsage, queue: QueueKey) -> str:
    products = {usage.product_of_quota(quota) for quota in usage.queues[queue].quotas}
    return products.pop() if len(products) == 1 else ""


def _is_spot_queue(usage: QueueUsage, queue: QueueKey) -> bool:
    """Return whether all flavors of a queue are of nodes that a cloud may take back."""
    row = usage.queues.get(queue)
    names = {quota.product for quota in row.quotas} if row is not None and usage.is_flavored(queue) else set()
    return bool(names) and all(is_spot(_labels(usage, name), name) for name in names)


def _labels(usage: QueueUsage, flavor: str) -> tuple[tuple[str, str], ...]:
    row = usage.deciding.get((RESOURCE_FLAVOR, "", flavor))
    return row.terms.labels if row is not None and isinstance(row.terms, FlavorTerms) else ()


def cost_fields(sides: CostSides, jobs: Sequence[JobChange], idle: tuple[IdleCost, ...]) -> dict[str, Any]:
    """Return the fields of a plan about money."""
    return {
        "costs": cost_lines(sides, jobs),
        "owners": owner_costs(sides),
        "commitments": commitment_uses(sides),
        "idle": idle,
    }


def cost_lines(sides: CostSides, jobs: Sequence[JobChange]) -> tuple[CostLine, ...]:
    """Return the cost of each queue by product."""
    gpus = [_sums(side.rows, _queue_key) for side in (sides.before, sides.after)]
    own: dict[tuple[str, str, str, bool], list[JobChange]] = {}
    for job in jobs:
        cluster, product, spot = sides.priced(job)
        own.setdefault((cluster, job.queue, product, spot), []).append(job)
    return tuple(
        _cost_line(sides, key, (gpus[0].get(key, 0.0), gpus[1].get(key, 0.0)), own.get(key, ()))
        for key in sorted({*gpus[0], *gpus[1]})
    )


def _queue_key(one: Charge) -> tuple[str, str, str, bool]:
    return one.cluster, one.queue, one.product, one.spot


def _cost_line(
    sides: CostSides, key: tuple[str, str, str, bool], gpus: tuple[float, float], jobs: Iterable[JobChange]
) -> CostLine:
    cluster, queue, product, spot = key
    prices = sides.after.prices.get(cluster, NO_PRICES)
    rates = [side.rate(cluster, product, spot=spot) for side in (sides.before, sides.after)]
    hours = _sum(job.gpu_hours_before for job in jobs), _sum(job.gpu_hours_after for job in jobs)
    return CostLine(
        cluster=cluster,
        queue=queue,
        product=product,
        currency=prices.currency,
        price=None if rates[1] is None else round(rates[1], _RATE_DIGITS),
        source=prices.source,
        date=prices.date,
        spot=spot,
        per_hour_before=_times(gpus[0], rates[0]),
        per_hour_after=_times(gpus[1], rates[1]),
        gpu_hours_before=hours[0],
        gpu_hours_after=hours[1],
        money_before=_times(hours[0], rates[0]),
        money_after=_times(hours[1], rates[1]),
    )


def owner_costs(sides: CostSides) -> tuple[OwnerCost, ...]:
    """Return the cost of each team."""
    costs: dict[tuple[str, str], list[float]] = {}
    unpriced: dict[tuple[str, str], set[str]] = {}
    for number, side in enumerate((sides.before, sides.after)):
        for one in side.rows:
            rate, key = side.rate(one.cluster, one.product, spot=one.spot), (one.cluster, one.owner)
            costs.setdefault(key, [0.0, 0.0])[number] += one.gpus * (rate or 0.0)
            if rate is None:
                unpriced.setdefault(key, set()).add(one.product or "any")
    return tuple(
        OwnerCost(
            cluster=cluster,
            owner=owner,
            currency=sides.after.prices[cluster].currency,
            per_hour_before=round(costs[cluster, owner][0], _DIGITS),
            per_hour_after=round(costs[cluster, owner][1], _DIGITS),
            unpriced=tuple(sorted(unpriced.get((cluster, owner), ()))),
        )
        for cluster, owner in sorted(costs)
    )


def commitment_uses(sides: CostSides) -> tuple[CommitmentUse, ...]:
    """Return how much of the commitments workloads request."""
    gpus = [_sums(side.rows, lambda one: (one.cluster, one.product, one.spot)) for side in (sides.before, sides.after)]
    found = []
    for cluster, prices in sorted(sides.after.prices.items()):
        for product in sorted({one.product for one in prices.commitments}):
            rows = [one for one in prices.commitments if one.product == product]
            count, paid = sum(one.count for one in rows), sum(one.count * one.hour for one in rows)
            before, after = (min(float(count), side.get((cluster, product, False), 0.0)) for side in gpus)
            use = CommitmentUse(
                cluster=cluster,
                product=product,
                currency=prices.currency,
                count=count,
                used_before=before,
                used_after=after,
                unused_per_hour=round(paid - (prices.spend(product, after) or 0.0), _DIGITS),
            )
            found.append(use)
    return tuple(found)


def _sums(rows: Iterable[Charge], key: Callable[[Charge], _Key]) -> dict[_Key, float]:
    total: dict[_Key, float] = {}
    for one in rows:
        total[key(one)] = total.get(key(one), 0.0) + one.gpus
    return total


def with_money(
    jobs: Iterable[JobChange], sides: CostSides, runs: Mapping[str, FinishedRuns] | None = None
) -> tuple[JobChange, ...]:
    """Return the jobs with the money for their GPU hours, where both are known.

    runs: the finished jobs of each cluster. A job that does not say how long it runs takes the hours of its namesakes.
    """
    known = {cluster: _history(found) for cluster, found in (runs or {}).items()}
    return tuple(_priced(_with_history(job, known.get(job.cluster, {})), sides) for job in jobs)


def _priced(job: JobChange, sides: CostSides) -> JobChange:
    cluster, product, spot = sides.priced(job)
    rates = [side.rate(cluster, product, spot=spot) for side in (sides.before, sides.after)]
    money = _times(job.gpu_hours_before, rates[0]), _times(job.gpu_hours_after, rates[1])
    if money == (None, None):
        return job
    return replace(
        job,
        money_before=money[0],
        money_after=money[1],
        money_most=_times(job.gpu_hours_most, rates[1]),
        spot=spot,
        currency=sides.after.prices[cluster].currency,
    )


_Stem = tuple[str, str, str, str]


def _stem(key: ObjectKey) -> _Stem:
    """Return what runs of one job have in common: its name without numbers, dates and digests at its end."""
    return key.group, key.kind, key.namespace, _SUFFIX.sub("", key.name) or key.name


def _history(found: FinishedRuns) -> dict[_Stem, list[float]]:
    hours: dict[_Stem, list[float]] = {}
    for key, run in found.runs.items():
        taken = _hours(run)
        if taken is not None and run.result == "Succeeded":
            hours.setdefault(_stem(key), []).append(taken)
    return hours


def _hours(run: FinishedRun) -> float | None:
    try:
        taken = dt.datetime.fromisoformat(run.finished_at) - dt.datetime.fromisoformat(run.started_at)
    except (ValueError, TypeError):
        return None
    return taken.total_seconds() / _HOUR if taken.total_seconds() > 0 else None


def _with_history(job: JobChange, known: Mapping[_Stem, Sequence[float]]) -> JobChange:
    """Add the hours of earlier runs; what they held in GPUs is not recorded, so today's number counts."""
    hours = known.get(_stem(job.key), ())
    if not hours or job.length or job.gpu_hours_before is not None or job.gpu_hours_after is not None:
        return job
    median, most = statistics.median(hours), nine_tenths(hours)
    before, after = (round(gpus * median, _DIGITS) or None for gpus in (job.gpus_before, job.gpus_after))
    return replace(
        job,
        gpu_hours_before=before,
        gpu_hours_after=after,
        gpu_hours_most=round(job.gpus_after * most, _DIGITS) or None,
        length=f"{plural(len(hours), 'earlier run')}: median {median:,.1f} h, p90 {most:,.1f} h",
    )


def nine_tenths(values: Sequence[float]) -> float:
    """Return the value that nine of ten do not exceed."""
    return statistics.quantiles(values, n=10, method="inclusive")[8] if len(values) >= _FEW else values[0]


def idle_costs(
    use: Mapping[str, GpuUtilisation], inventories: Mapping[str, Inventory], config: Config
) -> tuple[IdleCost, ...]:
    """Return what GPUs cost while they did nothing, by queue and product, where their use was measured."""
    found = (
        (one.name, one.prices, use[one.name]) for one in config.clusters if one.prices.gpu_hours and one.name in use
    )
    return tuple(chain.from_iterable(_idle(*row, inventories.get(row[0])) for row in found))


def _idle(cluster: str, prices: Prices, use: GpuUtilisation, inventory: Inventory | None) -> Iterator[IdleCost]:
    nodes = {node.name: node for node in inventory.nodes} if inventory is not None else {}
    groups: dict[tuple[str, str, bool], list[GpuPod]] = {}
    for workload in use.workloads:
        for pod in workload.pods:
            node = nodes.get(pod.node)
            key = (workload.queue, node.product if node else "", bool(node and is_spot(tuple(node.labels.items()))))
            groups.setdefault(key, []).append(pod)
    for (queue, product, spot), pods in sorted(groups.items()):
        shares = [share for pod in pods for share in pod.idle_shares()]
        price = prices.hour(product, spot=spot)
        idle = statistics.fmean(shares) if shares else None
        yield IdleCost(
            cluster=cluster,
            queue=queue,
            product=product,
            currency=prices.currency,
            gpus=sum(pod.gpus for pod in pods),
            covered=len(shares),
            idle=None if idle is None else round(idle, 4),
            per_hour=None if idle is None else _times(len(shares) * idle, price),
            taken_at=use.taken_at,
            window_seconds=use.window_seconds,
        )


def _sum(hours: Iterable[float | None]) -> float | None:
    known = [one for one in hours if one is not None]
    return round(sum(known), _DIGITS) if known else None


def _times(amount: float | None, price: float | None) -> float | None:
    return None if amount is None or price is None else round(amount * price, _DIGITS)
