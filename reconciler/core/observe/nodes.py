"""The nodes of a live cluster as evidence: only what decisions use, rounded so that it changes rarely."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.devices import PRODUCT_LABELS, WHOLE_GPUS, product_label
from reconciler.core.evidence.inventory import Node, Taint
from reconciler.core.kinds.progress import conditions
from reconciler.core.quantities import parse_quantity
from reconciler.core.values import MAX_COUNT, mapping, plural, sequence, text

Body = Mapping[str, Any]

_LABELS = frozenset(
    {
        *PRODUCT_LABELS,
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "nvidia.com/gpu.count",
        "nvidia.com/mig.strategy",
    }
)
"""Labels that are kept wherever they are; others are kept if they are about topology, or a selector uses them."""

_COUNT_LABELS = ("nvidia.com/gpu.count", "beta.amd.com/gpu.family.AI", "amd.com/gpu.family.AI")
_MEMORY_LABELS = {"nvidia.com/gpu.memory": 1, "amd.com/gpu.vram": 0, "beta.amd.com/gpu.vram": 0}
"""Labels with the memory of one GPU: in MiB, or (0) as a quantity such as `192G`."""

_OF_CONDITIONS = "node.kubernetes.io/"
"""Taints that the node controller sets while a node is cordoned, not ready or short of something."""
_MAX_GPUS = 1024
_GIB, _MIB = 1 << 30, 1 << 20


class ObservedNodes(Struct, frozen=True, kw_only=True):
    """The nodes in the order of their names, and what is odd about them, for people."""

    nodes: tuple[Node, ...]
    notes: tuple[str, ...] = ()


def observe_nodes(bodies: Iterable[Body], labels: Iterable[str] = ()) -> ObservedNodes:
    """Return the nodes; `labels` are the keys that selectors of the repository use."""
    wanted = _LABELS.union(labels)
    ordered = sorted(bodies, key=_name)
    notes = tuple(note for body in ordered for note in _notes(body))
    return ObservedNodes(nodes=tuple(_node(body, wanted) for body in ordered), notes=notes)


def selector_labels(document: Any) -> Iterator[str]:
    """Yield the node labels that selectors, flavors and topologies in a document name, at any depth."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key in {"nodeSelector", "nodeLabels"} and isinstance(value, Mapping):
                yield from (str(label) for label in value)
            elif key == "nodeLabel" and isinstance(value, str):
                yield value
            elif key == "nodeSelectorTerms":
                keys = (text(one.get("key")) for term in _mappings(value) for one in _expressions(term))
                yield from filter(None, keys)
            else:
                yield from selector_labels(value)
    elif isinstance(document, list):
        for item in document:
            yield from selector_labels(item)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in sequence(value) if isinstance(item, Mapping))


def _expressions(term: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _mappings(term.get("matchExpressions"))


def _name(body: Body) -> str:
    return text(mapping(body.get("metadata")).get("name"))


def _labels_of(body: Body) -> dict[str, str]:
    labels = mapping(mapping(body.get("metadata")).get("labels"))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _node(body: Body, wanted: frozenset[str]) -> Node:
    labels = _labels_of(body)
    capacity, allocatable = _resources(body, "capacity"), _resources(body, "allocatable")
    gpus = _gpus(labels, capacity)
    healthy = min(_devices(allocatable), gpus) if _has_devices(allocatable) else 0
    return Node(
        name=_name(body),
        labels={key: labels[key] for key in sorted(labels) if key in wanted or _is_topology(key)},
        product=product_label(labels) if gpus else "",
        gpus=gpus,
        memory_mib=_gpu_memory(labels) if gpus else 0,
        cpus=_whole(capacity.get("cpu")),
        unschedulable=mapping(body.get("spec")).get("unschedulable") is True,
        taints=_taints(body),
        allocatable_cpus=_whole(allocatable.get("cpu")),
        allocatable_memory_gib=_whole(allocatable.get("memory"), _GIB),
        allocatable_gpus=healthy,
    )


def _is_topology(label: str) -> bool:
    return "topology" in label and ".csi." not in label


def _resources(body: Body, field: str) -> Mapping[str, Any]:
    return mapping(mapping(body.get("status")).get(field))


def _whole(value: Any, unit: int = 1) -> int:
    """Return a quantity in whole units, rounded down: a node that restarts reports some bytes more or less."""
    exact = parse_quantity(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return 0 if exact is None else min(max(int(exact / unit), 0), MAX_COUNT)


def _has_devices(resources: Mapping[str, Any]) -> bool:
    return any(name in resources for name in WHOLE_GPUS)


def _devices(resources: Mapping[str, Any]) -> int:
    return min(sum(_whole(resources.get(name)) for name in WHOLE_GPUS), _MAX_GPUS)


def _gpus(labels: Mapping[str, str], capacity: Mapping[str, Any]) -> int:
    """Return the GPUs that the device plugin offers; those of the labels where no plugin runs yet."""
    return _devices(capacity) if _has_devices(capacity) else _labelled(labels)


def _labelled(labels: Mapping[str, str]) -> int:
    count = next((labels[label] for label in _COUNT_LABELS if labels.get(label, "").isdecimal()), "0")
    return min(int(count[:5]), _MAX_GPUS)


def _gpu_memory(labels: Mapping[str, str]) -> int:
    for label, unit in _MEMORY_LABELS.items():
        if label in labels:
            value = labels[label]
            found = _whole(value) if unit else _whole(value.removesuffix("B"), _MIB)
            if found:
                return found
    return 0


def _taints(body: Body) -> tuple[Taint, ...]:
    taints = (mapping(one) for one in sequence(mapping(body.get("spec")).get("taints")))
    found = {
        Taint(key=text(one.get("key")), value=text(one.get("value")), effect=text(one.get("effect")))
        for one in taints
        if text(one.get("key")) and not text(one.get("key")).startswith(_OF_CONDITIONS)
    }
    return tuple(sorted(found))


def _notes(body: Body) -> Iterator[str]:
    """Yield what is contradictory or unknown about a node."""
    name, labels = _name(body), _labels_of(body)
    capacity, allocatable = _resources(body, "capacity"), _resources(body, "allocatable")
    ready = conditions(body).get("Ready")
    if ready is None or ready.get("status") != "True":
        yield f"node {name} is not ready, and stays in the evidence until it is deleted"
    gpus, healthy = _gpus(labels, capacity), _devices(allocatable)
    if gpus and not _has_devices(capacity):
        yield f"node {name}: its labels report {plural(gpus, 'GPU')}, but no device plugin offers them"
    elif healthy < gpus:
        yield f"node {name}: {gpus - healthy} of {gpus} GPUs are not allocatable"
    if gpus and not product_label(labels):
        yield f"node {name} has {plural(gpus, 'GPU')} of an unknown product (no label such as {PRODUCT_LABELS[0]})"
