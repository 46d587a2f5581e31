"""The GPU products that a job's pods can get, and the names in the job and the settings that disagree with them.

What a job may be sized for is what its pods can get: products of its queue, on nodes of the evidence that selector,
affinity and tolerations of the pods allow. Every product that something names must be among them.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.problems import Problem
from reconciler.kube.values import mapping
from reconciler.launch import Launch
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.devices import Vendor, is_gpu
from reconciler.sizing.gpus import Gpu, GpuTable
from reconciler.sizing.inventory import Node
from reconciler.sizing.training_jobs import TrainingJob, allows_product, named_product
from reconciler.sizing.training_jobs.reach import named_products, obstacles

_VARIABLE = "AUTOCONF_GPU_MODEL"
_MAX_SHOWN = 4


class Offered(Struct, frozen=True, kw_only=True):
    """The GPUs of a cluster for a job. `gpus` are those of its queue, else of all nodes; `by_queue` says which.

    `nodes` are the open nodes of the evidence with GPUs, one of each shape; empty without evidence.
    """

    gpus: tuple[Gpu, ...] = ()
    by_queue: bool = False
    nodes: tuple[Node, ...] = ()


class Cards(Struct, frozen=True, kw_only=True):
    """The GPU products that the pods can get (unknown if empty), and the problems that prevent a choice."""

    gpus: tuple[Gpu, ...] = ()
    problems: tuple[Problem, ...] = ()


def cards(job: TrainingJob, launch: Launch, offered: Offered, settings: SizingSettings, table: GpuTable) -> Cards:
    """Return the products that a job's pods can get; problems if something names another, or none is left."""
    requested, problem = _requested_vendor(job)
    if problem is not None:
        return Cards(problems=(problem,))
    allowed = tuple(gpu for gpu in offered.gpus if allows_product(job, gpu.vendor, gpu.product))
    blocked = obstacles(job, offered.nodes, taints=not offered.by_queue)
    reached = {node.product for node, path in zip(offered.nodes, blocked, strict=True) if path is None}
    measured = {node.product for node in offered.nodes}
    gpus = tuple(gpu for gpu in allowed if gpu.product in reached or gpu.product not in measured)
    problems = [*_selected(job, offered, table), *_named(job, launch, settings, gpus, table)]
    if not problems and offered.gpus and not gpus:
        problems.append(_unreachable(job, offered, [path for path in blocked if path is not None]))
    if not problems and requested is not None:
        vendor, path = requested
        named = _named_gpu(job, launch, settings, gpus, table)
        of_vendor = tuple(gpu for gpu in ((named,) if named is not None else gpus) if gpu.vendor is vendor)
        if not of_vendor and (named is not None or gpus):
            problems.append(_other_vendor(job, vendor, path, named.product if named is not None else _listed(gpus)))
        gpus = gpus if named is not None else of_vendor
    return Cards(gpus=gpus, problems=tuple(problems))


def _requested_vendor(job: TrainingJob) -> tuple[tuple[Vendor, FieldPath] | None, Problem | None]:
    """Return the vendor of the GPUs that the pods request, and where; a problem for anything but whole GPUs of one."""
    first: tuple[Vendor, FieldPath] | None = None
    for path, resource in _requested_devices(job):
        vendor = next((one for one in Vendor if one.resource == resource), None)
        if vendor is None:
            what = ", a slice of a GPU" if resource.startswith("nvidia.com/mig-") else ""
            message = f"requests {resource}{what}, but jobs are sized for whole GPUs of NVIDIA and AMD"
            hint = "request nvidia.com/gpu or amd.com/gpu, or exclude the job from sizing"
            return None, job.document.problem("sizing.gpu", path, message, hint)
        if first is not None and vendor is not first[0]:
            message = f"requests {resource}, but {format_path(first[1])} requests GPUs of the other vendor"
            return None, job.document.problem(
                "sizing.gpu", path, message, "request the GPUs of one vendor for all pods"
            )
        first = first or (vendor, path)
    return first, None


def _requested_devices(job: TrainingJob) -> Iterator[tuple[FieldPath, str]]:
    """Yield the resources of the training containers that are GPUs, slices of them, or other accelerators."""
    for pods in job.pods:
        container = pods.container
        for section in ("limits", "requests"):
            for name, amount in mapping(container.resources.get(section)).items():
                if amount not in (0, "0") and is_gpu(name):
                    yield (*container.path, job.format.resources, section, str(name)), str(name)


