"""Evaluate what the objects of all files mean together. After an edit of workloads only those are evaluated again."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.records import FileRecord, identity, short_digest
from reconciler.index.store import ObjectTotals
from reconciler.kinds.facts import Reference
from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.generations import base_name, base_path
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.policy.references import (
    COLLECTIVE,
    RuleScope,
    evaluate_amounts,
    evaluate_change,
    evaluate_links,
    has_plain_path,
    has_references,
)
from reconciler.policy.verdict import Verdict
from reconciler.queues.flavors import Version, version_of
from reconciler.queues.queues import QueueUsage, defines_queues, subtract_workloads, usage_by_cluster
from reconciler.repo.config import Cluster, RuleSetting

_Change = tuple[ObjectSummary, ObjectSummary]
"""One object before and after."""


def evaluate_totals(index: CompiledRevision) -> ObjectTotals:
    """Return the totals: saved ones, as far as nothing that they depend on has changed.

    Where two objects have one path, rules compare bytes, so that all of them are evaluated.
    """
    saved = None if index.rendered.has_duplicates else index.saved.totals
    digests = _digests(index, index.records)
    if saved is None:
        return _evaluate(index, digests)
    if saved.amounts_digest == digests[1]:
        return saved
    return _update(index, saved, digests) or _evaluate(index, digests, saved)


def evaluate_under(index: CompiledRevision, rules: Mapping[str, RuleSetting]) -> tuple[Verdict, ...]:
    """Return the verdicts over all objects under other settings of the rules. Nothing is saved."""
    context = replace(index.context, config=replace(index.context.config, rules=rules))
    totals = _evaluate(replace(index, context=context), (b"", b""))
    return (*totals.links, *totals.amounts)


def _evaluate(index: CompiledRevision, digests: tuple[bytes, bytes], saved: ObjectTotals | None = None) -> ObjectTotals:
    """Evaluate all objects."""
    rows: dict[str, list[ObjectSummary]] = {cluster.name: [] for cluster in index.clusters}
    first: dict[str, ObjectSummary] = {}
    for record in index.records.values():
        for row in record.summaries:
            rows[row.cluster].append(row)
            first.setdefault(row.path, row)
    usage = usage_by_cluster(first.values())
    amounts: list[Verdict] = []
    for cluster in index.clusters:
        own = None if index.rendered.has_duplicates else usage.get(cluster.name)
        amounts += evaluate_amounts(_scope(index, cluster), rows[cluster.name], own)
    links = saved.links if saved is not None and saved.links_digest == digests[0] else None
    if links is None:
        links = tuple(
            verdict
            for cluster in index.clusters
            for verdict in evaluate_links(_scope(index, cluster), rows[cluster.name])
        )
    return ObjectTotals(
        links_digest=digests[0], links=links, amounts_digest=digests[1], amounts=tuple(amounts), usage=usage
    )


def _scope(index: CompiledRevision, cluster: Cluster) -> RuleScope:
    return RuleScope(
        kinds=index.context.kinds,
        cluster=cluster,
        settings=index.context.config.rules,
        inventory=index.context.evidence.inventories.get(cluster.name),
        kueue=kueue_version(index, cluster.name),
    )


def kueue_version(index: CompiledRevision, cluster: str) -> Version:
    """Return the version of Kueue that a cluster runs."""
    return version_of(index.context.version(cluster, "kueue").version)


def _update(index: CompiledRevision, saved: ObjectTotals, digests: tuple[bytes, bytes]) -> ObjectTotals | None:
    """Return the totals after a change of workloads; None if other objects may have other verdicts than before."""
    old = index.saved.records
    if old.keys() != index.records.keys():
        return None
    if _digests(index, {path: old[path] for path in index.records})[1] != saved.amounts_digest:
        return None  # another run saved them, or something else than files has changed
    changes = _changes(index.context.kinds, old, index.records)
    judged = {(verdict.cluster, verdict.key) for verdict in saved.links}
    if changes is None or not all(_keeps_links(index, judged, change) for change in changes):
        return None
    rest = subtract_workloads(saved.usage, [before for before, _ in changes])
    usage = usage_by_cluster([after for _, after in changes], base=rest)
    amounts = _update_amounts(index, saved, changes, usage)
    if amounts is None:
        return None
    return ObjectTotals(
        links_digest=digests[0], links=saved.links, amounts_digest=digests[1], amounts=amounts, usage=usage
    )


def _changes(kinds: Kinds, old: Mapping[str, FileRecord], new: Mapping[str, FileRecord]) -> Sequence[_Change] | None:
    """Return the objects that differ; None if one was added, removed or moved to another line, or defines queues.

    A new generation of a job is no other object: nothing refers to jobs by name.
    """
    changes: list[_Change] = []
    for path, record in new.items():
        if record.encoded_summaries == old[path].encoded_summaries:
            continue
        before, after = old[path].summaries, record.summaries
        if [_identity(kinds, row) for row in before] != [_identity(kinds, row) for row in after]:
            return None
        changes += [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    return None if any(defines_queues(row) for pair in changes for row in pair) else changes


def _identity(kinds: Kinds, row: ObjectSummary) -> tuple[str | int, ...]:
    """Return what an object is, and its place in the source; of a job without the suffix of its generation."""
    if kinds.find(row.group, row.kind).life.has_generations:
        row = replace(row, name=base_name(row.name), path=base_path(row.path))
    return identity(row)


def _keeps_links(index: CompiledRevision, judged: AbstractSet[tuple[str, ObjectKey]], change: _Change) -> bool:
    """Return whether the verdicts on references stay: an object refers to the same as before, or all of it exists.

    judged: the objects that have verdicts.
    """
    before, after = change
    is_same = before.references == after.references
    if is_same and before.key == after.key:
        return True
    if _written(before) != _written(after):
        return False  # others may write there, too
    if not judged.isdisjoint((row.cluster, row.key) for row in change):
        return False
    (cluster,) = (each for each in index.clusters if each.name == after.cluster)
    scope = _scope(index, cluster)
    if before.key != after.key and not has_plain_path(scope, after):
        return False
    if is_same:
        return True
    keys = (
        ObjectKey(group=each.group, kind=each.kind, namespace=each.namespace, name=each.name)
        for each in after.references
    )
    paths = (index.context.kinds.manifest_path(after.cluster, key) for key in keys)
    targets = index.summaries(path for path in paths if path in index.sources)
    return has_references(scope, after, targets.values())


def _written(row: ObjectSummary) -> tuple[Reference, ...]:
    return tuple(reference for reference in row.references if reference.writes)


def _update_amounts(
    index: CompiledRevision, saved: ObjectTotals, changes: Sequence[_Change], usage: Mapping[str, QueueUsage]
) -> tuple[Verdict, ...] | None:
    """Return the verdicts on amounts, with those on changed workloads replaced."""
    changed = {(row.cluster, row.key) for pair in changes for row in pair}
    amounts: list[Verdict] = []
    for cluster in index.clusters:
        new = evaluate_change(
            _scope(index, cluster),
            [before for before, _ in changes if before.cluster == cluster.name],
            [after for _, after in changes if after.cluster == cluster.name],
            (saved.usage.get(cluster.name, QueueUsage()), usage.get(cluster.name, QueueUsage())),
        )
        if new is None:
            return None
        own = (verdict for verdict in saved.amounts if verdict.cluster == cluster.name)
        amounts += [each for each in own if each.rule in COLLECTIVE or (each.cluster, each.key) not in changed]
        amounts += new
    return tuple(amounts)


def _digests(index: CompiledRevision, records: Mapping[str, FileRecord]) -> tuple[bytes, bytes]:
    """Digest what verdicts on links depend on, and what verdicts on amounts depend on."""
    names = [cluster.name for cluster in index.clusters]
    versions = {name: one.versions for name, one in sorted(index.context.evidence.definitions.items())}
    links = short_digest(repr((index.context.digest, names, versions)).encode())
    links.update(b"".join([record.links for record in records.values()]))
    amounts = short_digest(links.digest() + repr(sorted(index.inventory_digests.items())).encode())
    amounts.update(b"".join([record.amounts for record in records.values()]))
    return links.digest(), amounts.digest()
