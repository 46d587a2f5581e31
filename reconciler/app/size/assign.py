"""Choose the GPU products of all jobs that may get several together, and record them as evidence."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.size.files import FileJob, SizedFile
from reconciler.core.borrowing import Borrowing
from reconciler.core.config import Cluster, Goal
from reconciler.core.queues import QueueKey, QueueUsage, requests_of_quota, usage_by_cluster
from reconciler.core.sizing.answers import Answers, JobCard, write_answers
from reconciler.core.sizing.decide.assignment import Applicant, Assigned, CardOption, Pool, assign
from reconciler.core.sizing.decide.explain import CostBasis, cost_basis
from reconciler.core.sizing.decision import Candidate, Decision
from reconciler.core.summary import ObjectSummary
from reconciler.core.training import is_done
from reconciler.index.build import CompiledRevision
from reconciler.index.sizing import job_name


class AssignedJobs(Struct, frozen=True, kw_only=True):
    """The result for one cluster: the evidence file, each job with its product, and those that kept theirs."""

    path: str
    jobs: Mapping[str, Assigned]
    kept: frozenset[str]


def assign_cards(
    index: CompiledRevision, files: Sequence[SizedFile], *, write: Callable[[str, bytes], None], again: bool = False
) -> list[AssignedJobs]:
    """Choose for the jobs without a recorded product (`again`: all), and write `sizing.yaml` of each cluster.

    files: the jobs that the settings select, also those that are already sized, whose products stay.

    Recorded products stay while the job fits them. Those of jobs that are not selected any more are removed.
    """
    results: list[AssignedJobs] = []
    for cluster in index.clusters:
        selected = [
            one for file in files for one in file.jobs if one.cluster is not None and one.cluster.name == cluster.name
        ]
        known = index.context.evidence.answers.get(cluster.name, Answers())
        names = {job_name(one.job.document, cluster): one for one in selected}
        open_ = {name: one for name, one in names.items() if not is_done(one.job.document, cluster.sizing)}
        applicants, free = _applicants(index, cluster, open_, {} if again else known.cards)
        assigned = assign(applicants, free)
        cards = {name: card for name, card in known.cards.items() if name in names and name not in open_}
        cards |= {
            name: JobCard(job=name, product=one.option.product, gpus=one.option.gpus, because=one.because)
            for name, one in assigned.items()
            if one.fits
        }
        path = f"{index.context.config.evidence}/{cluster.name}/sizing.yaml"
        if cards != known.cards:
            write(path, write_answers(replace(known, cards=cards), cluster.name))
        kept = frozenset(one.job for one in applicants if one.kept)
        if assigned:
            results.append(AssignedJobs(path=path, jobs=assigned, kept=kept))
    return results


def _applicants(
    index: CompiledRevision, cluster: Cluster, jobs: Mapping[str, FileJob], cards: Mapping[str, JobCard]
) -> tuple[list[Applicant], dict[Pool, int]]:
    """Return the jobs that fit several products, and what all others leave of nodes and quotas."""
    fitting = {
        name: (decision, candidates)
        for name, one in jobs.items()
        if (decision := one.job.decision) is not None and len(candidates := _fitting(decision)) > 1
    }
    in_money = all(one.gpu.currency for _, candidates in fitting.values() for one in candidates)
    places = {(place.path, place.line): name for name in fitting for place in (jobs[name].job.document.source,)}
    rows = [row for record in index.records.values() for row in record.summaries if row.cluster == cluster.name]
    own = {name: row for row in rows if row.is_workload and (name := places.get((row.source, row.line)))}
    others = usage_by_cluster([row for row in rows if (row.source, row.line) not in places])
    usage = others.get(cluster.name) or QueueUsage()
    queues = {name: _queues(usage, row) for name, row in own.items()}
    applicants = [
        Applicant(
            job=name,
            queues=tuple(map(_queue_name, queues.get(name, ()))),
            options=_options(candidates, decision.goal, in_money=in_money),
            kept=_kept(cards.get(name), candidates),
        )
        for name, (decision, candidates) in fitting.items()
    ]
    inventory = index.context.evidence.inventories.get(cluster.name)
    nodes = inventory.gpus_by_product if inventory is not None else {}
    return applicants, _free(usage, cluster, nodes, {queue for found in queues.values() for queue in found})


def _fitting(decision: Decision) -> list[Candidate]:
    """Return what a job may be given, one layout for each product."""
    return [] if decision.chosen is None else [decision.chosen, *(one for one in decision.others if one.fits)]


def _options(candidates: Sequence[Candidate], goal: Goal, *, in_money: bool) -> tuple[CardOption, ...]:
    """Return the options with the cost of training as much as the cheapest one does in an hour."""
    basis = CostBasis(by_token=cost_basis(candidates).by_token, in_money=in_money)
    prices = [
        1 / one.tokens_per_s if goal is Goal.THROUGHPUT and one.tokens_per_s else basis.price(one) for one in candidates
    ]
    price, cheapest = min(zip(prices, candidates, strict=True), key=lambda pair: pair[0])
    hour = (cheapest.cost if in_money else cheapest.relative_cost).per_hour
    return tuple(
        CardOption(product=one.gpu.product, gpus=one.layout.gpus, cost=hour * own / price)
        for one, own in zip(candidates, prices, strict=True)
    )


def _kept(card: JobCard | None, candidates: Iterable[Candidate]) -> str:
    """Return the recorded product, if the job still fits the GPUs that it was given."""
    fits = card is not None and any(
        one.gpu.product == card.product and one.layout.gpus <= card.gpus for one in candidates
    )
    return card.product if card is not None and fits else ""


def _queues(usage: QueueUsage, row: ObjectSummary) -> list[QueueKey]:
    """Return the queue of a workload, and the queues above that bound it."""
    queue = usage.queue_of(row)
    return [queue, *(above for above in usage.ancestors(queue) if usage.is_tree(above))] if row.queue else []


def _queue_name(queue: QueueKey) -> str:
    return f"{queue.kind}/{queue.name}"


def _free(usage: QueueUsage, cluster: Cluster, nodes: Mapping[str, int], queues: Iterable[QueueKey]) -> dict[Pool, int]:
    """Return the GPUs of nodes by product, and those that queues may use, less what other workloads request."""
    taken: dict[str, int] = {}
    for (_, product), gpus in usage.requested.items():
        taken[product] = taken.get(product, 0) + gpus
    free: dict[Pool, int] = {("", product): gpus - taken.get(product, 0) for product, gpus in nodes.items()}
    requested, borrowing = usage.requested_with_children(), Borrowing(usage, cluster)
    for queue in queues:
        quotas = borrowing.quotas(queue)
        products = [quota.product for quota in quotas]
        for quota in quotas:
            if quota.limit is not None:
                used = requests_of_quota(requested.get(queue, {}), quota.product, products)
                free[_queue_name(queue), quota.product] = int(quota.limit) - used
    return free
