"""sysfs and procfs below a root: PCI cards, the driver's module, InfiniBand ports, the boot."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reconciler.core.health.findings import ProbeProfile
from reconciler.core.health.readings import NodeReading, ReadError
from reconciler.core.health.sweeps import SourceReadings

_MOST_BYTES = 1 << 20
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd"}
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")  # display, 3D, other display; processing accelerator


class SystemSource:
    """Files of the kernel below `root`, which is `/` or where the host is mounted."""

    name = "system"

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Read all files once."""
        calls: tuple[tuple[str, Callable[[], Any]], ...] = (
            ("procfs.boot_id", lambda: self._text("proc/sys/kernel/random/boot_id")),
            ("procfs.nvidia_version", lambda: self._text("proc/driver/nvidia/version")),
            ("sysfs.nvidia_module", lambda: self._text("sys/module/nvidia/version")),
            ("sysfs.pci_gpus", self._cards),
        )
        return SourceReadings(readings=tuple(read_once(name, call) for name, call in calls))

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _text(self, path: str) -> str:
        with (self._root / path).open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()

    def _cards(self) -> list[dict[str, Any]]:
        return list(self._walk_cards())

    def _walk_cards(self) -> Iterator[dict[str, Any]]:
        folder = "sys/bus/pci/devices"
        for slot in sorted(os.listdir(self._root / folder)):  # noqa: PTH208 - names are enough
            vendor = self._text_or_none(f"{folder}/{slot}/vendor")
            kind = self._text_or_none(f"{folder}/{slot}/class") or ""
            if vendor in _VENDORS and kind.startswith(_GPU_CLASSES):
                yield {
                    "slot": slot,
                    "vendor": _VENDORS[vendor],
                    "width": self._text_or_none(f"{folder}/{slot}/current_link_width"),
                    "max_width": self._text_or_none(f"{folder}/{slot}/max_link_width"),
                    "speed": self._text_or_none(f"{folder}/{slot}/current_link_speed"),
                    "max_speed": self._text_or_none(f"{folder}/{slot}/max_link_speed"),
                    "numa": self._text_or_none(f"{folder}/{slot}/numa_node"),
                }

    def _text_or_none(self, path: str) -> str | None:
        try:
            return self._text(path)
        except OSError:
            return None


def read_once(name: str, call: Callable[[], Any]) -> NodeReading:
    """Return the reading that a call makes, or its error."""
    try:
        return NodeReading(name=name, value=call())
    except FileNotFoundError as error:
        return NodeReading(name=name, error=ReadError.NOT_SUPPORTED, detail=f"{error.filename} does not exist")
    except PermissionError as error:
        return NodeReading(name=name, error=ReadError.NO_PERMISSION, detail=f"{error.filename} cannot be read")
    except (OSError, ValueError) as error:
        return NodeReading(name=name, error=ReadError.FAILED, detail=str(error)[:200])
