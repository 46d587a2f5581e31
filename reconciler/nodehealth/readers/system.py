"""sysfs and procfs below a root: PCI cards, the driver, InfiniBand, services."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings

_MAX_BYTES = 1 << 20
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd"}
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")  # display, 3D, other display; processing accelerator
_DEVICES = "sys/bus/pci/devices"
_DAEMONS = frozenset({"kubelet", "nv-fabricmanager", "nvidia-imex", "nvidia-persiste", "nv-hostengine"})
_FULL_NAMES = {
    "nvidia-persiste": "nvidia-persistenced",
    "nv-fabricmanage": "nv-fabricmanager",
}  # comm has 15 characters
_COUNTERS = ("link_downed", "symbol_error", "link_error_recovery", "port_rcv_errors")
_ACS = 0x000D  # id of the extended capability
_STANDARD_CONFIG = 256  # bytes that everybody may read; capabilities beyond need root


class SystemSource:
    """Files of the kernel below `root`, which is `/` or where the host is mounted."""

    name = "system"

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Read all files once."""
        calls: Mapping[ReadingId, Callable[[], Any]] = {
            ReadingId.PROCFS_BOOT_ID: lambda: self._text("proc/sys/kernel/random/boot_id"),
            ReadingId.PROCFS_BTIME: self._boot_time,
            ReadingId.PROCFS_UPTIME: lambda: float(self._text("proc/uptime").split()[0]),
            ReadingId.PROCFS_DAEMONS: self._daemons,
            ReadingId.PROCFS_CGROUPS: lambda: self._groups(before),
            ReadingId.SYSFS_NVIDIA_MODULE: lambda: self._text("sys/module/nvidia/version"),
            ReadingId.SYSFS_PCI_GPUS: self._cards,
            ReadingId.SYSFS_ACS: self._bridges,
            ReadingId.SYSFS_INFINIBAND_PORTS: lambda: list(self._ports()),
        }
        return SourceReadings(readings=tuple(read_once(name, call) for name, call in calls.items()))

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def vendors(self) -> set[str]:
        """Return the vendors of the GPUs on the PCI bus."""
        try:
            return {str(card["vendor"]) for card in self._cards()}
        except OSError:
            return set()

    def _text(self, path: str) -> str:
        with (self._root / path).open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace").strip()

    def _text_or_none(self, path: str) -> str | None:
        try:
            return self._text(path)
        except OSError:
            return None

    def _names(self, path: str) -> list[str]:
        return sorted(os.listdir(self._root / path))  # noqa: PTH208 - names are enough

    def _boot_time(self) -> int:
        lines = self._text("proc/stat").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("btime "))

    def _daemons(self) -> list[str]:
        """Return the services that matter to GPUs, of the processes that can be seen."""
        names = (self._text_or_none(f"proc/{name}/comm") for name in self._names("proc") if name.isdigit())
        found = {_FULL_NAMES.get(name, name) for name in names if name}
        return sorted(found & ({_FULL_NAMES.get(name, name) for name in _DAEMONS}))

    def _groups(self, before: SourceReadings) -> dict[str, str]:
        """Return the control group of each process on a GPU; those that cannot be seen are left out."""
        found: dict[str, str] = {}
        for reading in before.readings:
            rows = reading.value if reading.name == ReadingId.NVML_PROCESSES and isinstance(reading.value, list) else ()
            for row in rows:
                pid = row.get("pid") if isinstance(row, dict) else None
                if isinstance(pid, int) and (text := self._text_or_none(f"proc/{pid}/cgroup")) is not None:
                    found[str(pid)] = text[:1000]
        return found

    def _cards(self) -> list[dict[str, Any]]:
        return [
            {
                "slot": slot,
                "vendor": vendor,
                **{name: self._text_or_none(f"{_DEVICES}/{slot}/{file}") for name, file in _CARD_FILES.items()},
            }
            for slot in self._names(_DEVICES)
            if (vendor := self._gpu_vendor(slot))
        ]

    def _gpu_vendor(self, slot: str) -> str:
        vendor = _VENDORS.get(self._text_or_none(f"{_DEVICES}/{slot}/vendor") or "", "")
        kind = self._text_or_none(f"{_DEVICES}/{slot}/class") or "" if vendor else ""
        return vendor if kind.startswith(_GPU_CLASSES) else ""

    def _bridges(self) -> list[dict[str, Any]]:
        """Return the control bits of Access Control Services of the bridges above GPUs."""
        found: dict[str, dict[str, Any]] = {}
        for card in self._cards():
            path = (self._root / _DEVICES / card["slot"]).resolve()
            for bridge in (parent for parent in path.parents if (parent / "config").exists()):
                config = (bridge / "config").read_bytes()
                if len(config) <= _STANDARD_CONFIG:
                    raise PermissionError(13, "only root can read it", str(bridge / "config"))
                if (control := _acs_control(config)) is not None:
                    found[bridge.name] = {"slot": bridge.name, "control": control}
        return [found[name] for name in sorted(found)]

    def _ports(self) -> Iterator[dict[str, Any]]:
        folder = "sys/class/infiniband"
        if not (self._root / folder).is_dir():
            return
        for device in self._names(folder):
            for port in self._names(f"{folder}/{device}/ports"):
                path = f"{folder}/{device}/ports/{port}"
                row: dict[str, Any] = {"device": device, "port": port}
                for name in ("state", "phys_state", "rate", "link_layer"):
                    row[name] = self._text_or_none(f"{path}/{name}")
                for name in _COUNTERS:
                    text = self._text_or_none(f"{path}/counters/{name}") or ""
                    row[name] = int(text) if text.isdigit() else None
                yield row


_CARD_FILES = {
    "width": "current_link_width",
    "max_width": "max_link_width",
    "speed": "current_link_speed",
    "max_speed": "max_link_speed",
}


def _acs_control(config: bytes) -> int | None:
    """Return the control register of Access Control Services; None if the bridge has none."""
    offset, visited = _STANDARD_CONFIG, set[int]()
    while _STANDARD_CONFIG <= offset <= len(config) - 8 and offset not in visited:
        visited.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS:
            return int.from_bytes(config[offset + 6 : offset + 8], "little")
        offset = header >> 20
    return None


def read_once(name: ReadingId, call: Callable[[], Any]) -> NodeReading:
    """Return the reading that a call makes, or its error."""
    try:
        return NodeReading(name=name, value=call())
    except (FileNotFoundError, NotADirectoryError) as error:
        return NodeReading(name=name, error=ReadError.NOT_SUPPORTED, detail=f"{error.filename} does not exist")
    except PermissionError as error:
        return NodeReading(name=name, error=ReadError.NO_PERMISSION, detail=f"{error.filename} cannot be read")
    except (OSError, ValueError, IndexError, StopIteration, AttributeError) as error:
        return NodeReading(name=name, error=ReadError.FAILED, detail=f"{type(error).__name__}: {error}"[:200])
