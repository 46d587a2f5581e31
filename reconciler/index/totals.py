"""What the objects of all files mean together: verdicts of the rules over all objects, and the GPUs of every queue."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.core.config import Cluster
from reconciler.core.policy.references import judge_amounts, judge_links
from reconciler.core.policy.verdict import Verdict
from reconciler.core.queues import Ledger, ledgers
from reconciler.core.summary import ObjectSummary
from reconciler.index.context import Context
from reconciler.index.records import FileRecord, short_digest


class Totals(Struct, frozen=True, kw_only=True):
    """Verdicts on links and on amounts, each with the digest of what it was computed from, and the ledgers."""

    links_digest: bytes
    links: tuple[Verdict, ...]
    amounts_digest: bytes
    amounts: tuple[Verdict, ...]
    ledgers: dict[str, Ledger]


def judge_totals(
    records: Mapping[str, FileRecord],
    clusters: tuple[Cluster, ...],
    context: Context,
    inventories: Mapping[str, str],
    known: Totals | None,
) -> Totals:
    """Return the totals: those that are `known`, unless something that they depend on has changed.

    `inventories` are digests by cluster. Where two objects have one path, rules compare bytes: pass None as `known`.
    """
    names = [cluster.name for cluster in clusters]
    links = short_digest(repr((context.digest, names)).encode())
    amounts = short_digest(repr((context.digest, names, sorted(inventories.items()))).encode())
    for record in records.values():
        links.update(record.links)
        amounts.update(record.links)
        amounts.update(record.amounts)
    if known is not None and known.amounts_digest == amounts.digest():
        return known
    return _judge(records, clusters, context, links.digest(), amounts.digest(), known)


def _judge(
    records: Mapping[str, FileRecord],
    clusters: tuple[Cluster, ...],
    context: Context,
    links_digest: bytes,
    amounts_digest: bytes,
    known: Totals | None,
) -> Totals:
    rows: dict[str, list[ObjectSummary]] = {cluster.name: [] for cluster in clusters}
    first: dict[str, ObjectSummary] = {}
    for record in records.values():
        for row in record.summaries:
            rows[row.cluster].append(row)
            first.setdefault(row.path, row)
    rules = context.config.rules
    usage = ledgers(first.values())
    amounts: list[Verdict] = []
    for cluster in clusters:
        amounts += judge_amounts(rows[cluster.name], cluster, context.evidence.inventories.get(cluster.name), rules)
    if known is not None and known.links_digest == links_digest:
        links = known.links
    else:
        links = tuple(verdict for cluster in clusters for verdict in judge_links(rows[cluster.name], cluster, rules))
    return Totals(
        links_digest=links_digest,
        links=links,
        amounts_digest=amounts_digest,
        amounts=tuple(amounts),
        ledgers=usage,
    )
