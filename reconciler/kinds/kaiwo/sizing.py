"""The GPUs of a workload: their resource, the pods they are spread over, and refusals where they do not add up.

The sum that is rendered is the sum that was asked for. Explicit numbers are checked and never changed.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from reconciler.kinds.distribution import NodeKind, node_kinds
from reconciler.kinds.fields import Fields
from reconciler.kinds.kaiwo.config import KaiwoConfig, default
from reconciler.kinds.same import Same
from reconciler.kinds.translated import offers, pods_and_gpus, spread
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Traced
from reconciler.kube.values import mapping, plural, sequence
from reconciler.repo.config import Cluster
from reconciler.sizing.devices import PRODUCT_LABELS, Vendor, product_words, vendor_in
from reconciler.sizing.inventory import Inventory, Node

MODEL_LABEL = "kaiwo/gpu-model"
_ONE = default(1, "replicas defaults to 1")
_NONE = default(0, "the workload requests no GPUs")
_GPUS: FieldPath = ("spec", "gpus")
_EACH: FieldPath = ("spec", "gpusPerReplica")
_REPLICAS: FieldPath = ("spec", "replicas")


class Size(Struct, frozen=True, kw_only=True):
    """Pods, and the GPUs of each."""

    replicas: Traced
    gpus: Traced

    @property
    def total(self) -> int:
        """All GPUs of the workload."""
        total: int = self.replicas.value * self.gpus.value
        return total


def gpu_resource(fields: Fields, config: KaiwoConfig, cluster: Cluster, inventory: Inventory | None) -> Traced:
    """Return the extended resource of the GPUs."""
    given = fields.plain("spec", "gpuVendor")
    if given is None:
        measured = vendor_in(inventory.gpus_by_product) if inventory else None
        vendor = measured or cluster.vendor
        why = "the measured nodes" if measured else f"cluster {cluster.name}"
        return default(vendor.resource, f"the vendor of {why}")
    if given.lower() in {vendor.value for vendor in Vendor}:
        text = f"GPUs of {given}"
        return fields.made(Vendor(given.lower()).resource, "vendor", text, ("spec", "gpuVendor"))
    return config.resource


class Nodes(Struct, frozen=True, kw_only=True):
    """The measured nodes that a workload may use: those that take new work, and all, also cordoned ones."""

    free: tuple[NodeKind, ...]
    all: tuple[NodeKind, ...]
    labels: tuple[str, tuple[str, ...]]  # the node label that tells the models apart, and its values


def measured_nodes(fields: Fields, resource: str, inventory: Inventory | None) -> Nodes | None:
    """Return the nodes with the GPUs of a workload; None if nothing was measured."""
    if inventory is None or inventory.document is None:
        return None
    return _nodes(Same(inventory), resource, tuple(sequence(fields.plain("spec", "gpuModels"))))


@lru_cache(maxsize=256)
def _nodes(same: Same, resource: str, models: tuple[str, ...]) -> Nodes | None:
    inventory = same.find()
    if inventory is None:
        return None
    found = [node for node in inventory.nodes if node.gpus and offers(node, resource) and _is_model(node, models)]
    return Nodes(
        free=node_kinds([node for node in found if node.is_open]),
        all=node_kinds(found),
        labels=_label(found, models),
    )


def _is_model(node: Node, models: Sequence[str]) -> bool:
    return not models or any(
        node.labels.get(MODEL_LABEL) == model
        or product_words(model) <= product_words(node.product)
        or _squeezed(model) == _squeezed(node.product)
        for model in models
    )


def _squeezed(product: str) -> str:
    return re.sub(r"[^a-z0-9]", "", product.lower())


def _label(nodes: Sequence[Node], models: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the label of the models that the nodes have: Kaiwo's, else that of the vendor with the products."""
    for label in () if not nodes or any(MODEL_LABEL in node.labels for node in nodes) else PRODUCT_LABELS:
        if all(label in node.labels for node in nodes):
            return label, tuple(sorted({node.labels[label] for node in nodes}))
    return MODEL_LABEL, models


# --- pods and GPUs ---------------------------------------------------------------------------------------------------


def resolve_size(fields: Fields, nodes: Nodes | None, problems: list[Problem]) -> Size | None:
    """Spread the GPUs over pods; None with a problem if that is not possible."""
    found = [*_contradictions(fields)]
    if found:
        problems += found
        return None
    wanted = _written(fields) or _parallel(fields, nodes, problems)
    gpus = fields.get(*_GPUS)
    if wanted is None and gpus is not None and gpus.value:
        return _distributed(fields, gpus, nodes, problems)
    if wanted is None:
        return Size(replicas=fields.get(*_REPLICAS) or _ONE, gpus=_NONE)
    misfit = _misfit(fields, wanted, nodes)
    if misfit is not None:
        problems.append(misfit)
        return None
    return wanted


def _numbers(fields: Fields) -> tuple[int, int, int]:
    return fields.plain(*_GPUS) or 0, fields.plain(*_EACH) or 0, fields.plain(*_REPLICAS) or 0


