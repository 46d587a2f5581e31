"""What-if: a scenario, in words or as a document, and the evidence as it would be."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.problems import Violation
from reconciler.kube.values import enumerated
from reconciler.placement.fleet import PlacementEvidence, labels_of
from reconciler.placement.jobs import HOSTNAME
from reconciler.repo.evidence.usage import SUSPENDED, WAITING, Usage, UsedPodSet, UsedWorkload
from reconciler.sizing.devices import PRODUCT_LABEL, Vendor
from reconciler.sizing.inventory import Inventory, Node

KIND = "PlacementScenario"
FORMS = "nodes+=4x8xNVIDIA-H200, nodes-=NODE, rack-=NAME, queue=NAME:GPUS, queue=NAME+GPUS"
"""The forms of a scenario in words."""

_ADDED = re.compile(r"nodes\+=(?P<count>[1-9]\d{0,4})x(?P<gpus>[1-9]\d{0,2})x(?P<product>[A-Za-z0-9][\w.-]*)")
_WITHOUT = re.compile(r"(?P<what>nodes|rack)-=(?P<names>[\w.,-]+)")
_QUEUE = re.compile(r"queue=(?P<name>[\w./-]+)(?P<sign>[:+-])(?P<gpus>\d{1,7})")


class NewNodes(Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes that would be added. What is not said is as on a node of the same product, else unlimited."""

    count: int
    gpus: int
    product: str
    cpus: int = 0
    memory_gib: int = 0
    labels: dict[str, str] = {}


class QueueShare(Struct, frozen=True, kw_only=True, rename="camel"):
    """The GPUs that a queue would grant: `gpus`, or so many `more` than now (fewer, if it is negative)."""

    name: str
    gpus: int | None = None
    more: int = 0


class PlacementScenario(Struct, frozen=True, kw_only=True, rename="camel"):
    """Supposed changes of a cluster. failed_racks: values of the lowest level of the topology above nodes."""

    add_nodes: tuple[NewNodes, ...] = ()
    drain_nodes: tuple[str, ...] = ()
    failed_racks: tuple[str, ...] = ()
    queues: tuple[QueueShare, ...] = ()

    @property
    def gpus(self) -> dict[str, int]:
        """The GPUs that are added, by product."""
        added: dict[str, int] = {}
        for one in self.add_nodes:
            added[one.product] = added.get(one.product, 0) + one.count * one.gpus
        return added


def scenario_of(text: str) -> PlacementScenario | None:
    """Read a scenario in words; None if it has none of the forms."""
    if matched := _ADDED.fullmatch(text):
        count, gpus = int(matched["count"]), int(matched["gpus"])
        return PlacementScenario(add_nodes=(NewNodes(count=count, gpus=gpus, product=matched["product"]),))
    if matched := _WITHOUT.fullmatch(text):
        names = tuple(filter(None, matched["names"].split(",")))
        is_rack = matched["what"] == "rack"
        return PlacementScenario(failed_racks=names) if is_rack else PlacementScenario(drain_nodes=names)
    if matched := _QUEUE.fullmatch(text):
        gpus = int(matched["gpus"])
        share = QueueShare(name=matched["name"], gpus=gpus)
        if matched["sign"] != ":":
            share = QueueShare(name=matched["name"], more=gpus if matched["sign"] == "+" else -gpus)
        return PlacementScenario(queues=(share,))
    return None


def merged(scenarios: Iterable[PlacementScenario]) -> PlacementScenario:
    """Return all scenarios as one."""
    found = PlacementScenario()
    for one in scenarios:
        both = {name: (*getattr(found, name), *getattr(one, name)) for name in PlacementScenario.__struct_fields__}
        found = PlacementScenario(**both)
    return found


def unknown_names(scenario: PlacementScenario, known: PlacementEvidence) -> Iterator[Violation]:
    """Yield the nodes and racks of a scenario that the evidence lacks."""
    nodes = {node.name for node in known.inventory.nodes}
    level = next((level for level in reversed(known.levels) if level != HOSTNAME), "")
    racks = {node.labels[level] for node in known.inventory.nodes if level in node.labels}
    every = (("drainNodes", "node", scenario.drain_nodes, nodes), ("failedRacks", "rack", scenario.failed_racks, racks))
    for field, what, names, present in every:
        for index, name in enumerate(names):
            if name not in present:
                hint = f"known: {enumerated(sorted(present)[:8])}" if present else f"the evidence knows no {what}"
                message = f"there is no {what} {name!r} in the evidence"
                yield Violation(rule="scenario.unknown", path=("spec", field, index), message=message, hint=hint)


