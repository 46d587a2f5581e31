"""Slots: PCI bus ids as sysfs writes them, `0000:3b:00.0`. NVML and the kernel's log write them in other ways."""

import re

_BUS_ID = re.compile(
    r"(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-9a-fA-F]))?", re.ASCII
)


def normal_slot(text: str) -> str:
    """Return a PCI bus id in the form of sysfs; empty if the text is none. The function is 0 where it is left out."""
    found = _BUS_ID.fullmatch(text.strip())
    if found is None:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{(function or '0').lower()}"