def _contradictions(fields: Fields) -> Iterator[Problem]:
    gpus, each, replicas = _numbers(fields)
    pipeline, tensor = _variables(fields)
    total = each * max(replicas, 1) if each and (replicas or not gpus) else gpus
    if gpus and each and replicas and gpus != each * replicas:
        message = f"{gpus} GPUs contradict {replicas} replicas x {each} GPUs = {replicas * each}"
        yield fields.problem("contradiction", _GPUS, message, "remove gpus, or make them equal")
    elif gpus and not replicas and each and gpus % each:
        near = f"{gpus - gpus % each or each} or {gpus + each - gpus % each}"
        message = f"{plural(gpus, 'GPU')} are no multiple of gpusPerReplica {each}"
        yield fields.problem("distribution", _GPUS, message, f"request {near}")
    elif gpus and not each and replicas > 1 and gpus % replicas:
        near = f"{gpus - gpus % replicas or replicas} or {gpus + replicas - gpus % replicas}"
        message = f"{plural(gpus, 'GPU')} cannot be spread evenly over {replicas} replicas"
        yield fields.problem("distribution", _GPUS, message, f"request {near}, or remove replicas")
    elif total and pipeline > 1 and tensor and pipeline * tensor != total:
        message = f"PIPELINE_PARALLELISM {pipeline} x TENSOR_PARALLELISM {tensor} = {pipeline * tensor} GPUs"
        path = _GPUS if gpus else _EACH
        yield fields.problem("contradiction", path, f"{message}, but {total} are requested", "make them equal")
    elif total and pipeline > 1 and tensor and each and (replicas, each) != (pipeline, tensor) and replicas:
        message = f"{replicas} replicas x {each} GPUs contradict PIPELINE_PARALLELISM {pipeline} x {tensor}"
        yield fields.problem("contradiction", _EACH, message, "remove one of them")


def _variables(fields: Fields) -> tuple[int, int]:
    """Return the parallelism that the variables of the workload set."""
    values = {one.get("name"): str(one.get("value", "")) for one in map(mapping, sequence(fields.plain("spec", "env")))}
    found = [values.get(name, "") for name in ("PIPELINE_PARALLELISM", "TENSOR_PARALLELISM")]
    pipeline, tensor = (int(value) if value.isascii() and value.isdecimal() else 0 for value in found)
    return pipeline, tensor


def _written(fields: Fields) -> Size | None:
    """Return pods and GPUs as they are written; None if there is something left to choose."""
    gpus, each, replicas = _numbers(fields)
    if each:
        of_each = fields.get(*_EACH) or _NONE
        if replicas or not gpus:
            return Size(replicas=fields.get(*_REPLICAS) or _ONE, gpus=of_each)
        text = f"{plural(gpus, 'GPU')} / {each} per replica"
        return Size(replicas=fields.made(gpus // each, "replicas", text, _GPUS, _EACH), gpus=of_each)
    if gpus and replicas > 1:
        share = fields.made(gpus // replicas, "gpus", f"{gpus} GPUs / {replicas} replicas", _GPUS, _REPLICAS)
        return Size(replicas=fields.get(*_REPLICAS) or _ONE, gpus=share)
    return None


def _parallel(fields: Fields, nodes: Nodes | None, problems: list[Problem]) -> Size | None:
    """Return a pod for each stage of the pipeline, with the GPUs of its tensors."""
    gpus, _, _ = _numbers(fields)
    pipeline, tensor = _variables(fields)
    if not gpus or not tensor:
        return None
    if pipeline <= 1:
        most = max((kind.gpus for kind in nodes.all), default=0) if nodes else 0
        if most and tensor > min(gpus, most):
            message = f"TENSOR_PARALLELISM {tensor} needs more than the {min(gpus, most)} GPUs of a pod"
            problems.append(fields.warning("parallelism", _GPUS, message, "lower it, or set PIPELINE_PARALLELISM"))
        return None
    text = f"PIPELINE_PARALLELISM {pipeline} x TENSOR_PARALLELISM {tensor}"
    env: FieldPath = ("spec", "env")
    return Size(
        replicas=fields.made(pipeline, "replicas", text, _GPUS, env),
        gpus=fields.made(tensor, "gpus", text, _GPUS, env),
    )


def _distributed(fields: Fields, gpus: Traced, nodes: Nodes | None, problems: list[Problem]) -> Size | None:
    if gpus.value == 1 and (nodes is None or nodes.all):
        return Size(replicas=_ONE, gpus=gpus)
    if nodes is None:
        message = "the number of GPUs per node is unknown, so they cannot be spread over pods"
        hint = "commit an inventory of the nodes to evidence/, or set replicas and gpusPerReplica"
        problems.append(fields.problem("node-size-unknown", _GPUS, message, hint))
        return None
    found = spread(fields, _GPUS, gpus, nodes.free, nodes.all, problems)
    if found is None:
        return None
    replicas, each = pods_and_gpus(fields, found, gpus)
    return Size(replicas=replicas, gpus=each)


def _misfit(fields: Fields, size: Size, nodes: Nodes | None) -> Problem | None:
    """Return why no node has the GPUs of a pod, or not enough nodes have them."""
    if nodes is None:
        return None
    each, replicas = size.gpus.value, size.replicas.value
    path = _EACH if fields.plain(*_EACH) else _GPUS
    most = max((kind.gpus for kind in nodes.all), default=0)
    if each > most:
        message = (
            f"a pod with {plural(each, 'GPU')} fits no node: the largest has {most}" if most else "no node has a GPU"
        )
        return fields.problem("distribution", path, message, "request fewer GPUs for each pod, and more pods")
    fit = sum((kind.gpus // each) * (kind.count or 0) for kind in nodes.all)
    if replicas > fit:
        message = (
            f"{plural(replicas, 'pod')} with {plural(each, 'GPU')} do not fit the nodes, which have room for {fit}"
        )
        return fields.problem("distribution", path, message, f"request {fit * each} GPUs or fewer")
    return None
