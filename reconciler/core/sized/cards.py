"""The GPU products that a job's pods can get, and the names in the job and the settings that disagree with them.

What a job may be sized for is what its pods can get: products of its queue, on nodes of the evidence that selector,
affinity and tolerations of the pods allow. Every product that something names must be among them.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.core.config import SizingSettings
from reconciler.core.evidence.inventory import Node
from reconciler.core.launch import Launch
from reconciler.core.objects import FieldPath, format_path
from reconciler.core.problems import Problem
from reconciler.core.sizing.gpus import Gpu, GpuTable
from reconciler.core.training import TrainingJob, allows_product
from reconciler.core.training.reach import named_products, obstacles

_VARIABLE = "AUTOCONF_GPU_MODEL"
_MAX_SHOWN = 4


class Offered(Struct, frozen=True, kw_only=True):
    """What a cluster has for a job. `gpus` are those of its queue, else of all nodes; `by_queue` says which.

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
    slices = tuple(_slices(job))
    if slices:
        return Cards(problems=slices)
    allowed = tuple(gpu for gpu in offered.gpus if allows_product(job, gpu.vendor, gpu.product))
    blocked = obstacles(job, offered.nodes, taints=not offered.by_queue)
    reached = {node.product for node, path in zip(offered.nodes, blocked, strict=True) if path is None}
    measured = {node.product for node in offered.nodes}
    gpus = tuple(gpu for gpu in allowed if gpu.product in reached or gpu.product not in measured)
    problems = [*_selected(job, offered, table), *_named(job, launch, settings, gpus, table)]
    if not problems and offered.gpus and not gpus:
        problems.append(_unreachable(job, offered, [path for path in blocked if path is not None]))
    return Cards(gpus=gpus, problems=tuple(problems))


def _slices(job: TrainingJob) -> Iterator[Problem]:
    """Yield the resources of the lead's container that are slices of a GPU."""
    container = job.lead.container
    for section in ("limits", "requests"):
        amounts = container.resources.get(section)
        for name in amounts if isinstance(amounts, dict) else ():
            if str(name).startswith("nvidia.com/mig-"):
                message = f"requests {name}, a slice of a GPU, but jobs are sized for whole GPUs"
                hint = "request nvidia.com/gpu, or exclude the job from sizing"
                yield _problem(job, (*container.path, "resources", section, str(name)), message, hint)
                return


def _selected(job: TrainingJob, offered: Offered, table: GpuTable) -> Iterator[Problem]:
    """Yield the products of node selectors that differ from each other, or that the queue or the nodes do not have."""
    first: tuple[str, FieldPath] | None = None
    for product, path in named_products(job):
        if first is not None and not table.agree(first[0], product):
            message = f"selects {product}, but {format_path(first[1])} selects {first[0]}"
            yield _problem(job, path, message, "select the same product for all pods")
        elif offered.gpus and not any(table.agree(gpu.product, product) for gpu in offered.gpus):
            who = "the queue offers" if offered.by_queue else "the nodes of the evidence have"
            message = f"selects {product}, but {who} {_listed(offered.gpus)}"
            yield _problem(job, path, message, "correct the node selector, the queue, or the evidence")
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
            yield _problem(job, _variable_path(job), message, f"correct {_VARIABLE}, or what binds the pods to nodes")
    elif selected is None and settings.default_gpu_model and not _is_among(table, settings.default_gpu_model, gpus):
        message = f"spec.sizing.defaultGpuModel is {settings.default_gpu_model}, but the pods can only get {can_get}"
        hint = "name the product in the job's node selector, or correct defaultGpuModel"
        yield _problem(job, job.lead.container.path, message, hint)


def _is_among(table: GpuTable, product: str, gpus: Sequence[Gpu]) -> bool:
    """Return whether pods can get a product; unknown products and an unknown stock are judged elsewhere."""
    return not gpus or table.find(product) is None or any(table.agree(gpu.product, product) for gpu in gpus)


def _unreachable(job: TrainingJob, offered: Offered, paths: Sequence[FieldPath]) -> Problem:
    """Return the problem of pods that no node may run, at the field that keeps them off most nodes."""
    at = max(sorted(set(paths)), key=paths.count) if paths else job.lead.container.path
    if not paths:
        who = "the queue offers" if offered.by_queue else "the nodes of the evidence have"
        message = f"the pods can get no GPU: {who} {_listed(offered.gpus)}, which their node affinity excludes"
        return _problem(job, at, message, "correct the node affinity")
    message = f"the pods can get no GPU of the evidence ({_listed(offered.gpus)}): {format_path(at)} excludes its nodes"
    return _problem(job, at, message, "correct selector, affinity or tolerations, or observe the nodes again")


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


def _problem(job: TrainingJob, path: FieldPath, message: str, hint: str) -> Problem:
    return Problem(rule="sizing.gpu", place=job.document.at(path), field=format_path(path), message=message, hint=hint)