def with_scenario(known: PlacementEvidence, scenario: PlacementScenario) -> PlacementEvidence:
    """Return the evidence as a scenario would have it: what ran on nodes that are gone waits."""
    gone = {*scenario.drain_nodes, *_of_racks(known, scenario.failed_racks)}
    nodes = [replace(node, unschedulable=True) if node.name in gone else node for node in known.inventory.nodes]
    for one in scenario.add_nodes:
        nodes += _new_nodes(known, one, len(nodes) - len(known.inventory.nodes) + 1)
    inventory = Inventory(cluster=known.inventory.cluster, taken_at=known.inventory.taken_at, nodes=tuple(nodes))
    return replace(known, inventory=inventory, usage=_without(known.usage, gone) if gone else known.usage)


def _of_racks(known: PlacementEvidence, racks: Iterable[str]) -> Iterator[str]:
    level, failed = next((level for level in reversed(known.levels) if level != HOSTNAME), ""), frozenset(racks)
    yield from (node.name for node in known.inventory.nodes if failed and node.labels.get(level) in failed)


def _new_nodes(known: PlacementEvidence, one: NewNodes, start: int) -> Iterator[Node]:
    """Yield new nodes, like one of the same product that is there already."""
    like = next((node for node in known.inventory.nodes if node.product == one.product), None)
    vendor = Vendor.AMD if one.product.startswith("AMD") else Vendor.NVIDIA
    own = {PRODUCT_LABEL[vendor]: one.product}
    if like is not None:
        own = {key: value for key, value in labels_of(like).items() if key != HOSTNAME and key not in known.levels}
    racks = dict.fromkeys((level for level in known.levels if level != HOSTNAME), "new")
    for number in range(one.count):
        yield Node(
            name=f"new-{start + number}",
            gpus=one.gpus,
            allocatable_gpus=one.gpus,
            product=one.product,
            memory_mib=0 if like is None else like.memory_mib,
            cpus=one.cpus or (0 if like is None else like.cpus),
            allocatable_cpus=one.cpus or (0 if like is None else like.allocatable_cpus),
            allocatable_memory_gib=one.memory_gib or (0 if like is None else like.allocatable_memory_gib),
            labels={**racks, **own, **one.labels},
            taints=() if like is None else like.taints,
        )


def _without(usage: Usage, gone: set[str]) -> Usage:
    workloads = tuple(_stopped(one) if _is_on(one, gone) else one for one in usage.workloads)
    return replace(usage, workloads=workloads)


def _is_on(one: UsedWorkload, nodes: set[str]) -> bool:
    return any(name in nodes for pods in one.pod_sets for name, _ in pods.nodes)


def _stopped(one: UsedWorkload) -> UsedWorkload:
    """Return a workload that waits again: all its pods, since a gang is placed whole."""
    pods = tuple(_nowhere(each) for each in one.pod_sets)
    return one if one.state == SUSPENDED else replace(one, state=WAITING, admitted_at="", started_at="", pod_sets=pods)


def _nowhere(pods: UsedPodSet) -> UsedPodSet:
    return replace(pods, nodes=())


def quota_after(share: QueueShare, present: float | None) -> float | None:
    """Return the GPUs that a queue would grant; None for one that is unlimited now and gets more."""
    if share.gpus is not None:
        return float(share.gpus)
    return None if present is None else max(0.0, present + share.more)


def first_to_start(usage: Usage, queue: str, more: float) -> list[UsedWorkload]:
    """Return the workloads of a queue that wait and that more GPUs admit, the oldest first."""
    waiting = [one for one in usage.workloads if one.state == WAITING and one.gpus and queue in _queues(one)]
    found = []
    for one in sorted(waiting, key=lambda one: (-one.priority, one.created_at, one.key)):
        if one.gpus > more:
            break
        more -= one.gpus
        found.append(one)
    return found


def _queues(one: UsedWorkload) -> Mapping[str, Any]:
    return dict.fromkeys((one.queue, f"{one.namespace}/{one.queue}", one.cluster_queue))
