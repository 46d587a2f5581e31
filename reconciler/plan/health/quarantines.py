"""Nodes that a plan takes out of use or gives back: what that costs, and the inventories without them."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.context import quarantines_of
from reconciler.kinds.facts import KindId
from reconciler.kinds.health import QUARANTINE
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping
from reconciler.nodehealth.quarantine import NodeQuarantine, TaintEffect, read_quarantine
from reconciler.plan import QuarantineLine
from reconciler.plan.baseline import Baseline
from reconciler.repo.config import Cluster
from reconciler.sizing.inventory import Inventory, Node, with_quarantined

_MAX_NAMES = 3
"""Jobs that are named of those that may be evicted."""

Pair = tuple[NodeQuarantine | None, NodeQuarantine | None]


def changed_quarantines(
    index: CompiledRevision, baseline: Baseline, changed: Iterable[str], differing: Iterable[str]
) -> dict[tuple[str, str], Pair]:
    """Return the quarantines that are new, different or gone, before and after, by cluster and name."""
    found: dict[tuple[str, str], Pair] = {}
    existing = set(differing)
    for cluster, name, path in changed_names(index, QUARANTINE, (*changed, *existing)):
        before = baseline.body(path) if path in existing else None
        after = quarantines_of(index.context.definitions, cluster.name).get(name)
        old = None if before is None else read_quarantine(name, mapping(before.get("spec")))
        if after is None or old is None or old != replace(after, source=None):
            found[cluster.name, name] = (old, after)
    return found


def changed_names(index: CompiledRevision, kind: KindId, paths: Iterable[str]) -> Iterator[tuple[Cluster, str, str]]:
    """Yield cluster, name and path of the objects of a cluster-scoped kind among these paths, in their order."""
    any_name = ObjectKey(group=kind[0], kind=kind[1], namespace="", name="")
    prefixes = {
        index.context.kinds.manifest_path(cluster.name, any_name).removesuffix(".yaml"): cluster
        for cluster in index.clusters
    }
    for path in sorted(set(paths)):
        folder, _, file = path.rpartition("/")
        noun, _, rest = file.partition("-")
        cluster = prefixes.get(f"{folder}/{noun}-")
        if cluster is not None:
            yield cluster, rest.removesuffix(".yaml"), path


def inventories_of_base(
    inventories: Mapping[str, Inventory], index: CompiledRevision, pairs: Mapping[tuple[str, str], Pair]
) -> Mapping[str, Inventory]:
    """Return the inventories without the nodes that the base had taken out of use."""
    before = dict(inventories)
    for cluster in sorted({cluster for cluster, _ in pairs} & inventories.keys()):
        known = quarantines_of(index.context.definitions, cluster)
        kept = [one for name, one in known.items() if (cluster, name) not in pairs]
        gone = [old for (where, _), (old, _) in pairs.items() if where == cluster and old is not None]
        names = {one.node for one in (*kept, *gone) if one.takes_node}
        before[cluster] = with_quarantined(inventories[cluster], names)
    return before


def quarantine_lines(
    pairs: Mapping[tuple[str, str], Pair], index: CompiledRevision, rows: Iterable[ObjectSummary]
) -> Iterator[QuarantineLine]:
    """Yield one line for each quarantine, with the GPUs that are lost or come back and the jobs that use such GPUs."""
    if not pairs:
        return
    workloads = [row for row in rows if row.gpus and row.is_workload and not row.suspended and not row.finished]
    for (cluster, _), (old, new) in pairs.items():
        one = new or old
        if one is None:
            continue
        inventory = index.context.evidence.inventories.get(cluster)
        node = next((node for node in inventory.nodes if node.name == one.node), None) if inventory else None
        product = node.product if node is not None else ""
        matching = [row for row in workloads if row.cluster == cluster and row.product in {"", product}]
        evicts = _evicts(new) and not _evicts(old)
        yield QuarantineLine(
            cluster=cluster,
            key=ObjectKey(group=QUARANTINE[0], kind=QUARANTINE[1], namespace="", name=one.name),
            node=one.node,
            word="begins" if old is None else "ends" if new is None else "changes",
            check=one.check,
            reason=one.reason,
            effect=one.effect.value,
            slots=one.slots,
            until=one.until,
            product=product,
            gpus=_change(old, new, node),
            jobs=len(matching) if node is not None else 0,
            requested=sum(row.gpus for row in matching) if node is not None else 0,
            is_known=node is not None,
            evicts=evicts,
            job_names=_names(matching) if evicts and node is not None else (),
            place=None if new is None else new.source,
        )


def _evicts(quarantine: NodeQuarantine | None) -> bool:
    return quarantine is not None and quarantine.effect is TaintEffect.NO_EXECUTE


def _names(rows: Iterable[ObjectSummary]) -> tuple[str, ...]:
    """Return the first names in the order of the alphabet."""
    return tuple(sorted(f"{row.key.namespace}/{row.key.name}" for row in rows)[:_MAX_NAMES])


def _change(old: NodeQuarantine | None, new: NodeQuarantine | None, node: Node | None) -> int:
    """Return the GPUs that come back, or are lost as a negative number."""
    if node is None or node.unschedulable:
        return 0
    taken = (new is not None and new.takes_node) - (old is not None and old.takes_node)
    return -taken * node.gpus
