"""The output of `reconciler status queues`, `nodes`, `amd` and `nvidia`: a table for each cluster, or JSON."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.kube.secrets import mask_text
from reconciler.live.status.capacity import NodeCapacity, QueueCapacity, shares

_QUEUES = ("queue", "quota", "requested", "admitted", "pending", "workloads")
_NODES = ("node", "model", "GPUs", "CPUs", "memory GiB", "pods", "utilisation", "")


class ClusterCapacity(Struct, frozen=True, kw_only=True):
    """Queues or nodes of one cluster; `source` is where they come from. `failures`: what could not be read.

    moment: when recorded nodes were read. shows_load: a node whose utilisation is not known is shown as such.
    """

    cluster: str
    source: str
    moment: str | None = None
    shows_load: bool = False
    queues: tuple[QueueCapacity, ...] | None = None
    nodes: tuple[NodeCapacity, ...] | None = None
    failures: tuple[str, ...] = ()


def render_capacity(found: ClusterCapacity, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """Render one cluster for a terminal of `width` cells."""
    page = Page(width=width, color=color, unicode=unicode)
    page.heading(found.cluster, Styled(f" ({found.source})", Style.DIM))
    for failure in found.failures:
        page.write(Styled("warning: ", Style.WARNING), mask_text(failure))
    if found.queues:
        page.table(_QUEUES, [_queue(row) for row in found.queues], right=(1, 2, 3, 4, 5), keep=(0,))
    elif found.nodes:
        has_loads = found.shows_load or any(row.load is not None for row in found.nodes)
        header = _NODES if has_loads else tuple(name for name in _NODES if name != "utilisation")
        rows = [_node(row, has_loads=has_loads) for row in found.nodes]
        page.table(header, rows, right=(2, 3, 4, 5, 6) if has_loads else (2, 3, 4, 5), keep=(0, 1))
        for model, gpus, used in shares(found.nodes):
            page.write(f"{model or 'unknown model'}: {_used(used)}{gpus} GPUs", indent=2)
    elif not found.failures:
        page.write("no queues" if found.queues is not None else "no such nodes")
    return page.text()


def _queue(row: QueueCapacity) -> list[Piece]:
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    numbers = (row.quota, row.requested, row.admitted, row.pending, row.workloads)
    return [f"{row.kind} {name}", *("-" if number is None else str(number) for number in numbers)]


def _node(row: NodeCapacity, *, has_loads: bool) -> list[Piece]:
    load = row.load
    shown = "N/A" if load is None else f"{load.percent:.1f} %{'' if load.gpus >= row.gpus else f' of {load.gpus}'}"
    return [
        row.name,
        row.model or "-",
        f"{_used(row.used_gpus)}{row.gpus}",
        "-" if row.cpus is None else f"{_used(row.used_cpus)}{row.cpus:g}",
        "-" if row.memory_gib is None else f"{_used(row.used_memory_gib)}{row.memory_gib:g}",
        "-" if row.pods is None else str(row.pods),
        *([shown] if has_loads else []),
        Styled(mask_text("; ".join([*([] if row.is_open else ["cordoned"]), *row.issues])), Style.WARNING),
    ]


def _used(number: float | None) -> str:
    return "" if number is None else f"{number:g}/"


def capacity_json(found: Sequence[ClusterCapacity]) -> str:
    """Return the clusters as JSON."""
    rows = [_plain(one) for one in found]
    return json.dumps({"clusters": rows}, indent=2, ensure_ascii=False) + "\n"


def _plain(found: ClusterCapacity) -> dict[str, Any]:
    rows: dict[str, Any] = to_builtins(found)
    rows.pop("shows_load")
    rows["failures"] = [mask_text(failure) for failure in found.failures]
    return {name: value for name, value in rows.items() if value is not None}
