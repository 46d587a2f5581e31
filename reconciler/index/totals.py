"""What the objects of all files mean together: verdicts of the rules over all objects, and the GPUs of every queue."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.core.config import Cluster
from reconciler.core.policy.references import evaluate_amounts, evaluate_links
from reconciler.core.policy.verdict import Verdict
from reconciler.core.queues import QueueUsage, usage_by_cluster
from reconciler.index.context import Context
from reconciler.index.records import FileRecord, short_digest

if TYPE_CHECKING:
    from reconciler.core.summary import ObjectSummary


class ObjectTotals(Struct, frozen=True, kw_only=True):
    """Verdicts on links and on amounts, each with the digest of what it was computed from, and usage by cluster."""

    links_digest: bytes
    links: tuple[Verdict, ...]
    amounts_digest: bytes
    amounts: tuple[Verdict, ...]
    usage: dict[str, QueueUsage]


def evaluate_totals(
    records: Mapping[str, FileRecord],
    clusters: tuple[Cluster, ...],
    context: Context,
    inventories: Mapping[str, str],
    known: ObjectTotals | None,
) -> ObjectTotals:
    """Return the totals: those that are `known`, unless something that they depend on has changed.

    `inventories` are digests by cluster. Where two objects have one path, rules compare bytes: pass None as `known`.
    """
    links_digest, amounts_digest = _digests(records, clusters, context, inventories)
    if known is not None and known.amounts_digest == amounts_digest:
        return known
    rows: dict[str, list[ObjectSummary]] = {cluster.name: [] for cluster in clusters}
    first: dict[str, ObjectSummary] = {}
    for record in records.values():
        for row in record.summaries:
            rows[row.cluster].append(row)
            first.setdefault(row.path, row)
    kinds, rules = context.kinds, context.config.rules
    usage = usage_by_cluster(first.values())
    has_duplicates = len(first) != sum(map(len, rows.values()))
    amounts: list[Verdict] = []
    for cluster in clusters:
        inventory = context.evidence.inventories.get(cluster.name)
        own = None if has_duplicates else usage.get(cluster.name)
        amounts += evaluate_amounts(kinds, rows[cluster.name], cluster, inventory, rules, own)
    if known is not None and known.links_digest == links_digest:
        links = known.links
    else:
        links = tuple(
            verdict for cluster in clusters for verdict in evaluate_links(kinds, rows[cluster.name], cluster, rules)
        )
    return ObjectTotals(
        links_digest=links_digest,
        links=links,
        amounts_digest=amounts_digest,
        amounts=tuple(amounts),
        usage=usage,
    )


def _digests(
    records: Mapping[str, FileRecord], clusters: tuple[Cluster, ...], context: Context, inventories: Mapping[str, str]
) -> tuple[bytes, bytes]:
    """Digest what verdicts on links depend on, and what verdicts on amounts depend on."""
    names = [cluster.name for cluster in clusters]
    links = short_digest(repr((context.digest, names)).encode())
    links.update(b"".join([record.links for record in records.values()]))
    amounts = short_digest(links.digest() + repr(sorted(inventories.items())).encode())
    amounts.update(b"".join([record.amounts for record in records.values()]))
    return links.digest(), amounts.digest()
