"""Sources of readings of this node, from flags."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.adapters.node.nvml import NvmlSource
from reconciler.adapters.node.system import SystemSource

if TYPE_CHECKING:
    from reconciler.core.health.xid import XidTable
    from reconciler.ports.node import ReadingSource


def node_sources(environ: Mapping[str, str], *, root: Path) -> Sequence["ReadingSource"]:
    """Return the sources of a light sweep. The child process of NVML starts at once."""
    nvml = NvmlSource(environ=environ)
    nvml.start()
    return (SystemSource(root), nvml)


def node_name(environ: Mapping[str, str]) -> str:
    """Return the name of this node: NODE_NAME, as a DaemonSet sets it, else the host name."""
    return environ.get("NODE_NAME") or os.uname().nodename


def xid_table() -> "XidTable":
    """Return the table of Xids that ships with the package."""
    from reconciler.adapters import bundle  # noqa: PLC0415 - only where findings are made
    from reconciler.core.health.xid import read_xids  # noqa: PLC0415

    return read_xids(bundle.read("data/xids.json"))
