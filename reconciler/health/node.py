"""Sources of readings of this node, from flags."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reconciler import resources
from reconciler.nodehealth.active.links import PingTarget
from reconciler.nodehealth.readers.diagnostics import DiagnosticsSource
from reconciler.nodehealth.readers.imex import ImexSource
from reconciler.nodehealth.readers.kmsg import KmsgSource
from reconciler.nodehealth.readers.library import LibrarySource
from reconciler.nodehealth.readers.network.ping import PingSource
from reconciler.nodehealth.readers.port import ReadingSource
from reconciler.nodehealth.readers.selftest import SelfTestSource
from reconciler.nodehealth.readers.system import SystemSource
from reconciler.nodehealth.readers.xids import XidSource
from reconciler.nodehealth.xids import XidTable, read_xids
from reconciler.sizing.peaks import PeakTable, read_peaks


def node_sources(
    environ: Mapping[str, str],
    *,
    root: Path,
    tests: bool = False,
    ping: Sequence[str] = (),
    kmsg_path: Path | None = None,
    on_xid: Callable[[], None] | None = None,
) -> Sequence[ReadingSource]:
    """Return the sources of a light sweep, with `tests` those of all profiles, and pings to the addresses in `ping`.

    kmsg_path: where the kernel's messages are, if not in `root`. on_xid: listen to NVML's events, and call this.
    Child processes start at once, and load their libraries while the rest is imported.
    """
    system = SystemSource(root)
    library = LibrarySource("amdsmi" if system.vendors() == {"amd"} else "nvml", environ=environ)
    kmsg = KmsgSource(kmsg_path or root / "dev/kmsg", environ=environ, proc=root / "proc")
    library.start()
    kmsg.start()
    light: list[ReadingSource] = [library, kmsg, system, ImexSource(environ=environ)]
    if on_xid is not None and library.name == "nvml":
        light.append(_events(environ, on_xid))
    if ping:
        light.append(_pings(ping, environ))
    if not tests:
        return light
    own = SelfTestSource(root=root, environ=environ)
    return [*light, own, DiagnosticsSource(environ=environ)]


def _events(environ: Mapping[str, str], on_xid: Callable[[], None]) -> ReadingSource:
    return XidSource(environ=environ, wake=on_xid)


def _pings(addresses: Sequence[str], environ: Mapping[str, str]) -> ReadingSource:
    return PingSource([PingTarget(node=address, address=address) for address in addresses], environ=environ)


def node_name(environ: Mapping[str, str]) -> str:
    """Return the name of this node: NODE_NAME, as a DaemonSet sets it, else the host name."""
    return environ.get("NODE_NAME") or os.uname().nodename


def peak_table() -> "PeakTable":
    """Return the peaks of GPUs and links, from the table that ships with the package."""
    return read_peaks(resources.read("data/gpus.json"))


def xid_table() -> XidTable:
    """Return the table of Xids that ships with the package."""
    return read_xids(resources.read("data/xids.json"))