def _named_gpu(
    job: TrainingJob, launch: Launch, settings: SizingSettings, gpus: Sequence[Gpu], table: GpuTable
) -> Gpu | None:
    """Return the product that the job or the settings name; None if they name none that is known."""
    fact, selected = launch.fact("gpu_model"), named_product(job)
    name = (fact.value if fact is not None else "") or (selected or [""])[0] or settings.default_gpu_model
    return next((gpu for gpu in gpus if table.agree(gpu.product, name)), None) or table.find(name)


def _other_vendor(job: TrainingJob, vendor: Vendor, path: FieldPath, products: str) -> Problem:
    message = f"requests {vendor.resource}, but the pods can only get {products}"
    return job.document.problem(
        "sizing.gpu", path, message, "request the resource of those GPUs, or correct what names them"
    )


def _selected(job: TrainingJob, offered: Offered, table: GpuTable) -> Iterator[Problem]:
    """Yield the products of node selectors that differ from each other, or that the queue or the nodes do not have."""
    first: tuple[str, FieldPath] | None = None
    for product, path in named_products(job):
        if first is not None and not table.agree(first[0], product):
            message = f"selects {product}, but {format_path(first[1])} selects {first[0]}"
            yield job.document.problem("sizing.gpu", path, message, "select the same product for all pods")
        elif offered.gpus and not any(table.agree(gpu.product, product) for gpu in offered.gpus):
            who = "the queue offers" if offered.by_queue else "the nodes in the evidence have"
            message = f"selects {product}, but {who} {_listed(offered.gpus)}"
            yield job.document.problem(
                "sizing.gpu", path, message, "correct the node selector, the queue, or the evidence"
            )
        first = first or (product, path)


def _named(
    job: TrainingJob, launch: Launch, settings: SizingSettings, gpus: Sequence[Gpu], table: GpuTable
) -> Iterator[Problem]:
    """Yield the product of the variable or the settings, if the pods cannot get it."""
    selected = next(named_products(job), None)
    fact = launch.fact("gpu_model")
    can_get = _listed(gpus) if gpus else ""
    if selected is not None:
        can_get = f"{selected[0]}, which {format_path(selected[1])} selects"
    if fact is not None and fact.value:
        agrees = table.agree(selected[0], fact.value) if selected else _is_among(table, fact.value, gpus)
        if not agrees:
            message = f"{_VARIABLE} is {fact.value}, but the pods can only get {can_get}"
            yield job.document.problem(
                "sizing.gpu", _variable_path(job), message, f"correct {_VARIABLE}, or what binds the pods to nodes"
            )
    elif selected is None and settings.default_gpu_model and not _is_among(table, settings.default_gpu_model, gpus):
        message = f"spec.sizing.defaultGpuModel is {settings.default_gpu_model}, but the pods can only get {can_get}"
        hint = "name the product in the job's node selector, or correct defaultGpuModel"
        yield job.document.problem("sizing.gpu", job.lead.container.path, message, hint)


def _is_among(table: GpuTable, product: str, gpus: Sequence[Gpu]) -> bool:
    """Return whether pods can get a product; unknown products and an unknown stock are judged elsewhere."""
    return not gpus or table.find(product) is None or any(table.agree(gpu.product, product) for gpu in gpus)


def _unreachable(job: TrainingJob, offered: Offered, paths: Sequence[FieldPath]) -> Problem:
    """Return the problem of pods that no node may run, at the field that keeps them off most nodes."""
    at = max(sorted(set(paths)), key=paths.count) if paths else job.lead.container.path
    if not paths:
        who = "the queue offers" if offered.by_queue else "the nodes in the evidence have"
        message = f"the pods can get no GPU: {who} {_listed(offered.gpus)}, which their node affinity excludes"
        return job.document.problem("sizing.gpu", at, message, "correct the node affinity")
    message = f"the pods can get no GPU in the evidence ({_listed(offered.gpus)}): {format_path(at)} excludes its nodes"
    return job.document.problem(
        "sizing.gpu", at, message, "correct the selector, affinity or tolerations, or observe the nodes again"
    )


def _listed(gpus: Sequence[Gpu]) -> str:
    names = sorted({gpu.product for gpu in gpus})
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else "")


def _variable_path(job: TrainingJob) -> FieldPath:
    path: FieldPath = (*job.lead.container.path, "env")
    entries = job.get(*path)
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == _VARIABLE:
            return (*path, index)
    return path[:-1]
