"""What the registers and sub-codes of NVLink's Xids say: which link, and how bad it is.

Source: the workflows for Xid 74 (A100, H100) and for 144 to 150 (NVLink 5) of NVIDIA's Xid catalogue. Its table of
masks of IntrInfo, which names a repair for each sub-code, differs between drivers and is not part of this.
"""

import re

from msgspec import Struct

from reconciler.core.health.findings import FindingSeverity, RepairAction
from reconciler.core.health.xids.events import XidEvent

NVLINK, NVLINK5 = 74, range(144, 151)
_REGISTERS = re.compile(r"link (-?\d{1,3}) ?\(([0-9a-fx, ]{3,120})\)", re.ASCII | re.IGNORECASE)
_NVLINK5 = re.compile(
    r"(?P<unit>\w{1,40})\s+(?P<how>Fatal|Non-?fatal)\s+XC\d\s+i(?P<injected>\d)\s+Link\s+(?P<link>-?\d{1,3})"
    r"(?:\s+\((?P<info>0x[0-9a-f]{1,16}))?",
    re.ASCII | re.IGNORECASE,
)
_INFO, _DEGRADED, _FATAL = FindingSeverity.INFO, FindingSeverity.DEGRADED, FindingSeverity.FATAL
_DIAG, _OBSERVE, _SUPPORT = RepairAction.RUN_DIAG, RepairAction.OBSERVE, RepairAction.CONTACT_SUPPORT


class LinkFault(Struct, frozen=True, kw_only=True):
    """What one Xid says about a link."""

    link: int
    what: str
    severity: FindingSeverity
    action: RepairAction

    @property
    def text(self) -> str:
        """The fault in words."""
        return f"link {self.link}: {self.what}" if self.link >= 0 else self.what


class _Meaning(Struct, frozen=True):
    """What bits of one register mean. Registers count from 1, as in the catalogue."""

    register: int
    bits: tuple[int, ...]
    what: str
    severity: FindingSeverity
    action: RepairAction


_ECC = "an ECC or parity error of the hardware"
_MEANINGS = (  # the first that holds is the gravest
    _Meaning(1, (4, 5), _ECC, _DEGRADED, _DIAG),
    _Meaning(3, (0, 1, 2, 6), _ECC, _DEGRADED, _DIAG),
    _Meaning(5, (18, 19, 21, 22, 24, 25, 27, 28), _ECC, _DEGRADED, _DIAG),
    _Meaning(1, (8, 9, 12, 16, 17, 24, 28), "perhaps a loose connection: check and reseat it", _DEGRADED, _DIAG),
    _Meaning(1, (21, 22), "a marginal signal: check the connection", _DEGRADED, _DIAG),
    _Meaning(3, (16, 19), "an error that matters if it repeats", _DEGRADED, _OBSERVE),
    _Meaning(1, (27, 29), "an error that matters if it repeats", _DEGRADED, _OBSERVE),
    _Meaning(3, (17, 18), "an error that matters if it repeats", _DEGRADED, _OBSERVE),
    _Meaning(4, (18,), "a consequence of another error; the fabric needs a reset", _DEGRADED, RepairAction.RESET_GPU),
    _Meaning(1, (1, 20), "a consequence of another error", _DEGRADED, _SUPPORT),
    _Meaning(4, (16, 17), "a consequence of another error", _DEGRADED, _SUPPORT),
    _Meaning(5, (20, 23, 26, 29), "many corrected errors, none uncorrected", _INFO, _OBSERVE),
    _Meaning(1, (0, 23, 30), "nothing that matters", _INFO, RepairAction.NONE),
)
_READ = (1, 3, 4, 5)
"""The registers that say something."""


def link_fault(event: XidEvent) -> LinkFault | None:
    """Return what an Xid of NVLink says about a link; None for other codes, and for a text that cannot be read."""
    if event.code == NVLINK:
        return _of_registers(event.text)
    return _of_sub_code(event.text) if event.code in NVLINK5 else None


def _of_registers(text: str) -> LinkFault | None:
    found = _REGISTERS.search(text)
    if found is None:
        return None
    try:
        registers = [int(part, 16) for part in found[2].split(",")]
    except ValueError:
        return None
    link, values = int(found[1]), {number: value for number, value in enumerate(registers, 1) if number in _READ}
    for one in _MEANINGS:
        if any(values.get(one.register, 0) >> bit & 1 for bit in one.bits) and not _unknown(values, one):
            return LinkFault(link=link, what=one.what, severity=one.severity, action=one.action)
    return LinkFault(link=link, what="unexpected registers", severity=_DEGRADED, action=_SUPPORT)


def _unknown(values: dict[int, int], meaning: _Meaning) -> bool:
    """Say whether harmless bits come with bits that the catalogue does not name: then they are not harmless."""
    known = dict.fromkeys(_READ, 0)
    for one in _MEANINGS:
        known[one.register] |= sum(1 << bit for bit in one.bits)
    return meaning.severity is _INFO and any(value & ~known[number] for number, value in values.items())


def _of_sub_code(text: str) -> LinkFault | None:
    found = _NVLINK5.search(text)
    if found is None:
        return None
    is_fatal = found["how"].lower() == "fatal"
    info = f", IntrInfo {found['info']}" if found["info"] else ""
    injected = ", injected" if found["injected"] != "0" else ""
    return LinkFault(
        link=int(found["link"]),
        what=f"{found['unit']} {'fatal' if is_fatal else 'not fatal'}{injected}{info}",
        severity=_FATAL if is_fatal else _DEGRADED,
        action=RepairAction.RESET_GPU if is_fatal else _DIAG,
    )
